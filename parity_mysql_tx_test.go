package readroute_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestParityMySQLTransactions(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Options", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		p.exec(p.db, "INSERT INTO t VALUES (1)")
		isolation := "SELECT @@transaction_isolation"
		if p.servers.IsMariaDB() {
			isolation = "SELECT @@tx_isolation"
		}
		for level := sql.LevelDefault; level <= sql.LevelLinearizable+1; level++ {
			for _, readOnly := range []bool{false, true} {
				tx, err := p.db.BeginTx(p.ctx, &sql.TxOptions{Isolation: level, ReadOnly: readOnly})
				p.note("begin %v %t: %s", level, readOnly, errorText(err))
				if err != nil {
					continue
				}
				p.query(tx, "SELECT id FROM t")
				p.query(tx, isolation)
				p.note("rollback: %s", errorText(tx.Rollback()))
				p.note("again: %s %s", errorText(tx.Rollback()), errorText(tx.Commit()))
				_, err = tx.ExecContext(p.ctx, "SELECT 1")
				p.note("after: %s", errorText(err))
			}
		}
		tx, err := p.db.BeginTx(p.ctx, &sql.TxOptions{ReadOnly: true})
		p.must(err)
		for _, write := range []string{"INSERT INTO t VALUES (2)", "SELECT * FROM t FOR UPDATE"} {
			_, err = tx.ExecContext(p.ctx, write)
			p.note("refused: %t", err != nil) // by a replica in other words, or before it is asked
		}
		p.query(tx, "SELECT 1")
		p.must(tx.Rollback())
		p.query(p.db, "SELECT id FROM t")
		p.exec(p.db, "INSERT INTO t VALUES (3)")
	}}, mysqlScript{name: "Failed", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)")
		p.inTx(nil, func(tx *sql.Tx) {
			p.exec(tx, "INSERT INTO t VALUES (1, 1)")
			p.query(tx, "SELECT missing")
			p.exec(tx, "INSERT INTO t VALUES (1, 2)")
			p.exec(tx, "INSERT INTO t VALUES (2, 2), (3, 1)")
			p.query(tx, "SELECT * FROM t")
		})
		p.inTx(nil, func(tx *sql.Tx) {
			p.exec(tx, "INSERT INTO t VALUES (4, 4)")
			p.exec(tx, "SAVEPOINT s")
			p.exec(tx, "INSERT INTO t VALUES (5, 5)")
			p.exec(tx, "SAVEPOINT s2")
			p.exec(tx, "ROLLBACK TO s")
			p.exec(tx, "ROLLBACK TO SAVEPOINT s2")
			p.exec(tx, "INSERT INTO t VALUES (6, 6)")
			p.exec(tx, "RELEASE SAVEPOINT s")
			p.exec(tx, "ROLLBACK TO s")
		})
		p.onConn(func(conn *sql.Conn) {
			for _, statement := range []string{
				"COMMIT", "ROLLBACK", "BEGIN", "BEGIN", "INSERT INTO t VALUES (7, 7)", "COMMIT", "START TRANSACTION", "SELECT missing", "COMMIT",
				"START TRANSACTION READ ONLY", "INSERT INTO t VALUES (8, 8)", "COMMIT", "START TRANSACTION READ WRITE", "INSERT INTO t VALUES (9, 9)",
				"COMMIT AND CHAIN", "INSERT INTO t VALUES (10, 10)", "ROLLBACK AND CHAIN", "INSERT INTO t VALUES (11, 11)", "COMMIT WORK",
				"START TRANSACTION WITH CONSISTENT SNAPSHOT", "ROLLBACK", "SET TRANSACTION READ ONLY", "INSERT INTO t VALUES (12, 12)",
				"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE", "BEGIN", "SET TRANSACTION READ ONLY", "ROLLBACK",
			} {
				p.exec(conn, statement)
			}
			p.query(conn, "SELECT id FROM t ORDER BY id")
		})
		p.query(p.db, "SELECT COUNT(*) FROM t FOR UPDATE")
	}}, mysqlScript{name: "Nested", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (1), (2), (3)")
		rows, err := tx.QueryContext(p.ctx, "SELECT id FROM t ORDER BY id")
		p.must(err)
		p.note("next: %t", rows.Next())
		_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (4)")
		p.note("exec with rows open: %s", mysqlErrorText(err))
		p.note("on another connection: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT COUNT(*) FROM t").Scan(new(int))))
		p.note("%s", errorText(rows.Close()))
		rows, err = tx.QueryContext(p.ctx, "SELECT id FROM t ORDER BY id")
		p.note("again: %s", mysqlErrorText(err))
		if err == nil {
			p.note("next: %t", rows.Next())
		}
		p.note("commit with rows open: %s", mysqlErrorText(tx.Commit()))
		if rows != nil {
			p.note("rows: %t %s", rows.Next(), errorText(rows.Err()))
		}
		p.exec(p.db, "INSERT INTO t VALUES (1)")
		p.query(p.db, "SELECT id FROM t ORDER BY id")
	}}, mysqlScript{name: "Conflicts", replica: true, kinds: []string{parityCovered}, configure: func(c *mysql.Config) {
		c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	}, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		p.exec(p.db, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
		one, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(one, "UPDATE t SET v = 1 WHERE id = 1")
		p.exec(p.db, "UPDATE t SET v = 2 WHERE id = 1") // waits for a second
		p.query(p.db, "SELECT * FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED")
		p.query(p.db, "SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT")
		two, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		for id := range 50 { // so that the other one is the victim
			p.exec(two, fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", id+10))
		}
		p.exec(two, "UPDATE t SET v = 2 WHERE id = 2")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err = two.ExecContext(p.ctx, "UPDATE t SET v = 2 WHERE id = 1")
		})
		_, victim := one.ExecContext(p.ctx, "UPDATE t SET v = 1 WHERE id = 2")
		wg.Wait()
		p.note("deadlock: %s; the other: %s", mysqlErrorText(victim), mysqlErrorText(err))
		p.exec(one, "UPDATE t SET v = 7 WHERE id = 3") // is committed at once
		p.note("rollback: %s; commit of the other: %s", mysqlErrorText(one.Rollback()), mysqlErrorText(two.Commit()))
		p.query(p.db, "SELECT * FROM t WHERE id < 10 ORDER BY id")
	}})
}

