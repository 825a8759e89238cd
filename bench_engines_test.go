package readroute_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// BenchmarkMySQLReadPaired reports the routed pool's throughput as a part of the bare one's.
func BenchmarkMySQLReadPaired(b *testing.B) { benchMySQLPaired(b, dbtest.StartMySQLT, true) }

// BenchmarkMySQLWritePaired does the same for autocommit writes whose position is captured.
func BenchmarkMySQLWritePaired(b *testing.B) { benchMySQLPaired(b, dbtest.StartMySQLT, false) }

// BenchmarkMariaDBReadPaired is BenchmarkMySQLReadPaired on MariaDB.
func BenchmarkMariaDBReadPaired(b *testing.B) { benchMySQLPaired(b, dbtest.StartMariaDBT, true) }

// BenchmarkMariaDBWritePaired is BenchmarkMySQLWritePaired on MariaDB.
func BenchmarkMariaDBWritePaired(b *testing.B) { benchMySQLPaired(b, dbtest.StartMariaDBT, false) }

func benchMySQLPaired(b *testing.B, start func(dbtest.TB, dbtest.MySQLOptions) *dbtest.MySQLCluster, reads bool) {
	c := start(b, dbtest.MySQLOptions{Replicas: 1})
	fill := "INSERT INTO bench VALUES (1, 0)"
	require.NoError(b, c.Primary().Exec(testContext(b), "CREATE TABLE bench (id int PRIMARY KEY, n bigint NOT NULL)", fill))
	for n := 1; n < benchRows; n *= 2 {
		require.NoError(b, c.Primary().Exec(testContext(b), "INSERT INTO bench SELECT id + (SELECT max(id) FROM bench), 0 FROM bench"))
	}
	require.NoError(b, c.WaitCaughtUp(testContext(b)))
	for name, interpolate := range map[string]bool{"prepared": false, "interpolated": true} {
		b.Run(name, func(b *testing.B) {
			connector := func(n *dbtest.MySQLNode) *mysql.Config {
				config, err := mysql.ParseDSN(n.AppDSN())
				require.NoError(b, err)
				config.InterpolateParams = interpolate
				return config
			}
			node := c.Primary()
			if reads {
				node = c.Replica(0)
			}
			native, err := mysql.NewConnector(connector(node))
			require.NoError(b, err)
			bare := sql.OpenDB(native)
			bare.SetMaxIdleConns(benchGoroutines)
			b.Cleanup(func() { require.NoError(b, bare.Close()) })
			db := open(b, readroute.Config{
				Primary:  readroute.Node{Name: "a", Connector: readroute.MySQLConfig(connector(c.Primary()))},
				Replicas: []readroute.Node{{Name: "b", Connector: readroute.MySQLConfig(connector(c.Replica(0)))}},
			})
			benchPoolsPaired(b, map[string]pool{"bare": {DB: bare}, "routed": {DB: db.DB}}, func(p pool, id int) error {
				if reads {
					return p.QueryRowContext(p.ctx, "SELECT n FROM bench WHERE id = ?", id).Scan(new(int64))
				}
				_, err := p.ExecContext(p.ctx, "UPDATE bench SET n = n + 1 WHERE id = ?", id)
				return err
			})
		})
	}
}

// BenchmarkGlobal reports what a read of all that is committed costs beside a read of the session, on PostgreSQL.
func BenchmarkGlobal(b *testing.B) { benchLevel(b, readroute.LevelGlobal) }

// BenchmarkCausal does the same for reads that never go back in time.
func BenchmarkCausal(b *testing.B) { benchLevel(b, readroute.LevelCausal) }

func benchLevel(b *testing.B, level readroute.Level) {
	db := postgresPools(b, true)["routed"]
	for name, l := range map[string]readroute.Level{"session": readroute.LevelSession, level.String(): level} {
		for _, at := range []int{1, 16} {
			b.Run(name+"/"+fmtInt(at), func(b *testing.B) {
				var took []time.Duration
				b.SetParallelism(at)
				results := make(chan []time.Duration, 1000)
				b.RunParallel(func(pb *testing.PB) {
					var own []time.Duration
					ctx := readroute.WithLevel(readroute.WithSession(context.Background()), l)
					for pb.Next() {
						begin := time.Now()
						if err := db.QueryRowContext(ctx, benchRead, 1).Scan(new(int64)); err != nil {
							b.Error(err)
						}
						own = append(own, time.Since(begin))
					}
					results <- own
				})
				close(results)
				for own := range results {
					took = append(took, own...)
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			})
		}
	}
}
