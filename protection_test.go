package readroute_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestProtectionOfThePrimary: while every replica is frozen under a storm of reads, writes go on as they did, reads past the
// limit fail in bounded time, and soon after the replicas are back none does.
func TestProtectionOfThePrimary(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int PRIMARY KEY, n int")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1, 0)"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	config := configFor(c)
	config.FallbackLimit = 2
	config.Strategy = readroute.PositionWait(50 * time.Millisecond)
	config.ProbeInterval, config.ProbeTimeout = 200*time.Millisecond, 800*time.Millisecond
	db := open(t, config)
	writes := func() time.Duration {
		var took []time.Duration
		for range 60 {
			began := time.Now()
			_, err := db.ExecContext(testContext(t), "UPDATE "+table+" SET n = n + 1 WHERE id = 1")
			require.NoError(t, err)
			took = append(took, time.Since(began))
			<-time.After(2 * time.Millisecond)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	calm := writes()

	var done atomic.Bool
	var served, refused, slowest atomic.Int64
	var other error
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			ctx := readroute.WithSession(context.Background())
			for !done.Load() {
				began := time.Now()
				// A read that keeps the primary busy for a while, as those of a storm do.
				err := db.QueryRowContext(ctx, "/* route:replica */ SELECT count(*) FROM "+table+" WHERE pg_sleep(0.02) IS NOT NULL").Scan(new(int))
				if took := int64(time.Since(began)); took > slowest.Load() {
					slowest.Store(took)
				}
				switch {
				case err == nil:
					served.Add(1)
				case errors.Is(err, readroute.ErrPrimaryProtected):
					refused.Add(1)
				case strings.Contains(err.Error(), "fell silent"):
					// It was on both replicas, one after the other, when they froze: there is one retry.
				default:
					mu.Lock()
					other = err
					mu.Unlock()
				}
			}
		})
	}
	eventually(t, "the replicas serve", func() bool { return served.Load() > 200 })
	require.LessOrEqual(t, refused.Load(), served.Load()/50)
	for _, n := range standbys(c) {
		require.NoError(t, n.Freeze(testContext(t)))
	}
	eventually(t, "the primary is protected", func() bool { return refused.Load() > 100 })
	slowest.Store(0)
	storm := writes()
	require.LessOrEqual(t, storm, 2*calm+10*time.Millisecond, "calm: %v", calm)
	bound := config.ProbeTimeout + 50*time.Millisecond + readroute.DefaultCaptureTimeout
	require.Less(t, time.Duration(slowest.Load()), bound+2*time.Second, "a busy machine, and no more")
	require.LessOrEqual(t, db.RouteStats().Nodes[0].Writer.OpenConnections, 2+8)

	for _, n := range standbys(c) {
		require.NoError(t, n.Thaw(testContext(t)))
	}
	eventually(t, "the replicas are back", func() bool {
		for _, n := range db.Nodes() {
			if !n.Healthy {
				return false
			}
		}
		return true
	})
	<-time.After(2 * config.ProbeInterval)
	before, well := refused.Load(), served.Load()
	<-time.After(500 * time.Millisecond)
	require.LessOrEqual(t, refused.Load()-before, (served.Load()-well)/50, "all is calm again")
	done.Store(true)
	all.Wait()
	require.NoError(t, other, "%T", other)
	t.Logf("writes: %v calm, %v in the storm; %d reads served, %d refused, slowest %v", calm, storm, served.Load(), refused.Load(), time.Duration(slowest.Load()))
}
