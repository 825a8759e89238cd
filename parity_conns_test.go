package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

func TestParityTransactions(t *testing.T) {
	compareParity(t, parityScript{name: "Options", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		p.exec(p.db, "INSERT INTO t VALUES (1)")
		for level := sql.LevelDefault; level <= sql.LevelLinearizable+1; level++ {
			for _, readOnly := range []bool{false, true} {
				tx, err := p.db.BeginTx(p.ctx, &sql.TxOptions{Isolation: level, ReadOnly: readOnly})
				p.note("begin %v %t: %s", level, readOnly, errorText(err))
				if err != nil {
					continue
				}
				p.query(tx, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')")
				p.query(tx, "SELECT id FROM t")
				p.note("rollback: %s", errorText(tx.Rollback()))
				p.note("again: %s %s", errorText(tx.Rollback()), errorText(tx.Commit()))
				_, err = tx.ExecContext(p.ctx, "SELECT 1")
				p.note("after: %s", errorText(err))
			}
		}
		tx, err := p.db.BeginTx(p.ctx, &sql.TxOptions{ReadOnly: true})
		p.must(err)
		_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (2)")
		p.note("write in a read-only transaction: %s", errorText(err))
		p.query(tx, "SELECT 1")
		p.must(tx.Rollback())
		p.query(p.db, "SELECT id FROM t")
	}}, parityScript{name: "Failed", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (1, 1)")
		p.query(tx, "SELECT 1/0")
		p.query(tx, "SELECT 1")
		p.exec(tx, "INSERT INTO t VALUES (2, 2)")
		p.note("commit of a failed transaction: %s", errorText(tx.Commit()))
		tx, err = p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (1, 1), (2, 1)")
		p.note("commit of a deferred violation: %s", errorText(tx.Commit()))
		tx, err = p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (3, 3)")
		p.exec(tx, "SAVEPOINT s")
		p.exec(tx, "INSERT INTO t VALUES (3, 4)")
		p.exec(tx, "ROLLBACK TO s")
		p.exec(tx, "CREATE TABLE t2 (id int)")
		p.exec(tx, "SET LOCAL statement_timeout = '1min'")
		p.query(tx, "SHOW statement_timeout")
		p.note("commit: %s", errorText(tx.Commit()))
		p.exec(p.db, "INSERT INTO t2 VALUES (1)")
		p.note("in use: %d", p.db.Stats().InUse)
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		for _, statement := range []string{"COMMIT", "ROLLBACK", "BEGIN", "BEGIN", "INSERT INTO t VALUES (5, 5)", "COMMIT", "BEGIN", "SELECT 1/0", "COMMIT"} {
			p.exec(conn, statement)
		}
		p.query(conn, "SELECT id FROM t ORDER BY id")
		p.note("close: %s", errorText(conn.Close()))
	}}, parityScript{name: "Nested", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		rows, err := tx.QueryContext(p.ctx, "SELECT generate_series(1, 3)")
		p.must(err)
		for rows.Next() {
			_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (1)")
			p.note("exec with rows open: %s", errorText(err))
			p.note("query with rows open: %s", errorText(tx.QueryRowContext(p.ctx, "SELECT 1").Scan(new(int))))
			_, err = tx.PrepareContext(p.ctx, "SELECT 1")
			p.note("prepare with rows open: %s", errorText(err))
			p.note("on another connection: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT count(*) FROM t").Scan(new(int))))
		}
		p.note("%s %s", errorText(rows.Err()), errorText(rows.Close()))
		p.exec(tx, "INSERT INTO t VALUES (1)")
		rows, err = tx.QueryContext(p.ctx, "SELECT generate_series(1, 3)")
		p.must(err)
		p.note("next: %t", rows.Next())
		p.note("commit with rows open: %s", errorText(tx.Commit()))
		p.note("rows: %t %s", rows.Next(), errorText(rows.Err()))
		p.exec(p.db, "INSERT INTO t VALUES (1)")
	}}, parityScript{name: "LikeOneConnection", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id serial, v text)")
		for _, q := range []execer{p.db, preparing{p.db}} {
			p.query(q, "INSERT INTO t (v) VALUES ('a'), ('b'), ('c') RETURNING id, v")
			var id int
			p.note("returning: %s %d", errorText(p.db.QueryRowContext(p.ctx, "INSERT INTO t (v) VALUES ('d'), ('e') RETURNING id").Scan(&id)), id)
			rows, err := q.QueryContext(p.ctx, "INSERT INTO t (v) SELECT 'f' FROM generate_series(1, 100) RETURNING id")
			p.must(err)
			p.note("%t %s", rows.Next(), errorText(rows.Close()))
			p.query(q, "WITH x AS (DELETE FROM t WHERE v = 'b' RETURNING id) SELECT count(*) FROM x")
		}
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.exec(conn, "SET statement_timeout = '2min'")
		p.exec(conn, "CREATE TEMP TABLE mine (id int)")
		p.exec(conn, "INSERT INTO mine VALUES (1)")
		p.query(conn, "SELECT id FROM mine")
		p.query(conn, "SELECT current_setting('statement_timeout'), pg_try_advisory_lock(hashtext(current_setting('application_name')))")
		p.exec(conn, "PREPARE mine AS SELECT 1")
		p.query(conn, "EXECUTE mine")
		p.query(conn, "INSERT INTO t (v) VALUES ('x') RETURNING currval('t_id_seq') - id")
		p.exec(conn, "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 3)")
		p.query(conn, "FETCH 2 FROM c")
		p.note("close: %s %s", errorText(conn.Close()), errorText(conn.Close()))
		_, err = conn.ExecContext(p.ctx, "SELECT 1")
		p.note("after: %s", errorText(err))
		p.note("raw after: %s", errorText(conn.Raw(func(any) error { return nil })))
	}})
}

