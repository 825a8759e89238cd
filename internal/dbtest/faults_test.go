package dbtest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

const (
	received = "SELECT pg_last_wal_receive_lsn()"
	replayed = "SELECT pg_last_wal_replay_lsn()"
	written  = "SELECT pg_current_wal_flush_lsn()"
)

func TestPauseAndResumeReplay(t *testing.T) {
	c := sharedCluster(t)
	ctx, primary, standby := t.Context(), c.Primary(), c.Standby(0)
	createTable(t, c, "paused")
	require.NoError(t, c.WaitCaughtUp(ctx))

	require.NoError(t, standby.PauseReplay(ctx))
	before := query(t, standby, replayed)
	require.NoError(t, primary.Exec(ctx, "INSERT INTO paused VALUES (1)"))
	end := query(t, primary, written)
	eventually(t, func() bool { return query(t, standby, received) == end }, "receiving goes on")
	eventually(t, func() bool { return query(t, c.Standby(1), replayed) == end }, "the other standby replays")
	require.Equal(t, before, query(t, standby, replayed))
	require.Equal(t, "0", query(t, standby, "SELECT count(*) FROM paused"))

	require.NoError(t, standby.ResumeReplay(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.Equal(t, "1", query(t, standby, "SELECT count(*) FROM paused"))

	err := primary.PauseReplay(ctx)
	requireSQLState(t, err, "55000")
}

func TestApplyDelay(t *testing.T) {
	c := sharedCluster(t)
	ctx, primary, standby := t.Context(), c.Primary(), c.Standby(0)
	createTable(t, c, "delayed")
	require.NoError(t, c.WaitCaughtUp(ctx))

	const delay = 300 * time.Millisecond
	require.NoError(t, standby.SetApplyDelay(ctx, delay))
	began := time.Now()
	require.NoError(t, primary.Exec(ctx, "INSERT INTO delayed VALUES (1)"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.GreaterOrEqual(t, time.Since(began), delay-10*time.Millisecond)
	require.Equal(t, "1", query(t, standby, "SELECT count(*) FROM delayed"))

	// A pause that is asked for meanwhile is one when PauseReplay returns.
	require.NoError(t, primary.Exec(ctx, "INSERT INTO delayed VALUES (2)"))
	end := query(t, primary, written)
	eventually(t, func() bool { return query(t, standby, received) >= end }, "the commit is received")
	require.NoError(t, standby.PauseReplay(ctx))
	require.Equal(t, "paused", query(t, standby, "SELECT pg_get_wal_replay_pause_state()"))
	require.NoError(t, standby.ResumeReplay(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))

	// Lifting the delay frees the commit that waits.
	require.NoError(t, standby.SetApplyDelay(ctx, time.Hour))
	require.NoError(t, primary.Exec(ctx, "INSERT INTO delayed VALUES (3)"))
	require.Error(t, c.WaitCaughtUp(within(t, 200*time.Millisecond)))
	require.NoError(t, standby.SetApplyDelay(ctx, 0))
	require.NoError(t, c.WaitCaughtUp(within(t, 10*time.Second)))
}

// processes are all processes of a node's server.
func processes(t *testing.T, n *dbtest.PostgresNode) []int {
	t.Helper()
	children, err := dbtest.ChildrenOf(n.Pid())
	require.NoError(t, err)
	require.NotEmpty(t, children)
	return append(children, n.Pid())
}

// A server that is ended in any way comes back on its port with what was committed.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	c, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{Standbys: 1})
	require.NoError(t, err)
	defer c.Close()
	ctx, primary, standby := t.Context(), c.Primary(), c.Standby(0)
	require.NoError(t, primary.Exec(ctx, "CREATE TABLE t (how text)"))

	for i, way := range []struct {
		name  string
		stop  func(context.Context, *dbtest.PostgresNode) error
		crash bool
	}{
		{"fast", func(ctx context.Context, n *dbtest.PostgresNode) error { return n.StopFast(ctx) }, false},
		{"immediate", func(ctx context.Context, n *dbtest.PostgresNode) error { return n.StopImmediate(ctx) }, true},
		{"kill", func(ctx context.Context, n *dbtest.PostgresNode) error { return n.Kill(ctx) }, true},
		{"kill frozen", func(ctx context.Context, n *dbtest.PostgresNode) error {
			if err := n.Freeze(ctx); err != nil {
				return err
			}
			return n.Kill(ctx)
		}, true},
	} {
		for _, n := range []*dbtest.PostgresNode{standby, primary} {
			what := way.name + " " + n.Name()
			session := connect(t, n.AppDSN()) // a session more to be ended
			pid, all := n.Pid(), processes(t, n)
			require.ErrorContains(t, n.Start(ctx), "it is running", what)
			require.NoError(t, way.stop(ctx, n), what)
			require.False(t, n.IsRunning(), what)
			require.NoError(t, n.StopFast(ctx), "stopping a stopped server")
			require.NoError(t, n.Kill(ctx), "killing a stopped server")
			for _, p := range all {
				require.False(t, alive(p), what)
			}
			require.False(t, ownsSharedMemory(t, pid), what)
			require.Error(t, session.Ping(ctx), what)
			require.ErrorContains(t, n.Exec(ctx, "SELECT 1"), "connection refused", what)

			before := n.Port()
			require.NoError(t, n.Start(ctx), what)
			require.Equal(t, fmt.Sprint(before), query(t, n, "SHOW port"))
			require.NotEqual(t, pid, n.Pid())
			require.Equal(t, way.crash, crashRecovery(t, c, n), what)
		}
		require.NoError(t, primary.Exec(ctx, "INSERT INTO t VALUES ('"+way.name+"')"))
		require.NoError(t, c.WaitCaughtUp(ctx))
		for _, n := range c.Nodes() {
			require.Equal(t, fmt.Sprint(i+1), query(t, n, "SELECT count(*) FROM t"), way.name)
		}
	}
}

// crashRecovery reports whether the last start of a node had to recover.
func crashRecovery(t *testing.T, c *dbtest.PostgresCluster, n *dbtest.PostgresNode) bool {
	t.Helper()
	log, err := os.ReadFile(c.Folder() + "/" + n.Name() + ".log")
	require.NoError(t, err)
	last := string(log)[strings.LastIndex(string(log), "starting PostgreSQL"):]
	return strings.Contains(last, "was interrupted")
}

// ownsSharedMemory reports whether a System V segment that the process has made still exists.
func ownsSharedMemory(t *testing.T, pid int) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	for _, line := range strings.Split(string(table), "\n")[1:] {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == fmt.Sprint(pid) {
			return true
		}
	}
	return false
}

func TestFreezeAndThaw(t *testing.T) {
	c := sharedCluster(t)
	ctx, n := t.Context(), c.Standby(1)
	session := connect(t, n.AppDSN())
	all := processes(t, n)
	require.NoError(t, n.Freeze(ctx))
	require.True(t, n.IsRunning())
	for _, pid := range all {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		require.NoError(t, err)
		require.Contains(t, string(status), "State:\tT", "process %d", pid)
	}
	// Neither a session that exists nor a new one gets an answer, and neither an error.
	require.ErrorIs(t, session.Ping(within(t, 50*time.Millisecond)), context.DeadlineExceeded)
	_, err := pgx.Connect(within(t, 50*time.Millisecond), n.DSN())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, n.StopFast(ctx), "it is frozen")

	createTable(t, c, "while_frozen")
	require.NoError(t, n.Thaw(ctx))
	require.NoError(t, n.Thaw(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.Equal(t, "0", query(t, n, "SELECT count(*) FROM while_frozen"))
	require.Equal(t, n.Pid(), all[len(all)-1])
}

func timeline(t *testing.T, n *dbtest.PostgresNode) string {
	t.Helper()
	return query(t, n, "SELECT received_tli FROM pg_stat_wal_receiver")
}

func TestFailover(t *testing.T) {
	t.Parallel()
	c, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{Standbys: 2})
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	a, b, d := c.Primary(), c.Standby(0), c.Standby(1)
	require.NoError(t, a.Exec(ctx, "CREATE TABLE t (by text)", "INSERT INTO t VALUES ('a')"))
	require.NoError(t, c.WaitCaughtUp(ctx))

	// In order: the old primary stops, a standby takes over, the others follow, the old primary too.
	require.NoError(t, a.StopFast(ctx))
	require.NoError(t, b.Promote(ctx))
	require.Equal(t, b, c.Primary())
	require.Equal(t, b, c.Standby(0))
	require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES ('b')"))
	require.NoError(t, d.Follow(ctx, b))
	require.NoError(t, a.Follow(ctx, b))
	require.NoError(t, c.WaitCaughtUp(ctx))
	for _, n := range []*dbtest.PostgresNode{a, d} {
		require.Equal(t, "2", query(t, n, "SELECT count(*) FROM t"))
		require.Equal(t, "2", timeline(t, n))
	}

	// Out of order: the old primary goes on writing, and the standby that stays with it is lost to the new one.
	require.NoError(t, a.Promote(ctx))
	require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES ('lost')"))
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES ('a again')"))
	end := query(t, b, written)
	eventually(t, func() bool { return query(t, d, replayed) == end }, "the standby has the lost write")
	require.NoError(t, d.Follow(ctx, a))
	require.Error(t, c.WaitCaughtUp(within(t, 300*time.Millisecond)))

	port := d.Port()
	require.NoError(t, d.Rebuild(ctx, a))
	require.NoError(t, b.Rebuild(ctx, a))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.Equal(t, port, d.Port())
	for _, n := range c.Nodes() {
		require.Equal(t, "a,a again,b", query(t, n, "SELECT string_agg(by, ',' ORDER BY by) FROM t"), n.Name())
	}
	require.Equal(t, "3", timeline(t, d))

	// A crash is survived by the cluster; a server that does not run cannot be promoted.
	require.NoError(t, a.Kill(ctx))
	require.Error(t, a.Promote(ctx))
	const has = "SELECT GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
	if query(t, b, has+" < '"+query(t, d, has)+"'") == "t" {
		b, d = d, b // a server logs by itself: it may have died when only one standby had it all, and that could not follow the other
	}
	require.NoError(t, b.Promote(ctx))
	require.NoError(t, d.Follow(ctx, b))
	require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES ('b again')"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.Equal(t, "4", query(t, d, "SELECT count(*) FROM t"))

	added, err := c.AddStandby(ctx)
	require.NoError(t, err)
	require.Equal(t, "d", added.Name())
	require.Equal(t, "4", query(t, added, "SELECT count(*) FROM t"))
}
