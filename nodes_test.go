package readroute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// breakable is the shared cluster for a test that stops or freezes standbys. They run again after it.
func breakable(t testing.TB) *dbtest.PostgresCluster {
	t.Helper()
	c := sharedCluster(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		for _, n := range c.Nodes() {
			require.NoError(t, n.Thaw(ctx))
			if !n.IsRunning() {
				require.NoError(t, n.Start(ctx))
			}
		}
		require.NoError(t, c.WaitCaughtUp(ctx))
	})
	return c
}

// load reads from several goroutines until stop is called, which returns the errors.
func load(t testing.TB, db *readroute.DB, readers int, query string) (reads *atomic.Int64, stop func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(sessionContext(t))
	reads = new(atomic.Int64)
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			ticker := time.NewTicker(5 * time.Millisecond)
			defer ticker.Stop()
			for ctx.Err() == nil {
				err := db.QueryRowContext(context.WithoutCancel(ctx), query).Scan(new(int))
				reads.Add(1)
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
				<-ticker.C
			}
		})
	}
	return reads, func() []error {
		cancel()
		wg.Wait()
		return errs
	}
}

// served counts the decisions for each node.
func served(list []readroute.Decision) map[string]int {
	nodes := map[string]int{}
	for _, d := range list {
		nodes[d.Node]++
	}
	return nodes
}

// status returns what db knows of a node.
func status(t testing.TB, db *readroute.DB, name string) readroute.NodeStatus {
	t.Helper()
	list := db.Nodes()
	i := slices.IndexFunc(list, func(n readroute.NodeStatus) bool { return n.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return list[i]
}

func TestK4_03_OneReplicaDies(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	reads, stop := load(t, db, 4, "SELECT count(*) FROM pg_class")
	eventually(t, "load", func() bool { return reads.Load() > 100 })
	require.NoError(t, standbys(c)[0].Kill(testContext(t)))
	at := reads.Load()
	eventually(t, "more load", func() bool { return reads.Load() > at+200 })
	seen.take()
	eventually(t, "more load", func() bool { return reads.Load() > at+400 })
	require.NotContains(t, served(seen.take()), standbys(c)[0].Name())
	require.Empty(t, stop(), "a read without a row runs once more elsewhere")
}

func TestK4_04_AllReplicasDown(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	for _, n := range standbys(c) {
		require.NoError(t, n.StopFast(testContext(t)))
	}
	ctx := sessionContext(t)
	for range 100 {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	}
	require.Equal(t, map[string]int{c.Primary().Name(): 100}, served(seen.take()))
	require.Positive(t, db.RouteStats().Nodes[0].Reasons[readroute.ReasonNoReplica])
	failing := readroute.WithFallback(ctx, readroute.FallbackError)
	require.ErrorIs(t, db.QueryRowContext(failing, "SELECT 1").Scan(new(int)), readroute.ErrNoReplica)
	require.Empty(t, seen.one(t).Node)
}

func TestK4_05_FallbackIsLimited(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	config.FallbackLimit = 5
	config.Strategy = readroute.PositionWait(20 * time.Millisecond)
	db := open(t, config)
	for _, n := range standbys(c) {
		require.NoError(t, n.StopFast(testContext(t)))
	}
	eventually(t, "the monitor knows", func() bool {
		return !status(t, db, standbys(c)[0].Name()).Healthy && !status(t, db, standbys(c)[1].Name()).Healthy
	})
	ctx := sessionContext(t)
	var most atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 300)
	for i := range errs {
		wg.Go(func() {
			errs[i] = db.QueryRowContext(ctx, "SELECT count(*) FROM generate_series(1, 300000)").Scan(new(int))
			most.Store(max(most.Load(), int64(db.RouteStats().Nodes[0].Writer.OpenConnections)))
		})
	}
	table := newTable(t, c, "id int")
	for range 10 {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err, "writes keep their own capacity")
	}
	wg.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, readroute.ErrPrimaryProtected)
			refused++
		}
	}
	require.Positive(t, refused)
	require.Less(t, refused, len(errs))
	require.LessOrEqual(t, most.Load(), int64(5+1))
	require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)), "the slots have come back")
	require.EqualValues(t, refused, db.RouteStats().Refused[readroute.ReasonProtected])
}

func TestK4_06_OneReadMayRefuseThePrimary(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	_, err = readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	seen.take()
	err = db.QueryRowContext(readroute.WithFallback(ctx, readroute.FallbackError), "SELECT count(*) FROM "+table).Scan(new(int))
	require.ErrorIs(t, err, readroute.ErrNotCaughtUp)
	var behind *readroute.NotCaughtUpError
	require.ErrorAs(t, err, &behind)
	require.Positive(t, behind.BehindBytes)
	require.NotEmpty(t, behind.Node)
	d := seen.one(t)
	require.Empty(t, d.Node)
	require.ErrorIs(t, d.Err, readroute.ErrNotCaughtUp)
}