func TestParityRaw(t *testing.T) {
	compareParity(t, parityScript{name: "Native", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int, v text)")
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.note("copy: %s", errorText(p.raw(conn, func(c *pgx.Conn) error {
			n, err := c.CopyFrom(p.ctx, pgx.Identifier{"t"}, []string{"id", "v"}, pgx.CopyFromRows([][]any{{1, "a"}, {2, nil}}))
			p.note("copied %d", n)
			return err
		})))
		p.query(conn, "SELECT * FROM t ORDER BY id")
		p.note("batch: %s", errorText(p.raw(conn, func(c *pgx.Conn) error {
			b := &pgx.Batch{}
			b.Queue("INSERT INTO t VALUES ($1, $2)", 3, "c")
			b.Queue("SELECT count(*) FROM t")
			results := c.SendBatch(p.ctx, b)
			defer results.Close()
			if _, err := results.Exec(); err != nil {
				return err
			}
			var n int
			err := results.QueryRow().Scan(&n)
			p.note("counted %d", n)
			return err
		})))
		p.note("error: %s", errorText(p.raw(conn, func(*pgx.Conn) error { return errors.New("own") })))
		p.exec(conn, "INSERT INTO t VALUES (4, 'd')")
		p.exec(conn, "LISTEN parity")
		p.exec(conn, "SELECT pg_notify('parity', 'self')")
		p.exec(p.db, "NOTIFY parity, 'other'")
		for range 2 {
			p.note("notification: %s", errorText(p.raw(conn, func(c *pgx.Conn) error {
				n, err := c.WaitForNotification(p.ctx)
				if err == nil {
					p.note("notified of %s", n.Payload)
				}
				return err
			})))
		}
		p.note("bad: %s", errorText(conn.Raw(func(any) error { return driver.ErrBadConn })))
		_, err = conn.ExecContext(p.ctx, "SELECT 1")
		p.note("after bad: %s", errorText(err))
		p.note("close: %s", errorText(conn.Close()))
		p.query(p.db, "SELECT * FROM t ORDER BY id")
		p.note("open transaction: %s", errorText(func() error {
			conn, err := p.db.Conn(p.ctx)
			p.must(err)
			defer conn.Close()
			return p.raw(conn, func(c *pgx.Conn) error {
				_, err := c.Exec(p.ctx, "BEGIN; INSERT INTO t VALUES (5, 'e')")
				return err
			})
		}()))
		p.query(p.db, "SELECT * FROM t ORDER BY id")
		p.note("panic: %v", func() (r any) {
			defer func() { r = recover() }()
			conn, err := p.db.Conn(p.ctx)
			p.must(err)
			return p.raw(conn, func(*pgx.Conn) error { panic("own") })
		}())
		p.exec(p.db, "INSERT INTO t VALUES (6, 'f')")
		p.note("driver: %T, in use %d", p.db.Driver(), p.db.Stats().InUse)
	}}, parityScript{name: "Closed", run: func(p *parity) {
		stmt, err := p.db.PrepareContext(p.ctx, "SELECT 1")
		p.must(err)
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.note("close: %s %s", errorText(p.db.Close()), errorText(p.db.Close()))
		_, err = p.db.ExecContext(p.ctx, "SELECT 1")
		p.note("exec: %s", errorText(err))
		_, err = p.db.QueryContext(p.ctx, "SELECT 1")
		p.note("query: %s", errorText(err))
		_, err = p.db.BeginTx(p.ctx, nil)
		p.note("begin: %s", errorText(err))
		_, err = p.db.Conn(p.ctx)
		p.note("conn: %s", errorText(err))
		_, err = p.db.PrepareContext(p.ctx, "SELECT 1")
		p.note("prepare: %s", errorText(err))
		p.note("ping: %s", errorText(p.db.PingContext(p.ctx)))
		_, err = stmt.ExecContext(p.ctx)
		p.note("statement: %s, %s", errorText(err), errorText(stmt.Close()))
		p.note("open connection: %s", errorText(conn.Close()))
	}})
}

