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

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// sessions is how many sessions the primary has in the pool's database.
func (p *mysqlParity) sessions() int {
	value, err := p.servers.Primary().QueryValue(p.ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '"+p.database+"'")
	p.must(err)
	n, err := strconv.Atoi(value)
	p.must(err)
	return n
}

// kill ends server sessions of the primary and waits until they are gone.
func (p *mysqlParity) kill(ids ...string) {
	for _, id := range ids {
		p.must(p.servers.Primary().Exec(p.ctx, "KILL "+id))
	}
	eventually(p, "the sessions have ended", func() bool {
		n, err := p.servers.Primary().QueryValue(p.ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID IN ("+strings.Join(ids, ",")+")")
		p.must(err)
		return n == "0"
	})
}

// killIdle leaves 8 connections of the pool idle that the server has ended.
func (p *mysqlParity) killIdle() {
	var ids []string
	p.hold(8, func(conns []*sql.Conn) {
		for _, conn := range conns {
			ids = append(ids, p.sessionID(conn))
		}
	})
	p.note("%d of %d are killed", len(ids), p.sockets())
	p.kill(ids...)
}

func (p *mysqlParity) sessionID(conn *sql.Conn) (id string) {
	p.must(p.raw(conn, func(c driver.Conn) error {
		id = p.ask(c, "SELECT CONNECTION_ID()")[0][0]
		return nil
	}))
	return id
}

func TestParityMySQLConnections(t *testing.T) {
	deadIdle := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		p.killIdle()
		for i := range 8 {
			p.exec(p.db, "INSERT INTO t VALUES (?)", i)
		}
		p.killIdle()
		p.inTx(nil, func(tx *sql.Tx) { p.exec(tx, "INSERT INTO t VALUES (8)") })
		p.killIdle()
		p.exec(preparing{p.db}, "INSERT INTO t VALUES (9)")
		insert, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES (?)")
		p.must(err)
		for i := range 3 {
			p.killIdle()
			_, err = insert.ExecContext(p.ctx, 10+i)
			p.note("prepared before: %s", errorText(err))
		}
		p.killIdle()
		p.inTx(nil, func(tx *sql.Tx) {
			_, err = tx.StmtContext(p.ctx, insert).ExecContext(p.ctx, 20)
			p.note("in a transaction: %s", errorText(err))
		})
		p.must(insert.Close())
		p.killIdle()
		p.note("ping: %s", errorText(p.db.PingContext(p.ctx)))
		p.query(p.db, "SELECT id FROM t ORDER BY id FOR UPDATE")
	}
	compareMySQLParity(t, mysqlScript{name: "Count", run: func(p *mysqlParity) {
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
			n := p.sessions()
			return n >= p.sockets() && n <= p.sockets()+own
		})
		for range 20 {
			p.exec(p.db, "SELECT 1 FOR UPDATE")
			p.exec(p.db, "SELECT ? FOR UPDATE", "x")
			p.must(p.db.PingContext(p.ctx))
		}
		p.note("at last %d", p.sockets())
	}}, mysqlScript{name: "DeadIdle", run: deadIdle},
		mysqlScript{name: "IdleForTooLong", dies: true, kinds: []string{parityCovered}, configure: func(c *mysql.Config) {
			c.Params = map[string]string{"wait_timeout": "1"} // the server ends it after a second
		}, run: func(p *mysqlParity) {
			p.exec(p.db, "CREATE TABLE t (id INT)")
			p.hold(3, func([]*sql.Conn) {})
			own := 0
			eventually(p, "the server has ended them", func() bool {
				if p.routed != nil {
					own = 2
				}
				return p.sessions() <= own
			})
			for i := range 3 {
				p.exec(p.db, "INSERT INTO t VALUES (?)", i)
			}
			p.exec(p.db, "INSERT INTO t VALUES (3)")
			p.query(p.db, "SELECT id FROM t ORDER BY id FOR UPDATE")
		}},
		mysqlScript{name: "DeadInTransaction", run: func(p *mysqlParity) {
			p.exec(p.db, "CREATE TABLE t (id INT)")
			tx, err := p.db.BeginTx(p.ctx, nil)
			p.must(err)
			p.exec(tx, "INSERT INTO t VALUES (1)")
			var id string
			p.must(tx.QueryRowContext(p.ctx, "SELECT CONNECTION_ID()").Scan(&id))
			p.kill(id)
			_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (2)")
			p.note("exec failed: %t", err != nil)
			p.note("commit failed: %t", tx.Commit() != nil)
			conn, err := p.db.Conn(p.ctx)
			p.must(err)
			p.exec(conn, "INSERT INTO t VALUES (3)")
			p.kill(p.sessionID(conn))
			_, err = conn.ExecContext(p.ctx, "INSERT INTO t VALUES (4)")
			p.note("exec failed: %t", err != nil)
			_, err = conn.ExecContext(p.ctx, "INSERT INTO t VALUES (5)")
			p.note("exec after failed: %t", err != nil)
			_ = conn.Close()
			p.query(p.db, "SELECT id FROM t ORDER BY id FOR UPDATE")
		}}, mysqlScript{name: "Leaks", replica: true, run: func(p *mysqlParity) {
			p.exec(p.db, "CREATE TABLE t (id INT UNIQUE)")
			p.db.SetMaxOpenConns(3)
			read, locking := p.db.QueryRowContext(p.ctx, "SELECT 1"), p.db.QueryRowContext(p.ctx, "SELECT 1 FOR UPDATE")
			p.note("rows that nobody scans: %d", p.db.Stats().InUse)
			for range 5 {
				_ = p.db.QueryRowContext(p.ctx, "INSERT INTO missing VALUES (1)").Err()
				_ = p.db.QueryRowContext(p.ctx, "SELECT missing").Err()
				_ = p.db.QueryRowContext(p.ctx, "SELECT missing, ?", 1).Err()
				p.note("%s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1 FROM DUAL WHERE FALSE").Scan(new(int))))
			}
			p.note("errors: %d", p.db.Stats().InUse)
			tx, err := p.db.BeginTx(p.ctx, nil)
			p.must(err)
			short, cancel := context.WithTimeout(p.ctx, 20*time.Millisecond)
			defer cancel()
			p.note("none left: %s", errorText(p.db.PingContext(short)))
			p.note("rollback: %s, %d", errorText(tx.Rollback()), p.db.Stats().InUse)
			p.note("%s %s, %d", errorText(read.Scan(new(int))), errorText(locking.Scan(new(int))), p.db.Stats().InUse)
		}})
}

