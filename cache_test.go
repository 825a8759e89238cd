package readroute_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestCacheIsNotPoisoned: after an invalidation a fill from a lagging replica puts the old value back, for as long as the cache
// keeps it. What MayCache allows never does.
func TestCacheIsNotPoisoned(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		quick(&config)
		db := open(t, config)
		c.pause(t, 1)
		c.pause(t, 2)
		fenced := func() context.Context {
			ctx := sessionContext(t)
			require.NoError(t, db.Fence(ctx))
			return ctx
		}
		before := []context.Context{fenced(), fenced(), fenced()}
		writer := c.bare(t, 0) // another service, past this pool
		_, err := writer.Exec("INSERT INTO " + table + " VALUES (7)")
		require.NoError(t, err)

		fill := func(ctx context.Context) (value int, may bool) {
			may = db.MayCache(ctx)
			return newest(t, ctx, db, table), may
		}
		poisoned := 0
		for name, ctx := range map[string]context.Context{
			"no session":          testContext(t),
			"session":             sessionContext(t),
			"eventual":            readroute.WithLevel(testContext(t), readroute.LevelEventual),
			"bounded":             readroute.WithLevel(testContext(t), readroute.LevelBounded(1<<40)),
			"global":              readroute.WithLevel(testContext(t), readroute.LevelGlobal),
			"global, or stale":    readroute.WithFallback(readroute.WithLevel(testContext(t), readroute.LevelGlobal), readroute.FallbackStale),
			"primary":             readroute.WithLevel(testContext(t), readroute.LevelPrimary),
			"fenced":              fenced(),
			"fenced and global":   readroute.WithLevel(fenced(), readroute.LevelGlobal),
			"fenced and eventual": readroute.WithLevel(fenced(), readroute.LevelEventual),
			"fenced, or stale":    readroute.WithFallback(fenced(), readroute.FallbackStale),
			// By the time of the invalidation these sessions had asked for everything already.
			"fenced before":            before[0],
			"fenced before and causal": readroute.WithLevel(before[1], readroute.LevelCausal),
			"fenced before and global": readroute.WithLevel(before[2], readroute.LevelGlobal),
		} {
			value, may := fill(ctx)
			if value != 7 {
				poisoned++
				require.False(t, may, "%s: the old value would be kept for everyone", name)
			}
			require.Equal(t, map[string]bool{
				"no session": true, "global": true, "primary": true, "fenced and global": true, "fenced before and global": true,
			}[name], may, name)
		}
		require.GreaterOrEqual(t, poisoned, 6, "the test shows nothing")
	})
}

// TestCacheOfStickySessions: without positions nothing but the primary proves anything.
func TestCacheOfStickySessions(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Strategy = readroute.Sticky(0)
	db := open(t, config)
	ctx := sessionContext(t)
	require.NoError(t, db.Fence(ctx))
	require.False(t, db.MayCache(ctx))
	require.False(t, db.MayCache(readroute.WithLevel(ctx, readroute.LevelGlobal)))
	require.True(t, db.MayCache(readroute.WithLevel(ctx, readroute.LevelPrimary)))
	require.False(t, db.MayCache(readroute.WithNode(ctx, "nobody")))
}
