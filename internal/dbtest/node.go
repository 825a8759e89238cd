package dbtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// PostgresNode is one server of a cluster. Its methods may be called from several goroutines. Every wait ends with the
// context, and after 30 s when the context has no deadline.
type PostgresNode struct {
	cluster *PostgresCluster
	name    string
	port    int

	startMu sync.Mutex // held by Start
	process atomic.Pointer[process]
	frozen  atomic.Bool

	mu   sync.Mutex           // guards idle
	idle map[string]*pgx.Conn // by database, the connection that the last statement has left
}

// Name is the node's name: its cluster_name, and the application_name under which it replicates.
func (n *PostgresNode) Name() string { return n.name }

// Port is the node's port on 127.0.0.1. It stays the same over restarts.
func (n *PostgresNode) Port() int { return n.port }

// Addr is the node's host and port.
func (n *PostgresNode) Addr() string { return localAddr(n.port) }

// DSN is a connection URL for AppDatabase, as the given user, else as SuperUser.
func (n *PostgresNode) DSN(user ...string) string { return dsn(n.Addr(), user) }

// AppDSN is a connection URL for AppUser.
func (n *PostgresNode) AppDSN() string { return n.DSN(AppUser) }

// WatchDSN is a connection URL for WatchUser.
func (n *PostgresNode) WatchDSN() string { return n.DSN(WatchUser) }

// DSNVia is like DSN, through a proxy.
func (n *PostgresNode) DSNVia(proxy *Proxy, user ...string) string { return dsn(proxy.Addr(), user) }

func dsn(addr string, user []string) string {
	name := SuperUser
	if len(user) > 0 {
		name = user[0]
	}
	u := url.URL{Scheme: "postgres", User: url.User(name), Host: addr, Path: "/" + AppDatabase, RawQuery: "sslmode=disable"}
	return u.String()
}

// IsRunning reports whether the server's process lives, frozen or not.
func (n *PostgresNode) IsRunning() bool { return n.process.Load().running() }

func (n *PostgresNode) dataDir() string { return filepath.Join(n.cluster.folder.path, n.name) }
func (n *PostgresNode) logFile() string { return n.dataDir() + ".log" }

// configure writes the node's settings; unless it is the primary itself, it starts as a standby of primary.
func (n *PostgresNode) configure(primary *PostgresNode) error {
	settings := n.cluster.settings(n)
	if n != primary {
		settings["primary_conninfo"] = n.conninfo(primary)
		if err := n.writeFile("standby.signal", ""); err != nil {
			return err
		}
	}
	var b strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&b, "%s = %s\n", name, quote(value))
	}
	return n.writeFile(configName, b.String())
}

func (n *PostgresNode) conninfo(primary *PostgresNode) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=%s sslmode=disable gssencmode=disable",
		primary.port, SuperUser, n.name)
}

func (n *PostgresNode) writeFile(name, data string) error {
	return n.cluster.folder.writeFile(filepath.Join(n.dataDir(), name), data)
}

// quote makes a string literal, for SQL and for configuration files.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Start starts the server on its port and its data, and waits until it accepts connections. It fails when it runs.
func (n *PostgresNode) Start(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if n.IsRunning() {
		return n.failed("starting", errors.New("it is running"))
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return n.failed("starting", err)
	}
	defer log.Close()
	before, err := log.Seek(0, 2)
	if err != nil {
		return n.failed("starting", err)
	}
	// The context bounds the start, not the server's life.
	cmd := n.cluster.command(context.WithoutCancel(ctx), "postgres", "-D", n.dataDir(), "-p", strconv.Itoa(n.port))
	cmd.Stdout, cmd.Stderr = log, log
	p, err := n.cluster.launcher.start(cmd)
	if err != nil {
		return n.failed("starting", err)
	}
	n.frozen.Store(false)
	n.process.Store(p)
	err = poll(ctx, func() (bool, error) {
		if !p.running() {
			return false, n.startError(before)
		}
		return n.ready(p.pid), nil
	})
	if err != nil {
		return n.failed("starting", err)
	}
	return nil
}

