package readroute_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

const mysqlGroup = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

// startGroup makes a group of the nodes of a new cluster, of which the first is the primary.
func startGroup(t *testing.T, members int, bootstrap ...string) *dbtest.MySQLCluster {
	t.Helper()
	c := ownGTIDs(t, false, dbtest.MySQLOptions{Replicas: members - 1, Settings: map[string]string{
		"plugin-load-add": "group_replication.so", "report-host": "127.0.0.1", "loose-group-replication-group-name": mysqlGroup,
		"loose-group-replication-start-on-boot": "OFF", "loose-group-replication-ssl-mode": "DISABLED",
		"loose-group-replication-recovery-use-ssl": "OFF", "loose-group-replication-recovery-get-public-key": "ON",
	}})
	execOn(t, c.Primary(), "CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, id INT)",
		"GRANT SELECT ON performance_schema.replication_group_members TO "+watchful+"@'127.0.0.1'")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	addrs := make([]string, members)
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addrs[i] = l.Addr().String()
		require.NoError(t, l.Close())
	}
	for i, n := range c.Nodes() {
		execOn(t, n, "SET GLOBAL group_replication_local_address = '"+addrs[i]+"'",
			"SET GLOBAL group_replication_group_seeds = '"+strings.Join(addrs, ",")+"'")
		if n == c.Primary() {
			execOn(t, n, append(bootstrap, "SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION",
				"SET GLOBAL group_replication_bootstrap_group = OFF")...)
			continue
		}
		execOn(t, n, "STOP REPLICA", "RESET REPLICA ALL",
			"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'repl' FOR CHANNEL 'group_replication_recovery'", "START GROUP_REPLICATION")
	}
	return c
}

// TestMySQLGroupReplication: a group with one primary is served, and sessions go on when the group chooses another, or the
// primary leaves.
func TestMySQLGroupReplication(t *testing.T) {
	c := startGroup(t, 2)
	config := gtidFailoverConfig(c)
	patient(&config)
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	eventually(t, "all members are online", func() bool {
		for _, n := range db.Nodes() {
			if !n.Healthy || n.Stopped || !n.LagKnown {
				return false
			}
		}
		return true
	})
	require.Equal(t, 8*10, gtidSessions(t, db, seen, "t", 8, 10))
	for idle := time.Now(); time.Since(idle) < 500*time.Millisecond; <-time.After(10 * time.Millisecond) {
		for _, n := range db.Nodes() {
			require.False(t, n.Stopped, "a secondary has no source that it names, and is fed all the same: %+v", n)
			require.Empty(t, n.Missing, n.Name)
		}
	}
	plain := open(t, gtidConfig(c, dbtest.AppUser))
	missing := status(t, plain, "b").Missing
	require.Len(t, missing, 1, "which right is missing is said")
	require.Contains(t, missing[0], "GRANT SELECT ON performance_schema.replication_group_members to it")
	before := sessionContext(t)
	add(t, before, db, "t", 1)
	token := tokenOf(t, before)
	require.Contains(t, status(t, db, "a").GTIDSet.String(), mysqlGroup, "members write under the group's name")
	require.Less(t, len(token.String()), 200)

	// Sessions write and read all the time. What a failover refuses is refused; nothing is stale and nothing runs twice.
	var acknowledged, ids atomic.Int64
	var stale atomic.Pointer[string]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx := readroute.WithSession(t.Context())
				id := 10 + int(ids.Add(1))
				if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO t (id) VALUES (%d)", id)); err != nil {
					<-time.After(5 * time.Millisecond)
					continue
				}
				acknowledged.Add(1)
				var n int
				if err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM t WHERE id = %d", id)).Scan(&n); err == nil && n != 1 {
					text := fmt.Sprintf("row %d: %d", id, n)
					stale.Store(&text)
				}
			}
		})
	}
	more := func() {
		at := acknowledged.Load()
		eventually(t, "load", func() bool { return acknowledged.Load() > at+30 })
	}
	more()
	b := replicasOf(c)[0]
	ask(t, c.Primary(), "SELECT group_replication_set_as_primary('"+ask(t, b, "SELECT @@GLOBAL.server_uuid")+"')")
	eventually(t, "the new primary is known", func() bool { return status(t, db, b.Name()).Primary })
	more()
	happened.first(t, readroute.EventPrimaryChanged)
	for _, ctx := range []context.Context{before, carrying(t, token)} {
		require.Equal(t, 1, rowsOf(t, ctx, db, "t", 1), "sessions of the time before go on")
	}
	add(t, before, db, "t", 1)
	require.Less(t, len(tokenOf(t, before).String()), 200)
	require.Equal(t, 2, rowsOf(t, before, db, "t", 1))
	eventually(t, "the former primary serves reads", func() bool {
		return slices.ContainsFunc(seen.take(), func(d readroute.Decision) bool { return d.Node == "a" && d.Role == readroute.RoleReplica })
	})

	execOn(t, b, "STOP GROUP_REPLICATION") // the primary leaves
	eventually(t, "the group has chosen", func() bool {
		for _, n := range db.Nodes() {
			if n.Primary && n.Healthy && n.Name != b.Name() {
				return true
			}
		}
		return false
	})
	more()
	close(stop)
	wg.Wait()
	require.Nil(t, stale.Load(), "%v", stale.Load())
	require.Empty(t, happened.of(readroute.EventPositionLost), "a group loses nothing that it has acknowledged")
	require.Equal(t, "0", ask(t, c.Primary(), "SELECT COUNT(*) FROM (SELECT id FROM t WHERE id > 10 AND id < 1000000 GROUP BY id HAVING COUNT(*) > 1) x"))
	require.Equal(t, 2, rowsOf(t, before, db, "t", 1))
	eventually(t, "one that has left the group is fed by nothing", func() bool { return status(t, db, b.Name()).Stopped })
}

// TestMySQLGroupWithSeveralPrimariesIsRefused says so in a sentence, and serves nothing.
func TestMySQLGroupWithSeveralPrimariesIsRefused(t *testing.T) {
	c := startGroup(t, 1, "SET GLOBAL group_replication_single_primary_mode = OFF")
	for _, user := range []string{watchful, dbtest.AppUser} {
		db, err := readroute.Open(gtidConfig(c, user))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		eventually(t, "it has been asked", func() bool { return status(t, db, "a").Err != nil })
		s := status(t, db, "a")
		require.False(t, s.Healthy)
		require.ErrorContains(t, s.Err, "its replication group has several primaries")
		require.NotContains(t, s.Err.Error(), "\n")
		_, err = db.ExecContext(sessionContext(t), "INSERT INTO t (id) VALUES (1)")
		require.ErrorContains(t, err, "its replication group has several primaries")
	}
}