// sockets is how many connections of the primary the pool has open for statements.
func (p *parity) sockets() int {
	if p.routed == nil {
		return p.db.Stats().OpenConnections
	}
	return p.routed.RouteStats().Nodes[0].Writer.OpenConnections
}

// backends is how many server sessions of the primary belong to the pool's application.
func (p *parity) backends() int {
	value, err := p.cluster.Primary().QueryValue(p.ctx,
		fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'", p.application))
	p.must(err)
	n, err := strconv.Atoi(value)
	p.must(err)
	return n
}

// hold runs f while n connections to the primary are out.
func (p *parity) hold(n int, f func(conns []*sql.Conn)) {
	conns := make([]*sql.Conn, n)
	for i := range conns {
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.must(p.raw(conn, func(c *pgx.Conn) error { return c.Ping(p.ctx) }))
		conns[i] = conn
	}
	f(conns)
	for _, conn := range conns {
		p.must(conn.Close())
	}
}

// alwaysPing makes pgx look at every connection before it is used again, not only at those that were idle for a second.
var alwaysPing = []stdlib.OptionOpenDB{
	stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true }),
}

// killIdle ends all server sessions of the pool that wait for a statement, the library's own apart.
func (p *parity) killIdle() {
	var pids []string
	p.hold(p.sockets(), func(conns []*sql.Conn) {
		for _, conn := range conns {
			p.must(p.raw(conn, func(c *pgx.Conn) error { pids = append(pids, fmt.Sprint(c.PgConn().PID())); return nil }))
		}
	})
	p.must(p.cluster.Primary().Exec(p.ctx,
		"SELECT pg_terminate_backend(pid, 5000) FROM unnest('{"+strings.Join(pids, ",")+"}'::int[]) pid"))
	p.note("%d killed", len(pids))
}

