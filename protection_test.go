package readroute_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestProtectionOfThePrimary: while every replica is frozen under a storm of reads, half of them of sessions that write before each
// read, the primary serves no more of them at one time than FallbackLimit, reads past it fail in bounded time, and soon after
// the replicas are back none does.
func TestProtectionOfThePrimary(t *testing.T) {
	c := breakable(t)
	table, written := newTable(t, c, "id int PRIMARY KEY, n int"), newTable(t, c, "n int")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1, 0)"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	config := configFor(c)
	config.FallbackLimit = 2
	const wait = 100 * time.Millisecond
	config.Strategy, config.CaptureTimeout = readroute.PositionWait(wait), time.Second // room for a busy machine while all is well
	config.ProbeInterval, config.ProbeTimeout = 200*time.Millisecond, 800*time.Millisecond
	db := open(t, config)

	var done atomic.Bool
	var served, refused, slowest atomic.Int64
	var other error
	var mu sync.Mutex
	var all sync.WaitGroup
	// A read that keeps the primary busy for a while, as those of a storm do.
	storm := "/* route:replica */ SELECT count(*) FROM " + table + " WHERE pg_sleep(0.05) IS NOT NULL"
	wrong := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		other = err
	}
	for i := range 24 {
		all.Go(func() {
			ctx := readroute.WithSession(context.Background())
			for !done.Load() {
				if i%2 == 0 {
					_, err := db.ExecContext(ctx, "INSERT INTO "+written+" VALUES (1)") // no replay waits for a read, as it may for an UPDATE
					if err != nil {
						wrong(err)
					}
				}
				began := time.Now()
				err := db.QueryRowContext(ctx, storm).Scan(new(int))
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
					wrong(err)
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
	well := served.Load()
	for range 100 {
		now := onPrimary(t, c, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep(0.05)%'")
		most, err := strconv.Atoi(now)
		require.NoError(t, err)
		require.LessOrEqual(t, most, config.FallbackLimit, "reads of the storm on the primary at one time")
	}
	require.Greater(t, served.Load(), well, "within the limit they are served")
	bound := config.ProbeTimeout + wait + config.CaptureTimeout
	require.Less(t, time.Duration(slowest.Load()), bound+2*time.Second, "a busy machine, and no more")
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
	eventually(t, "all is calm again", func() bool { // once they have caught up
		before, well := refused.Load(), served.Load()
		<-time.After(500 * time.Millisecond)
		return refused.Load()-before <= (served.Load()-well)/50
	})
	done.Store(true)
	all.Wait()
	require.NoError(t, other, "%T", other)
	t.Logf("%d reads served, %d refused, slowest %v", served.Load(), refused.Load(), time.Duration(slowest.Load()))
}
