package dbtest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func requireSQLState(t *testing.T, err error, state string) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, state, pgErr.Code)
}

func TestClusterIsAPrimaryWithStandbys(t *testing.T) {
	c := sharedCluster(t)
	require.GreaterOrEqual(t, c.Version(), 14)
	require.Len(t, c.Nodes(), 3)
	for i, n := range c.Nodes() {
		require.Equal(t, string(rune('a'+i)), n.Name())
		require.True(t, n.IsRunning())
		require.Equal(t, fmt.Sprint(i > 0), map[string]string{"t": "true", "f": "false"}[query(t, n, "SELECT pg_is_in_recovery()")])
		require.Equal(t, fmt.Sprint(n.Port()), query(t, n, "SHOW port"))
		require.Equal(t, n.Name(), query(t, n, "SHOW cluster_name"))
	}
	require.Equal(t, c.Nodes()[0], c.Primary())
	require.Equal(t, c.Nodes()[2], c.Standby(1))
	require.Equal(t, "b,c", query(t, c.Primary(),
		"SELECT string_agg(application_name, ',' ORDER BY application_name) FROM pg_stat_replication WHERE state = 'streaming'"))
	require.Less(t, len(query(t, c.Primary(), "SHOW unix_socket_directories"))+len("/.s.PGSQL.12345"), 90)
}

func TestRoles(t *testing.T) {
	c := sharedCluster(t)
	ctx := t.Context()
	createTable(t, c, "by_super")
	require.NoError(t, c.Primary().Exec(ctx, "CREATE SEQUENCE seq_by_super"))
	t.Cleanup(func() {
		require.NoError(t, c.Primary().Exec(context.Background(), "DROP SEQUENCE seq_by_super", "DROP TABLE by_app", "DROP SCHEMA own CASCADE"))
	})

	app := connect(t, c.Primary().AppDSN())
	for _, sql := range []string{
		"CREATE SCHEMA own", "CREATE TABLE own.t (id int)", "CREATE TABLE by_app (id int)",
		"INSERT INTO by_app VALUES (1)", "INSERT INTO by_super VALUES (2)", "SELECT nextval('seq_by_super')",
	} {
		_, err := app.Exec(ctx, sql)
		require.NoError(t, err, sql)
	}
	_, err := app.Exec(ctx, "CREATE ROLE another")
	requireSQLState(t, err, "42501")

	require.NoError(t, c.WaitCaughtUp(ctx))
	watch := connect(t, c.Standby(0).WatchDSN())
	var user, monitor, super string
	require.NoError(t, watch.QueryRow(ctx, `SELECT current_user, pg_has_role('pg_monitor', 'member')::text,
		(SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user)`).Scan(&user, &monitor, &super))
	require.Equal(t, []string{dbtest.WatchUser, "true", "false"}, []string{user, monitor, super})
	_, err = watch.Exec(ctx, "TABLE by_app")
	requireSQLState(t, err, "42501")

	require.Equal(t, "1", query(t, c.Standby(0), "TABLE by_app"))
	require.Equal(t, "2", query(t, c.Standby(1), "TABLE by_super"))
	require.Equal(t, "postgres", query(t, c.Primary(), "SELECT current_user"))
}

