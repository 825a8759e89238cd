package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// writing is one write that is to be made.
type writing struct {
	testing.TB
	ctx   context.Context // carries the session that writes
	other context.Context // carries another session
	db    *readroute.DB
	table string // has one column, id
	id    int
	ends  []func() // what ends what the write has left open, last first
}

// later runs f once nothing reads any more what the replicas do not have.
func (w *writing) later(f func()) { w.ends = append(w.ends, f) }

func (w *writing) after() {
	for _, f := range slices.Backward(w.ends) {
		f()
	}
	w.ends = nil
}

// way is a way in which a write can happen: it adds a row with the id to the table.
type way struct {
	name    string
	methods string // the methods that it goes through, which have no write of their own beside it
	write   func(w *writing)
	process bool   // it takes no context, so only the session of the process knows
	both    bool   // the other session has taken part
	mariadb bool   // MySQL does not have it
	mysql   bool   // MariaDB does not have it
	visible string // a query that counts 1 when the write is visible, with {t} and {id}; the row itself when empty
}

func (w *writing) text(pattern string) string {
	return strings.NewReplacer("{t}", w.table, "{id}", fmt.Sprint(w.id)).Replace(pattern)
}

func (w *writing) ok(err error) {
	w.Helper()
	require.NoError(w, err)
}

func (w *writing) done(_ sql.Result, err error) {
	w.Helper()
	require.NoError(w, err)
}

// drain reads all rows and closes them.
func (w *writing) drain(rows *sql.Rows, err error) {
	w.Helper()
	require.NoError(w, err)
	n := 0
	for rows.Next() {
		n++
	}
	require.NoError(w, rows.Err())
	require.NoError(w, rows.Close())
	require.Equal(w, 1, n)
}

func (w *writing) scan(row *sql.Row) {
	w.Helper()
	var id int
	require.NoError(w, row.Scan(&id))
}

func (w *writing) begin(ctx context.Context) *sql.Tx {
	w.Helper()
	tx, err := w.db.BeginTx(ctx, nil)
	require.NoError(w, err)
	return tx
}

func (w *writing) conn() *sql.Conn {
	w.Helper()
	conn, err := w.db.Conn(w.ctx)
	require.NoError(w, err)
	return conn
}

// prepared hands out a statement and closes it.
func (w *writing) prepared(stmt *sql.Stmt, err error, use func(*sql.Stmt)) {
	w.Helper()
	require.NoError(w, err)
	use(stmt)
	require.NoError(w, stmt.Close())
}

// copyRow copies the row in through a native connection.
func (w *writing) copyRow(native any) error {
	conn := native.(*stdlib.Conn).Conn()
	_, err := conn.CopyFrom(w.ctx, pgx.Identifier{w.table}, []string{"id"}, pgx.CopyFromRows([][]any{{w.id}}))
	return err
}

const (
	insert    = "INSERT INTO {t} VALUES ({id})"
	insertArg = "INSERT INTO {t} VALUES ($1)"
	returning = "INSERT INTO {t} VALUES ({id}) RETURNING id"
)

// newWritable makes a table to write to, with a function and a procedure that add a row.
func newWritable(t testing.TB, c *dbtest.PostgresCluster) string {
	t.Helper()
	table := newTable(t, c, "id int")
	require.NoError(t, c.Primary().Exec(testContext(t),
		fmt.Sprintf(`CREATE FUNCTION add_%[1]s(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO %[1]s VALUES (n) RETURNING id'`, table),
		fmt.Sprintf(`CREATE PROCEDURE put_%[1]s(n int) LANGUAGE sql AS 'INSERT INTO %[1]s VALUES (n)'`, table)))
	return table
}

// text is a way that is one text run with ExecContext.
func text(name, pattern string) way {
	return way{name: name, write: func(w *writing) { w.done(w.db.ExecContext(w.ctx, w.text(pattern))) }}
}

// query is a way that is one text run with QueryContext.
func query(name, pattern string) way {
	return way{name: name, write: func(w *writing) { w.drain(w.db.QueryContext(w.ctx, w.text(pattern))) }}
}

// seen changes how a way's write is looked for.
func seen(by way, visible string) way {
	by.visible = visible
	return by
}

const inCatalogue = "SELECT count(*) FROM pg_class WHERE relname = '{t}_{id}'"

// mergeWay is the way that PostgreSQL has since 15.
const mergeWay = "MERGE"