func TestParityConnections(t *testing.T) {
	compareParity(t, parityScript{name: "Count", run: func(p *parity) {
		p.must(p.db.PingContext(p.ctx))
		p.note("at first %d", p.sockets())
		p.hold(8, func([]*sql.Conn) { p.note("8 out: %d", p.sockets()) })
		p.note("8 back: %d", p.sockets())
		p.hold(20, func([]*sql.Conn) { p.note("20 out: %d", p.sockets()) })
		p.note("20 back: %d", p.sockets())
		own := 0
		if p.routed != nil {
			own = 2 // at most: a monitor's and a capture's
		}
		eventually(p, "the server has as many sessions as the pool has sockets", func() bool {
			n := p.backends()
			return n >= p.sockets() && n <= p.sockets()+own
		})
		for range 20 {
			p.exec(p.db, "SELECT 1 FOR UPDATE")
			p.must(p.db.PingContext(p.ctx))
		}
		p.note("at last %d", p.sockets())
	}}, parityScript{name: "DeadIdle", options: alwaysPing, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		p.hold(8, func([]*sql.Conn) {})
		p.killIdle()
		for i := range 8 {
			p.exec(p.db, "INSERT INTO t VALUES ($1)", i)
		}
		p.hold(8, func([]*sql.Conn) {})
		p.killIdle()
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (8)")
		p.note("commit: %s", errorText(tx.Commit()))
		p.hold(8, func([]*sql.Conn) {})
		p.killIdle()
		p.exec(preparing{p.db}, "INSERT INTO t VALUES (9)")
		p.hold(8, func([]*sql.Conn) {})
		p.killIdle()
		p.note("ping: %s", errorText(p.db.PingContext(p.ctx)))
		p.query(p.db, "INSERT INTO t VALUES (10) RETURNING id")
		p.query(p.db, "WITH x AS (DELETE FROM t RETURNING id) SELECT id FROM x ORDER BY id")
	}}, parityScript{name: "DeadInTransaction", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		var pid int
		p.must(tx.QueryRowContext(p.ctx, "INSERT INTO t VALUES (1) RETURNING pg_backend_pid()").Scan(&pid))
		p.must(p.cluster.Primary().Exec(p.ctx, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", pid)))
		_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (2)")
		p.note("exec failed: %t", err != nil)
		p.note("commit failed: %t", tx.Commit() != nil)
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.must(conn.QueryRowContext(p.ctx, "INSERT INTO t VALUES (3) RETURNING pg_backend_pid()").Scan(&pid))
		p.must(p.cluster.Primary().Exec(p.ctx, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", pid)))
		_, err = conn.ExecContext(p.ctx, "INSERT INTO t VALUES (4)")
		p.note("exec failed: %t", err != nil)
		_, err = conn.ExecContext(p.ctx, "INSERT INTO t VALUES (5)")
		p.note("exec after: %s", errorText(err))
		p.note("close: %s", errorText(conn.Close()))
		p.query(p.db, "WITH x AS (DELETE FROM t RETURNING id) SELECT id FROM x ORDER BY id")
	}}, parityScript{name: "Leaks", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int UNIQUE)")
		p.db.SetMaxOpenConns(3)
		_ = p.db.QueryRowContext(p.ctx, "SELECT 1")
		_ = p.db.QueryRowContext(p.ctx, "INSERT INTO t VALUES (1) RETURNING id")
		p.note("rows that nobody scans: %d", p.db.Stats().InUse)
		for range 5 {
			_ = p.db.QueryRowContext(p.ctx, "INSERT INTO t VALUES (1) RETURNING id").Err()
			_ = p.db.QueryRowContext(p.ctx, "SELECT 1/0").Err()
			p.note("%s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1 WHERE false").Scan(new(int))))
		}
		p.note("errors: %d", p.db.Stats().InUse)
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		short, cancel := context.WithTimeout(p.ctx, 20*time.Millisecond)
		defer cancel()
		p.note("none left: %s", errorText(p.db.PingContext(short)))
		p.note("rollback: %s, %d", errorText(tx.Rollback()), p.db.Stats().InUse)
	}})
}

