package readroute_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestK4_15_GTIDReplicaThatNothingFeeds: a replica whose applier or receiver does not run, that has no source, or that cannot
// apply what comes, serves no read, however small its lag looks.
func TestK4_15_GTIDReplicaThatNothingFeeds(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		sick, well := replicasOf(c)[0], replicasOf(c)[1]
		stop, start, forget := "STOP REPLICA", "START REPLICA", "RESET REPLICA ALL"
		if c.IsMariaDB() {
			stop, start, forget = "STOP SLAVE", "START SLAVE", "RESET SLAVE ALL"
		}
		// errant changes data on the replica that its source knows nothing of.
		errant := func(statement string) {
			execOn(t, sick, "SET GLOBAL read_only = OFF")
			execOn(t, sick, "SET SESSION sql_log_bin = 0", statement, "SET SESSION sql_log_bin = 1")
			execOn(t, sick, readOnlyAgain(c)...)
		}
		for _, tc := range []struct {
			name        string
			fall, heals func()
			unseen      bool // by a user without the right to look: always on MySQL
		}{
			{name: "applier stopped",
				fall:  func() { require.NoError(t, sick.PauseReplay(testContext(t))) },
				heals: func() { require.NoError(t, sick.ResumeReplay(testContext(t))) }},
			{name: "receiver stopped", unseen: true,
				fall:  func() { require.NoError(t, sick.StopReceiver(testContext(t))) },
				heals: func() { require.NoError(t, sick.StartReceiver(testContext(t))) }},
			{name: "no source",
				fall:  func() { execOn(t, sick, stop, forget) },
				heals: func() { require.NoError(t, sick.Follow(testContext(t), c.Primary())) }},
			{name: "broken replication",
				fall: func() {
					errant("INSERT INTO " + table + " VALUES (1)")
					execOn(t, c.Primary(), "INSERT INTO "+table+" VALUES (1)")
				},
				heals: func() {
					errant("DELETE FROM " + table)
					execOn(t, sick, stop, start)
				}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				config := gtidConfig(c)
				config.ProbeInterval = 20 * time.Millisecond
				seen, happened := record(&config), listen(&config)
				db := open(t, config)
				config = gtidConfig(c, dbtest.AppUser)
				config.ProbeInterval = 20 * time.Millisecond
				plain := open(t, config)
				defer func() {
					tc.heals()
					eventually(t, "it is fed again", func() bool {
						s := status(t, db, sick.Name())
						return !s.Stopped && s.Healthy && s.LagKnown && s.LagTransactions == 0
					})
					happened.first(t, readroute.EventResumed)
				}()
				tc.fall()
				eventually(t, "the monitor knows", func() bool { return status(t, db, sick.Name()).Stopped })
				happened.first(t, readroute.EventStopped)
				seen.take()
				for _, ctx := range []context.Context{sessionContext(t), readroute.WithLevel(testContext(t), readroute.LevelEventual)} {
					for range 30 {
						require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
					}
				}
				require.Equal(t, map[string]int{well.Name(): 60}, served(seen.take()), "however small its lag looks")
				if tc.unseen || !c.IsMariaDB() {
					require.False(t, status(t, plain, sick.Name()).Stopped, "nobody has told")
					return
				}
				eventually(t, "an ordinary user's monitor knows, too", func() bool { return status(t, plain, sick.Name()).Stopped })
			})
		}
	})
}

// readOnlyAgain makes a replica of c what it was.
func readOnlyAgain(c *dbtest.MySQLCluster) []string {
	list := []string{"SET GLOBAL read_only = ON"}
	if !c.IsMariaDB() {
		list = append(list, "SET GLOBAL super_read_only = ON")
	}
	return list
}

// TestGTIDMissingRights: what the user may not see is said once, with the statement that gives the right, and no read is stale
// because of it.
func TestGTIDMissingRights(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c, dbtest.AppUser)
		patient(&config)
		seen, happened := record(&config), listen(&config)
		db := open(t, config)
		require.Less(t, 8*10/2, gtidSessions(t, db, seen, table, 8, 10), "replicas serve, as far as they are known to keep up")
		for i, n := range c.Nodes() {
			missing := status(t, db, n.Name()).Missing
			if c.IsMariaDB() {
				require.Empty(t, missing, "MariaDB counts for everybody what feeds a server")
				continue
			}
			require.Len(t, missing, 1, n.Name())
			require.Contains(t, missing[0], "GRANT REPLICATION CLIENT ON *.* to it")
			var told []string
			eventually(t, "it is told", func() bool {
				told = nil
				for _, e := range happened.of(readroute.EventSetting) {
					if e.Node == config.Primary.Name && i == 0 || i > 0 && e.Node == config.Replicas[i-1].Name {
						told = append(told, e.Why)
					}
				}
				return len(told) > 0
			})
			require.Equal(t, missing, told, "it is told once")
		}
		config = gtidConfig(c)
		happened = listen(&config)
		db = open(t, config)
		for _, n := range db.Nodes() {
			require.Empty(t, n.Missing)
		}
		require.Empty(t, happened.of(readroute.EventSetting))
	})
}