// TestParityMySQLUncheckedDeadIdle kills connections that the driver is told not to look at before it uses them. Which write fails
// on which pool is then a matter of what the driver makes of the server's last words; the routed pool must not fail more of them,
// and none twice.
func TestParityMySQLUncheckedDeadIdle(t *testing.T) {
	mysqlOnBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		failed := map[string]int{}
		for _, kind := range []string{"", parityPlain} {
			runMySQLParity(t, c, mysqlScript{configure: func(c *mysql.Config) { c.CheckConnLiveness = false }, run: func(p *mysqlParity) {
				p.exec(p.db, "CREATE TABLE t (id INT)")
				p.killIdle()
				for i := range 16 {
					if _, err := p.db.ExecContext(p.ctx, fmt.Sprintf("INSERT INTO t VALUES (%d)", i)); err != nil {
						t.Log(mysqlErrorText(err))
						failed[kind]++
					}
				}
				var n, all int
				p.must(p.db.QueryRowContext(p.ctx, "SELECT COUNT(DISTINCT id), COUNT(*) FROM t").Scan(&n, &all))
				require.Equal(t, 16-failed[kind], n)
				require.Equal(t, n, all)
			}}, kind)
		}
		t.Logf("%d of 16 writes failed on the bare pool, %d on the routed one", failed[""], failed[parityPlain])
		require.LessOrEqual(t, failed[parityPlain], failed[""])
	})
}

