package readroute_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

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
		var before, after uint32
		p.note("panic: %v", func() (r any) {
			defer func() { r = recover() }()
			conn, err := p.db.Conn(p.ctx)
			p.must(err)
			return p.raw(conn, func(c *pgx.Conn) error { before = c.PgConn().PID(); panic("own") })
		}())
		p.hold(1, func(conns []*sql.Conn) {
			p.must(p.raw(conns[0], func(c *pgx.Conn) error { after = c.PgConn().PID(); return nil }))
		})
		p.note("used after a panic: %t", before == after)
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
