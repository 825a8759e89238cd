package readroute_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

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
