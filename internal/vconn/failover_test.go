package vconn_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// TestHeldConnectionFollowsThePrimary: a checkout that has a connection to the old primary, which still runs, reads what
// its session has written on the new one.
func TestHeldConnectionFollowsThePrimary(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	old, promoted := c.Primary(), c.Standby(0)
	table := newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.Equal(t, old.Name(), db.last(t).Node)
	pinned, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, pinned.Close()) }()
	_, err = pinned.ExecContext(ctx, "SET datestyle TO German")
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.NoError(t, promoted.Promote(ctx))
	require.Eventually(t, func() bool { return db.Nodes()[1].Primary }, 20*time.Second, time.Millisecond)
	_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (2)")
	require.NoError(t, err)
	require.Equal(t, promoted.Name(), db.last(t).Node)
	require.Equal(t, 2, count(t, ctx, conn, table))
	require.Equal(t, promoted.Name(), db.last(t).Node)

	// One that carries state cannot be left, and the decision says where it is.
	require.Equal(t, 1, count(t, ctx, pinned, table))
	require.Equal(t, old.Name(), db.last(t).Node)
}