// TestGTIDRoles: a role is observed: a server that is read-only is no primary, and one that replicates is a replica although
// anybody may write there.
func TestGTIDRoles(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.ProbeInterval = 20 * time.Millisecond
		seen, happened := record(&config), listen(&config)
		db := open(t, config)
		primary, replica := c.Primary(), replicasOf(c)[0]
		roleOf := func(n *dbtest.MySQLNode, role readroute.Role) func() bool {
			return func() bool { return status(t, db, n.Name()).Role == role }
		}
		write := func() error {
			_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (1)")
			return err
		}
		settings := []string{"read_only"}
		if !c.IsMariaDB() {
			settings = append(settings, "super_read_only")
		}
		for _, name := range settings {
			execOn(t, primary, "SET GLOBAL "+name+" = ON")
			eventually(t, "the primary is none", roleOf(primary, readroute.RoleReplica))
			require.ErrorIs(t, write(), readroute.ErrNoPrimary)
			require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT COUNT(*) FROM "+table).Scan(new(int)), "reads go on")
			execOn(t, primary, "SET GLOBAL read_only = OFF")
			eventually(t, "it is the primary again", func() bool { return roleOf(primary, readroute.RolePrimary)() && write() == nil })
		}
		require.Empty(t, happened.of(readroute.EventPrimaryChanged))
		require.Empty(t, happened.of(readroute.EventTwoPrimaries))

		execOn(t, replica, "SET GLOBAL read_only = OFF")
		t.Cleanup(func() { execOn(t, replica, readOnlyAgain(c)...) })
		seen.take()
		for range 50 {
			require.NoError(t, write())
			require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		}
		require.Equal(t, readroute.RoleReplica, status(t, db, replica.Name()).Role)
		nodes := served(seen.take())
		require.Equal(t, 50, nodes[primary.Name()])
		require.Positive(t, nodes[replica.Name()], "it goes on serving reads")
		require.Empty(t, happened.of(readroute.EventTwoPrimaries))
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
	})
}

// TestGTIDMaxLag: a replica that is further behind than MaxLag serves no read, not even one that would take any state.
func TestGTIDMaxLag(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.MaxLag = 300 * time.Millisecond
		config.ProbeInterval = 20 * time.Millisecond
		seen := record(&config)
		db := open(t, config)
		holdBack(t, c)
		eventual := readroute.WithLevel(testContext(t), readroute.LevelEventual)
		read := func() readroute.Decision {
			seen.take()
			require.NoError(t, db.QueryRowContext(eventual, "SELECT 1").Scan(new(int)))
			return seen.one(t)
		}
		eventually(t, "an idle primary is no lag", func() bool { return read().Role == readroute.RoleReplica })
		add(t, sessionContext(t), db, table, 1)
		eventually(t, "the lag is known", func() bool {
			d := read()
			return d.Role == readroute.RolePrimary && d.Reason == readroute.ReasonLagging
		})
		for _, n := range replicasOf(c) {
			s := status(t, db, n.Name())
			require.True(t, s.Healthy)
			require.False(t, s.Stopped)
			require.EqualValues(t, 1, s.LagTransactions)
			require.Greater(t, s.Lag, 300*time.Millisecond)
		}
		letGo(t, c)
		eventually(t, "replicas serve again", func() bool { return read().Role == readroute.RoleReplica })
	})
}

