package sqlclass_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// mariadb is a private read-only MariaDB: the user app cannot write there, and root can.
type mariadb struct {
	once    sync.Once
	folder  string
	process *exec.Cmd
	log     bytes.Buffer
	dsn     string // of root; fmt.Sprintf puts the database in
	err     error
}

var mariadbServer mariadb

// serverPath finds a program of the server also where it is not on PATH.
func serverPath(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return "/usr/sbin/" + name
}

func (m *mariadb) start() error {
	// Memory, where there is some: the server is thrown away.
	folder, err := os.MkdirTemp(memoryFolder(), "readroute-mariadb-")
	if err != nil {
		return err
	}
	m.folder = folder
	data, socket := filepath.Join(folder, "data"), filepath.Join(folder, "sock")
	common := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + folder, "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M",
		"--innodb-use-native-aio=OFF", "--skip-name-resolve"}
	if os.Getuid() == 0 {
		common = append(common, "--user=root")
	}
	install := exec.Command(serverPath("mariadb-install-db"), append(common, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("install MariaDB (packages mariadb-server-core and mariadb-client-core): %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	m.process = exec.Command(serverPath("mariadbd"), append(common, "--socket="+socket, fmt.Sprintf("--port=%d", port), "--bind-address=127.0.0.1",
		"--innodb-flush-log-at-trx-commit=0", "--log-bin=bin", "--binlog-format=ROW", "--server-id=1", "--log-bin-trust-function-creators=ON", "--max-statement-time=5")...)
	m.process.Stderr, m.process.SysProcAttr = &m.log, endWithParent()
	if err := m.process.Start(); err != nil {
		return err
	}
	m.dsn = fmt.Sprintf("root@tcp(127.0.0.1:%d)/%%s", port)
	return m.prepare()
}

func (m *mariadb) prepare() error {
	db, err := sql.Open("mysql", fmt.Sprintf(m.dsn, ""))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for db.PingContext(ctx) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("start MariaDB: %w: %s", ctx.Err(), m.log.String())
		case <-retry.C:
		}
	}
	for _, statement := range []string{"CREATE DATABASE app", "CREATE USER app@'127.0.0.1'", "GRANT ALL ON app.* TO app@'127.0.0.1'", "SET GLOBAL read_only = ON"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (m *mariadb) close() error {
	if m.process != nil && m.process.Process != nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
	}
	if m.folder == "" {
		return nil
	}
	return os.RemoveAll(m.folder)
}

// openMariaDB returns a session of root and one of app, in the database app.
func openMariaDB(t testing.TB) (root, app *sql.Conn) {
	t.Helper()
	m := &mariadbServer
	m.once.Do(func() { m.err = m.start() })
	require.NoError(t, m.err)
	open := func(user string) *sql.Conn {
		db, err := sql.Open("mysql", user+fmt.Sprintf(m.dsn, "app")[len("root"):])
		require.NoError(t, err)
		db.SetMaxIdleConns(-1) // closing the session closes the connection
		t.Cleanup(func() { _ = db.Close() })
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		return conn
	}
	return open("root"), open("app")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// memoryFolder returns a folder in memory, or none.
func memoryFolder() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}
