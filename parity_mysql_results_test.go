package readroute_test

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-sql-driver/mysql"
)

func TestParityMySQLSeveralStatements(t *testing.T) {
	texts := []string{
		"SELECT 1; SELECT 2", "SELECT 1; SELECT 'x', 2", "SELECT 1; SELECT missing", "SELECT missing; SELECT 1", "SELECT 1;", ";;", "SELECT 1; ;",
		"SELECT 1; INSERT INTO missing VALUES (1)", "INSERT INTO t (id) VALUES (DEFAULT); SELECT COUNT(*) > 0 FROM t", "SELECT 1; DO 1; SELECT 2; DO 2",
		"DO 1; DO 2", "DO 1; SELECT 1", "BEGIN; INSERT INTO t VALUES (DEFAULT); COMMIT", "BEGIN; INSERT INTO t VALUES (DEFAULT); ROLLBACK",
		"INSERT INTO t VALUES (1000); INSERT INTO t VALUES (1000)", "INSERT INTO t VALUES (DEFAULT), (DEFAULT); INSERT INTO t VALUES (DEFAULT); DELETE FROM t WHERE id > 2",
		"SELECT 1; SELECT 2; SELECT 3; SELECT id FROM t WHERE FALSE", "SELECT 'a;b'; SELECT 1 -- ; SELECT 2", "SELECT 1 /* ; */; SELECT 2",
		"SET @a = 1; SELECT @a", "-- nothing", "/* nothing */;",
	}
	run := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)")
		for _, text := range texts {
			p.query(p.db, text)
			p.exec(p.db, text)
			p.exec(preparing{p.db}, text)
		}
		p.query(p.db, "SELECT ?; SELECT ?", 1, "b")
		p.exec(p.db, "INSERT INTO t VALUES (? + 100); INSERT INTO t VALUES (? + 100)", 1, 2)
		p.query(p.db, "SELECT 1; SELECT ?", 2)
		rows, err := p.db.QueryContext(p.ctx, "SELECT 1 UNION SELECT 2; SELECT 3; SELECT 4")
		if err == nil {
			p.note("first: %t, second set: %t", rows.Next(), rows.NextResultSet())
			p.note("row: %t, close: %s", rows.Next(), errorText(rows.Close()))
		}
		p.note("%s", mysqlErrorText(err))
		var n int
		p.note("row of the first: %s %d", mysqlErrorText(p.db.QueryRowContext(p.ctx, "SELECT 5; SELECT 6").Scan(&n)), n)
		p.note("row without rows in the first: %s", mysqlErrorText(p.db.QueryRowContext(p.ctx, "DO 1; SELECT 6").Scan(&n)))
		p.note("in use: %d", p.db.Stats().InUse)
		p.query(p.db, "SELECT id FROM t ORDER BY id")
		p.onConn(func(conn *sql.Conn) {
			p.must(p.raw(conn, func(native driver.Conn) error {
				result, err := native.(driver.ExecerContext).ExecContext(p.ctx, "INSERT INTO t VALUES (2001); INSERT INTO t VALUES (2002), (2003)", nil)
				p.note("native: %s", mysqlErrorText(err))
				if err == nil {
					all := result.(mysql.Result)
					p.note("all: %v %v", all.AllLastInsertIds(), all.AllRowsAffected())
				}
				return nil
			}))
		})
	}
	compareMySQLParity(t,
		mysqlScript{name: "Refused", replica: true, run: run},
		mysqlScript{name: "Allowed", replica: true, run: run, configure: func(c *mysql.Config) { c.MultiStatements = true }},
		mysqlScript{name: "Interpolated", replica: true, run: run, configure: func(c *mysql.Config) {
			c.MultiStatements, c.InterpolateParams = true, true
		}},
	)
}

