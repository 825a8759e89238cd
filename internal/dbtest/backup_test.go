package dbtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// storedNode is a node of either kind of cluster.
type storedNode interface {
	Exec(ctx context.Context, sql ...string) error
	QueryValue(ctx context.Context, sql string) (string, error)
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
	Backup(ctx context.Context) error
	Restore(ctx context.Context) error
}

// goesBack restores a replica, which has lost then what came after its backup, and gets it from its primary again.
func goesBack(t *testing.T, primary, replica storedNode, caughtUp func(context.Context) error) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, primary.Exec(ctx, "CREATE TABLE kept (id INT)", "INSERT INTO kept VALUES (1)"))
	require.NoError(t, caughtUp(ctx))
	require.ErrorContains(t, replica.Restore(ctx), "restoring")
	require.NoError(t, replica.Backup(ctx))
	require.NoError(t, primary.Exec(ctx, "INSERT INTO kept VALUES (2)"))
	require.NoError(t, caughtUp(ctx))
	count := func() string {
		n, err := replica.QueryValue(ctx, "SELECT COUNT(*) FROM kept")
		require.NoError(t, err)
		return n
	}
	require.Equal(t, "2", count())
	require.NoError(t, primary.Freeze(ctx))
	require.NoError(t, replica.Restore(ctx))
	require.Equal(t, "1", count())
	require.NoError(t, primary.Thaw(ctx))
	require.NoError(t, caughtUp(ctx))
	require.Equal(t, "2", count())
}

func TestRestoredReplicaGoesBack(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
		goesBack(t, c.Primary(), c.Standby(0), c.WaitCaughtUp)
	})
	onBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster) {
		goesBack(t, c.Primary(), c.Replica(0), c.WaitCaughtUp)
	})
}
