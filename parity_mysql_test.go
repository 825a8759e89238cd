package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// mysqlReady are the shared clusters that these tests have been at.
var mysqlReady sync.Map

// mysqlOnBoth runs a test on MariaDB and, where it can be had, on MySQL: on clusters that are shared, so that such tests do not run
// in parallel. They stop appliers.
func mysqlOnBoth(t *testing.T, test func(t *testing.T, c *dbtest.MySQLCluster)) {
	t.Helper()
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		if _, ready := mysqlReady.LoadOrStore(c, true); !ready {
			for _, n := range c.Nodes() {
				execOn(t, n, "SET GLOBAL local_infile = ON", "SET GLOBAL log_bin_trust_function_creators = ON",
					"SET GLOBAL max_allowed_packet = 64 << 20")
			}
		}
		test(t, c)
	})
}

// mysqlPauseReplay lets the first replica come to where the primary is and stops it there, until mysqlResumeReplay or the end of
// the test. It is the only one that the pools of these tests have.
func mysqlPauseReplay(t testing.TB, c *dbtest.MySQLCluster) {
	t.Helper()
	t.Cleanup(func() { mysqlResumeReplay(t, c) })
	ctx := testContext(t)
	position, err := c.Primary().Position(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Replica(0).WaitFor(ctx, position))
	require.NoError(t, c.Replica(0).PauseReplay(ctx))
}

func mysqlResumeReplay(t testing.TB, c *dbtest.MySQLCluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	require.NoError(t, c.Replica(0).ResumeReplay(ctx))
}

// mysqlUnnoticed is an interval of probes at which it does not come out within a test that nothing feeds a replica whose
// applier is stopped: it stays eligible, and what keeps a read from it is what the session needs.
const mysqlUnnoticed = 10 * time.Second

// mysqlConfigFor returns a config over the primary and the first replica of c, with connections as configure makes them.
func mysqlConfigFor(c *dbtest.MySQLCluster, connection func(*dbtest.MySQLNode) *mysql.Config) readroute.Config {
	config := readroute.Config{ProbeInterval: mysqlUnnoticed}
	node := func(n *dbtest.MySQLNode) readroute.Node {
		return readroute.Node{Name: n.Name(), Connector: readroute.MySQLConfig(connection(n))}
	}
	config.Primary, config.Replicas = node(c.Primary()), []readroute.Node{node(c.Replica(0))}
	return config
}

// mysqlConnection is the config of a node's connections to a database, as the user with all rights, whom neither flavor's
// read_only keeps from writing.
func mysqlConnection(t testing.TB, n *dbtest.MySQLNode, database string) *mysql.Config {
	t.Helper()
	config, err := mysql.ParseDSN(n.DSN())
	require.NoError(t, err)
	config.DBName, config.Logger = database, mysqlSilent{}
	return config
}

// mysqlSilent keeps the driver from reporting connections that a test has broken on purpose.
type mysqlSilent struct{}

func (mysqlSilent) Print(...any) {}

// mysqlParity is one run of a script on one pool.
type mysqlParity struct {
	*parity
	servers  *dbtest.MySQLCluster
	database string
}

// A mysqlScript is run on every kind of pool, in a database of its own.
type mysqlScript struct {
	name      string
	configure func(*mysql.Config)
	// replica says that there is a read in it that a replica has to serve when it can.
	replica bool
	// kinds are the kinds of routed pools it is run on; all when empty.
	kinds []string
	// dies says that servers end connections that are left idle.
	dies bool
	run  func(p *mysqlParity)
}

// compareMySQLParity runs scripts on the bare pool and on each kind of routed pool, on both flavors.
func compareMySQLParity(t *testing.T, scripts ...mysqlScript) {
	t.Helper()
	mysqlOnBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		for _, s := range scripts {
			t.Run(s.name, func(t *testing.T) {
				want := runMySQLParity(t, c, s, "")
				require.NotEmpty(t, want, "the script shows nothing")
				kinds := s.kinds
				if len(kinds) == 0 {
					kinds = []string{parityPlain, parityCovered, parityPaused}
				}
				for _, kind := range kinds {
					t.Run(kind, func(t *testing.T) {
						requireSameRecord(t, want, runMySQLParity(t, c, s, kind))
					})
				}
			})
		}
	})
}

