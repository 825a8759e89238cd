package lite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKindOf(t *testing.T) {
	for text, want := range map[string]kind{
		"SELECT 1":                              kindRead,
		"WITH a AS (SELECT 1) SELECT * FROM a":  kindRead,
		"-- name: GetX :one\nSELECT 1":          kindRead,
		"/* route:replica */ SELECT 1":          kindRead,
		"(SELECT 1)":                            kindRead,
		"SELECT 'a;b';":                         kindRead,
		"SELECT f(1)":                           kindRead,
		"SELECT last_insert_rowid()":            kindRead,
		"VALUES (1)":                            kindRead,
		"EXPLAIN DELETE FROM t":                 kindRead,
		"ROLLBACK TO a":                         kindRead,
		"WITH a AS (SELECT 1) DELETE FROM t":    kindWrite,
		"-- n\nINSERT INTO t VALUES (1)":        kindWrite,
		"INSERT INTO t VALUES (1) RETURNING id": kindWrite,
		"SELECT 1; DELETE FROM t":               kindWrite,
		"PRAGMA user_version = 1":               kindWrite,
		"CREATE TABLE t (id)":                   kindWrite,
		"RELEASE a":                             kindWrite,
		"SELECT 'open":                          kindWrite,
		"/* n */ BEGIN IMMEDIATE":               kindBegin,
		"SAVEPOINT a":                           kindBegin,
		"COMMIT":                                kindEnd,
		"-- n\nROLLBACK;":                       kindEnd,
	} {
		require.Equal(t, want, kindOf(text), text)
	}
}
