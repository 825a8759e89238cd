package replicatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// shows reads past routing what a node shows.
func shows(t testing.TB, n *replicatest.Node, query string) int {
	t.Helper()
	var v int
	require.NoError(t, n.DB().QueryRowContext(testContext(t), query).Scan(&v))
	return v
}

// TestNodes: every fault does on every engine what it says.
func TestNodes(t *testing.T) {
	for name, begin := range start {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t)
			ctx := testContext(t)
			require.Equal(t, name, c.Engine())
			require.NotEmpty(t, c.Version())
			require.NoError(t, c.Exec(ctx, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"))
			a, b, d := c.Nodes()[0], c.Replica(0), c.Replica(1)
			const sum = "SELECT coalesce(sum(id), 0) FROM t"
			for _, n := range c.Nodes() {
				require.Equal(t, 1, shows(t, n, sum))
			}
			require.Error(t, b.Exec(ctx, "INSERT INTO t VALUES (100)"), "a replica refuses writes")
			require.NoError(t, b.Start(ctx), "it runs")

			require.NoError(t, b.SetLag(ctx, time.Second))
			eventually(t, "it is late", func() bool { // PostgreSQL's startup process may take up a setting a moment after it counts for others
				wrote := time.Now()
				require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (2)"))
				eventually(t, "the other one has it", func() bool { return shows(t, d, sum) == 3 })
				eventually(t, "it has it as well", func() bool { return shows(t, b, sum) == 3 })
				if time.Since(wrote) >= 900*time.Millisecond { // MySQL and MariaDB count in whole seconds of their clocks
					return true
				}
				require.NoError(t, a.Exec(ctx, "DELETE FROM t WHERE id = 2"))
				eventually(t, "both have that", func() bool { return shows(t, b, sum) == 1 && shows(t, d, sum) == 1 })
				return false
			})
			require.NoError(t, b.SetLag(ctx, 0))

			require.NoError(t, c.Pause(ctx))
			require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (3)"))
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			require.ErrorIs(t, c.WaitCaughtUp(short), context.DeadlineExceeded)
			cancel()
			require.Equal(t, 3, shows(t, b, sum))
			require.NoError(t, c.Resume(ctx))
			require.NoError(t, c.WaitCaughtUp(ctx))
			require.Equal(t, 6, shows(t, b, sum))

			if err := d.Diverge(ctx, "INSERT INTO t VALUES (1000)"); name == "PostgreSQL" {
				require.ErrorIs(t, err, errors.ErrUnsupported)
			} else {
				require.NoError(t, err)
				require.NoError(t, c.Exec(ctx, "INSERT INTO t VALUES (4)"), "nobody waits for it")
				require.Equal(t, 1006, shows(t, d, sum))
				require.Error(t, d.Exec(ctx, "INSERT INTO t VALUES (1001)"), "it is still a replica")
				require.NoError(t, d.Restore(ctx))
				require.NoError(t, c.WaitCaughtUp(ctx))
				require.Equal(t, 10, shows(t, d, sum))
				require.NoError(t, c.Exec(ctx, "DELETE FROM t WHERE id = 4"))
			}
			require.Error(t, a.Restore(ctx), "the primary cannot be restored")

			require.NoError(t, a.Stop(ctx))
			require.NoError(t, a.Stop(ctx))
			require.Error(t, a.Exec(ctx, "SELECT 1"))
			require.NoError(t, b.Promote(ctx))
			require.Equal(t, "b", c.Primary().Name())
			require.NoError(t, c.Exec(ctx, "INSERT INTO t VALUES (5)"))
			require.Equal(t, 11, shows(t, d, sum), "it follows")
			require.NoError(t, a.Restore(ctx), "it is started")
			require.NoError(t, c.Exec(ctx, "INSERT INTO t VALUES (6)"))
			require.Equal(t, 17, shows(t, a, sum))
			require.Error(t, a.Exec(ctx, "INSERT INTO t VALUES (100)"))
		})
	}
}