// TestParityFreshlyDeadIdle kills connections that pgx does not look at, because they were just used. Which write fails on
// which pool is then a matter of what pgx makes of the server's last words; the routed pool must not fail more of them.
func TestParityFreshlyDeadIdle(t *testing.T) {
	c := sharedCluster(t)
	for _, prepared := range []bool{false, true} {
		failed := map[string]int{}
		for _, kind := range []string{"", parityPlain} {
			runParity(t, c, parityScript{run: func(p *parity) {
				p.exec(p.db, "CREATE TABLE t (id int)")
				p.hold(8, func([]*sql.Conn) {})
				p.killIdle()
				for i := range 8 {
					q := execer(p.db)
					if prepared {
						q = preparing{p.db}
					}
					if _, err := q.ExecContext(p.ctx, "INSERT INTO t VALUES ($1)", i); err != nil {
						t.Log(errorText(err))
						failed[kind]++
					}
				}
			}}, kind)
		}
		t.Logf("prepared %t: %d of 8 writes failed on the bare pool, %d on the routed one", prepared, failed[""], failed[parityPlain])
		require.LessOrEqual(t, failed[parityPlain], failed[""])
	}
}

// TestParityRandomCancellation checks, on each pool, what must hold whatever the moment: a record would differ.
func TestParityRandomCancellation(t *testing.T) {
	compareParity(t, parityScript{name: "Random", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		uses := map[string]func(ctx context.Context) error{
			"exec": func(ctx context.Context) error {
				_, err := p.db.ExecContext(ctx, "INSERT INTO t VALUES (1)")
				return err
			},
			"query row": func(ctx context.Context) error {
				return p.db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int))
			},
			"rows": func(ctx context.Context) error {
				rows, err := p.db.QueryContext(ctx, "SELECT i FROM generate_series(1, 200) i")
				if err != nil {
					return err
				}
				for rows.Next() {
				}
				return errors.Join(rows.Err(), rows.Close())
			},
			"prepared": func(ctx context.Context) error {
				_, err := preparing{p.db}.ExecContext(ctx, "INSERT INTO t VALUES ($1)", 2)
				return err
			},
			"tx": func(ctx context.Context) error {
				tx, err := p.db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "INSERT INTO t VALUES (3)")
				if err != nil {
					_ = tx.Rollback()
					return err
				}
				if err = tx.Commit(); errors.Is(err, sql.ErrTxDone) {
					err = ctx.Err() // the pool had rolled back already
				}
				return err
			},
		}
		var wg sync.WaitGroup
		for name, use := range uses {
			wg.Go(func() {
				for range 60 {
					ctx, cancel := context.WithCancel(p.ctx)
					timer := time.AfterFunc(rand.N(2*time.Millisecond), cancel)
					err := use(ctx)
					timer.Stop()
					if err != nil && !errors.Is(err, context.Canceled) {
						p.Errorf("%s: %s", name, errorText(err))
					}
					cancel()
				}
			})
		}
		wg.Wait()
		eventually(p, "everything is given back", func() bool { return p.db.Stats().InUse == 0 })
		if p.routed != nil {
			eventually(p, "every socket is given back", func() bool {
				for _, n := range p.routed.RouteStats().Nodes {
					if n.Writer.InUse+n.Reader.InUse != 0 {
						return false
					}
				}
				return true
			})
		}
		p.exec(p.db, "INSERT INTO t VALUES (4)")
		p.query(p.db, "SELECT count(*) FROM t WHERE id = 4")
	}})
}

