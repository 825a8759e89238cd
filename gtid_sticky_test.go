package readroute_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// positionless is a primary whose writes have no position, and a replica that follows it where that is possible.
func positionless(t *testing.T, settings map[string]string) (primary, replica *dbtest.MySQLNode) {
	t.Helper()
	primary = dbtest.StartMySQLT(t, dbtest.MySQLOptions{Settings: settings}).Primary()
	second := map[string]string{"server-id": "2"}
	for name, value := range settings {
		second[name] = value
	}
	replica = dbtest.StartMySQLT(t, dbtest.MySQLOptions{Settings: second}).Primary()
	// Both have made their database. By the place in the log the replica goes on after that.
	execOn(t, primary, "FLUSH BINARY LOGS")
	execOn(t, replica, "SET GLOBAL super_read_only = ON", fmt.Sprintf(`CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d,
		SOURCE_USER='repl', SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, SOURCE_LOG_FILE='%s', SOURCE_LOG_POS=4, SOURCE_CONNECT_RETRY=1`,
		primary.Port(), ask(t, primary, "SHOW BINARY LOG STATUS")), "START REPLICA")
	user := watchful + "@'127.0.0.1'"
	execOn(t, primary, "CREATE USER "+user, "GRANT ALL ON "+dbtest.AppDatabase+".* TO "+user, "GRANT REPLICATION CLIENT ON *.* TO "+user,
		"CREATE TABLE t (id INT PRIMARY KEY)")
	eventually(t, "the replica has it", func() bool {
		return ask(t, replica, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+dbtest.AppDatabase+"'") == "1"
	})
	return primary, replica
}

func nodeOf(name string, n *dbtest.MySQLNode) readroute.Node {
	return readroute.Node{Name: name, Connector: readroute.MySQL(n.DSN(watchful))}
}

