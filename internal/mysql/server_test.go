package mysql_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
	"github.com/readroute/readroute/internal/vconn"
)

var _ vconn.Engine = mysql.Engine{}

// shared are clusters for tests that leave them as they have found them, by whether they are MariaDB.
var shared struct {
	mu       sync.Mutex
	clusters map[bool]*dbtest.MySQLCluster
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, c := range shared.clusters {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// onBoth runs a test on a primary with two replicas of MariaDB and, where it can be had, of MySQL, which other tests
// use as well.
func onBoth(t *testing.T, test func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine)) {
	t.Helper()
	for _, mariadb := range []bool{true, false} {
		e := mysql.Engine{MariaDB: mariadb}
		t.Run(e.Name(), func(t *testing.T) {
			test(t, sharedCluster(t, mariadb), e)
		})
	}
}

func sharedCluster(t *testing.T, mariadb bool) *dbtest.MySQLCluster {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if c := shared.clusters[mariadb]; c != nil {
		return c
	}
	options := dbtest.MySQLOptions{Replicas: 2}
	var c *dbtest.MySQLCluster
	var err error
	if mariadb {
		c, err = dbtest.StartMariaDB(testContext(t), options)
	} else {
		if _, _, err := dbtest.FindMySQL(); err != nil && os.Getenv(dbtest.MySQLEnv) == "" {
			t.Skipf("MySQL NOT TESTED: %v", err)
		}
		c, err = dbtest.StartMySQL(testContext(t), options)
	}
	require.NoError(t, err)
	require.NoError(t, c.Primary().Exec(testContext(t), "CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=InnoDB"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	if shared.clusters == nil {
		shared.clusters = map[bool]*dbtest.MySQLCluster{}
	}
	shared.clusters[mariadb] = c
	return c
}

// ownOnBoth is onBoth with servers of the test's own.
func ownOnBoth(t *testing.T, options dbtest.MySQLOptions, test func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine)) {
	t.Helper()
	t.Run("MariaDB", func(t *testing.T) { test(t, dbtest.StartMariaDBT(t, options), mysql.Engine{MariaDB: true}) })
	t.Run("MySQL", func(t *testing.T) { test(t, dbtest.StartMySQLT(t, options), mysql.Engine{}) })
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// connect opens a connection of the package's own connector.
func connect(t testing.TB, dsn string) driver.Conn {
	t.Helper()
	c := mysql.Open(dsn)
	require.NoError(t, c.ConfigError())
	conn, err := c.Connect(testContext(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// link is a link that remembers.
func link(t testing.TB, dsn string) *mysql.Link {
	t.Helper()
	l, ok := mysql.Engine{}.Wire(connect(t, dsn)).Link().(*mysql.Link)
	require.True(t, ok)
	return l
}

// look asks on a new connection.
func look(t testing.TB, e mysql.Engine, dsn string) mysql.Report {
	t.Helper()
	r, err := e.Look(testContext(t), link(t, dsn))
	require.NoError(t, err)
	return r
}

func exec(t testing.TB, n *dbtest.MySQLNode, statements ...string) {
	t.Helper()
	require.NoError(t, n.Exec(testContext(t), statements...))
}

func query(t testing.TB, l *mysql.Link, text string) []string {
	t.Helper()
	row, err := l.QueryRow(testContext(t), text)
	require.NoError(t, err, text)
	return row
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); !cond(); <-ticker.C {
		require.True(t, time.Now().Before(deadline), "not in time: "+what)
	}
}

func TestDetect(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		found, err := mysql.Detect(testContext(t), link(t, c.Primary().AppDSN()))
		require.NoError(t, err)
		require.Equal(t, e, found)
	})
}

func TestAsk(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		primary, replica := c.Primary(), c.Replica(0)
		exec(t, primary, "INSERT INTO app.t (v) VALUES (1)")
		require.NoError(t, c.WaitCaughtUp(testContext(t)))

		p := look(t, e, primary.AppDSN())
		require.Equal(t, core.RolePrimary, p.Role)
		require.NotZero(t, p.Start.System)
		require.WithinRange(t, time.UnixMicro(p.Start.At), time.Now().Add(-time.Hour), time.Now().Add(time.Second))
		require.Equal(t, e.Kind(), p.Position.Kind)
		require.NotZero(t, p.Position.LSN)
		require.Equal(t, p.Position.LSN, p.Reported)
		require.Equal(t, p.Position.LSN, p.Flush)
		require.Equal(t, core.Covered, p.Own.CoveredBy(p.Position))
		require.Empty(t, p.Missing[min(len(p.Missing), 1):])

		r := look(t, e, replica.WatchDSN())
		require.Equal(t, core.RoleReplica, r.Role)
		require.True(t, r.HasSource)
		require.Empty(t, r.Missing)
		require.NotEqual(t, p.Start.System, r.Start.System)
		snapshot := core.Snapshot{Nodes: []core.NodeView{{Sample: p.Sample}, {Sample: r.Sample}}}
		require.Equal(t, core.Covered, snapshot.Covers(r.Position, []core.Position{p.Position}, time.Time{}))
		require.Equal(t, p.Position.LSN, r.Position.LSN)

		// The same server says the same of itself, over seconds and to everybody.
		l := link(t, primary.AppDSN())
		for range 1200 {
			s, err := e.ParseProbe(query(t, l, e.ProbeSQL()))
			require.NoError(t, err)
			require.Equal(t, p.Start, s.Start)
		}
		require.Equal(t, p.Start, look(t, e, primary.WatchDSN()).Start)
		require.Equal(t, p.Start, look(t, e, primary.DSN()).Start)

		// What a write has left is in what the next question finds, and the next question costs less and says the same.
		for i := range 20 {
			exec(t, primary, "INSERT INTO app.t (v) VALUES (2)")
			s, err := e.Ask(testContext(t), l)
			require.NoError(t, err)
			require.Equal(t, p.Position.LSN+core.LSN(i)+1, s.Position.LSN)
			require.Equal(t, p.Start, s.Start)
			require.False(t, s.Began.After(s.Ended))
		}
	})
}

// What an application's own user is told, and what is said when that is too little.
func TestAskWithoutRights(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		r := look(t, e, c.Replica(0).AppDSN())
		require.Equal(t, core.RoleReplica, r.Role)
		require.False(t, r.Position.IsZero())
		p := look(t, e, c.Primary().AppDSN())
		require.Equal(t, core.RolePrimary, p.Role)
		if e.MariaDB {
			require.True(t, r.HasSource, "MariaDB counts what it is fed by for everybody")
			require.Empty(t, r.Missing)
			return
		}
		require.False(t, r.HasSource)
		require.Len(t, r.Missing, 1)
		require.Contains(t, r.Missing[0], "GRANT REPLICATION CLIENT ON *.*")
		require.Equal(t, r.Missing, e.Capabilities(testContext(t), link(t, c.Replica(0).AppDSN())))
	})
}

