package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/fakedb"
	"github.com/readroute/readroute/internal/postgres"
)

// maxReadAllocs is how many allocations a routed read of a covered session may add to the bare pool's.
const maxReadAllocs = 3

const (
	benchRead  = "SELECT n FROM bench WHERE id = $1"
	benchWrite = "UPDATE bench SET n = n + 1 WHERE id = $1"
)

// answerAs answers the library's own questions as an idle PostgreSQL would.
func answerAs(replica bool) fakedb.Answer {
	engine := postgres.Engine{}
	probe, self := engine.ProbeSQL(), engine.SelfSQL()
	row := []string{"false", "7", "1000", "0/1000100", "0/1000100", "00000001", "0", "8192", "16777216", "200000", ""}
	if replica {
		row = []string{"true", "7", "2000", "0/1000100", "", "1", "1", "8192", "16777216", "200000", "0/1000100"}
	}
	return func(query string) ([]string, bool, error) {
		switch query {
		case "SELECT VERSION()":
			return []string{"PostgreSQL 17.0"}, true, nil
		case probe:
			return row, true, nil
		case self:
			return []string{"1", "1"}, true, nil
		case engine.SettingsSQL():
			return []string{fmt.Sprint(replica), "off", "0", "100"}, true, nil
		}
		return nil, false, nil
	}
}

// nullPostgres is a driver without a server that answers the library's own questions.
func nullPostgres(replica bool) *fakedb.NullConnector {
	c := fakedb.Null()
	c.Answer = answerAs(replica)
	return c
}

// nullPools returns a bare and a routed pool over null drivers, and a context for each. The session of the routed one
// has written, and a replica has all of it.
func nullPools(tb testing.TB) map[string]pool {
	tb.Helper()
	bare := sql.OpenDB(nullPostgres(false))
	tb.Cleanup(func() { require.NoError(tb, bare.Close()) })
	db, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "a", Connector: nullPostgres(false)},
		Replicas: []readroute.Node{{Name: "b", Connector: nullPostgres(true)}},
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	require.NoError(tb, db.WaitReady(testContext(tb)))
	ctx := readroute.WithSession(context.Background())
	_, err = db.ExecContext(ctx, benchWrite, 1)
	require.NoError(tb, err)
	token, err := readroute.SessionFrom(ctx).Token(testContext(tb))
	require.NoError(tb, err)
	require.False(tb, token.IsZero())
	d, err := db.Explain(ctx, benchRead)
	require.NoError(tb, err)
	require.Equal(tb, readroute.ReasonCovered, d.Reason)
	require.Equal(tb, readroute.RoleReplica, d.Role)
	return map[string]pool{"bare": {bare, context.Background()}, "routed": {db.DB, ctx}}
}

// pool is a pool and a context for its statements.
type pool struct {
	*sql.DB
	ctx context.Context
}

func (p pool) read() error {
	var n int64
	return p.QueryRowContext(p.ctx, benchRead, int64(1)).Scan(&n)
}

func (p pool) write() error {
	_, err := p.ExecContext(p.ctx, benchWrite, int64(1))
	return err
}

