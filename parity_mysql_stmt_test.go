package readroute_test

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// mysqlCounters are what a session has asked its server for, by the names of the server's counters.
type mysqlCounters map[string]int

const mysqlCounted = "('Questions', 'Bytes_received', 'Com_begin', 'Com_commit', 'Com_rollback', 'Com_select', 'Com_insert', " +
	"'Com_set_option', 'Com_stmt_prepare', 'Com_stmt_execute', 'Com_stmt_close', 'Com_stmt_reset')"

// writer are the counters of the pool's one connection to the primary.
func (p *mysqlParity) writer() mysqlCounters { return p.counters("primary") }

// reader are the counters of the one connection that the pool reads on.
func (p *mysqlParity) reader() mysqlCounters { return p.counters("replica") }

func (p *mysqlParity) counters(role string) mysqlCounters {
	schema := "performance_schema"
	if p.servers.IsMariaDB() {
		schema = "information_schema"
	}
	rows, err := p.db.QueryContext(p.ctx, "/* route:"+role+" */ SELECT VARIABLE_NAME, VARIABLE_VALUE FROM "+schema+
		".session_status WHERE VARIABLE_NAME IN "+mysqlCounted)
	p.must(err)
	c := mysqlCounters{}
	for rows.Next() {
		var name string
		var n int
		p.must(rows.Scan(&name, &n))
		c[name] = n
	}
	p.must(rows.Err())
	p.must(rows.Close())
	return c
}

// counted notes by how much f makes counters grow.
func (p *mysqlParity) counted(what string, counters func() mysqlCounters, f func()) {
	counters()
	before := counters()
	f()
	after := counters()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n != 0 {
			p.note("%s: %s %d", what, name, n)
		}
	}
}

// TestParityMySQLRoundTrips: a routed statement asks the server for what the bare driver asks it for, to the byte.
func TestParityMySQLRoundTrips(t *testing.T) {
	const often = 6 // the last ones go the short way
	run := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
		insert := func(q execer, args ...any) func() {
			return func() {
				for range often {
					p.exec(q, "INSERT INTO t (v) VALUES (1"+strings.Repeat(" + ?", len(args))+")", args...)
				}
			}
		}
		p.counted("text", p.writer, insert(p.db))
		p.counted("arguments", p.writer, insert(p.db, 1, 2))
		p.counted("prepared each time", p.writer, insert(preparing{p.db}, 1))
		stmt, err := p.db.PrepareContext(p.ctx, "INSERT INTO t (v) VALUES (?)")
		p.must(err)
		p.counted("prepared once", p.writer, func() {
			for i := range 3 {
				_, err := stmt.ExecContext(p.ctx, i)
				p.must(err)
			}
		})
		p.counted("closed", p.writer, func() { p.must(stmt.Close()) })
		p.counted("transaction", p.writer, func() {
			p.inTx(nil, func(tx *sql.Tx) {
				insert(tx, 1)()
				p.query(tx, "SELECT COUNT(*) FROM t")
				p.query(tx, "SELECT COUNT(*) FROM t WHERE id > ?", 1)
			})
		})
		p.counted("isolation level", p.writer, func() {
			p.inTx(&sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(tx *sql.Tx) { p.query(tx, "SELECT COUNT(*) FROM t") })
		})
		p.counted("rollback", p.writer, func() {
			tx, err := p.db.BeginTx(p.ctx, nil)
			p.must(err)
			p.must(tx.Rollback())
		})
		p.counted("refused", p.writer, func() { p.exec(p.db, "INSERT INTO t VALUES (1, 1)") })
		p.counted("refused with arguments", p.writer, func() { p.exec(p.db, "INSERT INTO t VALUES (1, ?)", 1) })
		p.counted("ping", p.writer, func() { p.must(p.db.PingContext(p.ctx)) })
		p.counted("connection", p.writer, func() {
			p.onConn(func(conn *sql.Conn) {
				p.exec(conn, "INSERT INTO t (v) VALUES (?)", 1)
				p.query(conn, "SELECT LAST_INSERT_ID() > 0")
				p.query(conn, "SELECT COUNT(*) FROM t")
			})
		})

		p.query(p.db, "SELECT COUNT(*) FROM t") // waits for the replica, perhaps on its connection
		read := func(q execer, args ...any) func() {
			return func() {
				for range often {
					p.query(q, "SELECT id FROM t WHERE id IN (1"+strings.Repeat(", ?", len(args))+")", args...)
				}
			}
		}
		p.counted("read text", p.reader, read(p.db))
		p.counted("read arguments", p.reader, read(p.db, 2, 3))
		p.counted("read prepared each time", p.reader, read(preparing{p.db}, 2))
		stmt, err = p.db.PrepareContext(p.ctx, "SELECT id FROM t WHERE id = ?")
		p.must(err)
		p.counted("read prepared once", p.reader, func() {
			for i := range 3 {
				rows, err := stmt.QueryContext(p.ctx, i)
				p.must(err)
				p.rows(rows)
			}
		})
		p.counted("read closed", p.reader, func() { p.must(stmt.Close()) })
		p.counted("read refused", p.reader, func() { p.query(p.db, "SELECT id FROM t WHERE") })
		p.counted("read-only transaction", p.reader, func() {
			p.inTx(&sql.TxOptions{ReadOnly: true}, func(tx *sql.Tx) {
				read(tx)()
				read(tx, 2)()
			})
		})
		p.counted("read connection", p.reader, func() {
			p.onConn(func(conn *sql.Conn) {
				read(conn)()
				read(conn, 2)()
			})
		})
	}
	compareMySQLParity(t,
		mysqlScript{name: "Prepared", replica: true, run: run},
		mysqlScript{name: "Interpolated", replica: true, run: run, configure: func(c *mysql.Config) { c.InterpolateParams = true }},
	)
}