// TestFailover: a routed pool over the embedded servers follows a promotion; what was lost is told to the session that wrote it.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"}})
	var seen decisions
	lostEvents := make(chan readroute.Event, 100)
	db := c.OpenT(t, record(&seen), func(config *readroute.Config) {
		config.ProbeInterval = 20 * time.Millisecond
		config.Hooks = readroute.JoinHooks(config.Hooks, readroute.Hooks{Event: func(e readroute.Event) {
			if e.Kind == readroute.EventPositionLost {
				lostEvents <- e
			}
		}})
	})
	e := &engine{name: "SQLite", cluster: c, marked: true}
	kept, lost := sessionContext(t), sessionContext(t)
	e.insert(t, kept, db, "t", 1)
	require.NoError(t, c.WaitCaughtUp(kept))
	require.NoError(t, c.Pause(kept))
	e.insert(t, lost, db, "t", 2)
	require.Equal(t, 1, e.count(t, lost, db, "t", 2))
	require.NoError(t, c.Primary().Stop(kept))
	require.NoError(t, c.Replica(0).Promote(kept))
	require.NoError(t, c.Replica(1).Resume(kept))
	eventually(t, "the promoted server takes writes", func() bool {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO t VALUES (3, 0)")
		return err == nil
	})
	require.Equal(t, 1, e.count(t, kept, db, "t", 1))
	eventually(t, "the loss is told", func() bool {
		require.Zero(t, e.count(t, lost, db, "t", 2))
		return len(lostEvents) > 0
	})
	e.insert(t, lost, db, "t", 4)
	eventually(t, "a replica serves the session", func() bool {
		require.Equal(t, 1, e.count(t, lost, db, "t", 4))
		return seen.last(t).Role == readroute.RoleReplica
	})
	require.NoError(t, c.Nodes()[0].Restore(kept))
	eventually(t, "the former primary serves as a replica", func() bool {
		require.Equal(t, 1, e.count(t, lost, db, "t", 4))
		return seen.last(t).Node == "a"
	})
}

// TestTwoPrimaries: the former primary that goes on does not take the writes back, and what it has written is not read.
func TestTwoPrimaries(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"}})
	happened := make(chan readroute.Event, 1000)
	db := c.OpenT(t, func(config *readroute.Config) {
		config.ProbeInterval = 20 * time.Millisecond
		config.Hooks = readroute.JoinHooks(config.Hooks, readroute.Hooks{Event: func(e readroute.Event) { happened <- e }})
	})
	ctx := testContext(t)
	require.NoError(t, c.Nodes()[0].Stop(ctx))
	require.NoError(t, c.Replica(0).Promote(ctx))
	e := &engine{name: "SQLite", cluster: c, marked: true}
	eventually(t, "the promoted server takes writes", func() bool {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO t VALUES (1, 0)")
		return err == nil
	})
	require.NoError(t, c.Nodes()[0].Start(ctx))
	eventually(t, "two claims are told", func() bool {
		for len(happened) > 0 {
			if (<-happened).Kind == readroute.EventTwoPrimaries {
				return true
			}
		}
		return false
	})
	for id := 2; id < 20; id++ {
		session := sessionContext(t)
		e.insert(t, session, db, "t", id)
		require.Equal(t, 1, e.count(t, session, db, "t", id))
	}
	require.Zero(t, shows(t, c.Nodes()[0], "SELECT count(*) FROM t"))
}

// TestAnOlderStateIsNoticed: a replica that is put back is another run of its server, whose sessions are not taken for the old one's.
func TestAnOlderStateIsNoticed(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Replicas: 1, Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"}})
	db := c.OpenT(t)
	e := &engine{name: "SQLite", cluster: c, marked: true}
	ctx := readroute.WithLevel(sessionContext(t), readroute.LevelCausal)
	for i := range 20 {
		e.insert(t, testContext(t), db, "t", i)
		if i%4 == 0 {
			require.NoError(t, c.Replica(0).Restore(ctx))
		}
		if i%5 == 0 {
			require.NoError(t, c.Replica(0).Diverge(ctx, "DELETE FROM t"))
			require.NoError(t, c.Replica(0).Restore(ctx))
		}
		last := 0
		for range 5 {
			n := newest(t, ctx, db, "t")
			require.GreaterOrEqual(t, n, last)
			last = n
		}
	}
}