func TestParityMySQLProcedures(t *testing.T) {
	run := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		for _, text := range []string{
			"PROCEDURE nothing() DO 1",
			"PROCEDURE two(n INT) BEGIN SELECT n, n + 1; SELECT 'x' UNION SELECT 'y'; END",
			"PROCEDURE adds(n INT) BEGIN INSERT INTO t VALUES (n, 0); SELECT id FROM t WHERE id = n; UPDATE t SET v = 1; END",
			"PROCEDURE outs(IN a INT, OUT b INT, INOUT c VARCHAR(9)) BEGIN SELECT a; SET b = a * 2, c = CONCAT(c, '!'); SELECT b; END",
			"PROCEDURE fails(n INT) BEGIN INSERT INTO t VALUES (n, 0); SELECT 1; INSERT INTO t VALUES (n, 0); SELECT 2; END",
			"PROCEDURE signals() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own'; END",
			"PROCEDURE warns() BEGIN SELECT 1; SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'careful'; END",
			"PROCEDURE commits(n INT) BEGIN START TRANSACTION; INSERT INTO t VALUES (n, 0); COMMIT; SELECT n; END",
			"FUNCTION twice(n INT) RETURNS INT DETERMINISTIC NO SQL RETURN n * 2",
			"FUNCTION stores(n INT) RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO t VALUES (n, 7); RETURN n; END",
		} {
			p.exec(p.db, "CREATE "+text)
		}
		calls := []struct {
			query string
			args  []any
		}{
			{"CALL nothing()", nil}, {"CALL nothing", nil}, {"CALL two(1)", nil}, {"CALL two(?)", []any{1}}, {"CALL adds(?)", []any{0}},
			{"CALL fails(?)", []any{1}}, {"CALL signals()", nil}, {"CALL warns()", nil}, {"CALL commits(?)", []any{2}},
			{"CALL two()", nil}, {"CALL two(1, 2)", nil}, {"CALL two('x')", nil}, {"SELECT twice(?)", []any{4}},
			{"SELECT stores(?)", []any{3}}, {"DO stores(?)", []any{4}},
		}
		for i, q := range []execer{p.db, preparing{p.db}} {
			for _, call := range calls {
				args := func(add int) (list []any) {
					for _, n := range call.args {
						list = append(list, n.(int)+add+100*i)
					}
					return list
				}
				p.query(q, call.query, args(10)...)
				if !strings.HasPrefix(call.query, "SELECT") { // see both
					p.exec(q, call.query, args(1010)...)
				}
			}
		}
		p.query(p.db, "SELECT * FROM t ORDER BY id")
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "SET @c = 'c'")
			p.query(conn, "CALL outs(4, @b, @c)")
			p.query(conn, "SELECT @b, @c")
			p.exec(conn, "CALL outs(?, @b, @c)", 5)
			p.query(conn, "SELECT @b, @c")
			p.query(conn, "CALL outs(?, @b, @c)", 6)
			p.query(conn, "SELECT @b, @c")
			p.query(conn, "CALL outs(1, 2, 3)")
		})
		p.inTx(nil, func(tx *sql.Tx) {
			p.query(tx, "CALL adds(5000)")
			p.query(tx, "SELECT stores(5001)")
			p.query(tx, "CALL fails(5002)")
			p.query(tx, "SELECT * FROM t WHERE id >= 5000 ORDER BY id")
		})
		rows, err := p.db.QueryContext(p.ctx, "CALL two(7)")
		p.must(err)
		p.note("closed early: %t %s", rows.Next(), errorText(rows.Close()))
		var a, b int
		p.note("row: %s %d %d", errorText(p.db.QueryRowContext(p.ctx, "CALL two(8)").Scan(&a, &b)), a, b)
		p.note("in use: %d", p.db.Stats().InUse)
		p.query(p.db, "SELECT COUNT(*) FROM t")
		p.exec(p.db, "DROP PROCEDURE two")
		p.query(p.db, "CALL two(1)")
	}
	compareMySQLParity(t,
		mysqlScript{name: "Prepared", replica: true, run: run},
		mysqlScript{name: "Interpolated", replica: true, run: run, configure: func(c *mysql.Config) { c.InterpolateParams = true }},
	)
}

