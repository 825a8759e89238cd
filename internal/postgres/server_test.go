package postgres_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
)

var shared struct {
	once    sync.Once
	cluster *dbtest.PostgresCluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedCluster is a primary with a standby, for tests that leave them as they have found them.
func sharedCluster(t testing.TB) *dbtest.PostgresCluster {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = dbtest.StartPostgres(context.Background(), dbtest.PostgresOptions{Standbys: 1})
	})
	require.NoError(t, shared.err)
	return shared.cluster
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// link opens a connection as a role.
func link(t testing.TB, n *dbtest.PostgresNode, role string) postgres.PgxLink {
	t.Helper()
	conn, err := pgx.Connect(testContext(t), n.DSN(role))
	require.NoError(t, err)
	l := postgres.PgxLink{Conn: conn}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func probe(t testing.TB, n *dbtest.PostgresNode, role string) core.Sample {
	t.Helper()
	s, err := monitor.Ask(testContext(t), link(t, n, role), engine)
	require.NoError(t, err)
	return s
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !cond(); <-ticker.C {
		require.True(t, time.Now().Before(deadline), "not in time: "+what)
	}
}

var roles = []string{dbtest.SuperUser, dbtest.WatchUser, dbtest.AppUser}

// TestProbe asks real servers as every kind of role.
func TestProbe(t *testing.T) {
	c := sharedCluster(t)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	system, err := c.Primary().QueryValue(testContext(t), "SELECT system_identifier FROM pg_control_system()")
	require.NoError(t, err)
	starts := map[string]core.Start{}
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			p, r := probe(t, c.Primary(), role), probe(t, c.Standby(0), role)
			for _, s := range []core.Sample{p, r} {
				require.Equal(t, system, fmt.Sprint(s.Start.System))
				require.Equal(t, s.Start.System, s.Position.System)
				require.InDelta(t, time.Now().UnixMicro(), s.Start.At, float64(time.Hour.Microseconds()))
				require.False(t, s.Ended.Before(s.Began))
				require.Equal(t, 600*time.Millisecond, s.FlushDelay)
				require.NotZero(t, s.Reported)
			}
			require.NotEqual(t, p.Start, r.Start)
			require.Equal(t, core.RolePrimary, p.Role)
			require.Equal(t, uint32(1), p.Position.Timeline)
			require.NotZero(t, p.Flush)
			require.Equal(t, core.RoleReplica, r.Role)
			require.True(t, r.HasSource)
			require.Equal(t, r.Reported, r.Position.LSN)
			if role == dbtest.AppUser {
				require.Zero(t, r.Position.Timeline, "a role without pg_monitor is not told")
				require.Equal(t, uint32(1), r.TimelineFloor)
			} else {
				require.Equal(t, uint32(1), r.Position.Timeline)
				require.Zero(t, r.TimelineFloor)
			}
			if known, ok := starts["primary"]; ok {
				require.Equal(t, known, p.Start, "the same server for every role")
				require.Equal(t, starts["standby"], r.Start)
			}
			starts["primary"], starts["standby"] = p.Start, r.Start
		})
	}
}

// TestProbeFollowsTheLog: a position that was read after a write is reached by the standby, also when it is idle then.
func TestProbeFollowsTheLog(t *testing.T) {
	c := sharedCluster(t)
	primary, standby := link(t, c.Primary(), dbtest.AppUser), link(t, c.Standby(0), dbtest.WatchUser)
	require.NoError(t, c.Primary().Exec(testContext(t), "CREATE TABLE IF NOT EXISTS probed (v text)"))
	for i := range 50 {
		require.NoError(t, c.Primary().Exec(testContext(t), fmt.Sprintf("INSERT INTO probed VALUES (repeat('x', %d))", 1+i*37)))
		s, err := monitor.Ask(testContext(t), primary, engine)
		require.NoError(t, err)
		eventually(t, "the standby is there", func() bool {
			r, err := monitor.Ask(testContext(t), standby, engine)
			require.NoError(t, err)
			return s.Position.CoveredBy(r.Position) == core.Covered
		})
	}
}

// TestProbeAfterPromotion is K4-21: the replay position of a promoted server freezes and does not become NULL.
func TestProbeAfterPromotion(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	ctx := testContext(t)
	n := c.Standby(0)
	links := map[string]postgres.PgxLink{}
	for _, role := range roles {
		links[role] = link(t, n, role)
	}
	before := probe(t, n, dbtest.SuperUser)
	require.NoError(t, n.Promote(ctx))
	require.NoError(t, n.Exec(ctx, "CREATE TABLE t (id int)"))
	frozen, err := n.QueryValue(ctx, "SELECT pg_last_wal_replay_lsn()")
	require.NoError(t, err)
	require.NotEmpty(t, frozen)
	replay, err := core.ParseLSN(frozen)
	require.NoError(t, err)
	for _, role := range roles {
		s, err := monitor.Ask(ctx, links[role], engine)
		require.NoError(t, err)
		require.Equal(t, core.RolePrimary, s.Role)
		require.Equal(t, before.Start, s.Start, "a promotion is no restart")
		require.Equal(t, uint32(2), s.Position.Timeline)
		require.Greater(t, s.Position.LSN, replay)
	}
}