// ready reports whether the server has said, in the file meant for that, that it accepts connections.
func (n *PostgresNode) ready(pid int) bool {
	data, err := os.ReadFile(filepath.Join(n.dataDir(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := bytes.Split(data, []byte("\n"))
	// The file of a killed server stays, and says ready.
	return len(lines) > 7 && string(lines[0]) == strconv.Itoa(pid) && bytes.HasPrefix(lines[7], []byte("ready"))
}

// startError says why the server has ended, from what it has logged since.
func (n *PostgresNode) startError(before int64) error {
	data, err := os.ReadFile(n.logFile())
	if err != nil {
		return err
	}
	data = data[min(before, int64(len(data))):]
	if bytes.Contains(data, []byte("Address already in use")) {
		return errPortTaken
	}
	return fmt.Errorf("the server has ended: %s", lastLines(n.logFile(), 10))
}

// failed names the operation and the node in an error.
func (n *PostgresNode) failed(operation string, err error) error {
	return fmt.Errorf("dbtest: %s %s: %w", operation, n.name, err)
}

// Exec runs statements as SuperUser in AppDatabase, one after the other, each in a transaction of its own unless it is
// several in one text. It uses a connection of its own, not always the same: session settings do not last.
func (n *PostgresNode) Exec(ctx context.Context, sql ...string) error {
	return n.exec(ctx, AppDatabase, sql...)
}

// QueryValue runs a query as Exec does and returns the first column of its first row as text, "" when that is NULL.
// Without a row the error matches pgx.ErrNoRows.
func (n *PostgresNode) QueryValue(ctx context.Context, sql string) (string, error) {
	return n.value(ctx, AppDatabase, sql)
}

func (n *PostgresNode) value(ctx context.Context, database, sql string) (string, error) {
	rows, err := n.query(ctx, database, sql)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 || len(rows[0]) == 0 {
		return "", n.failed("querying", pgx.ErrNoRows)
	}
	return rows[0][0], nil
}

// controlDatabase is where statements about the server run. It exists before AppDatabase does.
const controlDatabase = "postgres"

// query returns a result as text.
func (n *PostgresNode) query(ctx context.Context, database, sql string) (rows [][]string, err error) {
	err = n.withConn(ctx, database, func(ctx context.Context, conn *pgx.Conn) error {
		results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil || len(results) == 0 {
			return err
		}
		for _, row := range results[len(results)-1].Rows {
			text := make([]string, len(row))
			for i, value := range row {
				text[i] = string(value)
			}
			rows = append(rows, text)
		}
		return nil
	})
	if err != nil {
		return nil, n.failed("querying", err)
	}
	return rows, nil
}

func (n *PostgresNode) exec(ctx context.Context, database string, sql ...string) error {
	err := n.withConn(ctx, database, func(ctx context.Context, conn *pgx.Conn) error {
		for _, text := range sql {
			if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return n.failed("running a statement on", err)
	}
	return nil
}

// withConn calls f with a connection that nobody else uses: the idle one if it still works, else a new one.
func (n *PostgresNode) withConn(ctx context.Context, database string, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	conn := n.takeIdle(database)
	if conn != nil && conn.Ping(ctx) != nil {
		abandon(conn)
		conn = nil
	}
	if conn == nil {
		config, err := pgx.ParseConfig(n.DSN())
		if err != nil {
			return err
		}
		config.Database = database
		config.RuntimeParams["application_name"] = "dbtest"
		if conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			return err
		}
	}
	err := f(ctx, conn)
	n.putIdle(conn)
	return err
}

func (n *PostgresNode) takeIdle(database string) *pgx.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	conn := n.idle[database]
	delete(n.idle, database)
	return conn
}

func (n *PostgresNode) putIdle(conn *pgx.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	database := conn.Config().Database
	if conn.IsClosed() || conn.PgConn().TxStatus() != 'I' || n.idle[database] != nil || !n.IsRunning() {
		abandon(conn)
		return
	}
	if n.idle == nil {
		n.idle = map[string]*pgx.Conn{}
	}
	n.idle[database] = conn
}

// dropIdle gives up all idle connections before their server goes.
func (n *PostgresNode) dropIdle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.idle {
		abandon(conn)
	}
	clear(n.idle)
}

// abandon closes a connection without a word to the server, which may be frozen or gone.
func abandon(conn *pgx.Conn) { _ = conn.PgConn().Conn().Close() }

// Set changes a server setting (ALTER SYSTEM and a reload), and waits until sessions see it. A setting that needs a
// restart takes effect at the next Start.
func (n *PostgresNode) Set(ctx context.Context, name, value string) error {
	const loaded = "SELECT pg_conf_load_time()::text"
	ctx, cancel := bounded(ctx)
	defer cancel()
	err := n.withConn(ctx, controlDatabase, func(ctx context.Context, conn *pgx.Conn) error {
		var before string
		if err := conn.QueryRow(ctx, loaded).Scan(&before); err != nil {
			return err
		}
		change := fmt.Sprintf("ALTER SYSTEM SET %s = %s", pgx.Identifier{name}.Sanitize(), quote(value))
		if _, err := conn.Exec(ctx, change); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
			return err
		}
		return poll(ctx, func() (bool, error) {
			var now string
			err := conn.QueryRow(ctx, loaded).Scan(&now)
			return now != before, err
		})
	})
	if err != nil {
		return n.failed("setting "+name+" on", err)
	}
	return nil
}

// shutdown ends the server whatever state it is in.
func (n *PostgresNode) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	_ = n.Thaw(ctx)
	if err := n.stop(ctx, "stopping", signalImmediate); err != nil {
		_ = n.Kill(ctx) // what even this leaves running, the folder's watchdog ends
	}
}