func runMySQLParity(t *testing.T, c *dbtest.MySQLCluster, s mysqlScript, kind string) []string {
	t.Helper()
	database := fmt.Sprintf("parity%d", tables.Add(1))
	require.NoError(t, c.Primary().Exec(testContext(t), "CREATE DATABASE "+database, "CREATE TABLE "+database+".begun (id INT)"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	connection := func(n *dbtest.MySQLNode) *mysql.Config {
		config := mysqlConnection(t, n, database)
		if s.configure != nil {
			s.configure(config)
		}
		return config
	}
	p := &mysqlParity{parity: &parity{TB: t, ctx: testContext(t)}, servers: c, database: database}
	onReplica := 0
	if kind == "" {
		connector, err := mysql.NewConnector(connection(c.Primary()))
		require.NoError(t, err)
		p.db = sql.OpenDB(connector)
		p.db.SetMaxIdleConns(readroute.DefaultMaxIdleConns)
		t.Cleanup(func() { _ = p.db.Close() })
		s.run(p)
	} else {
		onReplica = p.runRouted(t, mysqlConfigFor(c, connection), s, kind)
	}
	require.NoError(t, p.ctx.Err(), "the script took too long:\n%s", strings.Join(p.record[max(0, len(p.record)-200):], "\n"))
	if err := p.db.Close(); kind != "" && !s.dies { // the driver says so when a server has ended what it closes
		require.NoError(t, err)
	}
	p.nothingLeft()
	require.NoError(t, c.Primary().Exec(testContext(t), "DROP DATABASE "+database))
	switch kind {
	case parityCovered:
		require.Equal(t, s.replica, onReplica > 0, "%d statements on the replica", onReplica)
	default:
		require.Zero(t, onReplica)
	}
	for i := range p.record {
		p.record[i] = strings.ReplaceAll(p.record[i], database, "~database~")
	}
	return p.record
}

// runRouted runs a script on a routed pool, and returns how many statements replicas have served.
func (p *mysqlParity) runRouted(t *testing.T, config readroute.Config, s mysqlScript, kind string) (onReplica int) {
	t.Helper()
	wait := testTimeout
	if kind == parityPaused {
		wait = time.Millisecond
	}
	config.Strategy = readroute.PositionWait(wait)
	config.CaptureTimeout = testTimeout
	seen := record(&config)
	p.routed = open(t, config)
	p.db = p.routed.DB
	if kind == parityPaused {
		mysqlPauseReplay(t, p.servers)
		defer mysqlResumeReplay(t, p.servers)
	}
	if kind != parityPlain {
		p.ctx = sessionContext(t)
		_, err := p.db.ExecContext(p.ctx, "INSERT INTO begun VALUES (1)")
		require.NoError(t, err)
		_, err = readroute.SessionFrom(p.ctx).Token(p.ctx)
		require.NoError(t, err)
	}
	if kind == parityCovered {
		require.NoError(t, p.db.QueryRowContext(p.ctx, "SELECT id FROM begun").Scan(new(int))) // waits for it
		d, err := p.routed.Explain(p.ctx, "SELECT 1")
		require.NoError(t, err)
		require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
	}
	seen.take()
	s.run(p)
	for _, d := range seen.take() {
		if d.Role == readroute.RoleReplica {
			onReplica++
		}
	}
	return onReplica
}

// nothingLeft waits until no server has a connection of the closed pool, nor a statement that was prepared on one.
func (p *mysqlParity) nothingLeft() {
	for _, n := range p.servers.Nodes() {
		var left string
		eventually(p, "a closed pool leaves nothing on the servers", func() bool {
			var err error
			left, err = n.QueryValue(testContext(p), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '"+p.database+"'")
			p.must(err)
			return left == "0"
		})
		require.Zero(p, mysqlPrepared(p, n), "statements on %s", n.Name())
	}
}

// mysqlPrepared is how many statements a server has prepared, for anybody.
func mysqlPrepared(t testing.TB, n *dbtest.MySQLNode) int {
	t.Helper()
	return mysqlStatus(t, n, "Prepared_stmt_count")
}

// mysqlStatus is one of a server's counters.
func mysqlStatus(t testing.TB, n *dbtest.MySQLNode, name string) int {
	t.Helper()
	table := "performance_schema.global_status"
	if mysqlIsMariaDB(n) {
		table = "information_schema.GLOBAL_STATUS"
	}
	text, err := n.QueryValue(testContext(t), "SELECT VARIABLE_VALUE FROM "+table+" WHERE VARIABLE_NAME = '"+name+"'")
	require.NoError(t, err)
	var value int
	_, err = fmt.Sscan(text, &value)
	require.NoError(t, err)
	return value
}

func mysqlIsMariaDB(n *dbtest.MySQLNode) bool {
	version, err := n.QueryValue(context.Background(), "SELECT VERSION()")
	return err == nil && strings.Contains(version, "MariaDB")
}

// both runs a text through q as a query and as a statement. The driver waits for ever for MariaDB's answer when it executes a
// prepared query whose columns the server does not tell again (1.10.1).
func (p *mysqlParity) both(q execer, query string, args ...any) {
	p.query(q, query, args...)
	_, prepares := q.(preparing)
	if first, _, _ := strings.Cut(query, " "); p.servers.IsMariaDB() && (prepares || len(args) > 0) && first == "SELECT" {
		return
	}
	p.exec(q, query, args...)
}

// exec runs a statement through q and notes what comes of it.
func (p *mysqlParity) exec(q execer, query string, args ...any) {
	result, err := q.ExecContext(p.ctx, query, args...)
	if err != nil {
		p.note("exec %.200s: %s", query, mysqlErrorText(err))
		return
	}
	p.result("exec "+query, result)
}

func (p *mysqlParity) result(what string, result sql.Result) {
	n, err := result.RowsAffected()
	id, idErr := result.LastInsertId()
	p.note("%.200s: %d rows, %s; last id %d, %s", what, n, errorText(err), id, errorText(idErr))
}

// mysqlErrorText shows an error as a caller can see it; the driver's texts hold the server's number.
func mysqlErrorText(err error) string {
	text := errorText(err)
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		text += fmt.Sprintf(" {%d %s}", answer.Number, answer.SQLState)
	}
	for _, known := range []error{mysql.ErrInvalidConn, mysql.ErrPktTooLarge} {
		if errors.Is(err, known) {
			text += fmt.Sprintf(" is(%v)", known)
		}
	}
	return text
}

// mysqlIsNumber reports that an error is a server's with one of these numbers.
func mysqlIsNumber(err error, numbers ...uint16) bool {
	var answer *mysql.MySQLError
	return errors.As(err, &answer) && slices.Contains(numbers, answer.Number)
}

// raw calls f with the driver's connection to the primary behind conn.
func (p *mysqlParity) raw(conn *sql.Conn, f func(driver.Conn) error) error {
	return conn.Raw(func(driverConn any) error {
		if c, ok := driverConn.(readroute.Conn); ok {
			var err error
			if driverConn, err = c.Primary(p.ctx); err != nil {
				return err
			}
		}
		return f(driverConn.(driver.Conn))
	})
}

// ask runs a query on the driver's own connection and returns its rows as text.
func (p *mysqlParity) ask(conn driver.Conn, query string) (list [][]string) {
	rows, err := conn.(driver.QueryerContext).QueryContext(p.ctx, query, nil)
	p.must(err)
	values := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(values)
		if errors.Is(err, io.EOF) {
			p.must(rows.Close())
			return list
		}
		p.must(err)
		var row []string
		for _, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			row = append(row, fmt.Sprint(v))
		}
		list = append(list, row)
	}
}

