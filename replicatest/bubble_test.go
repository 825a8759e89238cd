package replicatest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// TestLagInABubble: under testing/synctest a minute of lag takes no time, and a read waits for a replica just as long as it has to.
func TestLagInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := replicatest.NewT(t, replicatest.Options{Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY)"}})
		var seen decisions
		db := c.OpenT(t, record(&seen), func(config *readroute.Config) { config.MaxLag = time.Hour })
		ctx := readroute.WithSession(context.Background())
		require.NoError(t, c.SetLag(ctx, time.Minute))
		wrote := time.Now()
		_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1)")
		require.NoError(t, err)
		read := func(ctx context.Context) readroute.Decision {
			seen.take()
			var n int
			require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
			require.Equal(t, 1, n)
			return seen.last(t)
		}
		require.Equal(t, readroute.RolePrimary, read(ctx).Role)
		require.Less(t, time.Since(wrote), time.Second)
		d := read(readroute.WithWait(ctx, 2*time.Minute))
		require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
		require.InDelta(t, time.Minute, time.Since(wrote), float64(time.Second), "the read has waited until the replica had it")
		require.NoError(t, db.Close())
	})
}

// TestCloseInABubble: everything that a cluster and a pool have started ends with them, or the bubble would say so.
func TestCloseInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := replicatest.New(replicatest.Options{Replicas: 3})
		require.NoError(t, err)
		db, err := c.Open(t.Context())
		require.NoError(t, err)
		require.NoError(t, db.PingContext(t.Context()))
		require.NoError(t, c.Close())
	})
}