func TestExecAndQueryValue(t *testing.T) {
	c := sharedCluster(t)
	n, ctx := c.Primary(), t.Context()
	require.Equal(t, "", query(t, n, "SELECT NULL"))
	_, err := n.QueryValue(ctx, "SELECT 1 WHERE false")
	require.ErrorIs(t, err, pgx.ErrNoRows)
	createTable(t, c, "half")
	err = n.Exec(ctx, "INSERT INTO half VALUES (1)", "SELECT nonsense")
	requireSQLState(t, err, "42703")
	require.ErrorContains(t, err, "running a statement on a")
	require.Equal(t, "1", query(t, n, "SELECT count(*) FROM half"))

	// An open transaction is not left for the next call.
	require.NoError(t, n.Exec(ctx, "BEGIN; INSERT INTO half VALUES (2)"))
	require.Equal(t, "1", query(t, n, "SELECT count(*) FROM half"))

	// Nor does a connection that was ended behind its back fail one.
	require.NoError(t, connect(t, n.DSN()).QueryRow(ctx,
		"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'dbtest'").Scan(new(int)))
	require.Equal(t, "1", query(t, n, "SELECT 1"))

	// A statement that hangs does not keep others from running.
	slow, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- n.Exec(slow, "SELECT pg_sleep(60)") }()
	eventually(t, func() bool {
		return query(t, n, "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'") == "1"
	}, "the slow statement runs")
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestOptions(t *testing.T) {
	ctx := t.Context()
	goroutines := runtime.NumGoroutine()
	c, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{
		WALSegmentMB: 1,
		Settings:     map[string]string{"max_connections": "33", "application_name": "it's"},
	})
	require.NoError(t, err)
	defer c.Close()
	n := c.Primary()
	require.Equal(t, "1MB", query(t, n, "SHOW wal_segment_size"))
	require.Equal(t, "33", query(t, n, "SHOW max_connections"))
	require.Equal(t, "it's", query(t, n, "SELECT setting FROM pg_file_settings WHERE name = 'application_name'"))
	require.NoError(t, c.WaitCaughtUp(ctx))

	require.NoError(t, n.Set(ctx, "deadlock_timeout", "1234ms"))
	require.Equal(t, "1234ms", query(t, n, "SHOW deadlock_timeout"))
	require.ErrorContains(t, n.Set(ctx, "no_such_setting", "1"), "no_such_setting")

	// Everything is gone after Close: the folder, the goroutines, the processes. Twice is fine.
	pid, folder := n.Pid(), c.Folder()
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.NoDirExists(t, folder)
	require.False(t, n.IsRunning())
	require.False(t, alive(pid))
	require.Error(t, n.Start(ctx))
	_, err = c.AddStandby(ctx)
	require.Error(t, err)
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines }, "no goroutine is left")

	_, err = dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: -1})
	require.ErrorContains(t, err, "negative")
}

// A port is chosen before it is used, and may be taken in between: the start begins anew.
func TestStartWithATakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	calls := 0
	pick := dbtest.PickPort
	var restore func()
	real, _ := pick()
	restore = dbtest.SetPickPort(func() (int, error) {
		calls++
		if calls == 1 {
			return taken.Addr().(*net.TCPAddr).Port, nil
		}
		return real, nil
	})
	defer restore()
	c, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{})
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, 2, calls)
	require.Equal(t, real, c.Primary().Port())
}

func TestStartHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 1})
	require.Error(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestWaitCaughtUp(t *testing.T) {
	c := sharedCluster(t)
	ctx, primary, standby := t.Context(), c.Primary(), c.Standby(0)
	createTable(t, c, "caught")

	// Commits that the log writer has not written yet count.
	for i := range 4 {
		require.NoError(t, primary.Exec(ctx, fmt.Sprintf("SET synchronous_commit = off; INSERT INTO caught VALUES (%d)", i)))
		require.NoError(t, c.WaitCaughtUp(ctx))
		require.Equal(t, fmt.Sprint(i+1), query(t, standby, "SELECT count(*) FROM caught"))
	}

	require.NoError(t, standby.PauseReplay(ctx))
	require.NoError(t, primary.Exec(ctx, "INSERT INTO caught VALUES (4)"))
	err := c.WaitCaughtUp(within(t, 100*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for b")
	require.ErrorContains(t, err, "replay paused")
	require.NoError(t, standby.ResumeReplay(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))
}

// The insert position lies behind the page's header when the last record has filled a page; waiting for it would hang.
func TestWaitCaughtUpAtPageBoundary(t *testing.T) {
	for _, test := range []struct{ insert, end string }{
		{"50331648", "50331648"},                                    // 0/3000000
		{fmt.Sprint(0x3000000 + 40), fmt.Sprint(0x3000000)},         // behind a segment's header
		{fmt.Sprint(0x3000000 + 48), fmt.Sprint(0x3000000 + 48)},    // a record further
		{fmt.Sprint(0x3002000 + 24), fmt.Sprint(0x3002000)},         // behind a page's header
		{fmt.Sprint(0x3002000 + 32), fmt.Sprint(0x3002000 + 32)},    // a record further
		{fmt.Sprint(1<<60 + 0x2000 + 24), fmt.Sprint(1<<60 + 8192)}, // beyond 32 bits
	} {
		end, err := dbtest.LastRecordEnd([]string{test.insert, "8192", "16777216"})
		require.NoError(t, err)
		require.Equal(t, test.end, fmt.Sprint(end))
	}

	// On a server: a switch of segments leaves the insert position behind a header.
	c := sharedCluster(t)
	require.NoError(t, c.Primary().Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'dbtest', 'x')", "SELECT pg_switch_wal()"))
	require.NoError(t, c.WaitCaughtUp(within(t, 10*time.Second)))
}

func TestAddStandby(t *testing.T) {
	t.Parallel()
	c, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{})
	require.NoError(t, err)
	defer c.Close()
	ctx, primary := t.Context(), c.Primary()
	require.NoError(t, primary.Exec(ctx, "CREATE TABLE t (id int)"))

	writes, stop := make(chan error, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				writes <- nil
				return
			default:
			}
			if err := primary.Exec(ctx, "INSERT INTO t SELECT generate_series(1, 100)"); err != nil {
				writes <- err
				return
			}
		}
	}()
	b, err := c.AddStandby(ctx)
	require.NoError(t, err)
	close(stop)
	require.NoError(t, <-writes)
	require.NoError(t, c.WaitCaughtUp(ctx))
	const sum = "SELECT count(*) || '/' || (SELECT system_identifier FROM pg_control_system()) FROM t"
	require.Equal(t, query(t, primary, sum), query(t, b, sum))
	require.Equal(t, []*dbtest.PostgresNode{primary, b}, c.Nodes())
	require.Equal(t, b, c.Standby(0))
}

