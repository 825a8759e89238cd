package mysql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

// BenchmarkAsk is what a position costs: the first on a connection, one that follows, and for comparison what the network
// and the server take for anything.
func BenchmarkAsk(b *testing.B) {
	for _, e := range []mysql.Engine{{MariaDB: true}, {}} {
		b.Run(e.Name(), func(b *testing.B) {
			start := dbtest.StartMySQLT
			if e.MariaDB {
				start = dbtest.StartMariaDBT
			}
			c := start(b, dbtest.MySQLOptions{})
			conn := connect(b, c.Primary().WatchDSN())
			run := func(name string, f func() error) {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						require.NoError(b, f())
					}
				})
			}
			ctx := b.Context()
			kept := e.Wire(conn).Link()
			run("next", func() error { _, err := e.Ask(ctx, kept); return err })
			run("first", func() error { _, err := e.Ask(ctx, e.Wire(conn).Link()); return err })
			run("ping", func() error { _, err := kept.QueryRow(ctx, "SELECT 1"); return err })
			run("probe", func() error { _, err := kept.QueryRow(ctx, e.ProbeSQL()); return err })
		})
	}
}
