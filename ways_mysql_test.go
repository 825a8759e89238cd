package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

const (
	insertMark = "INSERT INTO {t} VALUES (?)"
	// give inserts the row and hands it out, as RETURNING does, which MySQL does not have.
	give = "CALL give_{t}({id})"
)

// mysqlRows is how many rows the tables have that are changed and not added to, one for each way.
const mysqlRows = 500

// newMySQLWritable makes a table to write to, and everything that the ways need around it. Names that end in the number of a way are
// the way's own.
func newMySQLWritable(t testing.TB, c *dbtest.MySQLCluster) string {
	t.Helper()
	table := newGTIDTable(t, c, "id INT")
	name := func(text string) string { return strings.ReplaceAll(text, "{t}", table) }
	var rows strings.Builder
	for i := range mysqlRows {
		fmt.Fprintf(&rows, ", (%d, 0)", i)
	}
	texts := []string{
		"CREATE TABLE {t}_other (id INT)", "CREATE TABLE {t}_emptied (id INT)", "INSERT INTO {t}_emptied VALUES (1)",
		"CREATE TABLE {t}_old (id INT PRIMARY KEY, n INT)", "INSERT INTO {t}_old VALUES " + rows.String()[2:],
		"CREATE TABLE {t}_plain (id INT PRIMARY KEY) ENGINE = MyISAM", "CREATE TABLE {t}_in (id INT)",
		"CREATE TRIGGER {t}_trigger AFTER INSERT ON {t}_in FOR EACH ROW INSERT INTO {t} VALUES (NEW.id)",
		"CREATE FUNCTION plain_{t}(n INT) RETURNS INT BEGIN INSERT INTO {t}_plain VALUES (n); SIGNAL SQLSTATE '45000'; RETURN n; END",
		"CREATE FUNCTION add_{t}(n INT) RETURNS INT BEGIN INSERT INTO {t} VALUES (n); RETURN n; END",
		"CREATE PROCEDURE put_{t}(n INT) INSERT INTO {t} VALUES (n)",
		"CREATE PROCEDURE give_{t}(n INT) BEGIN INSERT INTO {t} VALUES (n); SELECT n; END",
		"CREATE PROCEDURE late_{t}(n INT) BEGIN SELECT n; INSERT INTO {t} VALUES (n); COMMIT; END",
		"CREATE PROCEDURE commits_{t}() COMMIT",
		"CREATE PROCEDURE opens_{t}(n INT) BEGIN START TRANSACTION; INSERT INTO {t} VALUES (n); END",
		"CREATE PROCEDURE manual_{t}(n INT) BEGIN SET autocommit = 0; INSERT INTO {t} VALUES (n); END",
		"CREATE PROCEDURE fails_{t}(n INT) BEGIN INSERT INTO {t} VALUES (n); SIGNAL SQLSTATE '45000'; END",
		"CREATE PROCEDURE prepare_{t}() BEGIN PREPARE s FROM 'COMMIT'; EXECUTE s; END",
	}
	for i := range texts {
		texts[i] = name(texts[i])
	}
	execOn(t, c.Primary(), texts...)
	if c.IsMariaDB() {
		execOn(t, c.Primary(), name("CREATE TABLE {t}_aria (id INT PRIMARY KEY) ENGINE = Aria TRANSACTIONAL = 0"))
	}
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	return table
}

// mysqlWays are all ways in which a write can happen on MySQL or MariaDB.
func mysqlWays() []way {
	list := append([]way{}, mysqlPoolWays...)
	list = append(list, mysqlStmtWays...)
	list = append(list, mysqlTextWays...)
	list = append(list, mysqlTxWays...)
	list = append(list, mysqlConnWays...)
	list = append(list, mysqlUntoldWays()...)
	return append(list, mysqlEndedWays()...)
}

// drainAll reads all rows of all results and closes them.
func (w *writing) drainAll(rows *sql.Rows, err error) {
	w.Helper()
	require.NoError(w, err)
	for rows.Next() || rows.NextResultSet() { //nolint:revive // to the end
	}
	require.NoError(w, rows.Err())
	require.NoError(w, rows.Close())
}

// settled waits until what the session of ctx needs so far is known: what a position that is read from now on covers counts for nothing.
func (w *writing) settled(ctx context.Context) {
	w.Helper()
	_, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(w, err)
}