// TestK4_12_GTIDFrozenReplica: a server that accepts connections and answers nothing is out within the probe's time, and no read
// fails because of it.
func TestK4_12_GTIDFrozenReplica(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.ProbeInterval = 100 * time.Millisecond
		config.ProbeTimeout = 500 * time.Millisecond
		seen := record(&config)
		db := open(t, config)
		frozen := replicasOf(c)[0]
		ctx := sessionContext(t)
		query := func() { require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int))) }
		for range 50 { // there are connections to both
			query()
		}
		t.Cleanup(func() { require.NoError(t, frozen.Thaw(context.Background())) })
		require.NoError(t, frozen.Freeze(testContext(t)))
		began := time.Now()
		var longest time.Duration
		eventually(t, "the node is out", func() bool {
			at := time.Now()
			query()
			longest = max(longest, time.Since(at))
			return !status(t, db, frozen.Name()).Healthy
		})
		require.Less(t, time.Since(began), 3*time.Second)
		require.Less(t, longest, 3*time.Second, "interval + probe timeout, and the other node")
		seen.take()
		for range 50 {
			query()
		}
		require.NotContains(t, served(seen.take()), frozen.Name())
		writer := sessionContext(t)
		add(t, writer, db, table, 1)
		require.NoError(t, frozen.Thaw(testContext(t)))
		eventually(t, "the node serves again", func() bool {
			require.Equal(t, 1, rowsOf(t, writer, db, table, 1))
			return served(seen.take())[frozen.Name()] > 0
		})
	})
}

// TestK4_03_K4_04_K4_08_K4_09_GTIDReplicasDie: reads go on while replicas die one after the other and come back.
func TestK4_03_K4_04_K4_08_K4_09_GTIDReplicasDie(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := gtidConfig(c)
		config.ProbeInterval = 100 * time.Millisecond
		seen := record(&config)
		db := open(t, config)
		one, two := replicasOf(c)[0], replicasOf(c)[1]
		reads, stop := load(t, db, 4, "SELECT 1")
		more := func(n int64) {
			at := reads.Load()
			eventually(t, "load", func() bool { return reads.Load() > at+n })
		}
		more(50)
		t.Cleanup(func() {
			for _, n := range replicasOf(c) {
				if !n.IsRunning() {
					require.NoError(t, n.Start(context.Background()))
				}
			}
		})
		require.NoError(t, one.Kill(testContext(t)))
		more(100)
		seen.take()
		more(100)
		require.Equal(t, []string{two.Name()}, nodesOf(seen.take()), "a dead node is not asked")
		require.NoError(t, two.Kill(testContext(t)))
		more(100)
		seen.take()
		more(50)
		require.Equal(t, []string{c.Primary().Name()}, nodesOf(seen.take()), "the primary serves when no replica does")
		failing := readroute.WithFallback(sessionContext(t), readroute.FallbackError)
		require.ErrorIs(t, db.QueryRowContext(failing, "SELECT 1").Scan(new(int)), readroute.ErrNoReplica)
		for _, n := range replicasOf(c) {
			require.NoError(t, n.Start(testContext(t)))
		}
		eventually(t, "both serve again", func() bool {
			more(20)
			nodes := served(seen.take())
			return nodes[one.Name()] > 0 && nodes[two.Name()] > 0
		})
		require.Empty(t, stop(), "a read without a row runs once more elsewhere, and no node serves before it was probed")
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
	})
}

// nodesOf are the nodes of decisions, each once.
func nodesOf(list []readroute.Decision) []string {
	var nodes []string
	for name := range served(list) {
		nodes = append(nodes, name)
	}
	return nodes
}

// TestK4_18_GTIDUnknownLagIsNotZero: a replica that cannot be asked serves nothing.
func TestK4_18_GTIDUnknownLagIsNotZero(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := gtidConfig(c)
		config.ProbeInterval = 20 * time.Millisecond
		proxy, err := dbtest.NewProxy(replicasOf(c)[0].Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		config.Replicas[0].Connector = readroute.MySQL(replicasOf(c)[0].DSNVia(proxy, watchful))
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		name := config.Replicas[0].Name
		eventually(t, "the node serves", func() bool {
			require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
			return served(seen.take())[name] > 0
		})
		require.True(t, status(t, db, name).LagKnown, "a real zero is a lag")
		proxy.OnClientData(func(data []byte) dbtest.Verdict { // the question for the position, and what feeds it
			if strings.Contains(string(data), "gtid_") {
				return dbtest.CutBefore
			}
			return dbtest.Forward
		})
		eventually(t, "the monitor knows", func() bool { return !status(t, db, name).Healthy })
		require.ErrorContains(t, status(t, db, name).Err, fmt.Sprintf("probe node %q", name))
		seen.take()
		for _, ctx := range []context.Context{ctx, readroute.WithLevel(ctx, readroute.LevelEventual)} {
			for range 20 {
				require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
			}
		}
		require.Equal(t, map[string]int{config.Replicas[1].Name: 40}, served(seen.take()))
		proxy.OnClientData(nil)
		eventually(t, "the node serves again", func() bool {
			require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
			return served(seen.take())[name] > 0
		})
	})
}