// TestLeftBehindProvesNothing: a standby had received more than the one that was promoted. It can never follow, stays on
// the old timeline, and its position is beyond many of the new one. A role that is not told the timeline must not take it
// for a replica that shows what was written since. One that does follow is one as soon as its control file says so.
func TestLeftBehindProvesNothing(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 3})
	ctx := testContext(t)
	old, promoted, ahead, follows := c.Primary(), c.Standby(0), c.Standby(1), c.Standby(2)
	require.NoError(t, old.Exec(ctx, "CREATE TABLE t (v text)"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	for _, n := range []*dbtest.PostgresNode{promoted, follows} {
		require.NoError(t, n.Set(ctx, "primary_conninfo", "")) // it receives no more
		eventually(t, "the receiver ends", func() bool { return !probe(t, n, dbtest.AppUser).HasSource })
	}
	require.NoError(t, old.Exec(ctx, "INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 5000)"))
	written := probe(t, old, dbtest.SuperUser).Position
	eventually(t, "one standby has it", func() bool {
		return written.CoveredBy(probe(t, ahead, dbtest.WatchUser).Position) == core.Covered
	})
	require.NoError(t, old.Kill(ctx))
	require.NoError(t, promoted.Promote(ctx))
	require.NoError(t, ahead.Follow(ctx, promoted))
	require.NoError(t, follows.Follow(ctx, promoted))
	require.NoError(t, promoted.Exec(ctx, "INSERT INTO t VALUES ('written on the new timeline')"))
	token := probe(t, promoted, dbtest.AppUser).Position
	require.Equal(t, uint32(2), token.Timeline)
	require.Less(t, token.LSN, probe(t, ahead, dbtest.AppUser).Position.LSN, "the test's point")

	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			m := watch(role, promoted, ahead, follows)
			defer m.Close()
			covered := func(i int) bool {
				v := m.Snapshot().Nodes[i]
				p, _ := v.Proof()
				return token.CoveredBy(p) == core.Covered
			}
			if role == dbtest.AppUser {
				require.NoError(t, promoted.Exec(ctx, "CHECKPOINT"))
				wrote := probe(t, promoted, role).Position
				eventually(t, "the follower is there", func() bool { return probe(t, follows, role).Position.LSN >= wrote.LSN })
				require.NoError(t, follows.Exec(ctx, "CHECKPOINT"))
			}
			eventually(t, "who follows shows it", func() bool { return covered(2) })
			for range 10 {
				m.Kick(0)
				m.Kick(1)
				seen := m.Snapshot().Nodes[1].Sample.Began
				eventually(t, "another sample", func() bool { return m.Snapshot().Nodes[1].Sample.Began.After(seen) })
				require.False(t, covered(1), "%+v", m.Snapshot().Nodes[1])
			}
		})
	}
}

// watch starts a monitor as a role.
func watch(role string, nodes ...*dbtest.PostgresNode) *monitor.Monitor {
	c := monitor.Config{Engine: engine, Interval: 20 * time.Millisecond, ProbeTimeout: time.Second, MaxWaiters: 10, MaxLag: time.Minute}
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, monitor.Node{Name: n.Name(), Weight: 1, Dial: func(ctx context.Context) (monitor.Link, error) {
			conn, err := pgx.Connect(ctx, n.DSN(role))
			if err != nil {
				return nil, err
			}
			return postgres.PgxLink{Conn: conn}, nil
		}})
	}
	return monitor.Start(c)
}

// TestGone looks for a session of its own role, and ends it.
func TestGone(t *testing.T) {
	c := sharedCluster(t)
	ctx := testContext(t)
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			asks, writes := link(t, c.Primary(), role), link(t, c.Primary(), role)
			row, err := writes.QueryRow(ctx, engine.SelfSQL())
			require.NoError(t, err)
			b, err := engine.ParseSelf(row)
			require.NoError(t, err)
			require.Equal(t, writes.Conn.PgConn().PID(), b.PID)
			look := func(b monitor.Backend, end bool) bool {
				gone, err := engine.Gone(ctx, asks, b, end)
				require.NoError(t, err)
				return gone
			}
			require.False(t, look(b, false))
			require.True(t, look(monitor.Backend{PID: b.PID, Start: b.Start + 1}, true), "the process id of another session")
			require.NoError(t, writes.Conn.Ping(ctx))
			look(b, true)
			eventually(t, "the session is gone", func() bool { return look(b, false) })
			require.Error(t, writes.Conn.Ping(ctx))
		})
	}
}