// TestK5_24_MySQLWithoutGTIDs: a cluster whose servers have no positions is on the sticky window, and says so. How far a replica
// is behind is what it says of itself.
func TestK5_24_MySQLWithoutGTIDs(t *testing.T) {
	primary, replica := positionless(t, map[string]string{"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF"})
	config := readroute.Config{Primary: nodeOf("a", primary), Replicas: []readroute.Node{nodeOf("b", replica)}}
	config.StickyWindow = 300 * time.Millisecond
	config.ProbeInterval = 20 * time.Millisecond
	config.MaxLag = 1500 * time.Millisecond
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	require.True(t, db.RouteStats().Sticky)
	require.Equal(t, "MySQL", db.RouteStats().Engine)
	for _, name := range []string{"a", "b"} {
		s := status(t, db, name)
		require.True(t, s.Healthy)
		require.Len(t, s.Missing, 1)
		require.Contains(t, s.Missing[0], "gtid_mode is OFF")
		require.True(t, s.GTIDSet.IsZero())
		eventually(t, "the event says so, too", func() bool {
			return slices.ContainsFunc(happened.of(readroute.EventSetting), func(e readroute.Event) bool {
				return e.Node == name && e.Why == s.Missing[0]
			})
		})
	}

	ctx := sessionContext(t)
	require.Zero(t, countIn(t, ctx, db, "t"))
	require.Equal(t, []string{"replica covered"}, where(seen.take()))
	add(t, ctx, db, "t", 1)
	written := time.Now()
	token := tokenOf(t, ctx)
	seen.take()
	eventually(t, "the window is over", func() bool {
		at := time.Since(written)
		for _, ctx := range []int{0, 1} {
			reader := sessionContext(t)
			if ctx == 1 {
				reader = carrying(t, token)
			}
			n := countIn(t, reader, db, "t")
			d := seen.one(t)
			if ctx == 0 {
				require.Equal(t, readroute.RoleReplica, d.Role, "other sessions read from the replica")
			} else if d.Role == readroute.RolePrimary {
				require.Equal(t, readroute.ReasonSticky, d.Reason)
				require.Equal(t, 1, n)
			} else {
				require.Greater(t, time.Since(written), 300*time.Millisecond)
			}
		}
		return at > 400*time.Millisecond
	})
	require.NoError(t, db.Fence(ctx))
	countIn(t, ctx, db, "t")
	require.Equal(t, []string{"primary sticky"}, where(seen.take()), "after a fence as well")

	// MaxLag goes by Seconds_Behind_Source.
	execOn(t, replica, "STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 3600", "START REPLICA SQL_THREAD")
	eventual := readroute.WithLevel(testContext(t), readroute.LevelEventual)
	read := func() string {
		seen.take()
		require.NoError(t, db.QueryRowContext(eventual, "SELECT 1").Scan(new(int)))
		return where(seen.take())[0]
	}
	add(t, sessionContext(t), db, "t", 2)
	began := time.Now()
	eventually(t, "it says that it is too far behind", func() bool { return read() == "primary lagging" })
	require.Greater(t, time.Since(began), time.Second)
	execOn(t, replica, "STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0", "START REPLICA SQL_THREAD")
	eventually(t, "it has caught up", func() bool { return read() == "replica level" })
	execOn(t, replica, "STOP REPLICA SQL_THREAD")
	eventually(t, "it stands still", func() bool { return read() == "primary no_replica" })
	execOn(t, replica, "START REPLICA SQL_THREAD")
	eventually(t, "it goes on", func() bool { return read() == "replica level" })

	// On the way to GTIDs, without a restart: the window goes on until every transaction has one.
	for _, mode := range []string{"OFF_PERMISSIVE", "ON_PERMISSIVE"} {
		for _, n := range []*dbtest.MySQLNode{primary, replica} {
			execOn(t, n, "SET GLOBAL enforce_gtid_consistency = ON", "SET GLOBAL gtid_mode = "+mode)
		}
		require.True(t, db.RouteStats().Sticky)
	}
	eventually(t, "what had no GTID is there", func() bool { return ask(t, replica, "SELECT COUNT(*) FROM t") == "2" })
	execOn(t, replica, "SET GLOBAL gtid_mode = ON")
	execOn(t, primary, "SET GLOBAL gtid_mode = ON", "INSERT INTO t VALUES (3)")
	eventually(t, "there are positions", func() bool { return !db.RouteStats().Sticky })
	ctx = sessionContext(t)
	add(t, ctx, db, "t", 4)
	eventually(t, "a replica covers the session", func() bool {
		require.Equal(t, 1, rowsOf(t, ctx, db, "t", 4))
		d := seen.take()
		return d[len(d)-1].Role == readroute.RoleReplica
	})
}

// TestMySQLAndMariaDBPrimaryThatDoesNotLog: without a binary log, writes have no position.
func TestMySQLAndMariaDBPrimaryThatDoesNotLog(t *testing.T) {
	for _, mariadb := range []bool{true, false} {
		t.Run(flavorName(mariadb), func(t *testing.T) {
			c := ownGTIDs(t, mariadb, dbtest.MySQLOptions{Settings: map[string]string{"skip-log-bin": "ON"}})
			execOn(t, c.Primary(), "CREATE TABLE t (id INT PRIMARY KEY)")
			config := gtidConfig(c)
			seen := record(&config)
			db := open(t, config)
			require.True(t, db.RouteStats().Sticky)
			require.Contains(t, status(t, db, "a").Missing[0], "log_bin is off")
			ctx := sessionContext(t)
			add(t, ctx, db, "t", 1)
			seen.take()
			require.Equal(t, 1, rowsOf(t, ctx, db, "t", 1))
			require.Equal(t, []string{"primary sticky"}, where(seen.take()))
		})
	}
}

// TestGTIDSticky: the strategy of a window, where the servers have positions.
func TestGTIDSticky(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		config.Strategy = readroute.Sticky(300 * time.Millisecond)
		seen := record(&config)
		db := open(t, config)
		require.True(t, db.RouteStats().Sticky)
		holdBack(t, c)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		written := time.Now()
		seen.take()
		eventually(t, "the window ends", func() bool {
			n := rowsOf(t, ctx, db, table, 1)
			if seen.one(t).Role == readroute.RolePrimary {
				require.Equal(t, 1, n)
				return false
			}
			require.Zero(t, n, "best effort: after the window a replica that is behind serves")
			require.Greater(t, time.Since(written), 300*time.Millisecond)
			return true
		})
	})
}