func TestParityStatements(t *testing.T) {
	// prepared counts the server's statements on the connections of the primary that lie idle, pgx's own cache apart.
	prepared := func(p *parity) string {
		var counts []string
		p.hold(p.sockets(), func(conns []*sql.Conn) {
			for _, conn := range conns {
				var n int
				p.must(p.raw(conn, func(c *pgx.Conn) error {
					return c.QueryRow(p.ctx, "SELECT count(*) FROM pg_prepared_statements WHERE name NOT LIKE 'stmtcache%'",
						pgx.QueryExecModeSimpleProtocol).Scan(&n)
				}))
				counts = append(counts, fmt.Sprint(n))
			}
		})
		return strings.Join(counts, " ")
	}
	compareParity(t, parityScript{name: "Count", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		p.note("none: %s", prepared(p))
		a, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES ($1)")
		p.must(err)
		b, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES ($1)")
		p.must(err)
		c, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES ($1 + 1)")
		p.must(err)
		p.note("three, two alike: %s", prepared(p))
		for i := range 5 {
			for _, s := range []*sql.Stmt{a, b, c} {
				_, err := s.ExecContext(p.ctx, i)
				p.must(err)
			}
		}
		p.note("used: %s", prepared(p))
		p.must(a.Close())
		p.note("one closed: %s", prepared(p))
		_, err = b.ExecContext(p.ctx, 1)
		p.note("the other of its text: %s", errorText(err))
		_, err = a.ExecContext(p.ctx, 1)
		p.note("closed: %s, %s", errorText(err), errorText(a.Close()))
		p.must(b.Close())
		p.must(c.Close())
		p.note("all closed: %s", prepared(p))
		for i := range 50 {
			s, err := p.db.PrepareContext(p.ctx, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
			p.must(err)
			_, err = s.ExecContext(p.ctx)
			p.must(err)
			p.must(s.Close())
		}
		p.note("fifty that were closed: %s", prepared(p))
		_, err = p.db.PrepareContext(p.ctx, "INSERT INTO missing VALUES (1)")
		p.note("bad: %s", errorText(err))
	}}, parityScript{name: "RowsOpen", replica: true, run: func(p *parity) {
		s, err := p.db.PrepareContext(p.ctx, "SELECT i FROM generate_series(1, $1::int) i")
		p.must(err)
		rows, err := s.QueryContext(p.ctx, 3)
		p.must(err)
		p.note("first: %t", rows.Next())
		p.note("close the statement: %s", errorText(s.Close()))
		p.rows(rows)
		_, err = s.QueryContext(p.ctx, 3)
		p.note("after: %s", errorText(err))
		p.note("in use: %d", p.db.Stats().InUse)
	}}, parityScript{name: "InTransaction", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		insert, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES ($1)")
		p.must(err)
		read, err := p.db.PrepareContext(p.ctx, "SELECT id FROM t ORDER BY id")
		p.must(err)
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		for i := range 3 {
			_, err = tx.StmtContext(p.ctx, insert).ExecContext(p.ctx, i)
			p.note("insert: %s", errorText(err))
		}
		rows, err := tx.StmtContext(p.ctx, read).QueryContext(p.ctx)
		p.must(err)
		p.rows(rows)
		own, err := tx.PrepareContext(p.ctx, "SELECT count(*) FROM t")
		p.must(err)
		p.note("own: %s", errorText(own.QueryRowContext(p.ctx).Scan(new(int))))
		p.note("commit: %s", errorText(tx.Commit()))
		p.note("own after: %s", errorText(own.QueryRowContext(p.ctx).Scan(new(int))))
		_, err = insert.ExecContext(p.ctx, 7)
		p.note("after: %s", errorText(err))
		other, err := p.db.Conn(p.ctx)
		p.must(err)
		onConn, err := other.PrepareContext(p.ctx, "INSERT INTO t VALUES ($1)")
		p.must(err)
		_, err = onConn.ExecContext(p.ctx, 8)
		p.note("on a connection: %s", errorText(err))
		p.must(other.Close())
		_, err = onConn.ExecContext(p.ctx, 9)
		p.note("its connection is gone: %s", errorText(err))
		p.note("prepared: %s", prepared(p))
		p.must(insert.Close())
		p.must(read.Close())
		p.must(onConn.Close())
		p.note("closed: %s", prepared(p))
	}}, parityScript{name: "Reconnect", options: alwaysPing, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		insert, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES ($1)")
		p.must(err)
		for i := range 3 {
			p.killIdle()
			_, err = insert.ExecContext(p.ctx, i)
			p.note("insert: %s", errorText(err))
		}
		p.killIdle()
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		_, err = tx.StmtContext(p.ctx, insert).ExecContext(p.ctx, 3)
		p.note("in a transaction: %s", errorText(err))
		p.note("commit: %s", errorText(tx.Commit()))
		p.note("prepared: %s", prepared(p))
		p.must(insert.Close())
		p.note("closed: %s", prepared(p))
		p.query(p.db, "WITH x AS (DELETE FROM t RETURNING id) SELECT id FROM x ORDER BY id")
	}})
}
