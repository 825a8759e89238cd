package dbtest

import "context"

// TB is what StartPostgresT needs of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Name() string
}

// StartPostgresT starts a cluster for a test and closes it when the test is over. A missing PostgreSQL fails the test: a
// test of real replication that is skipped proves nothing. A test that fails logs the end of every server's log.
func StartPostgresT(tb TB, options PostgresOptions) *PostgresCluster {
	tb.Helper()
	c, err := StartPostgres(context.Background(), options)
	if err != nil {
		tb.Fatalf("%s: %v", tb.Name(), err)
		return nil
	}
	tb.Cleanup(func() {
		if f, ok := tb.(interface{ Failed() bool }); ok && f.Failed() {
			tb.Logf("%s", c.Logs())
		}
		if err := c.Close(); err != nil {
			tb.Logf("closing the cluster: %v", err)
		}
	})
	return c
}