// Health tells the truth whoever asks, and a replica that anybody may write to is one.
func TestAskHealth(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		ctx, replica := testContext(t), c.Replica(0)
		fed := func(want bool, what string) {
			t.Helper()
			dsns := []string{replica.WatchDSN()}
			if e.MariaDB {
				dsns = append(dsns, replica.AppDSN())
			}
			for _, dsn := range dsns {
				l := link(t, dsn)
				eventually(t, what, func() bool {
					s, err := e.Ask(ctx, l)
					require.NoError(t, err)
					require.Equal(t, core.RoleReplica, s.Role)
					return s.HasSource == want
				})
			}
		}
		fed(true, "at the beginning")
		require.NoError(t, replica.PauseReplay(ctx))
		fed(false, "the applier is stopped")
		require.NoError(t, replica.ResumeReplay(ctx))
		fed(true, "the applier runs again")
		require.NoError(t, replica.StopReceiver(ctx))
		fed(false, "the receiver is stopped")
		require.NoError(t, replica.StartReceiver(ctx))
		fed(true, "the receiver runs again")

		exec(t, replica, "SET GLOBAL read_only = OFF")
		require.Equal(t, core.RoleReplica, look(t, e, replica.WatchDSN()).Role)
		r := look(t, e, replica.AppDSN())
		if e.MariaDB {
			require.Equal(t, core.RoleReplica, r.Role)
		} else {
			require.Equal(t, core.RolePrimary, r.Role, "what nobody says cannot be known")
			require.Contains(t, strings.Join(r.Missing, ""), "REPLICATION CLIENT")
		}
		exec(t, replica, "SET GLOBAL read_only = ON")

		// A primary that takes no writes is none.
		exec(t, c.Primary(), "SET GLOBAL read_only = ON")
		r = look(t, e, c.Primary().WatchDSN())
		require.Equal(t, core.RoleReplica, r.Role)
		require.False(t, r.HasSource)
		exec(t, c.Primary(), "SET GLOBAL read_only = OFF")
		require.Equal(t, core.RolePrimary, look(t, e, c.Primary().WatchDSN()).Role)
	})
}

