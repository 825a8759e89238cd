package sqlclass_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

func TestSQLiteTexts(t *testing.T) {
	type class = sqlclass.Class
	const (
		read    = sqlclass.Read
		write   = sqlclass.Write
		unknown = sqlclass.Unknown
		state   = sqlclass.SessionState
		tx      = sqlclass.TxControl
	)
	for text, want := range map[string]class{
		"SELECT 1": read,
		"select revision from form where user_id = ?":                               read,
		"SELECT revision FROM form WHERE user_id = $1":                              read,
		"SELECT revision FROM form WHERE user_id = :id":                             read,
		"SELECT revision FROM form WHERE user_id = @id":                             read,
		"SELECT revision FROM form WHERE user_id = ?7":                              read,
		"SELECT count(*), max(a), coalesce(b, 0) FROM t":                            read,
		"SELECT datetime('now'), strftime('%s', a) FROM t":                          read,
		"SELECT json_extract(a, '$.b'), a ->> '$.c' FROM t":                         read,
		"SELECT 'it''s; DELETE FROM t'":                                             read,
		"SELECT \"a;b\", `c;d` FROM t":                                              read,
		"SELECT CAST(a AS int) FROM t WHERE b IN (1, 2) AND c LIKE 'x%'":            read,
		"WITH r(a) AS (VALUES (1), (2)) SELECT a FROM r":                            read,
		"SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t":               read,
		"SELECT sum(a) FILTER (WHERE b > 0) FROM t":                                 read,
		"SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u) UNION ALL SELECT b FROM v;": read,
		"VALUES (1, 2)":                               read,
		"SELECT a FROM t -- DELETE\n":                 read,
		"SELECT a /* ; DELETE FROM t */ FROM t":       read,
		"SELECT a /*! ; DELETE FROM t */ FROM t":      read,
		"EXPLAIN SELECT 1":                            read,
		"EXPLAIN QUERY PLAN SELECT a FROM t":          read,
		"SELECT a FROM t LEFT JOIN u ON (t.a = u.b)":  read,
		"SELECT a FROM t JOIN u USING (a) WHERE b":    read,
		"SELECT '\\'":                                 read, // a backslash is nothing here
		"SELECT a FROM t WHERE b = 'x\\''y; DELETE'":  read,
		"SELECT replace(a, 'b', 'c'), max(a, b) FROM": read,

		"SELECT E'\\'; DELETE FROM t --'":         write, // a column called E, and what comes behind it runs
		"SELECT $a$; DELETE FROM t; SELECT $a$":   write,
		"SELECT 1; DELETE FROM t":                 write,
		"SELECT 1 --x\n; DELETE FROM t":           write,
		"SELECT 1 --x\r; SELECT 2":                read,
		"SELECT 1 /* /* */ ; DELETE FROM t -- */": write, // comments do not nest
		"INSERT INTO t VALUES (1)":                write,
		"INSERT INTO t VALUES (1) RETURNING id":   write,
		"REPLACE INTO t VALUES (1)":               write,
		"WITH x AS (SELECT 1) DELETE FROM t":      write,
		"UPDATE t SET a = 1":                      write,
		"CREATE TABLE t (a)":                      write,
		"CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; DELETE FROM v; END": write,
		"VACUUM":                write,
		"DROP INDEX i":          write,
		"ANALYZE":               write,
		"/* c */ DELETE FROM t": write,

		"SELECT load_extension('x')":           unknown,
		"SELECT my_function(a) FROM t":         unknown,
		"SELECT \"load_extension\"('x')":       unknown,
		"SELECT * FROM pragma_table_info('t')": unknown,
		"SELECT [a] FROM t":                    unknown,
		"SELECT 'open":                         unknown,
		"SELECT 1 /* open":                     unknown,
		"SELECT 1\x00; SELECT 2":               unknown,
		"SELECT $x('); DELETE FROM t; --')":    unknown,
		"SELECT @abs('); DELETE FROM t; --')":  unknown,
		"SELECT :abs('); DELETE FROM t; --')":  unknown,
		"SELECT #1":                            unknown,
		"":                                     unknown,
		"PRAGMA table_info(t)":                 unknown,
		"PRAGMA main.table_info(t)":            unknown,
		"EXPLAIN INSERT INTO t VALUES (1)":     unknown,
		"frobnicate":                           unknown,

		"SELECT last_insert_rowid()":    state,
		"SELECT changes() FROM t":       state,
		"PRAGMA foreign_keys = ON":      state,
		"PRAGMA user_version":           state,
		"CREATE TEMP TABLE t (a)":       state,
		"CREATE TABLE temp.t (a)":       state,
		"CREATE TABLE \"temp\" . t (a)": state,
		"ATTACH 'x' AS y":               state,
		"BEGIN":                         tx,
		"BEGIN IMMEDIATE":               tx,
		"SAVEPOINT a":                   tx,
		"COMMIT":                        tx,
		"END":                           tx,
		"ROLLBACK TO a":                 tx,
	} {
		st := sqlclass.ClassifyText(sqlclass.SQLite, text)
		require.Equal(t, want, st.Class, "%q: %+v", text, st)
		if want == read {
			require.Equal(t, sqlclass.Statement{Class: read}, st, "%q", text)
		}
	}
	st := sqlclass.ClassifyText(sqlclass.SQLite, "ROLLBACK")
	require.True(t, st.EndsTx)
	require.False(t, sqlclass.ClassifyText(sqlclass.SQLite, "ROLLBACK TO a").EndsTx)
	require.True(t, sqlclass.ClassifyText(sqlclass.SQLite, "SAVEPOINT a").BeginsTx)
	require.Equal(t, sqlclass.HintPrimary, sqlclass.ClassifyText(sqlclass.SQLite, "/* route:primary */ SELECT 1").Hint)
	require.Equal(t, "sqlite", sqlclass.SQLite.String())
}

// FuzzSQLite: a read does nothing else, and no text hides what comes after it.
func FuzzSQLite(f *testing.F) {
	for _, seed := range []string{
		"SELECT 1", "SELECT 'a", "SELECT $a$b$a$", "SELECT :x('", "SELECT \"a\"\"b\" -- c\n", "SELECT /* ", "WITH a(b) AS (SELECT 1)", "EXPLAIN QUERY PLAN SELECT", "CREATE TRIGGER t BEGIN",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		st := sqlclass.ClassifyText(sqlclass.SQLite, text)
		if st.Class != sqlclass.Read {
			return
		}
		if st.MayWrite || st.LeavesState || st.TxState || st.DependsState || st.BeginsTx || st.EndsTx {
			t.Fatalf("%q is a read that does more: %+v", text, st)
		}
		if after := sqlclass.ClassifyText(sqlclass.SQLite, text+"\n;DELETE FROM t"); after.Class == sqlclass.Read {
			t.Fatalf("%q hides what comes after it", text)
		}
		if strings.ContainsAny(text, "\x00") {
			t.Fatalf("%q ends before its end", text)
		}
	})
}