func TestFindPostgres(t *testing.T) {
	dir, version, err := dbtest.FindPostgres()
	require.NoError(t, err)
	require.GreaterOrEqual(t, version, 14)
	require.FileExists(t, filepath.Join(dir, "initdb"))

	t.Setenv(dbtest.PostgresBinEnv, dir)
	again, _, err := dbtest.FindPostgres()
	require.NoError(t, err)
	require.Equal(t, dir, again)

	t.Setenv(dbtest.PostgresBinEnv, t.TempDir())
	_, _, err = dbtest.FindPostgres()
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	require.NotContains(t, err.Error(), "\n")
	_, err = dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{})
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	_, err = dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{BinDir: t.TempDir()})
	require.ErrorIs(t, err, dbtest.ErrNoServer)

	old := t.TempDir()
	for name, script := range map[string]string{"initdb": "exit 1", "postgres": "echo 'postgres (PostgreSQL) 9.6.24'"} {
		require.NoError(t, os.WriteFile(filepath.Join(old, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv(dbtest.PostgresBinEnv, old)
	_, _, err = dbtest.FindPostgres()
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	require.ErrorContains(t, err, "PostgreSQL 9 is too old")
}

func TestParseVersion(t *testing.T) {
	for line, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 19rc1 (Debian 19~rc1-1)\n":        19,
		"postgres (PostgreSQL) 14":                               14,
		"postgres (PostgreSQL) devel":                            0,
		"mariadbd  Ver 10.11":                                    0,
		"":                                                       0,
	} {
		got, err := dbtest.ParseVersion(line)
		require.Equal(t, want, got, line)
		require.Equal(t, want == 0, err != nil, line)
	}
}

// recorder is a TB that notes what happens to it.
type recorder struct {
	cleanups []func()
	fatal    string
	logged   strings.Builder
	failed   bool
}

func (*recorder) Helper()                          {}
func (*recorder) Name() string                     { return "TestX" }
func (r *recorder) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Fatalf(format string, a ...any) { r.fatal = fmt.Sprintf(format, a...) }
func (r *recorder) Logf(format string, a ...any)   { fmt.Fprintf(&r.logged, format, a...) }
func (r *recorder) Failed() bool                   { return r.failed }

func TestStartPostgresT(t *testing.T) {
	r := &recorder{failed: true}
	c := dbtest.StartPostgresT(r, dbtest.PostgresOptions{})
	require.Empty(t, r.fatal)
	require.Len(t, r.cleanups, 1)
	r.cleanups[0]()
	require.False(t, c.Primary().IsRunning())
	require.Contains(t, r.logged.String(), "database system is ready", "a failed test shows the server's log")

	// A missing server is a failure, never a skip.
	t.Setenv(dbtest.PostgresBinEnv, t.TempDir())
	r = &recorder{}
	require.Nil(t, dbtest.StartPostgresT(r, dbtest.PostgresOptions{}))
	require.Contains(t, r.fatal, "no database server")
	require.Empty(t, r.cleanups)
}
