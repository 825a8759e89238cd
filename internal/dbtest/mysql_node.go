package dbtest

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// MySQLNode is one server of a cluster. Its methods may be called from several goroutines. Every wait ends with the
// context, and after 30 s when the context has no deadline.
type MySQLNode struct {
	cluster  *MySQLCluster
	name     string
	port     int
	serverID int

	startMu sync.Mutex // held by Start
	process atomic.Pointer[process]
	frozen  atomic.Bool
	source  atomic.Pointer[MySQLNode] // whom it replicates from; nil on a primary

	mu    sync.Mutex         // guards pools
	pools map[string]*sql.DB // by database; each keeps one idle connection
}

// Name is the node's name, which it reports to its source.
func (n *MySQLNode) Name() string { return n.name }

// Port is the node's port on 127.0.0.1. It stays the same over restarts.
func (n *MySQLNode) Port() int { return n.port }

// Addr is the node's host and port.
func (n *MySQLNode) Addr() string { return localAddr(n.port) }

// ServerID is the node's server_id.
func (n *MySQLNode) ServerID() int { return n.serverID }

// SetServerID gives the server another id, from its next start on. A session keeps the id that it began with, and MariaDB's
// gtid_current_pos does not count what was written under another than the server's: it cannot be changed while somebody writes.
func (n *MySQLNode) SetServerID(id int) { n.serverID = id }

// DSN is a data source name of go-sql-driver/mysql for AppDatabase, as the given user, else as AdminUser.
func (n *MySQLNode) DSN(user ...string) string { return mysqlDSN(n.Addr(), user) }

// AppDSN is a data source name for AppUser.
func (n *MySQLNode) AppDSN() string { return n.DSN(AppUser) }

// WatchDSN is a data source name for WatchUser, which has no rights in AppDatabase and so names no database.
func (n *MySQLNode) WatchDSN() string { return mysqlConfig(n.Addr(), WatchUser, "").FormatDSN() }

// DSNVia is like DSN, through a proxy.
func (n *MySQLNode) DSNVia(proxy *Proxy, user ...string) string { return mysqlDSN(proxy.Addr(), user) }

func mysqlDSN(addr string, user []string) string {
	name := AdminUser
	if len(user) > 0 {
		name = user[0]
	}
	return mysqlConfig(addr, name, AppDatabase).FormatDSN()
}

func mysqlConfig(addr, user, database string) *mysql.Config {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = user, "tcp", addr, database
	return config
}

// IsRunning reports whether the server's process lives, frozen or not.
func (n *MySQLNode) IsRunning() bool { return n.process.Load().running() }

func (n *MySQLNode) dataDir() string { return filepath.Join(n.cluster.folder.path, n.name) }
func (n *MySQLNode) logFile() string { return n.dataDir() + ".log" }
func (n *MySQLNode) pidFile() string { return n.dataDir() + ".pid" }

// failed names the operation and the node in an error.
func (n *MySQLNode) failed(operation string, err error) error {
	return fmt.Errorf("dbtest: %s %s: %w", operation, n.name, err)
}

