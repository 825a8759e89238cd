package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/compat/suite"
)

// The suite of the driver's version in go.mod has the places that the patch
// knows: an upgrade of the driver fails here, at once, not in the long run.
func TestPatchKnowsThePlacesOfThisDriver(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	source, err := suite.Source(t.Context(), root, driverModule)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "driver")
	require.NoError(t, suite.CopyTree(dir, source))
	require.NoError(t, patchSuite(dir))
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.Greater(t, len(names), len(suiteTests))
	for _, name := range names {
		if filepath.Base(name) == untouched[0] {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, left := range []string{"sql.Open", " conn.(", "MySQLDriver{}.Open"} {
			require.NotContains(t, string(text), left, name)
		}
	}
	require.ErrorContains(t, patchSuite(dir), "adapt", "a suite without the places must not pass for patched")
	require.NoError(t, os.Remove(filepath.Join(dir, "driver_test.go")))
	require.Error(t, patchSuite(dir), "nor one without the files")
}

func TestPatchRewritesEachKindOfPlace(t *testing.T) {
	tests := []struct{ name, test, in, want string }{
		{"Open", "", `db, err := sql.Open(driverNameTest, dsn)`, `db, err := openRouted(t, driverNameTest, dsn)`},
		{"OpenDB", "", `db := sql.OpenDB(connector)`, `db := openRoutedConnector(t, connector)`},
		{"RawType", "", `c := conn.(*mysqlConn)`, `c := Unwrap(conn).(*mysqlConn)`},
		{"OtherType", "", `ok := err.(*MySQLError)`, `ok := err.(*MySQLError)`},
		{"Context", "", `ctx := context.Background()`, `ctx := context.Background()`},
		{"DialContext", dialsItself[0], `ctx := context.Background()`, `ctx := dialContext()`},
		{"Dial", dialsItself[0], `_, err := db.Exec("DO 1")`, `_, err := db.ExecContext(dialContext(), "DO 1")`},
		{"Conn", dialsItself[0], `_, err := db.Conn(ctx)`, `_, err := db.ExecContext(ctx, "DO 1")`},
		{"Exec", "", `db.Exec("DO 1"); dbt.db.Exec("DO 1")`, `db.Exec("DO 1"); dbt.db.Exec("DO 1")`},
		{"Checkout", oneCheckout, `dbt.db.Exec("x", 1)`, `checkout(dbt).ExecContext(context.Background(), "x", 1)`},
		{"Stale", staleTest, `runTestsParallel(t, dsn, f)`, `runTestsParallel(t, dsn + "&wait_timeout=2", f)`},
		{"Wrapped", "", `if hijack.connErr != context.DeadlineExceeded {}`, `if err != context.DeadlineExceeded {}`},
		{"Canceled", losesAnswer[0], `f(err != context.Canceled, err != context.Canceled)`, `f(!isCanceled(err), err != context.Canceled)`},
		{"CanceledBefore", "", `if err != context.Canceled {}`, `if err != context.Canceled {}`},
		{"NotStale", "", `runTestsParallel(t, dsn, f)`, `runTestsParallel(t, dsn, f)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test := tt.test
			if test == "" {
				test = "TestX"
			}
			head, tail := "package p\n\nfunc "+test+"() {\n", "\n}\n"
			got, _, err := patchFile("p.go", []byte(head+tt.in+tail))
			require.NoError(t, err)
			body, ok := strings.CutPrefix(string(got), head)
			require.True(t, ok)
			require.Equal(t, tt.want+tail, body)
		})
	}
}