func TestK4_08_NodeIsProbedBeforeItServes(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	config.ProbeInterval = 100 * time.Millisecond
	seen := record(&config)
	db := open(t, config)
	reads, stop := load(t, db, 2, "SELECT 1")
	eventually(t, "load", func() bool { return reads.Load() > 50 })
	gone := standbys(c)[0]
	require.NoError(t, gone.StopFast(testContext(t)))
	stopped := time.Now()
	eventually(t, "two seconds", func() bool { return time.Since(stopped) > 2*time.Second })
	seen.take()
	require.NoError(t, gone.Start(testContext(t)))
	eventually(t, "the node serves again", func() bool { return served(seen.take())[gone.Name()] > 0 })
	require.Empty(t, stop(), "no read was sent to a node that was not probed")
}

func TestK4_09_RefusedDialIsAFailure(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	config.ProbeInterval = 15 * time.Second
	seen := record(&config)
	db := open(t, config)
	gone := standbys(c)[0]
	eventually(t, "both replicas are measured", func() bool {
		return status(t, db, config.Replicas[0].Name).LagKnown && status(t, db, config.Replicas[1].Name).LagKnown
	})
	require.NoError(t, gone.StopImmediate(testContext(t)))
	ctx := sessionContext(t)
	errs := make([]error, 100)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	seen.take()
	require.False(t, status(t, db, gone.Name()).Healthy, "%+v", db.Nodes())
	for range 50 {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	}
	for _, d := range seen.take() {
		require.Equal(t, standbys(c)[1].Name(), d.Node)
		require.Zero(t, d.Retry)
	}
}

func TestK4_12_FrozenReplica(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.ProbeInterval = 100 * time.Millisecond
	config.ProbeTimeout = 300 * time.Millisecond
	seen := record(&config)
	db := open(t, config)
	frozen := standbys(c)[0]
	ctx := sessionContext(t)
	for range 50 { // there are connections to both
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	}
	require.NoError(t, frozen.Freeze(testContext(t)))
	began := time.Now()
	var longest time.Duration
	eventually(t, "the node is out", func() bool {
		at := time.Now()
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		longest = max(longest, time.Since(at))
		return !status(t, db, frozen.Name()).Healthy
	})
	require.Less(t, time.Since(began), 2*time.Second)
	require.Less(t, longest, 2*time.Second, "interval + probe timeout, and the other node")
	seen.take()
	for range 50 {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	}
	require.NotContains(t, served(seen.take()), frozen.Name())

	writer := sessionContext(t)
	_, err := db.ExecContext(writer, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, frozen.Thaw(testContext(t)))
	eventually(t, "the node serves again", func() bool {
		require.Equal(t, 1, count(t, writer, db, table, 1))
		return served(seen.take())[frozen.Name()] > 0
	})
}

func TestK4_16_LagNeverTakesTheWriter(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.MaxLag = time.Microsecond
	config.ProbeInterval = 20 * time.Millisecond
	db, err := readroute.Open(config) // no replica is ever ready
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, n := range standbys(c) {
		require.NoError(t, n.StopFast(testContext(t)))
	}
	ctx := sessionContext(t)
	for i := range 20 {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
		require.NoError(t, err)
		require.Equal(t, i+1, countIn(t, ctx, db, table))
	}
}

func TestK4_15_ReplicaWithoutASource(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.ProbeInterval = 50 * time.Millisecond
	seen := record(&config)
	db := open(t, config)
	lost := standbys(c)[0]
	conninfo, err := lost.QueryValue(testContext(t), "SHOW primary_conninfo")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lost.Set(context.Background(), "primary_conninfo", conninfo)) })
	require.NoError(t, lost.Set(testContext(t), "primary_conninfo", ""))
	eventually(t, "the monitor knows", func() bool { return status(t, db, lost.Name()).Stopped })
	seen.take()
	ctx := sessionContext(t)
	for range 50 {
		count(t, ctx, db, table, 1)
	}
	require.Equal(t, map[string]int{standbys(c)[1].Name(): 50}, served(seen.take()), "however small its lag looks")
	require.NoError(t, lost.Set(testContext(t), "primary_conninfo", conninfo))
	eventually(t, "the monitor knows", func() bool { return !status(t, db, lost.Name()).Stopped })
}

func TestK4_29_NoReplicas(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Replicas = nil
	config.FallbackLimit = 1
	db := open(t, config)
	ctx := sessionContext(t)
	errs := make([]error, 50)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
			var n int
			if err == nil {
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", i).Scan(&n)
			}
			if err == nil && n != 1 {
				err = fmt.Errorf("row %d is not there", i)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, level := range []readroute.Level{readroute.LevelEventual, readroute.LevelSession, readroute.LevelPrimary} {
		require.NoError(t, db.QueryRowContext(readroute.WithLevel(ctx, level), "SELECT 1").Scan(new(int)))
	}
}