// A role that changes is seen by the next question, whatever is remembered on the connection.
func TestAskSeesRoleAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		l := link(t, c.Primary().WatchDSN())
		for range 5 {
			for name, role := range map[string]core.Role{"ON": core.RoleReplica, "OFF": core.RolePrimary} {
				exec(t, c.Primary(), "SET GLOBAL read_only = "+name)
				s, err := e.Ask(testContext(t), l)
				require.NoError(t, err)
				require.Equal(t, role, s.Role)
			}
		}
		exec(t, c.Primary(), "SET GLOBAL read_only = OFF")
	})
}

// A server that is started again is another start, a promoted replica a primary, and what a lost primary had written alone
// is in no position any more. K5-22: a position names the history that it belongs to.
func TestK5_22_AnotherHistory(t *testing.T) {
	t.Parallel()
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 2}, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		ctx, old, next := testContext(t), c.Primary(), c.Replica(0)
		exec(t, old, "CREATE TABLE app.t (id INT PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
		require.NoError(t, c.WaitCaughtUp(ctx))
		base := look(t, e, old.WatchDSN())
		for _, n := range c.Nodes()[1:] {
			require.NoError(t, n.StopReceiver(ctx))
		}
		exec(t, old, "INSERT INTO app.t VALUES (2)") // no replica gets it
		lost := look(t, e, old.WatchDSN())
		token := e.Need(base.Sample, lost.Sample)
		require.NoError(t, old.Kill(ctx))

		require.NoError(t, next.Promote(ctx))
		exec(t, next, "INSERT INTO app.t VALUES (3)", "INSERT INTO app.t VALUES (4)")
		now := look(t, e, next.WatchDSN())
		require.Equal(t, core.RolePrimary, now.Role)
		snapshot := core.Snapshot{Nodes: []core.NodeView{{Role: core.RolePrimary, Sample: now.Sample}}, PrimaryUp: true}
		require.NotEqual(t, core.Covered, snapshot.Covers(now.Position, []core.Position{token}, time.Time{}),
			"%v has not what %v asks for", now.Position, token)
		require.Equal(t, core.Covered, snapshot.Covers(now.Position, []core.Position{base.Position}, time.Time{}))
		if e.MariaDB {
			require.False(t, now.History.Contains(token.Domains()))
			require.True(t, now.History.Contains(base.Position.Domains()))
		}
		// What the new primary writes is named by it.
		again := look(t, e, next.WatchDSN())
		require.NotEqual(t, token.String(), again.Own.String())
		require.Equal(t, core.Covered, e.Need(now.Sample, again.Sample).CoveredBy(again.Position))

		// A replica whose source is gone is not fed, and is again when it is back.
		follower := c.Replica(1)
		require.NoError(t, follower.Follow(ctx, next))
		l := link(t, follower.WatchDSN())
		hasSource := func() bool {
			s, err := e.Ask(ctx, l)
			require.NoError(t, err)
			return s.HasSource
		}
		eventually(t, "the follower is fed", hasSource)
		before := look(t, e, next.WatchDSN()).Start
		// Starts are told apart by the second. Two in one are harmless: a sample of the first speaks for no connection of the
		// second, which was opened later.
		eventually(t, "another second", func() bool { return time.Now().Unix() > before.At/1_000_000 })
		require.NoError(t, next.Kill(ctx))
		eventually(t, "its source is gone", func() bool { return !hasSource() })
		require.NoError(t, next.Start(ctx))
		eventually(t, "the source is back", hasSource)
		after := look(t, e, next.WatchDSN()).Start
		require.Equal(t, before.System, after.System)
		require.Greater(t, after.At, before.At)
	})
}
