package readroute_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestMariaDBWritesUnderAnotherServerID: MariaDB's gtid_current_pos leaves out what was written last when that was under another server_id than
// the server has now, be it the session's own or the one that the server had before. What is left of it, on a server that was a replica before, is
// where it was then, which every replica has.
func TestMariaDBWritesUnderAnotherServerID(t *testing.T) {
	c := ownGTIDs(t, true, dbtest.MySQLOptions{Replicas: 1})
	former, primary := c.Primary(), c.Replica(0)
	require.NoError(t, former.StopFast(testContext(t)))
	require.NoError(t, primary.Promote(testContext(t)))
	require.NoError(t, former.Follow(testContext(t), primary))
	table := newGTIDTable(t, c, numbered)
	config := gtidConfig(c, dbtest.AdminUser)
	config.MaxLag = time.Hour
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	add(t, ctx, db, table, 1)
	eventually(t, "the replica serves the session", func() bool {
		seen.take()
		require.Equal(t, 1, rowsOf(t, ctx, db, table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
	require.NoError(t, former.SetApplyDelay(testContext(t), time.Hour))

	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	_, err = conn.ExecContext(ctx, "SET SESSION server_id = 77")
	require.NoError(t, err)
	_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (2)")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NotContains(t, ask(t, primary, "SELECT @@GLOBAL.gtid_current_pos"), "0-77-")
	require.Equal(t, 1, rowsOf(t, ctx, db, table, 2), "read your writes")

	require.NoError(t, former.SetApplyDelay(testContext(t), 0))
	eventually(t, "the replica serves the session again", func() bool {
		seen.take()
		require.Equal(t, 1, rowsOf(t, ctx, db, table, 2))
		return seen.one(t).Role == readroute.RoleReplica
	})
}
