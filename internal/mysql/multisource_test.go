package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

// A replica of two primaries is fed when both feed it, and shows a write when it has that one's part.
func TestMultiSource(t *testing.T) {
	t.Parallel()
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		options := dbtest.MySQLOptions{}
		start := dbtest.StartMySQLT
		if e.MariaDB {
			start, options.Settings = dbtest.StartMariaDBT, map[string]string{"gtid-domain-id": "1"}
		}
		first, second, replica := c.Primary(), start(t, options).Primary(), c.Replica(0)
		theirs, err := second.Position(testContext(t)) // all that it has, its replica is taken to have
		require.NoError(t, err)
		if e.MariaDB {
			exec(t, replica, "STOP SLAVE", "SET GLOBAL gtid_slave_pos = CONCAT(@@GLOBAL.gtid_slave_pos, ',"+theirs+"')",
				fmt.Sprintf("CHANGE MASTER 'second' TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='repl', MASTER_USE_GTID=slave_pos", second.Port()),
				"START ALL SLAVES")
		} else {
			theirs = strings.ReplaceAll(theirs, "\n", "")
			exec(t, replica, "SET GLOBAL gtid_purged = CONCAT('+', GTID_SUBTRACT('"+theirs+"', @@GLOBAL.gtid_executed))",
				fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='repl', SOURCE_AUTO_POSITION=1, "+
					"SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1 FOR CHANNEL 'second'", second.Port()), "START REPLICA FOR CHANNEL 'second'")
		}
		l := link(t, replica.WatchDSN())
		ask := func() core.Sample {
			s, err := e.Ask(testContext(t), l)
			require.NoError(t, err)
			require.Equal(t, core.RoleReplica, s.Role)
			return s
		}
		eventually(t, "both feed it", func() bool { return ask().HasSource })

		for name, n := range map[string]*dbtest.MySQLNode{"one": first, "two": second} {
			base := look(t, e, n.AppDSN())
			exec(t, n, "CREATE TABLE app."+name+" (id INT)")
			now := look(t, e, n.AppDSN())
			need := e.Need(base.Sample, now.Sample)
			snapshot := core.Snapshot{Nodes: []core.NodeView{{Sample: now.Sample}}}
			eventually(t, "it has the write of "+name, func() bool {
				return snapshot.Covers(ask().Position, []core.Position{need}, now.Ended) == core.Covered
			})
			rows, err := replica.QueryValue(testContext(t), "SELECT COUNT(*) FROM app."+name)
			require.NoError(t, err)
			require.Equal(t, "0", rows)
		}

		if e.MariaDB {
			r := look(t, e, replica.AppDSN())
			require.False(t, r.HasSource)
			require.Contains(t, strings.Join(r.Missing, ""), "GRANT SLAVE MONITOR ON *.*")
			exec(t, replica, "STOP SLAVE 'second'")
		} else {
			exec(t, replica, "STOP REPLICA FOR CHANNEL 'second'")
		}
		eventually(t, "one feeds it no longer", func() bool { return !ask().HasSource })

		// A promotion is seen by the next question, however fresh the last answer is.
		promote := "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF"
		if e.MariaDB {
			promote = "STOP ALL SLAVES; RESET SLAVE ALL; RESET SLAVE 'second' ALL; SET GLOBAL read_only = OFF"
		}
		ask()
		exec(t, replica, promote)
		s, err := e.Ask(testContext(t), l)
		require.NoError(t, err)
		require.Equal(t, core.RolePrimary, s.Role)
	})
}