func TestParityMySQLCancellation(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "BeforeTheStart", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		ctx, cancel := context.WithCancel(p.ctx)
		cancel()
		past, cancel := context.WithDeadline(p.ctx, time.Now().Add(-time.Second))
		defer cancel()
		for _, over := range []context.Context{ctx, past} {
			_, err := p.db.ExecContext(over, "INSERT INTO t VALUES (1)")
			p.note("exec: %s", errorText(err))
			_, err = p.db.QueryContext(over, "SELECT 1")
			p.note("query: %s", errorText(err))
			_, err = p.db.PrepareContext(over, "SELECT 1")
			p.note("prepare: %s", errorText(err))
			_, err = p.db.BeginTx(over, nil)
			p.note("begin: %s", errorText(err))
			_, err = p.db.Conn(over)
			p.note("conn: %s", errorText(err))
			p.note("ping: %s", errorText(p.db.PingContext(over)))
			tx, err := p.db.BeginTx(p.ctx, nil)
			p.must(err)
			_, err = tx.ExecContext(over, "INSERT INTO t VALUES (1)")
			p.note("tx exec: %s", errorText(err))
			p.exec(tx, "INSERT INTO t VALUES (3)")
			p.note("commit: %s", errorText(tx.Commit()))
			p.onConn(func(conn *sql.Conn) {
				_, err = conn.ExecContext(over, "INSERT INTO t VALUES (2)")
				p.note("conn exec: %s", errorText(err))
				p.exec(conn, "INSERT INTO t VALUES (4)")
			})
		}
		p.query(p.db, "SELECT id FROM t ORDER BY id FOR UPDATE")
		p.note("in use: %d", p.db.Stats().InUse)
	}}, mysqlScript{name: "Underway", replica: true, kinds: []string{parityPlain, parityCovered}, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		p.exec(p.db, "CREATE TABLE many (id INT)")
		p.exec(p.db, "INSERT INTO t VALUES (0)")
		p.exec(p.db, "CREATE PROCEDURE slow() BEGIN SELECT 1; DO SLEEP(10); END")
		p.exec(p.db, "INSERT INTO many WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n")
		const long = "SELECT COUNT(*) FROM many a, many b, many c, many d WHERE a.id + b.id > c.id + d.id"
		p.query(p.db, "SELECT COUNT(*) FROM many")
		for _, statement := range []string{
			long, "SELECT SLEEP(10)", "SELECT 1 FROM t WHERE SLEEP(10)", "SELECT ?, SLEEP(10)", "CALL slow()",
			"INSERT INTO t SELECT 5 FROM DUAL WHERE SLEEP(10) = 0",
		} {
			var args []any
			if strings.Contains(statement, "?") {
				args = []any{1}
			}
			ctx, cancel := context.WithTimeout(p.ctx, 50*time.Millisecond)
			start := time.Now()
			_, err := p.db.ExecContext(ctx, statement, args...)
			p.note("exec %s: deadline %t, quick %t", statement, errors.Is(err, context.DeadlineExceeded), time.Since(start) < 5*time.Second)
			cancel()
			ctx, cancel = context.WithCancel(p.ctx)
			timer := time.AfterFunc(20*time.Millisecond, cancel)
			rows, err := p.db.QueryContext(ctx, statement, args...)
			if err == nil {
				for rows.Next() || rows.NextResultSet() {
				}
				err = errors.Join(rows.Err(), rows.Close())
			}
			p.note("query: canceled %t", errors.Is(err, context.Canceled))
			timer.Stop()
			cancel()
		}
		ctx, cancel := context.WithCancel(p.ctx)
		tx, err := p.db.BeginTx(ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (7)")
		cancel()
		err = tx.Commit()
		p.note("commit of a cancelled transaction: %t", errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone))
		eventually(p, "the transaction is rolled back", func() bool { return p.db.Stats().InUse == 0 })
		p.query(p.db, "SELECT COUNT(*) FROM t WHERE id = 7 FOR UPDATE")
		p.exec(p.db, "INSERT INTO t VALUES (8)")
		p.stopSleeping()
	}}, mysqlScript{name: "Timeouts", replica: true, kinds: []string{parityCovered}, configure: func(c *mysql.Config) {
		c.ReadTimeout = 250 * time.Millisecond
	}, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		_, err := p.db.ExecContext(p.ctx, "INSERT INTO t SELECT 5 FROM DUAL WHERE SLEEP(10) = 0")
		p.note("exec: %t, to be run again: %t", err != nil, errors.Is(err, driver.ErrBadConn))
		p.exec(p.db, "INSERT INTO t VALUES (1)")
		p.note("in use: %d", p.db.Stats().InUse)
		p.query(p.db, "SELECT id FROM t")
		p.stopSleeping()
	}}, mysqlScript{name: "ServersOwn", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		if p.servers.IsMariaDB() {
			p.query(p.db, "SET STATEMENT max_statement_time = 0.05 FOR SELECT COUNT(*) FROM information_schema.COLLATIONS a, "+
				"information_schema.COLLATIONS b, information_schema.COLLATIONS c, information_schema.COLLATIONS d")
		} else {
			p.query(p.db, "SELECT /*+ MAX_EXECUTION_TIME(50) */ COUNT(*) FROM information_schema.COLLATIONS a, "+
				"information_schema.COLLATIONS b, information_schema.COLLATIONS c, information_schema.COLLATIONS d")
		}
		p.onConn(func(conn *sql.Conn) { // KILL QUERY ends the statement and not the session
			p.exec(conn, "SET @a = 1")
			id := p.sessionID(conn)
			var wg sync.WaitGroup
			wg.Go(func() {
				p.killQuery(id, "SLEEP(20)")
			})
			_, err := conn.ExecContext(p.ctx, "INSERT INTO t SELECT 1 FROM DUAL WHERE SLEEP(20) = 0")
			wg.Wait()
			p.note("killed: %s", mysqlErrorText(err))
			p.query(conn, "SELECT @a, COUNT(*) FROM t")
		})
	}})
}

