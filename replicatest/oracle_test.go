package replicatest_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/readroute/readroute/internal/sqlclass"
)

// pieces are what texts are made of: quotes, comments and parameters in all states, between reads and writes.
var pieces = []string{
	"SELECT ", "SELECT 1", "SELECT a FROM t", " FROM t", " WHERE a = ", "VALUES (1)", "EXPLAIN ", "EXPLAIN QUERY PLAN ", "WITH x AS (SELECT 1) ", "(", ")", ",",
	";", "; ", "\n;", "DELETE FROM t", "; DELETE FROM t", "; INSERT INTO t VALUES (7)", "INSERT INTO t VALUES (7)", "REPLACE INTO t VALUES (7)", "UPDATE t SET a = 9",
	"; DROP TABLE t", "PRAGMA user_version = 7", "; PRAGMA user_version = 7", "CREATE TABLE u (a)", "; CREATE TEMP TABLE u (a)",
	"'", "''", "\"", "\"\"", "`", "[", "]", "'a'", "\"a\"", "`a`", "[a]", "x'00'", "E'", "E'\\'", "N'", "B'", "U&'", "$a$", "$a", "$1", "?", "?1", ":a", "@a", "#1", "$x('",
	"--", "-- ", "\n", "\r", "/*", "*/", "/* c */", "/*! ", "/*+ ", "\\", "\\'", "{", "}", "1", "1e5", "0x1f", "1_000", ".5", "a", " AS a ", " AS ", " UNION ", "t.a", ".", "::int",
	"abs(a)", "max(a)", "count(*)", "json_each('[1]')", "load_extension('x')", "changes()", "replace(a, 'a', 'b')", " LIKE 'x' ESCAPE '\\'", " -> '$.a'", "||", "==", "<>", "=",
	" CASE WHEN 1 THEN 2 END", " CAST(a AS int)", " OVER (ORDER BY a)", " LIMIT 1", " RETURNING a", " BEGIN ", " END", " COMMIT", "\x00", "\u00a0", "\ufeff", "é",
}

// traps are texts that another dialect would read as one harmless statement.
var traps = []string{
	"SELECT $a$; DELETE FROM t; SELECT $a$", "SELECT E'\\'; DELETE FROM t --'", "SELECT '\\'; DELETE FROM t --'", "SELECT 1 /* /* */; DELETE FROM t -- */",
	"SELECT $x('); DELETE FROM t; --')", "SELECT @abs('); DELETE FROM t; --')", "SELECT :abs('); DELETE FROM t; --')", "SELECT [']; DELETE FROM t --']",
	"SELECT `a``; DELETE FROM t; SELECT `b`", "SELECT \"a\"\"; DELETE FROM t; SELECT \"b\"", "SELECT 1 --x\r; DELETE FROM t", "SELECT 1 # '\n; DELETE FROM t",
	"SELECT 1 /*! '*/; DELETE FROM t --'", "SELECT 1--'\n; DELETE FROM t --'", "SELECT x'41'; DELETE FROM t", "SELECT 1\x00'; DELETE FROM t --'",
}

// oracle is a database on which texts that are taken for reads are run.
type oracle struct {
	t    testing.TB
	conn *sql.Conn
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.NoError(t, db.Close())
	})
	_, err = conn.ExecContext(context.Background(), "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
	require.NoError(t, err)
	return &oracle{t, conn}
}

// state is everything that a statement could have changed.
func (o *oracle) state() (s string) {
	require.NoError(o.t, o.conn.QueryRowContext(context.Background(), "SELECT total_changes() || '/' || (SELECT count(*) FROM sqlite_master) || '/' ||"+
		" (SELECT count(*) FROM sqlite_temp_master) || '/' || (SELECT user_version FROM pragma_user_version) || '/' || (SELECT coalesce(sum(a), 0) FROM t)").Scan(&s))
	return s
}

// run reports whether a text is taken for a read. It fails when one that is does something.
func (o *oracle) run(text string) (read, works bool) {
	st := sqlclass.ClassifyText(sqlclass.SQLite, text)
	if st.Class != sqlclass.Read {
		return false, false
	}
	before := o.state()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // some recursion has no end
	defer cancel()
	_, err := o.conn.ExecContext(ctx, text, 1, 2, 3, 4, 5, 6, 7, 8, sql.Named("a", 1), sql.Named("a$", 1), sql.Named("x", 1), sql.Named("x(')", 1), sql.Named("abs(')", 1))
	if after := o.state(); after != before {
		o.t.Fatalf("%q is taken for a read, and changes %s into %s", text, before, after)
	}
	_, open := o.conn.ExecContext(context.Background(), "COMMIT")
	if open == nil {
		o.t.Fatalf("%q is taken for a read, and begins a transaction", text)
	}
	return true, err == nil
}

// TestOracleSQLite: whatever is taken for a read changes nothing on SQLite itself, statements that come behind something included.
func TestOracleSQLite(t *testing.T) {
	t.Parallel()
	o := newOracle(t)
	for _, text := range traps {
		o.run(text)
	}
	reads, works := 0, 0
	for range 5000 {
		var b strings.Builder
		b.WriteString("SELECT ")
		for range 1 + rand.IntN(7) {
			b.WriteString(pieces[rand.IntN(len(pieces))])
		}
		read, worked := o.run(b.String())
		if read {
			reads++
		}
		if worked {
			works++
		}
	}
	require.Greater(t, works, 30, "of %d reads", reads)
	t.Logf("%d texts are taken for reads, of which SQLite runs %d", reads, works)
}

// FuzzOracleSQLite is the same for any text.
func FuzzOracleSQLite(f *testing.F) {
	for _, p := range pieces {
		f.Add(p)
		f.Add("SELECT " + p + "; DELETE FROM t")
		f.Add("SELECT 1 " + p + "\n;DELETE FROM t --" + p)
	}
	o := newOracle(f)
	f.Fuzz(func(t *testing.T, text string) {
		o.t = t
		o.run(text)
	})
}