// TestParityMySQLImplicitCommits: what the servers commit by themselves is committed, whoever thinks that a transaction is open.
func TestParityMySQLImplicitCommits(t *testing.T) {
	statements := []string{
		"CREATE TABLE x (id INT)", "CREATE TABLE x (id INT)", "ALTER TABLE x ADD COLUMN v INT", "CREATE INDEX i ON x (v)", "DROP INDEX i ON x",
		"RENAME TABLE x TO y", "TRUNCATE TABLE y", "DROP TABLE y", "DROP TABLE y", "CREATE VIEW v AS SELECT 1", "DROP VIEW v",
		"CREATE PROCEDURE p() DO 1", "DROP PROCEDURE p", "CREATE DATABASE IF NOT EXISTS mysql", "SET autocommit = 1", "LOCK TABLES t WRITE, begun READ",
		"UNLOCK TABLES", "ANALYZE TABLE t", "CHECK TABLE t", "OPTIMIZE TABLE t", "REPAIR TABLE t", "FLUSH TABLES t", "BEGIN", "START TRANSACTION",
		"CREATE TEMPORARY TABLE temp (id INT)", "DROP TEMPORARY TABLE IF EXISTS temp", "SET @a = 1", "SAVEPOINT s", "DO 1", "SELECT 1",
		"INSERT INTO t VALUES ('x')", "CREATE TABLE", "CACHE INDEX t IN default", "LOAD INDEX INTO CACHE t", "CREATE USER IF NOT EXISTS root@'127.0.0.1'",
		"SET PASSWORD FOR nobody@nowhere = 'x'", "COMMIT", "ROLLBACK",
	}
	// A transaction that writes 2n, runs the statement, writes 2n + 1, and is rolled back.
	run := func(rollback func(p *mysqlParity, write func(execer, int), statement string, n int)) func(p *mysqlParity) {
		return func(p *mysqlParity) {
			p.exec(p.db, "CREATE TABLE t (id INT)")
			for i, statement := range statements {
				write := func(q execer, id int) { p.exec(q, fmt.Sprintf("INSERT INTO t VALUES (%d)", id)) }
				rollback(p, write, statement, 2*i)
				p.query(p.db, "SELECT id FROM t")
				p.exec(p.db, "DELETE FROM t")
			}
		}
	}
	compareMySQLParity(t, mysqlScript{name: "Tx", replica: true, run: run(func(p *mysqlParity, write func(execer, int), statement string, n int) {
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		write(tx, n)
		p.exec(tx, statement)
		write(tx, n+1)
		p.note("rollback: %s", mysqlErrorText(tx.Rollback()))
	})}, mysqlScript{name: "Text", replica: true, run: run(func(p *mysqlParity, write func(execer, int), statement string, n int) {
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "BEGIN")
			write(conn, n)
			p.exec(conn, statement)
			write(conn, n+1)
			p.exec(conn, "ROLLBACK")
		})
	})}, mysqlScript{name: "TxOnText", replica: true, run: run(func(p *mysqlParity, write func(execer, int), statement string, n int) {
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "BEGIN")
			write(conn, n)
			p.exec(conn, statement)
			tx, err := conn.BeginTx(p.ctx, nil)
			p.must(err)
			write(tx, n+1)
			p.note("rollback: %s", mysqlErrorText(tx.Rollback()))
		})
	})})
}