// TestServerErrors: the codes of the table are those that a server gives.
func TestServerErrors(t *testing.T) {
	c := sharedCluster(t)
	ctx := testContext(t)
	require.NoError(t, c.Primary().Exec(ctx, "CREATE UNLOGGED TABLE IF NOT EXISTS unlogged (id int)"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	conn := link(t, c.Standby(0), dbtest.AppUser).Conn
	for query, want := range map[string]core.Retry{
		"SELECT * FROM nothing":         core.RetrySchema,
		"SELECT nothing FROM pg_class":  core.RetrySchema,
		"SELECT nothing(1)":             core.RetrySchema,
		"SELECT nothing.nothing(1)":     core.RetrySchema,
		"SELECT * FROM nothing.nothing": core.RetrySchema,
		"SELECT 1::nothing":             core.RetrySchema,
		"SELECT NULL::nothing.nothing":  core.RetrySchema,
		"SELECT * FROM unlogged":        core.RetryRefused,
		"CREATE TABLE x (id int)":       core.RetryRefused,
		"SELECT 1/0":                    core.RetryNone,
		"SELEC 1":                       core.RetryNone,
		"BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1; COMMIT;": core.RetryRefused,
	} {
		_, err := conn.PgConn().Exec(ctx, query).ReadAll()
		require.Error(t, err, query)
		require.Equal(t, want, engine.Retry(err), "%s: %v", query, err)
		require.True(t, engine.Refused(err), query)
		_, err = conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
		require.NoError(t, err)
	}

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := conn.Exec(cancelled, "SELECT 1")
	require.True(t, engine.NotSent(err))
	require.False(t, engine.Refused(err))
	require.NoError(t, conn.Close(ctx))
	_, err = conn.Exec(ctx, "SELECT 1")
	require.True(t, engine.NotSent(err))

	_, err = pgx.Connect(ctx, c.Primary().DSN("nobody"))
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.False(t, engine.Down(err), "it has answered")
	_, err = pgx.Connect(ctx, "postgres://app@127.0.0.1:1/app")
	require.True(t, engine.Down(err))
}

// plainConn is a connection of a driver that this package does not know.
type plainConn struct {
	driver.Conn
	driver.QueryerContext
}

// TestLinkOverAnyDriver asks through database/sql/driver alone.
func TestLinkOverAnyDriver(t *testing.T) {
	c := sharedCluster(t)
	ctx := testContext(t)
	config, err := pgx.ParseConfig(c.Standby(0).DSN(dbtest.WatchUser))
	require.NoError(t, err)
	native, err := stdlib.GetConnector(*config).Connect(ctx)
	require.NoError(t, err)
	want, err := monitor.Ask(ctx, engine.Wire(native).Link(), engine)
	require.NoError(t, err)
	l := engine.Wire(plainConn{native, native.(driver.QueryerContext)}).Link()
	got, err := monitor.Ask(ctx, l, engine)
	require.NoError(t, err)
	require.Equal(t, want.Start, got.Start)
	require.Equal(t, want.Role, got.Role)
	require.Equal(t, want.Position.Timeline, got.Position.Timeline)
	require.GreaterOrEqual(t, got.Position.LSN, want.Position.LSN)

	_, err = l.QueryRow(ctx, "SELECT 1/0")
	require.Error(t, err)
	row, err := l.QueryRow(ctx, "SELECT 1 WHERE false")
	require.NoError(t, err)
	require.Empty(t, row)
	row, err = l.QueryRow(ctx, "SELECT 1::text, NULL::text, 2::int")
	require.NoError(t, err)
	require.Equal(t, []string{"1", "", "2"}, row)
	require.NoError(t, l.Close())
}

// TestOwnLinkPreparesWhatComesAgain: the second time that a question is asked; the answers are the same, and other questions do
// not disturb it.
func TestOwnLinkPreparesWhatComesAgain(t *testing.T) {
	c := sharedCluster(t)
	ctx := testContext(t)
	for _, n := range c.Nodes() {
		config, err := pgx.ParseConfig(n.DSN(dbtest.WatchUser))
		require.NoError(t, err)
		native, err := stdlib.GetConnector(*config).Connect(ctx)
		require.NoError(t, err)
		wire := engine.Wire(native)
		want, err := monitor.Ask(ctx, wire.Link(), engine)
		require.NoError(t, err)
		link := wire.OwnLink()
		const count = "SELECT count(*)::text FROM pg_prepared_statements"
		for i := range 5 {
			got, err := monitor.Ask(ctx, link, engine)
			require.NoError(t, err)
			require.Equal(t, want.Start, got.Start)
			require.Equal(t, want.Role, got.Role)
			require.Equal(t, want.Position.System, got.Position.System)
			require.Equal(t, want.Position.Timeline, got.Position.Timeline)
			require.GreaterOrEqual(t, got.Position.LSN, want.Position.LSN)
			if i > 1 {
				row, err := link.QueryRow(ctx, count)
				require.NoError(t, err)
				require.Equal(t, []string{"1"}, row)
			}
		}
		require.NoError(t, link.Close())
	}
}