// hold runs f while n connections to the primary are out.
func (p *mysqlParity) hold(n int, f func(conns []*sql.Conn)) {
	conns := make([]*sql.Conn, n)
	for i := range conns {
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.must(p.raw(conn, func(c driver.Conn) error { return c.(driver.Pinger).Ping(p.ctx) }))
		conns[i] = conn
	}
	f(conns)
	for _, conn := range conns {
		p.must(conn.Close())
	}
}

// onConn runs f with a connection.
func (p *mysqlParity) onConn(f func(conn *sql.Conn)) {
	conn, err := p.db.Conn(p.ctx)
	p.must(err)
	f(conn)
	p.note("close: %s", errorText(conn.Close()))
}

// inTx runs f in a transaction and commits it.
func (p *mysqlParity) inTx(opts *sql.TxOptions, f func(tx *sql.Tx)) {
	tx, err := p.db.BeginTx(p.ctx, opts)
	p.must(err)
	f(tx)
	p.note("commit: %s", mysqlErrorText(tx.Commit()))
}

// inTxOn is inTx on a connection.
func (p *mysqlParity) inTxOn(conn *sql.Conn, f func(tx *sql.Tx)) {
	tx, err := conn.BeginTx(p.ctx, nil)
	p.must(err)
	f(tx)
	p.note("commit: %s", mysqlErrorText(tx.Commit()))
}