// TestParityMySQLReturning: MariaDB hands out rows of a write.
func TestParityMySQLReturning(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Returning", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(9))")
		for _, q := range []execer{p.db, preparing{p.db}} {
			p.query(q, "INSERT INTO t (v) VALUES ('a'), ('b') RETURNING id, v")
			p.query(q, "INSERT INTO t (v) VALUES (?) RETURNING id, v, id * 2 AS twice", "c")
			p.query(q, "REPLACE INTO t VALUES (1, 'd') RETURNING v")
			p.query(q, "DELETE FROM t WHERE id = 2 RETURNING *")
			p.query(q, "INSERT INTO t VALUES (1, 'e') RETURNING id")
			p.exec(q, "INSERT INTO t (v) VALUES ('f')")
		}
		p.inTx(nil, func(tx *sql.Tx) { p.query(tx, "INSERT INTO t (v) VALUES ('g') RETURNING id") })
		p.exec(p.db, "INSERT INTO t (v) SELECT 'h' FROM t")
	}})
}

func TestParityMySQLLoadData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(file, []byte("1,one\n2,two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	readers := map[string]func() io.Reader{
		"rows":  func() io.Reader { return strings.NewReader("1\tone\n2\ttwo\n3\t\\N\n") },
		"close": func() io.Reader { return io.NopCloser(strings.NewReader("4\tfour\n")) },
		"empty": func() io.Reader { return strings.NewReader("") },
		"nil":   func() io.Reader { return nil },
		"many":  func() io.Reader { return bytes.NewReader(bytes.Repeat([]byte("5\tfive\n"), 20_000)) },
		"small": func() io.Reader { return iotest.OneByteReader(strings.NewReader("6\tsix\n7\tseven\n")) },
		"fails": func() io.Reader {
			return io.MultiReader(strings.NewReader("8\teight\n"), iotest.ErrReader(errors.New("own")))
		},
		"bad": func() io.Reader { return strings.NewReader("x\tnine\n9\n1\tone\ttoo many\n") },
	}
	for name, reader := range readers {
		mysql.RegisterReaderHandler("parity-"+name, reader)
		t.Cleanup(func() { mysql.DeregisterReaderHandler("parity-" + name) })
	}
	mysql.RegisterLocalFile(file)
	t.Cleanup(func() { mysql.DeregisterLocalFile(file) })
	load := func(from, more string) string {
		return fmt.Sprintf("LOAD DATA LOCAL INFILE '%s' INTO TABLE t %s", from, more)
	}
	compareMySQLParity(t, mysqlScript{name: "Local", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT, v VARCHAR(9))")
		for _, name := range []string{"rows", "close", "empty", "nil", "many", "small", "bad", "missing", "fails", "rows"} {
			p.exec(p.db, load("Reader::parity-"+name, ""))
			p.query(p.db, "SELECT id, v, COUNT(*) FROM t GROUP BY id, v ORDER BY id, v")
		}
		p.query(p.db, load("Reader::parity-rows", "(id, @v) SET v = UPPER(@v)"))
		p.exec(preparing{p.db}, load("Reader::parity-rows", ""))
		_, err := p.db.ExecContext(p.ctx, load(file, "FIELDS TERMINATED BY ','"))
		p.note("file: %s", mysqlErrorText(err))
		_, err = p.db.ExecContext(p.ctx, load(file+"x", ""))
		p.note("another file: %t", err != nil)
		p.inTx(nil, func(tx *sql.Tx) {
			p.exec(tx, load("Reader::parity-rows", ""))
			p.query(tx, "SELECT COUNT(*) FROM t")
			p.exec(tx, load("Reader::parity-fails", ""))
			p.query(tx, "SELECT COUNT(*) FROM t")
		})
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, load("Reader::parity-rows", ""))
		p.must(tx.Rollback())
		p.query(p.db, "SELECT id, v, COUNT(*) FROM t GROUP BY id, v ORDER BY id, v")
		p.exec(p.db, load("Reader::parity-rows", "(missing)"))
		p.exec(p.db, "INSERT INTO t VALUES (10, 'ten')")
		p.note("in use: %d", p.db.Stats().InUse)
	}})
}