// TestParityMySQLStatements counts what servers have prepared.
func TestParityMySQLStatements(t *testing.T) {
	prepared := func(p *mysqlParity) string {
		p.hold(p.sockets(), func([]*sql.Conn) {}) // whoever has a connection next closes what nobody uses there
		var counts []string
		for _, n := range p.servers.Nodes()[:1] {
			counts = append(counts, fmt.Sprint(mysqlPrepared(p, n)))
		}
		return strings.Join(counts, " ")
	}
	compareMySQLParity(t, mysqlScript{name: "Count", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		p.note("none: %s", prepared(p))
		a, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES (?)")
		p.must(err)
		b, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES (? + 1)")
		p.must(err)
		p.note("two: %s", prepared(p))
		for i := range 5 {
			for _, s := range []*sql.Stmt{a, b} {
				_, err := s.ExecContext(p.ctx, i)
				p.must(err)
			}
		}
		p.note("used: %s", prepared(p))
		p.must(a.Close())
		p.note("one closed: %s", prepared(p))
		_, err = b.ExecContext(p.ctx, 1)
		p.note("the other: %s", errorText(err))
		_, err = a.ExecContext(p.ctx, 1)
		p.note("closed: %s, %s", errorText(err), errorText(a.Close()))
		p.must(b.Close())
		p.note("all closed: %s", prepared(p))
		for i := range 50 {
			s, err := p.db.PrepareContext(p.ctx, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
			p.must(err)
			_, err = s.ExecContext(p.ctx)
			p.must(err)
			p.must(s.Close())
			p.exec(p.db, "INSERT INTO t VALUES (?)", i)
			p.exec(p.db, "INSERT INTO t VALUES (?, ?)", i, i)
		}
		p.note("fifty that were closed: %s", prepared(p))
		_, err = p.db.PrepareContext(p.ctx, "INSERT INTO missing VALUES (1)")
		p.note("bad: %s", mysqlErrorText(err))
		_, err = p.db.PrepareContext(p.ctx, "SELECT 1; SELECT 2")
		p.note("two in one: %s", mysqlErrorText(err))
		_, err = p.db.PrepareContext(p.ctx, "USE "+p.database)
		p.note("not to be prepared: %s", mysqlErrorText(err))
		p.note("at last: %s", prepared(p))
	}}, mysqlScript{name: "OnSeveralConnections", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		s, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES (?)")
		p.must(err)
		var rows []*sql.Rows
		locked, err := p.db.PrepareContext(p.ctx, "SELECT ? FROM DUAL FOR UPDATE")
		p.must(err)
		for i := range 4 { // each keeps a connection
			r, err := locked.QueryContext(p.ctx, i)
			p.must(err)
			rows = append(rows, r)
		}
		_, err = s.ExecContext(p.ctx, 1)
		p.must(err)
		p.must(locked.Close())
		for _, r := range rows {
			p.rows(r)
		}
		p.note("one is left: %t", prepared(p) >= "1")
		p.must(s.Close())
		p.note("none: %s", prepared(p))
	}}, mysqlScript{name: "RowsOpen", replica: true, run: func(p *mysqlParity) {
		s, err := p.db.PrepareContext(p.ctx, "SELECT 1 UNION SELECT 2 UNION SELECT ?")
		p.must(err)
		rows, err := s.QueryContext(p.ctx, 3)
		p.must(err)
		p.note("first: %t", rows.Next())
		p.note("close the statement: %s", errorText(s.Close()))
		p.rows(rows)
		_, err = s.QueryContext(p.ctx, 3)
		p.note("after: %s", errorText(err))
		p.note("in use: %d", p.db.Stats().InUse)
	}}, mysqlScript{name: "InTransaction", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		insert, err := p.db.PrepareContext(p.ctx, "INSERT INTO t VALUES (?)")
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
		own, err := tx.PrepareContext(p.ctx, "SELECT COUNT(*) FROM t")
		p.must(err)
		p.note("own: %s", errorText(own.QueryRowContext(p.ctx).Scan(new(int))))
		p.note("commit: %s", errorText(tx.Commit()))
		p.note("own after: %s", errorText(own.QueryRowContext(p.ctx).Scan(new(int))))
		_, err = insert.ExecContext(p.ctx, 7)
		p.note("after: %s", errorText(err))
		other, err := p.db.Conn(p.ctx)
		p.must(err)
		onConn, err := other.PrepareContext(p.ctx, "INSERT INTO t VALUES (?)")
		p.must(err)
		_, err = onConn.ExecContext(p.ctx, 8)
		p.note("on a connection: %s", errorText(err))
		p.must(other.Close())
		_, err = onConn.ExecContext(p.ctx, 9)
		p.note("its connection is gone: %s", errorText(err))
		p.must(insert.Close())
		p.must(read.Close())
		p.must(onConn.Close())
		p.note("closed: %s", prepared(p))
	}}, mysqlScript{name: "TableChanges", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		insert, err := p.db.PrepareContext(p.ctx, "INSERT INTO t (id) VALUES (?)")
		p.must(err)
		read, err := p.db.PrepareContext(p.ctx, "SELECT * FROM t WHERE id = ?")
		p.must(err)
		for _, change := range []string{"ADD COLUMN v INT", "MODIFY COLUMN id VARCHAR(9)", "DROP COLUMN v", "ADD COLUMN b BLOB FIRST"} {
			_, err = insert.ExecContext(p.ctx, 1)
			p.note("insert: %s", mysqlErrorText(err))
			rows, err := read.QueryContext(p.ctx, 1)
			p.note("read: %s", mysqlErrorText(err))
			p.rows(rows)
			p.exec(p.db, "ALTER TABLE t "+change)
		}
		rows, err := read.QueryContext(p.ctx, 1)
		p.note("read: %s", mysqlErrorText(err))
		p.rows(rows)
		p.exec(p.db, "DROP TABLE t")
		_, err = insert.ExecContext(p.ctx, 1)
		p.note("insert: %s", mysqlErrorText(err))
		_, err = read.QueryContext(p.ctx, 1)
		p.note("read: %s", mysqlErrorText(err))
		p.must(insert.Close())
		p.must(read.Close())
	}})
}
