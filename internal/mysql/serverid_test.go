package mysql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

// TestMariaDBPositionUnderAnotherServerID: what was written last is in a primary's position also when that was under another server_id than
// the server has now. MariaDB's gtid_current_pos goes back to where the server was as a replica then.
func TestMariaDBPositionUnderAnotherServerID(t *testing.T) {
	t.Parallel()
	c, e := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{Replicas: 1}), mysql.Engine{MariaDB: true}
	former, primary := c.Primary(), c.Replica(0)
	exec(t, former, "CREATE TABLE app.t (id INT PRIMARY KEY)")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, former.StopFast(testContext(t)))
	require.NoError(t, primary.Promote(testContext(t)))
	shows := func(what string, before mysql.Report) {
		t.Helper()
		after := look(t, e, primary.WatchDSN())
		require.NotEqual(t, core.Covered, e.Need(before.Sample, after.Sample).CoveredBy(before.Position), what)
		require.Equal(t, query(t, link(t, primary.WatchDSN()), "SELECT @@GLOBAL.gtid_binlog_pos")[0], after.Position.String(), what)
	}

	before := look(t, e, primary.WatchDSN())
	exec(t, primary, "SET SESSION server_id = 77; INSERT INTO t VALUES (1)")
	shows("a session has its own", before)

	exec(t, primary, "INSERT INTO t VALUES (2)")
	primary.SetServerID(78)
	require.NoError(t, primary.StopFast(testContext(t)))
	require.NoError(t, primary.Start(testContext(t)))
	shows("the server had another when it was stopped", before)
}
