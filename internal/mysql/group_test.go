package mysql_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

const groupName = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

// groupCluster is servers that can be members of a group, and are not yet.
func groupCluster(t *testing.T, replicas int) (*dbtest.MySQLCluster, []string) {
	t.Helper()
	c := dbtest.StartMySQLT(t, dbtest.MySQLOptions{Replicas: replicas, Settings: map[string]string{
		"plugin-load-add": "group_replication.so", "report-host": "127.0.0.1", "loose-group-replication-group-name": groupName,
		"loose-group-replication-start-on-boot": "OFF", "loose-group-replication-ssl-mode": "DISABLED",
		"loose-group-replication-recovery-use-ssl": "OFF", "loose-group-replication-recovery-get-public-key": "ON",
	}})
	addrs := make([]string, len(c.Nodes()))
	for i, n := range c.Nodes() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addrs[i] = l.Addr().String()
		require.NoError(t, l.Close())
		exec(t, n, "SET GLOBAL group_replication_local_address = '"+addrs[i]+"'")
	}
	return c, addrs
}

// A group with one primary: its members are told apart by the group itself, and write under the group's name.
func TestGroupReplication(t *testing.T) {
	t.Parallel()
	e := mysql.Engine{}
	c, addrs := groupCluster(t, 1)
	a, b := c.Primary(), c.Replica(0)
	exec(t, a, "CREATE TABLE app.t (id INT PRIMARY KEY)")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))

	// As long as nobody has started the group, a group's name means nothing.
	require.Equal(t, core.RolePrimary, look(t, e, a.DSN()).Role)
	r := look(t, e, b.DSN())
	require.Equal(t, core.RoleReplica, r.Role)
	require.True(t, r.HasSource)

	exec(t, b, "STOP REPLICA", "RESET REPLICA ALL")
	seeds := "SET GLOBAL group_replication_group_seeds = '" + strings.Join(addrs, ",") + "'"
	exec(t, a, seeds, "SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION",
		"SET GLOBAL group_replication_bootstrap_group = OFF")
	exec(t, b, seeds, "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'repl' FOR CHANNEL 'group_replication_recovery'", "START GROUP_REPLICATION")
	l := link(t, b.DSN())
	eventually(t, "the secondary is online", func() bool {
		s, err := e.Ask(testContext(t), l)
		require.NoError(t, err)
		require.Equal(t, core.RoleReplica, s.Role)
		return s.HasSource
	})
	base := look(t, e, a.DSN())
	require.Equal(t, core.RolePrimary, base.Role)
	exec(t, a, "INSERT INTO app.t VALUES (1)")
	after := look(t, e, a.DSN())
	need := e.Need(base.Sample, after.Sample)
	require.Contains(t, need.String(), groupName)
	require.NotEqual(t, core.Covered, need.CoveredBy(base.Position))
	require.Equal(t, need.String(), after.Own.String())
	exec(t, a, "INSERT IGNORE INTO app.t VALUES (1)")
	require.Equal(t, need.String(), e.Need(after.Sample, look(t, e, a.DSN()).Sample).String())
	eventually(t, "the secondary has it", func() bool {
		s, err := e.Ask(testContext(t), l)
		require.NoError(t, err)
		return need.CoveredBy(s.Position) == core.Covered
	})

	// Who may not look is told which right is missing, and the role is what the server takes itself for.
	r = look(t, e, b.WatchDSN())
	require.Equal(t, core.RoleReplica, r.Role)
	require.False(t, r.HasSource)
	require.Contains(t, strings.Join(r.Missing, ""), "GRANT SELECT ON performance_schema.replication_group_members")
	require.Equal(t, core.RolePrimary, look(t, e, a.AppDSN()).Role)
	exec(t, a, "GRANT SELECT ON performance_schema.replication_group_members TO watch@'127.0.0.1'")
	eventually(t, "the right has come", func() bool { return look(t, e, b.WatchDSN()).HasSource })

	// The group chooses another primary.
	old := link(t, a.WatchDSN())
	uuid, err := b.QueryValue(testContext(t), "SELECT @@server_uuid")
	require.NoError(t, err)
	_, err = a.QueryValue(testContext(t), "SELECT group_replication_set_as_primary('"+uuid+"')")
	require.NoError(t, err)
	require.Equal(t, core.RolePrimary, look(t, e, b.WatchDSN()).Role)
	s, err := e.Ask(testContext(t), old)
	require.NoError(t, err)
	require.Equal(t, core.RoleReplica, s.Role)

	// One that has left it is fed by nothing.
	exec(t, a, "STOP GROUP_REPLICATION")
	eventually(t, "it has left", func() bool {
		s, err := e.Ask(testContext(t), old)
		require.NoError(t, err)
		require.Equal(t, core.RoleReplica, s.Role)
		return !s.HasSource
	})
}

// A group with several primaries is refused in a sentence, whether or not the user may look at it.
func TestGroupWithSeveralPrimaries(t *testing.T) {
	t.Parallel()
	c, addrs := groupCluster(t, 0)
	a := c.Primary()
	exec(t, a, "SET GLOBAL group_replication_single_primary_mode = OFF", "SET GLOBAL group_replication_group_seeds = '"+addrs[0]+"'",
		"SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION")
	for _, dsn := range []string{a.DSN(), a.AppDSN()} {
		_, err := mysql.Engine{}.Ask(testContext(t), link(t, dsn))
		require.ErrorIs(t, err, mysql.ErrUnsupported)
		require.ErrorContains(t, err, "several primaries")
		require.NotContains(t, err.Error(), "\n")
	}
}
