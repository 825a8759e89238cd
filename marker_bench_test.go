package readroute_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// BenchmarkMarkerWrite reports what a write outside a transaction costs on a bare pool, with log positions, and with a marker, from 1
// and from 16 writers at once; its p50 and p99, and how many the writers make a second together.
func BenchmarkMarkerWrite(b *testing.B) {
	benchMarker(b, func(ctx context.Context, db *sql.DB, id int) error {
		_, err := db.ExecContext(ctx, "UPDATE bench SET n = n + 1 WHERE id = "+fmtInt(id))
		return err
	})
}

// BenchmarkMarkerTx does the same for a transaction of two statements.
func BenchmarkMarkerTx(b *testing.B) {
	benchMarker(b, func(ctx context.Context, db *sql.DB, id int) error {
		tx, err := db.BeginTx(ctx, nil)
		for range 2 {
			if err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE bench SET n = n + 1 WHERE id = "+fmtInt(id))
			}
		}
		if err == nil {
			err = tx.Commit()
		}
		return err
	})
}

func benchMarker(b *testing.B, write func(ctx context.Context, db *sql.DB, id int) error) {
	pg := dbtest.StartPostgresT(b, dbtest.PostgresOptions{Standbys: 1, Settings: map[string]string{"fsync": "on"}})
	maria := dbtest.StartMariaDBT(b, dbtest.MySQLOptions{Replicas: 1})
	for _, c := range []*engineCluster{
		{name: "PostgreSQL", nodes: []server{pg.Primary()}, driver: "pgx", caught: pg.WaitCaughtUp, config: func() readroute.Config { return configFor(pg) }},
		{name: "MariaDB", nodes: []server{maria.Primary()}, driver: "mysql", caught: maria.WaitCaughtUp, config: func() readroute.Config {
			return readroute.Config{
				Primary:  readroute.Node{Name: "a", Connector: readroute.MySQL(maria.Primary().AppDSN())},
				Replicas: []readroute.Node{{Name: "b", Connector: readroute.MySQL(maria.Replica(0).AppDSN())}},
			}
		}},
	} {
		ctx := testContext(b)
		require.NoError(b, c.nodes[0].Exec(ctx, "CREATE TABLE bench (id int PRIMARY KEY, n int NOT NULL)"))
		bare := c.bare(b, 0)
		bare.SetMaxIdleConns(32)
		for id := range 16 {
			_, err := bare.ExecContext(ctx, "INSERT INTO bench VALUES ("+fmtInt(id)+", 0)")
			require.NoError(b, err)
		}
		for _, kind := range []string{"bare", "log", "marker"} {
			db := bare
			switch kind {
			case "log":
				db = open(b, c.config()).DB
			case "marker":
				db = open(b, c.markedConfig(b)).DB
			}
			for _, writers := range []int{1, 16} {
				b.Run(c.name+"/"+kind+"/"+fmtInt(writers), func(b *testing.B) { benchWriters(b, db, writers, write) })
			}
		}
	}
}

func benchWriters(b *testing.B, db *sql.DB, writers int, write func(ctx context.Context, db *sql.DB, id int) error) {
	took := make(chan []time.Duration, writers)
	began := time.Now()
	for id := range writers {
		go func() {
			var own []time.Duration
			ctx := readroute.WithSession(context.Background())
			for range b.N/writers + 1 {
				begin := time.Now()
				if err := write(ctx, db, id); err != nil {
					b.Error(err)
				}
				own = append(own, time.Since(begin))
			}
			took <- own
		}()
	}
	var all []time.Duration
	for range writers {
		all = append(all, <-took...)
	}
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/time.Since(began).Seconds(), "writes/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
}