func BenchmarkRead(b *testing.B) {
	benchEach(b, nullPools(b), func(b *testing.B, p pool) {
		for b.Loop() {
			if err := p.read(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReadParallel(b *testing.B) {
	benchEach(b, nullPools(b), func(b *testing.B, p pool) {
		p.SetMaxIdleConns(2 * runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := p.read(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func BenchmarkWrite(b *testing.B) {
	benchEach(b, nullPools(b), func(b *testing.B, p pool) {
		for b.Loop() {
			if err := p.write(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchEach(b *testing.B, pools map[string]pool, run func(*testing.B, pool)) {
	b.Helper()
	for _, name := range []string{"bare", "routed"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			run(b, pools[name])
		})
	}
}

// TestReadAllocates holds the cost of a routed read that could not be cheaper.
func TestReadAllocates(t *testing.T) {
	pools := nullPools(t)
	allocs := map[string]float64{}
	for name, p := range pools {
		require.NoError(t, p.read())
		allocs[name] = testing.AllocsPerRun(1000, func() {
			if err := p.read(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("allocations a read: %v", allocs)
	require.LessOrEqual(t, allocs["routed"]-allocs["bare"], float64(maxReadAllocs))
}

// benchGoroutines is how many statements are under way at one time on a real server.
const benchGoroutines = 16

// benchRows is how many rows a table has, and benchRow the row of one goroutine: others' are on other pages, so that nobody
// waits for a page.
const benchRows = 1000

func benchRow(goroutine int) int { return goroutine*61%benchRows + 1 }

// postgresPools returns a routed pool over a private primary and a standby, and a bare one of the server that does the
// work: the standby for reads.
func postgresPools(b *testing.B, reads bool) map[string]pool {
	b.Helper()
	c := dbtest.StartPostgresT(b, dbtest.PostgresOptions{Standbys: 1})
	require.NoError(b, c.Primary().Exec(testContext(b),
		"CREATE TABLE bench (id int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50)",
		fmt.Sprintf("INSERT INTO bench SELECT i, 0 FROM generate_series(1, %d) i", benchRows)))
	require.NoError(b, c.WaitCaughtUp(testContext(b)))
	node := c.Primary()
	if reads {
		node = c.Standby(0)
	}
	pg, err := pgx.ParseConfig(node.DSN())
	require.NoError(b, err)
	bare := sql.OpenDB(stdlib.GetConnector(*pg))
	bare.SetMaxIdleConns(benchGoroutines)
	b.Cleanup(func() { require.NoError(b, bare.Close()) })
	db := open(b, configFor(c))
	return map[string]pool{"bare": {DB: bare}, "routed": {DB: db.DB}}
}

func BenchmarkPostgresRead(b *testing.B) { benchPostgres(b, true, readOne) }

func BenchmarkPostgresWrite(b *testing.B) { benchPostgres(b, false, writeOne) }

func readOne(p pool, id int) error {
	var n int64
	return p.QueryRowContext(p.ctx, benchRead, id).Scan(&n)
}

func writeOne(p pool, id int) error {
	_, err := p.ExecContext(p.ctx, benchWrite, id)
	return err
}

// benchPostgres runs statements of 16 goroutines, each with a session and a row of its own.
func benchPostgres(b *testing.B, reads bool, run func(p pool, id int) error) {
	benchEach(b, postgresPools(b, reads), func(b *testing.B, p pool) {
		procs := runtime.GOMAXPROCS(0)
		b.SetParallelism((benchGoroutines + procs - 1) / procs)
		ids := make(chan int, benchRows)
		for id := range cap(ids) {
			ids <- benchRow(id)
		}
		b.RunParallel(func(pb *testing.PB) {
			own, id := p, <-ids
			own.ctx = readroute.WithSession(context.Background())
			for pb.Next() {
				if err := run(own, id); err != nil {
					b.Error(fmt.Errorf("statement: %w", err))
					return
				}
			}
		})
	})
}

// The paired benchmarks run short turns of the bare and the routed pool one after the other, so that whatever else the
// machine does falls on both: one report is the bound's own figure.

// BenchmarkReadPaired reports what a routed read adds.
func BenchmarkReadPaired(b *testing.B) { benchPaired(b, pool.read) }

// BenchmarkWritePaired reports what a routed write adds.
func BenchmarkWritePaired(b *testing.B) { benchPaired(b, pool.write) }

// benchPaired takes the best hundredth of each pool's turns: in the others something else had the processor.
func benchPaired(b *testing.B, run func(pool) error) {
	const turn = 50
	pools := nullPools(b)
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, name := range []string{"bare", "routed"} {
			begin := time.Now()
			for range turn {
				if err := run(pools[name]); err != nil {
					b.Fatal(err)
				}
			}
			took[name] = append(took[name], time.Since(begin))
		}
	}
	cost := map[string]float64{}
	for name, turns := range took {
		slices.Sort(turns)
		cost[name] = float64(turns[len(turns)/100]) / turn
	}
	b.ReportMetric(cost["bare"], "bare-ns/statement")
	b.ReportMetric(cost["routed"]-cost["bare"], "added-ns/statement")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPostgresReadPaired reports the routed pool's throughput as a part of the bare one's.
func BenchmarkPostgresReadPaired(b *testing.B) { benchPostgresPaired(b, true, readOne) }

// BenchmarkPostgresWritePaired does the same for autocommit writes whose position is captured.
func BenchmarkPostgresWritePaired(b *testing.B) { benchPostgresPaired(b, false, writeOne) }

func benchPostgresPaired(b *testing.B, reads bool, run func(p pool, id int) error) {
	benchPoolsPaired(b, postgresPools(b, reads), run)
}

func benchPoolsPaired(b *testing.B, pools map[string]pool, run func(p pool, id int) error) {
	const turn = 50 * time.Millisecond
	order := []string{"bare", "routed"}
	rate := func(name string) float64 {
		var statements atomic.Int64
		var wg sync.WaitGroup
		begin := time.Now()
		for id := range benchGoroutines {
			wg.Go(func() {
				own := pools[name]
				own.ctx = readroute.WithSession(context.Background())
				for time.Since(begin) < turn {
					if err := run(own, benchRow(id)); err != nil {
						b.Error(err)
						return
					}
					statements.Add(1)
				}
			})
		}
		wg.Wait()
		return float64(statements.Load()) / time.Since(begin).Seconds()
	}
	for range 5 { // connections are opened, and the servers' caches filled
		rate(order[0])
		rate(order[1])
	}
	done := map[string]float64{}
	for b.Loop() {
		for _, name := range order {
			done[name] += rate(name)
		}
		slices.Reverse(order)
	}
	b.ReportMetric(done["routed"]/done["bare"], "routed/bare")
	b.ReportMetric(0, "ns/op")
}