// Start starts the server on its port and its data, and waits until it accepts connections. A replica starts read-only
// and replicates, whatever was stopped before. Start fails when the server runs.
func (n *MySQLNode) Start(ctx context.Context) error {
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
	c := n.cluster
	// The context bounds the start, not the server's life.
	cmd := mysqlCommand(context.WithoutCancel(ctx), c.folder, c.owner, c.options.Program, n.serverArgs()...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := c.launcher.start(cmd)
	if err != nil {
		return n.failed("starting", err)
	}
	n.frozen.Store(false)
	n.process.Store(p)
	// For the watchdog. The server's own file comes late.
	if err := os.WriteFile(n.pidFile(), []byte(strconv.Itoa(p.pid)+"\n"), 0o600); err != nil {
		return n.failed("starting", err)
	}
	err = poll(ctx, func() (bool, error) {
		text, err := os.ReadFile(n.logFile())
		if err != nil {
			return false, err
		}
		text = text[min(before, int64(len(text))):]
		if !p.running() {
			return false, n.startError(text)
		}
		return bytes.Contains(text, []byte("ready for connections")), nil
	})
	if err != nil {
		return n.failed("starting", err)
	}
	return nil
}

// startError says why the server has ended, from what it has logged since.
func (n *MySQLNode) startError(log []byte) error {
	if bytes.Contains(log, []byte("Address already in use")) {
		return errPortTaken
	}
	return fmt.Errorf("the server has ended: %s", lastLines(n.logFile(), 10))
}

// Exec runs statements as AdminUser in AppDatabase, one after the other; a text may hold several. It uses a connection
// of its own, not always the same: session settings do not last, and a transaction that is open at the end is rolled
// back.
func (n *MySQLNode) Exec(ctx context.Context, sql ...string) error {
	return n.exec(ctx, AppDatabase, sql...)
}

// control runs statements about the server, which work before AppDatabase is there.
func (n *MySQLNode) control(ctx context.Context, sql ...string) error {
	return n.exec(ctx, "", sql...)
}

func (n *MySQLNode) exec(ctx context.Context, database string, texts ...string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	err := n.withConn(ctx, database, func(conn *sql.Conn) error {
		for _, text := range texts {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(texts, changesSession) {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // which closes it
			return nil
		}
		// A transaction that is still open is not left for the next call.
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		return err
	})
	if err != nil {
		return n.failed("running a statement on", err)
	}
	return nil
}

// changesSession reports that a text may set something for its session, which the driver does not undo.
func changesSession(text string) bool {
	text = strings.ToUpper(text)
	return strings.Contains(text, "SET ") && !strings.HasPrefix(text, "SET GLOBAL ")
}

// QueryValue runs a query as Exec does and returns the first column of its first row as text, "" when that is NULL.
// Without a row the error matches sql.ErrNoRows.
func (n *MySQLNode) QueryValue(ctx context.Context, query string) (string, error) {
	return n.value(ctx, AppDatabase, query)
}

func (n *MySQLNode) value(ctx context.Context, database, query string) (string, error) {
	row, err := n.row(ctx, database, query)
	if err != nil {
		return "", n.failed("querying", err)
	}
	return row[0].value, nil
}

type column struct{ name, value string }

// row returns the first row of a result as text.
func (n *MySQLNode) row(ctx context.Context, database, query string) (row []column, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	err = n.withConn(ctx, database, func(conn *sql.Conn) (err error) {
		rows, err := conn.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		if !rows.Next() {
			if err := rows.Err(); err != nil {
				return err
			}
			return sql.ErrNoRows
		}
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, name := range names {
			row = append(row, column{name, values[i].String})
		}
		return nil
	})
	return row, err
}

// withConn calls f with a connection that nobody else uses.
func (n *MySQLNode) withConn(ctx context.Context, database string, f func(*sql.Conn) error) error {
	pool, err := n.pool(database)
	if err != nil {
		return err
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

func (n *MySQLNode) pool(database string) (*sql.DB, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.IsRunning() {
		return nil, errNotRunning
	}
	if pool := n.pools[database]; pool != nil {
		return pool, nil
	}
	config := mysqlConfig(n.Addr(), AdminUser, database)
	config.MultiStatements = true
	config.Logger = silent{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxIdleConns(1)
	if n.pools == nil {
		n.pools = map[string]*sql.DB{}
	}
	n.pools[database] = pool
	return pool, nil
}

// silent keeps the driver from reporting connections that a test has broken on purpose.
type silent struct{}

func (silent) Print(...any) {}

// dropIdle gives up all connections before their server goes.
func (n *MySQLNode) dropIdle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pool := range n.pools {
		_ = pool.Close() // it says goodbye and does not wait for an answer
	}
	clear(n.pools)
}

// Set changes a server setting for all sessions that begin from now on (SET GLOBAL). It does not outlive the server.
func (n *MySQLNode) Set(ctx context.Context, name, value string) error {
	if _, err := strconv.ParseFloat(value, 64); err != nil {
		value = quote(strings.ReplaceAll(value, `\`, `\\`))
	}
	return n.control(ctx, "SET GLOBAL "+name+" = "+value)
}

// shutdown ends the server whatever state it is in.
func (n *MySQLNode) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), operationTimeout)
	defer cancel()
	_ = n.Kill(ctx) // what even this leaves running, the folder's watchdog ends
	n.dropIdle()
}