// stopSleeping ends what cancelled statements have left running, which the driver does not.
func (p *mysqlParity) stopSleeping() {
	for _, n := range p.servers.Nodes() {
		eventually(p, "nothing runs", func() bool {
			id, err := n.QueryValue(p.ctx, "SELECT COALESCE(MIN(ID), '') FROM information_schema.PROCESSLIST WHERE DB = '"+p.database+
				"' AND COMMAND <> 'Sleep'")
			p.must(err)
			if id != "" {
				_ = n.Exec(p.ctx, "KILL "+id) // it may have ended
			}
			return id == ""
		})
	}
}

// killQuery ends a session's statement once it runs.
func (p *mysqlParity) killQuery(id, text string) {
	for {
		n, err := p.servers.Primary().QueryValue(p.ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = "+id+
			" AND INFO LIKE '%"+text+"%'")
		if err != nil || n == "1" {
			break
		}
	}
	_ = p.servers.Primary().Exec(p.ctx, "KILL QUERY "+id)
}

// TestParityMySQLRandomCancellation checks, on each pool, what must hold whatever the moment: a record would differ.
func TestParityMySQLRandomCancellation(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Random", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		uses := map[string]func(ctx context.Context) error{
			"exec": func(ctx context.Context) error {
				_, err := p.db.ExecContext(ctx, "INSERT INTO t VALUES (1)")
				return err
			},
			"query row": func(ctx context.Context) error {
				return p.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM t").Scan(new(int))
			},
			"rows": func(ctx context.Context) error {
				rows, err := p.db.QueryContext(ctx, "SELECT * FROM information_schema.COLLATIONS")
				if err != nil {
					return err
				}
				for rows.Next() {
				}
				return errors.Join(rows.Err(), rows.Close())
			},
			"prepared": func(ctx context.Context) error {
				_, err := p.db.ExecContext(ctx, "INSERT INTO t VALUES (?)", 2)
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
				for range 40 {
					ctx, cancel := context.WithCancel(p.ctx)
					timer := time.AfterFunc(rand.N(2*time.Millisecond), cancel)
					err := use(ctx)
					timer.Stop()
					if err != nil && !errors.Is(err, context.Canceled) {
						p.Errorf("%s: %s", name, mysqlErrorText(err))
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
		p.query(p.db, "SELECT COUNT(*) FROM t WHERE id = 4")
	}})
}

func TestParityMySQLRaw(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Native", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.note("result: %s", errorText(p.raw(conn, func(c driver.Conn) error {
			result, err := c.(driver.ExecerContext).ExecContext(p.ctx, "INSERT INTO t (v) VALUES (1), (2)", nil)
			if err == nil {
				all := result.(mysql.Result)
				p.note("all: %v %v", all.AllLastInsertIds(), all.AllRowsAffected())
			}
			return err
		})))
		p.query(conn, "SELECT * FROM t ORDER BY id")
		p.note("error: %s", errorText(p.raw(conn, func(driver.Conn) error { return errors.New("own") })))
		p.exec(conn, "INSERT INTO t (v) VALUES (3)")
		p.note("bad: %s", errorText(conn.Raw(func(any) error { return driver.ErrBadConn })))
		_, err = conn.ExecContext(p.ctx, "SELECT 1")
		p.note("after bad: %s", errorText(err))
		p.note("close: %s", errorText(conn.Close()))
		p.query(p.db, "SELECT * FROM t ORDER BY id FOR UPDATE")
		var before, after string
		p.note("panic: %v", func() (r any) {
			defer func() { r = recover() }()
			conn, err := p.db.Conn(p.ctx)
			p.must(err)
			before = p.sessionID(conn)
			return p.raw(conn, func(driver.Conn) error { panic("own") })
		}())
		p.onConn(func(conn *sql.Conn) { after = p.sessionID(conn) })
		p.note("used after a panic: %t", before == after)
		p.exec(p.db, "INSERT INTO t (v) VALUES (6)")
		p.note("driver: %T, in use %d", p.db.Driver(), p.db.Stats().InUse)
	}}, mysqlScript{name: "Closed", run: func(p *mysqlParity) {
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
