package readroute_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

const (
	closed = "SET GLOBAL read_only = ON"
	opened = "SET GLOBAL read_only = OFF" // super_read_only, too
)

// TestK4_16_GTIDPair: two servers that replicate from one another. The writable one is the primary, whatever becomes of the
// other, and roles change by read_only alone.
func TestK4_16_GTIDPair(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		a, b := c.Primary(), c.Replica(0)
		require.NoError(t, a.Follow(testContext(t), b))
		execOn(t, a, opened)
		config := gtidFailoverConfig(c)
		config.Primary, config.Replicas = readroute.Node{Name: "a", Connector: config.Primary.Connector}, []readroute.Node{{Name: "b", Connector: config.Replicas[0].Connector}}
		seen, happened := record(&config), listen(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		rows := 0
		writes := func(db *readroute.DB, node string) {
			t.Helper()
			eventually(t, node+" takes writes", func() bool {
				_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (1)")
				return err == nil
			})
			rows++
			require.Equal(t, rows, rowsOf(t, ctx, db, table, 1))
			for _, n := range db.Nodes() {
				require.Equal(t, n.Name == node, n.Primary, "%+v", n)
				require.Empty(t, n.Missing, n.Name)
			}
		}
		reads := func(node string) {
			t.Helper()
			eventually(t, node+" serves the session", func() bool {
				seen.take()
				require.Equal(t, rows, rowsOf(t, ctx, db, table, 1))
				return seen.one(t).Node == node
			})
		}
		for range 5 {
			writes(db, "a")
			reads("b")
		}
		require.NoError(t, b.Kill(testContext(t)))
		for range 5 {
			writes(db, "a")
		}
		eventually(t, "the lag is NULL", func() bool {
			s, err := a.ReplicaStatus(testContext(t))
			require.NoError(t, err)
			return strings.TrimLeft(s["Seconds_Behind_Source"]+s["Seconds_Behind_Master"], "NULL") == ""
		})
		eventually(t, "b is out", func() bool { return !status(t, db, "b").Healthy })
		config.Hooks = readroute.Hooks{}
		late, err := readroute.Open(config) // with b never seen
		require.NoError(t, err)
		defer late.Close()
		for range 5 {
			writes(db, "a")
			writes(late, "a")
		}
		require.NoError(t, b.Start(testContext(t)))
		reads("b")
		require.NoError(t, late.WaitReady(testContext(t)))
		require.Empty(t, happened.of(readroute.EventPrimaryChanged))

		execOn(t, a, closed)
		require.NoError(t, b.WaitFor(testContext(t), position(t, a)))
		execOn(t, b, opened)
		writes(db, "b")
		writes(late, "b")
		reads("a")
		for range 5 {
			writes(db, "b")
		}
		reads("a")
		require.NoError(t, b.Kill(testContext(t)))
		execOn(t, a, opened)
		writes(db, "a")
		writes(late, "a")
		require.NoError(t, b.Start(testContext(t)))
		reads("b")
		require.Empty(t, happened.of(readroute.EventTwoPrimaries))
		execOn(t, b, opened)
		eventually(t, "two are reported", func() bool { return len(happened.of(readroute.EventTwoPrimaries)) > 0 })
		stands := number(t, b, "SELECT COUNT(*) FROM "+table+" WHERE id = 2")
		for range 5 {
			writes(db, "a")
		}
		require.Equal(t, stands, number(t, b, "SELECT COUNT(*) FROM "+table+" WHERE id = 2"))
		require.Empty(t, happened.of(readroute.EventPositionLost))
	})
}

func position(t testing.TB, n *dbtest.MySQLNode) string {
	t.Helper()
	p, err := n.Position(testContext(t))
	require.NoError(t, err)
	return oneLine(p)
}

// TestGTIDWritableReplica: a replica that nobody has made read-only never becomes the primary, and it is told why. Nor does one that
// was opened for a while.
func TestGTIDWritableReplica(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 2}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		a, b := c.Primary(), c.Replica(0)
		config := gtidFailoverConfig(c)
		happened := listen(&config)
		db := open(t, config)
		write := func() error {
			_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (1)")
			return err
		}
		execOn(t, b, opened)
		why := ""
		eventually(t, "it is told", func() bool {
			if missing := status(t, db, b.Name()).Missing; len(missing) > 0 {
				why = missing[0]
			}
			return why != ""
		})
		require.Contains(t, why, "set read_only if it is one")
		require.Equal(t, why, happened.first(t, readroute.EventSetting).Why)
		require.NoError(t, write())
		require.Empty(t, happened.of(readroute.EventTwoPrimaries))

		require.NoError(t, a.Kill(testContext(t)))
		began := time.Now()
		eventually(t, "three seconds without a primary", func() bool {
			require.Error(t, write())
			return time.Since(began) > 3*time.Second
		})
		require.NoError(t, a.Start(testContext(t)))
		eventually(t, "the primary is back", func() bool { return write() == nil })
		require.Empty(t, happened.of(readroute.EventPrimaryChanged))

		// Made read-only and opened again when the primary is gone, it is promoted, its replication running as before.
		execOn(t, b, closed)
		eventually(t, "all is well", func() bool { return len(status(t, db, b.Name()).Missing) == 0 })
		require.NoError(t, a.Kill(testContext(t)))
		eventually(t, "it is out", func() bool { return !status(t, db, a.Name()).Healthy })
		execOn(t, b, opened)
		eventually(t, "the replica that was opened is the primary", func() bool { return write() == nil })
		require.Equal(t, b.Name(), happened.first(t, readroute.EventPrimaryChanged).Node)

		// The former one comes back as it was, and the one that counts follows it.
		happened.of(readroute.EventTwoPrimaries)
		require.NoError(t, a.Start(testContext(t)))
		eventually(t, "two are reported", func() bool { return len(happened.of(readroute.EventTwoPrimaries)) > 0 })
		for range 20 {
			require.NoError(t, write())
			require.True(t, status(t, db, b.Name()).Primary)
		}
	})
}
