package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/compat/suite"
)

// The suite of the pgx version in go.mod has the places that the patch knows:
// an upgrade of pgx fails here, at once, not in the long run.
func TestPatchKnowsThePlacesOfThisPgx(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	source, err := suite.Source(t.Context(), root, pgxModule)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, suite.CopyTree(dir, filepath.Join(source, "stdlib")))
	require.NoError(t, patchSuite(dir))
	for name := range stdlibTests {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for _, left := range []string{"stdlib.OpenDB", "sql.Open(", ".(*stdlib.Conn)", "context.Background()", "db.Query("} {
			require.NotContains(t, string(text), left, name)
		}
	}
	require.Error(t, patchSuite(dir), "a suite without the places must not pass for patched")
}

func TestPatchRewritesEachKindOfPlace(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"OpenDB", `db := stdlib.OpenDB(*config, opts...)`, `db := openRouted(t, *config, opts...)`},
		{"OpenDBFromPool", `db := stdlib.OpenDBFromPool(pool)`, `db := openRoutedPool(t, pool)`},
		{"Open", `db, err := sql.Open("pgx", dsn)`, `db, err := openRoutedName(t, "pgx", dsn)`},
		{"RawType", `c := driverConn.(*stdlib.Conn).Conn()`, `c := native(driverConn).Conn()`},
		{"NoArguments", `db.Ping()`, `db.PingContext(routedContext())`},
		{"Begin", `tx, err := db.Begin()`, `tx, err := db.BeginTx(routedContext(), nil)`},
		{"Arguments", `db.Query("select $1", 1)`, `db.QueryContext(routedContext(), "select $1", 1)`},
		{"Nested", `db.QueryRow(f(db.Ping())).Scan(&n)`, `db.QueryRowContext(routedContext(), f(db.PingContext(routedContext()))).Scan(&n)`},
		{"NativeConn", `conn.QueryRow(context.Background(), "x")`, `conn.QueryRow(routedContext(), "x")`},
		{"Untouched", `conn.Query(ctx, "x")`, `conn.Query(ctx, "x")`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, patchBody(t, "TestX", tt.in))
		})
	}
}

func patchBody(t *testing.T, test, body string) string {
	t.Helper()
	head, tail := "package p\n\nfunc "+test+"() {\n", "\n}\n"
	got, _, err := patchFile("p.go", []byte(head+body+tail))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(got), head) && strings.HasSuffix(string(got), tail), "%s", got)
	return strings.TrimSuffix(strings.TrimPrefix(string(got), head), tail)
}

func TestPatchKeepsOneCheckoutWhereATestNeedsIt(t *testing.T) {
	require.Equal(t, `defer closeDB(t, db); kept := checkout(t, db)
kept.ExecContext(routedContext(), "x")
ensureDBValid(t, db)`, patchBody(t, oneCheckout[0], `defer closeDB(t, db)
db.Exec("x")
ensureDBValid(t, db)`))
	require.Equal(t, `all(t, func(t *testing.T, db *sql.DB) { kept := checkout(t, db)
tx, err := kept.BeginTx(routedContext(), nil)
tx.ExecContext(routedContext(), "x")
})`, patchBody(t, oneCheckout[0], `all(t, func(t *testing.T, db *sql.DB) {
tx, err := db.Begin()
tx.Exec("x")
})`))
	require.Equal(t, `require.EqualValues(t, 3, db.Stats().OpenConnections)
require.EqualValues(t, 1, sockets(db).OpenConnections)`, patchBody(t, countsSockets,
		`require.EqualValues(t, 3, db.Stats().OpenConnections)
require.EqualValues(t, 1, db.Stats().OpenConnections)`))
	require.Equal(t, `db := openRoutedOnce(t, *config)`, patchBody(t, keepsNoSocket, `db := stdlib.OpenDB(*config)`))
}