func TestParityMySQLXA(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "XA", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		id := "'" + p.database + "'"
		p.onConn(func(conn *sql.Conn) {
			for _, statement := range []string{
				"XA START {x}", "INSERT INTO t VALUES (1)", "SELECT 1", "CREATE TABLE x (id INT)", "BEGIN", "COMMIT", "XA COMMIT {x}", "XA END {x}",
				"INSERT INTO t VALUES (2)", "XA PREPARE {x}", "XA COMMIT {x}",
				"XA START {x}", "INSERT INTO t VALUES (3)", "XA END {x}", "XA ROLLBACK {x}",
				"XA BEGIN {x}", "INSERT INTO t VALUES (4)", "XA END {x}", "XA COMMIT {x} ONE PHASE", "XA COMMIT {x}", "XA END {x}",
				"BEGIN", "XA START {x}", "INSERT INTO t VALUES (5)", "ROLLBACK",
			} {
				p.exec(conn, strings.ReplaceAll(statement, "{x}", id))
			}
			p.query(conn, "SELECT id FROM t ORDER BY id")
		})
		p.query(p.db, "SELECT id FROM t ORDER BY id")
		p.inTx(nil, func(tx *sql.Tx) {
			p.exec(tx, "INSERT INTO t VALUES (6)")
			p.exec(tx, "XA START "+id)
			p.exec(tx, "XA RECOVER")
		})
		// One that was prepared outlives its connection.
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "XA START "+id)
			p.exec(conn, "INSERT INTO t VALUES (7)")
			p.exec(conn, "XA END "+id)
			p.exec(conn, "XA PREPARE "+id)
			p.must(conn.Raw(func(any) error { return nil }))
			if !p.servers.IsMariaDB() { // which lets go of it only when the connection has ended
				p.exec(p.db, "XA COMMIT "+id)
			} else {
				p.exec(conn, "XA COMMIT "+id)
			}
		})
		p.query(p.db, "SELECT id FROM t ORDER BY id")
	}})
}