type textRunner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// execs runs texts one after the other.
func (w *writing) execs(ctx context.Context, on textRunner, patterns ...string) {
	w.Helper()
	for _, pattern := range patterns {
		_, err := on.ExecContext(ctx, w.text(pattern))
		require.NoError(w, err, pattern)
	}
}

// nativeExec returns what runs texts on a native connection.
func (w *writing) nativeExec(patterns ...string) func(any) error {
	return func(native any) error {
		for _, pattern := range patterns {
			if _, err := native.(driver.ExecerContext).ExecContext(w.ctx, w.text(pattern), nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// fails is a way that is a text of which a part stands although it fails.
func fails(name, pattern string) way {
	return way{name: name, write: func(w *writing) {
		_, err := w.db.ExecContext(w.ctx, w.text(pattern))
		require.Error(w, err)
	}}
}

func onlyMariaDB(by way) way {
	by.mariadb = true
	return by
}

func onlyMySQL(by way) way {
	by.mysql = true
	return by
}

const (
	inTables  = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = '{t}_{id}'"
	inPlain   = "SELECT COUNT(*) FROM {t}_plain WHERE id = {id}"
	inAria    = "SELECT COUNT(*) FROM {t}_aria WHERE id = {id}"
	inOld     = "SELECT COUNT(*) FROM {t}_old WHERE id = {id} AND n = {id}"
	notInOld  = "SELECT 1 - COUNT(*) FROM {t}_old WHERE id = {id}"
	inColumns = "SELECT COUNT(*) FROM information_schema.columns WHERE table_name = '{t}' AND column_name = 'c{id}'"
)

// mysqlTextWays are the ways that differ in their text only.
var mysqlTextWays = []way{
	text("several statements in one text", insert+"; SELECT 1"),
	text("a read before the write in one text", "SELECT 1; "+insert),
	text("a transaction in one text", "START TRANSACTION; "+insert+"; COMMIT"),
	text("without autocommit in one text", "SET autocommit = 0; "+insert+"; COMMIT"),
	text("INSERT SELECT", "INSERT INTO {t} SELECT {id}"),
	text("INSERT with WITH", "INSERT INTO {t} WITH w AS (SELECT {id} AS i) SELECT i FROM w"),
	text("trigger", "INSERT INTO {t}_in VALUES ({id})"),
	text("CALL", "CALL put_{t}({id})"),
	text("CALL of a procedure that writes after its rows", "CALL late_{t}({id})"),
	text("CALL of a procedure and a commit in one text", "CALL opens_{t}({id}); COMMIT"),
	text("DO", "DO add_{t}({id})"),
	text("function", "SELECT add_{t}({id})"),
	text("function in SET", "SET @way = add_{t}({id})"),
	text("PREPARE and EXECUTE", "PREPARE p FROM '"+insert+"'; EXECUTE p; DEALLOCATE PREPARE p"),
	text("a commit by EXECUTE", "BEGIN; "+insert+"; PREPARE p FROM 'COMMIT'; EXECUTE p"),
	text("XA", "XA START '{t}{id}'; "+insert+"; XA END '{t}{id}'; XA COMMIT '{t}{id}' ONE PHASE"),
	{name: "two-phase commit", write: func(w *writing) {
		w.execs(w.other, w.db, "XA START '{t}{id}'; "+insert+"; XA END '{t}{id}'; XA PREPARE '{t}{id}'")
		w.execs(w.ctx, w.db, "XA COMMIT '{t}{id}'")
	}},
	query("function through Query", "SELECT add_{t}({id})"),
	query("function in a condition", "SELECT 1 WHERE add_{t}({id}) = {id}"),
	query("function in HAVING", "SELECT 1 AS one HAVING add_{t}({id}) = {id}"),
	{name: "LOAD DATA LOCAL", write: func(w *writing) {
		name := w.text("{t}_{id}")
		mysql.RegisterReaderHandler(name, func() io.Reader { return strings.NewReader(w.text("{id}\n")) })
		defer mysql.DeregisterReaderHandler(name)
		w.execs(w.ctx, w.db, "LOAD DATA LOCAL INFILE 'Reader::"+name+"' INTO TABLE {t}")
	}},
	seen(text("UPDATE", "UPDATE {t}_old SET n = {id} WHERE id = {id}"), inOld),
	seen(text("UPDATE of joined tables", "UPDATE {t}_old o JOIN (SELECT 1) j SET o.n = {id} WHERE o.id = {id}"), inOld),
	seen(text("REPLACE", "REPLACE INTO {t}_old VALUES ({id}, {id})"), inOld),
	seen(text("INSERT ON DUPLICATE KEY UPDATE", "INSERT INTO {t}_old VALUES ({id}, 0) ON DUPLICATE KEY UPDATE n = {id}"), inOld),
	seen(text("DELETE", "DELETE FROM {t}_old WHERE id = {id}"), notInOld),
	seen(text("TRUNCATE", "TRUNCATE {t}_emptied"), "SELECT COUNT(*) = 0 FROM {t}_emptied"),
	seen(text("CREATE TABLE", "CREATE TABLE {t}_{id} (id INT)"), inTables),
	seen(text("CREATE TABLE AS", "CREATE TABLE {t}_{id} AS SELECT {id} AS id"), inTables),
	seen(text("CREATE TABLE LIKE", "CREATE TABLE {t}_{id} LIKE {t}_other"), inTables),
	seen(text("CREATE VIEW", "CREATE VIEW {t}_{id} AS SELECT 1"), inTables),
	seen(text("DROP TABLE", "CREATE TABLE {t}_{id} (id INT); DROP TABLE {t}_{id}; CREATE TABLE {t}_{id} (n INT)"), inTables),
	seen(text("RENAME TABLE", "CREATE TABLE {t}_x (id INT); RENAME TABLE {t}_x TO {t}_{id}"), inTables),
	seen(text("ALTER TABLE", "ALTER TABLE {t}_other ADD COLUMN c{id} INT"), strings.Replace(inColumns, "'{t}'", "'{t}_other'", 1)),
	seen(fails("multi-row INSERT of which a part stands", "INSERT INTO {t}_plain VALUES ({id}), ({id})"), inPlain),
	seen(fails("INSERT SELECT of which a part stands", "INSERT INTO {t}_plain SELECT {id} UNION ALL SELECT {id}"), inPlain),
	seen(fails("SELECT of a function that fails", "SELECT plain_{t}({id})"), inPlain),
	seen(fails("SET of a function that fails", "SET @way = plain_{t}({id})"), inPlain),
	onlyMySQL(seen(fails("DO of a function that fails", "DO plain_{t}({id})"), inPlain)), // MariaDB does not say so
	onlyMariaDB(seen(text("DO of a function that fails without a word", "DO plain_{t}({id})"), inPlain)),
	seen(fails("SELECT INTO of a function that fails", "SELECT plain_{t}({id}) INTO @way"), inPlain),
	onlyMariaDB(seen(fails("SELECT FOR UPDATE of a function that fails", "SELECT plain_{t}({id}) FROM {t}_old FOR UPDATE"), inPlain)),
	fails("several statements, and the last one fails", insert+"; SELECT * FROM nowhere"),
	fails("CALL that fails", "CALL fails_{t}({id})"),
	onlyMySQL(query("EXPLAIN ANALYZE", "EXPLAIN ANALYZE SELECT add_{t}({id})")),
	onlyMySQL(query("VALUES", "VALUES ROW (add_{t}({id}))")),
	onlyMariaDB(query("VALUES of MariaDB", "VALUES (add_{t}({id}))")),
	onlyMariaDB(text("ANALYZE", "ANALYZE "+insert)),
	onlyMariaDB(text("EXECUTE IMMEDIATE", "EXECUTE IMMEDIATE '"+insert+"'")),
	onlyMariaDB(text("SET STATEMENT", "SET STATEMENT max_statement_time = 60 FOR "+insert)),
	onlyMariaDB(text("BEGIN NOT ATOMIC", "BEGIN NOT ATOMIC "+insert+"; END")),
	onlyMariaDB(query("RETURNING", returning)),
	onlyMariaDB(seen(query("REPLACE RETURNING", "REPLACE INTO {t}_old VALUES ({id}, {id}) RETURNING id"), inOld)),
	onlyMariaDB(seen(query("DELETE RETURNING", "DELETE FROM {t}_old WHERE id = {id} RETURNING id"), notInOld)),
	onlyMariaDB(seen(text("CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE {t}_{id} (id INT)"), inTables)),
	onlyMariaDB(seen(text("CREATE SEQUENCE", "CREATE SEQUENCE {t}_{id}"), inTables)),
	onlyMariaDB(seen(fails("rows of Aria of which a part stands", "INSERT INTO {t}_aria VALUES ({id}), ({id})"), inAria)),
}

var mysqlPoolWays = []way{
	{name: "Exec", methods: "DB.ExecContext", write: func(w *writing) {
		w.done(w.db.ExecContext(w.ctx, w.text(insertMark), w.id))
	}},
	{name: "Exec without a context", methods: "DB.Exec", process: true, write: func(w *writing) {
		w.done(w.db.Exec(w.text(insert))) //nolint:noctx // the way that is tested
	}},
	{name: "Exec whose context ends when it has returned", write: func(w *writing) {
		ctx, cancel := context.WithCancel(w.ctx)
		w.done(w.db.ExecContext(ctx, w.text(insert)))
		cancel()
	}},
	{name: "Query", methods: "DB.QueryContext", write: func(w *writing) {
		w.drain(w.db.QueryContext(w.ctx, w.text(give)))
	}},
	{name: "Query that hands out no rows", write: func(w *writing) {
		w.drainAll(w.db.QueryContext(w.ctx, w.text(insert)))
	}},
	{name: "Query that is closed at once", write: func(w *writing) {
		rows, err := w.db.QueryContext(w.ctx, w.text("CALL late_{t}({id})"))
		w.ok(err)
		w.ok(rows.Close())
		w.ok(rows.Err())
	}},
	{name: "Query of several results", write: func(w *writing) {
		w.drainAll(w.db.QueryContext(w.ctx, w.text("SELECT 1; "+insert)))
	}},
	{name: "Query without a context", methods: "DB.Query", process: true, write: func(w *writing) {
		w.drain(w.db.Query(w.text(give))) //nolint:noctx // the way that is tested
	}},
	{name: "QueryRow", methods: "DB.QueryRowContext", write: func(w *writing) {
		w.scan(w.db.QueryRowContext(w.ctx, w.text(give)))
	}},
	{name: "QueryRow without a context", methods: "DB.QueryRow", process: true, write: func(w *writing) {
		w.scan(w.db.QueryRow(w.text(give))) //nolint:noctx // the way that is tested
	}},
	{name: "PrimaryRaw", methods: "DB.PrimaryRaw", write: func(w *writing) {
		w.ok(w.db.PrimaryRaw(w.ctx, w.nativeExec(insert)))
	}},
	{name: "PrimaryDB and a fence", write: func(w *writing) {
		w.execs(w.ctx, w.db.PrimaryDB(), insert)
		w.ok(w.db.Fence(w.ctx))
	}},
}

var mysqlStmtWays = []way{
	{name: "Prepare and Exec", methods: "DB.PrepareContext Stmt.ExecContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(insertMark))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.ctx, w.id)) })
	}},
	{name: "Prepare and Exec without a context", methods: "DB.Prepare Stmt.Exec", process: true, write: func(w *writing) {
		stmt, err := w.db.Prepare(w.text(insertMark)) //nolint:noctx // the way that is tested
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.Exec(w.id)) })
	}},
	{name: "Prepare and Query", methods: "Stmt.QueryContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text("CALL give_{t}(?)"))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.drain(s.QueryContext(w.ctx, w.id)) })
	}},
	{name: "Prepare and Query without a context", methods: "Stmt.Query", process: true, write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(give))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.drain(s.Query()) }) //nolint:noctx // the way that is tested
	}},
	{name: "Prepare and QueryRow", methods: "Stmt.QueryRowContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text("SELECT add_{t}(?)"))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.scan(s.QueryRowContext(w.ctx, w.id)) })
	}},
	{name: "Prepare and QueryRow without a context", methods: "Stmt.QueryRow", process: true, write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(give))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.scan(s.QueryRow()) }) //nolint:noctx // the way that is tested
	}},
	seen(way{name: "Prepare, and a part stands", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text("INSERT INTO {t}_plain VALUES ({id}), (?)"))
		w.prepared(stmt, err, func(s *sql.Stmt) {
			_, err := s.ExecContext(w.ctx, w.id)
			require.Error(w, err)
		})
	}}, inPlain),
}
