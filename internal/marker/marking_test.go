package marker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

func TestTransactional(t *testing.T) {
	marking := func(d sqlclass.Dialect) Marking {
		return Marking{Dialect: func() sqlclass.Dialect { return d }}
	}
	all := []sqlclass.Dialect{0, sqlclass.PostgreSQL, sqlclass.MySQL, sqlclass.MariaDB, sqlclass.SQLite}
	for text, where := range map[string][]sqlclass.Dialect{
		"INSERT INTO t VALUES (1)":                 all,
		" \n\t update t set a = 1":                 all,
		"DELETE FROM t":                            all,
		"REPLACE INTO t VALUES (1)":                all,
		"MERGE INTO t USING s":                     all,
		"WITH w AS (SELECT 1) INSERT INTO t":       all,
		"SELECT f()":                               all,
		"((SELECT f()))":                           all,
		"VALUES (f())":                             all,
		"/* a */ -- b\n /* c */ INSERT INTO t":     all,
		"\ufeffINSERT INTO t":                      all,
		"-- only\nINSERT INTO t":                   all,
		"CREATE TABLE t (a int)":                   {sqlclass.PostgreSQL, sqlclass.SQLite},
		"create unique index i on t (a)":           {sqlclass.PostgreSQL, sqlclass.SQLite},
		"CREATE OR REPLACE FUNCTION f()":           {sqlclass.PostgreSQL, sqlclass.SQLite},
		"DROP TABLE t":                             {sqlclass.PostgreSQL, sqlclass.SQLite},
		"ALTER TABLE t ADD COLUMN b":               {sqlclass.PostgreSQL, sqlclass.SQLite},
		"TRUNCATE t":                               {sqlclass.PostgreSQL, sqlclass.SQLite},
		"EXPLAIN ANALYZE INSERT INTO t":            all,
		"NOTIFY c":                                 {sqlclass.PostgreSQL, sqlclass.SQLite},
		"ANALYZE t":                                {sqlclass.PostgreSQL, sqlclass.SQLite},
		"REFRESH MATERIALIZED VIEW v":              {sqlclass.PostgreSQL, sqlclass.SQLite},
		"CREATE INDEX CONCURRENTLY i ON t (a)":     nil,
		"create index Concurrently i on t (a)":     nil,
		"REFRESH MATERIALIZED VIEW CONCURRENTLY v": nil,
		"DROP INDEX CONCURRENTLY i":                nil,
		"CREATE DATABASE d":                        nil,
		"DROP DATABASE d":                          nil,
		"ALTER SYSTEM SET a = 1":                   nil,
		"ALTER DATABASE d SET a = 1":               nil,
		"CREATE SUBSCRIPTION s":                    nil,
		"CREATE TABLESPACE s":                      nil,
		"CREATE":                                   nil,
		"VACUUM":                                   nil,
		"PRAGMA foreign_keys = 1":                  nil,
		"ATTACH 'x' AS y":                          nil,
		"REINDEX t":                                nil,
		"CALL p()":                                 nil,
		"DO $$ $$":                                 nil,
		"BEGIN":                                    nil,
		"COMMIT":                                   nil,
		"SAVEPOINT a":                              nil,
		"LOCK TABLE t":                             nil,
		"SET a = 1":                                nil,
		"COPY t FROM STDIN":                        nil,
		"":                                         nil,
		"'INSERT'":                                 nil,
		"\"insert\"":                               nil,
		"/*! COMMIT */ INSERT INTO t":              nil,
		"/*M! COMMIT */ INSERT INTO t":             nil,
		"/* a /* b */ INSERT INTO t":               nil,
		"/* open INSERT":                           nil,
		"--INSERT\nINSERT INTO t":                  nil, // two minus signs to MySQL
		"# INSERT\nINSERT INTO t":                  nil,
		"insertä":                                  nil,
		"insert_into":                              nil,
	} {
		for _, d := range all {
			want := false
			for _, x := range where {
				want = want || x == d
			}
			require.Equal(t, want, marking(d).Transactional(text), "%q in dialect %v", text, d)
		}
	}
}

type stateError string

func (e stateError) Error() string    { return "ERROR: " + string(e) }
func (e stateError) SQLState() string { return string(e) }

type codeError struct {
	code int
	text string
}

func (e codeError) Error() string { return e.text }
func (e codeError) Code() int     { return e.code }

func TestRefusals(t *testing.T) {
	var m Marking
	for err, want := range map[error]bool{
		stateError("25001"): true, stateError("2D000"): true, stateError("23505"): false, stateError("25P02"): false,
		codeError{1, "cannot VACUUM from within a transaction"}: true,
		codeError{1, "no such table: t"}:                        false,
		codeError{5, "locked within a transaction"}:             false,
		errors.New("within a transaction"):                      false,
	} {
		require.Equal(t, want, m.RefusedInTx(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	require.True(t, m.Aborted(stateError("25P02")))
	require.False(t, m.Aborted(stateError("25001")))
	require.False(t, m.Aborted(errors.New("25P02")))
}

// FuzzTransactional: comments and blanks that every server knows before a text change nothing, and what is said of a text is said of
// its first word.
func FuzzTransactional(f *testing.F) {
	for _, seed := range []string{"INSERT INTO t", "/* x */ select 1", "--\nupdate", "((with", "create or replace view", "/*!", "\ufeff"} {
		f.Add(seed)
	}
	m := Marking{Dialect: func() sqlclass.Dialect { return sqlclass.PostgreSQL }}
	f.Fuzz(func(t *testing.T, text string) {
		got := m.Transactional(text)
		for _, before := range []string{" ", "\n\t", "/* c */", "-- c\n"} {
			if m.Transactional(before+text) != got {
				t.Fatalf("%q before %q changes what is said of it", before, text)
			}
		}
		if got && sqlclass.ClassifyText(sqlclass.PostgreSQL, text).Class == sqlclass.TxControl && !sqlclass.ClassifyText(sqlclass.PostgreSQL, text).Multi {
			t.Fatalf("%q is put into a transaction", text)
		}
	})
}
