package readroute_test

import (
	"context"
	"database/sql"
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
	list := "'{" + strings.Join(pids, ",") + "}'::int[]"
	p.must(p.cluster.Primary().Exec(p.ctx, "SELECT pg_terminate_backend(pid) FROM unnest("+list+") pid"))
	eventually(p, "the sessions have ended", func() bool {
		n, err := p.cluster.Primary().QueryValue(p.ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY("+list+")")
		p.must(err)
		return n == "0"
	})
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