// textWays are the ways that differ in their text only.
var textWays = []way{
	text("several statements in one text", insert+"; SELECT 1"),
	text("a read before the write in one text", "SELECT 1; "+insert),
	text("a transaction in one text", "BEGIN; "+insert+"; COMMIT"),
	text("WITH", "WITH w AS ("+returning+") SELECT id FROM w"),
	text("EXPLAIN ANALYZE", "EXPLAIN ANALYZE "+insert),
	text("CALL", "CALL put_{t}({id})"),
	text("DO", "DO $$BEGIN "+insert+"; END$$"),
	text("function", "SELECT add_{t}({id})"),
	text(mergeWay, "MERGE INTO {t} t USING (SELECT {id} AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id)"),
	text("PREPARE and EXECUTE", "PREPARE p AS "+insert+"; EXECUTE p; DEALLOCATE p"),
	{name: "two-phase commit", write: func(w *writing) {
		w.done(w.db.ExecContext(w.other, w.text("BEGIN; "+insert+"; PREPARE TRANSACTION '{t}{id}'")))
		w.done(w.db.ExecContext(w.ctx, w.text("COMMIT PREPARED '{t}{id}'")))
	}},
	query("WITH through Query", "WITH w AS ("+returning+") SELECT id FROM w"),
	query("function through Query", "SELECT add_{t}({id})"),
	query("function in a condition", "SELECT 1 WHERE add_{t}({id}) = {id}"),
	query("function in FROM", "SELECT n FROM add_{t}({id}) n"),
	seen(text("CREATE TABLE", "CREATE TABLE {t}_{id} (id int)"), inCatalogue),
	seen(text("CREATE TABLE AS", "CREATE TABLE {t}_{id} AS SELECT {id} AS id"), inCatalogue),
	seen(text("SELECT INTO", "SELECT {id} AS id INTO {t}_{id}"), inCatalogue),
	seen(text("COMMENT", "COMMENT ON TABLE {t} IS '{id}'"),
		"SELECT count(*) FROM pg_description WHERE objoid = '{t}'::regclass AND description = '{id}'"),
	seen(text("ALTER TABLE", "ALTER TABLE {t} ADD COLUMN c{id} int"),
		"SELECT count(*) FROM pg_attribute WHERE attrelid = '{t}'::regclass AND attname = 'c{id}'"),
}

// ways are all ways in which a write can happen.
func ways() []way {
	list := append([]way{}, poolWays...)
	list = append(list, stmtWays...)
	list = append(list, txWays...)
	list = append(list, connWays...)
	return append(list, textWays...)
}

var poolWays = []way{
	{name: "Exec", methods: "DB.ExecContext", write: func(w *writing) {
		w.done(w.db.ExecContext(w.ctx, w.text(insertArg), w.id))
	}},
	{name: "Exec without a context", methods: "DB.Exec", process: true, write: func(w *writing) {
		w.done(w.db.Exec(w.text(insert))) //nolint:noctx // the way that is tested
	}},
	{name: "Query", methods: "DB.QueryContext", write: func(w *writing) {
		w.drain(w.db.QueryContext(w.ctx, w.text(returning)))
	}},
	{name: "Query that is closed at once", write: func(w *writing) {
		rows, err := w.db.QueryContext(w.ctx, w.text(returning))
		w.ok(err)
		w.ok(rows.Close())
		w.ok(rows.Err())
	}},
	{name: "Query without a context", methods: "DB.Query", process: true, write: func(w *writing) {
		w.drain(w.db.Query(w.text(returning))) //nolint:noctx // the way that is tested
	}},
	{name: "QueryRow", methods: "DB.QueryRowContext", write: func(w *writing) {
		w.scan(w.db.QueryRowContext(w.ctx, w.text(returning)))
	}},
	{name: "QueryRow without a context", methods: "DB.QueryRow", process: true, write: func(w *writing) {
		w.scan(w.db.QueryRow(w.text(returning))) //nolint:noctx // the way that is tested
	}},
	{name: "simple protocol", write: func(w *writing) {
		w.done(w.db.ExecContext(w.ctx, w.text(insertArg), pgx.QueryExecModeSimpleProtocol, w.id))
	}},
	{name: "COPY", methods: "DB.PrimaryRaw", write: func(w *writing) {
		w.ok(w.db.PrimaryRaw(w.ctx, w.copyRow))
	}},
}

var stmtWays = []way{
	{name: "Prepare and Exec", methods: "DB.PrepareContext Stmt.ExecContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(insertArg))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.ctx, w.id)) })
	}},
	{name: "Prepare and Exec without a context", methods: "DB.Prepare Stmt.Exec", process: true, write: func(w *writing) {
		stmt, err := w.db.Prepare(w.text(insertArg)) //nolint:noctx // the way that is tested
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.Exec(w.id)) })
	}},
	{name: "Prepare and Query", methods: "Stmt.QueryContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(returning))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.drain(s.QueryContext(w.ctx)) })
	}},
	{name: "Prepare and Query without a context", methods: "Stmt.Query", process: true, write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(returning))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.drain(s.Query()) }) //nolint:noctx // the way that is tested
	}},
	{name: "Prepare and QueryRow", methods: "Stmt.QueryRowContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(returning))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.scan(s.QueryRowContext(w.ctx)) })
	}},
	{name: "Prepare and QueryRow without a context", methods: "Stmt.QueryRow", process: true, write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(returning))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.scan(s.QueryRow()) }) //nolint:noctx // the way that is tested
	}},
	{name: "prepared function", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text("SELECT add_{t}($1)"))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.scan(s.QueryRowContext(w.ctx, w.id)) })
	}},
}
