package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The suite of the pgx version in go.mod has the places that the patch knows:
// an upgrade of pgx fails here, at once, not in the long run.
func TestPatchKnowsThePlacesOfThisPgx(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", pgxModule).Output()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, copyTree(dir, filepath.Join(strings.TrimSpace(string(out)), "stdlib")))
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
			const head, tail = "package p\nfunc f() {\n", "\n}\n"
			got, _, err := patchFile("p.go", []byte(head+tt.in+tail))
			require.NoError(t, err)
			require.Equal(t, head+tt.want+tail, string(got))
		})
	}
}

func TestDifferenceSeesEveryKindOfChange(t *testing.T) {
	want := outcome{results: map[string]string{"A": "PASS", "B": "PASS", "C": "SKIP"}}
	require.Empty(t, difference(want, want))
	got := outcome{results: map[string]string{"A": "FAIL", "C": "PASS", "D": "PASS"}, exit: &exec.ExitError{}}
	require.Len(t, difference(want, got), 5)
}
