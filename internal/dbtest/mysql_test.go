package dbtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// onBoth runs a test on MariaDB and, where it can be had, on MySQL, each with servers of its own.
func onBoth(t *testing.T, options dbtest.MySQLOptions, test func(t *testing.T, c *dbtest.MySQLCluster)) {
	t.Helper()
	t.Run("MariaDB", func(t *testing.T) { test(t, dbtest.StartMariaDBT(t, options)) })
	t.Run("MySQL", func(t *testing.T) { test(t, dbtest.StartMySQLT(t, options)) })
}

func myQuery(t *testing.T, n *dbtest.MySQLNode, text string) string {
	t.Helper()
	value, err := n.QueryValue(t.Context(), text)
	require.NoError(t, err)
	return value
}

func position(t *testing.T, n *dbtest.MySQLNode) string {
	t.Helper()
	p, err := n.Position(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, p)
	return p
}

func openMySQL(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func requireMySQLError(t *testing.T, err error, number uint16) {
	t.Helper()
	var refusal *mysql.MySQLError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, number, refusal.Number, "%v", refusal)
}

// One cluster serves the tests that leave it as they have found it.
func TestMySQLCluster(t *testing.T) {
	onBoth(t, dbtest.MySQLOptions{Replicas: 2, Settings: map[string]string{"max_connections": "33"}}, func(t *testing.T, c *dbtest.MySQLCluster) {
		for _, test := range []struct {
			name string
			run  func(*testing.T, *dbtest.MySQLCluster)
		}{
			{"a primary with replicas", testMySQLNodes},
			{"lag", testMySQLLag},
			{"freeze and thaw", testMySQLFreeze},
			{"stop and start", testMySQLStopAndStart},
		} {
			t.Run(test.name, func(t *testing.T) { test.run(t, c) })
		}
	})
}

func testMySQLNodes(t *testing.T, c *dbtest.MySQLCluster) {
	ctx := t.Context()
	require.Equal(t, strings.Contains(t.Name(), "MariaDB"), c.IsMariaDB())
	require.Contains(t, myQuery(t, c.Primary(), "SELECT VERSION()"), c.Version())
	require.Len(t, c.Nodes(), 3)
	for i, n := range c.Nodes() {
		require.Equal(t, string(rune('a'+i)), n.Name())
		require.True(t, n.IsRunning())
		require.Equal(t, fmt.Sprint(n.ServerID()), myQuery(t, n, "SELECT @@server_id"))
		require.Equal(t, fmt.Sprint(n.Port()), myQuery(t, n, "SELECT @@port"))
		require.Equal(t, "33", myQuery(t, n, "SELECT @@max_connections"))
		require.Equal(t, map[bool]string{false: "0", true: "1"}[i > 0], myQuery(t, n, "SELECT @@read_only"))
		status, err := n.ReplicaStatus(ctx)
		require.NoError(t, err)
		require.Equal(t, i > 0, len(status) > 0)
	}
	require.Equal(t, c.Nodes()[0], c.Primary())
	require.Equal(t, c.Nodes()[2], c.Replica(1))

	// The ordinary user writes in its database, on the primary only, and does nothing else.
	app := openMySQL(t, c.Primary().AppDSN())
	for _, text := range []string{"CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"} {
		_, err := app.ExecContext(ctx, text)
		require.NoError(t, err, text)
	}
	_, err := app.ExecContext(ctx, "CREATE USER another")
	requireMySQLError(t, err, 1227)
	require.NoError(t, c.WaitCaughtUp(ctx))
	for _, n := range c.Nodes() {
		require.Equal(t, "2", myQuery(t, n, "SELECT COUNT(*) FROM t"))
		require.Equal(t, position(t, c.Primary()), position(t, n))
	}
	_, err = openMySQL(t, c.Replica(0).AppDSN()).ExecContext(ctx, "INSERT INTO t VALUES (3)")
	requireMySQLError(t, err, 1290)
	_, err = openMySQL(t, c.Replica(0).WatchDSN()).ExecContext(ctx, map[bool]string{true: "SHOW SLAVE STATUS", false: "SHOW REPLICA STATUS"}[c.IsMariaDB()])
	require.NoError(t, err)
	_, err = openMySQL(t, c.Replica(0).WatchDSN()).ExecContext(ctx, "SELECT * FROM app.t")
	requireMySQLError(t, err, 1142)

	// One text may hold several statements; what is open at the end is rolled back.
	err = c.Primary().Exec(ctx, "INSERT INTO t VALUES (4); INSERT INTO t VALUES (5)", "SELECT nonsense")
	requireMySQLError(t, err, 1054)
	require.ErrorContains(t, err, "running a statement on a")
	require.NoError(t, c.Primary().Exec(ctx, "START TRANSACTION; INSERT INTO t VALUES (6)"))
	require.Equal(t, "4", myQuery(t, c.Primary(), "SELECT COUNT(*) FROM t"))
	require.Equal(t, "", myQuery(t, c.Primary(), "SELECT NULL"))
	_, err = c.Primary().QueryValue(ctx, "SELECT 1 FROM t WHERE id = 99")
	require.ErrorIs(t, err, sql.ErrNoRows)
	require.NoError(t, c.Primary().Set(ctx, "long_query_time", "7.5"))
	require.Equal(t, "1", myQuery(t, c.Primary(), "SELECT @@GLOBAL.long_query_time = 7.5"))
	require.NoError(t, c.Primary().Set(ctx, "time_zone", "+01:00"))
	require.Error(t, c.Primary().Set(ctx, "no_such_setting", "1"))
}

func testMySQLLag(t *testing.T, c *dbtest.MySQLCluster) {
	ctx, primary, replica := t.Context(), c.Primary(), c.Replica(0)
	require.NoError(t, primary.Exec(ctx, "CREATE TABLE lagging (id INT)"))
	require.NoError(t, c.WaitCaughtUp(ctx))

	// A paused applier lags, and resumes.
	require.NoError(t, replica.PauseReplay(ctx))
	before := position(t, replica)
	require.NoError(t, primary.Exec(ctx, "INSERT INTO lagging VALUES (1)"))
	err := c.WaitCaughtUp(within(t, 150*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for b")
	require.Equal(t, before, position(t, replica))
	require.Equal(t, "0", myQuery(t, replica, "SELECT COUNT(*) FROM lagging"))
	status, err := replica.ReplicaStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"Yes", "No"}, []string{status[receiver(c)], status[applier(c)]})
	require.NoError(t, replica.ResumeReplay(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.Equal(t, "1", myQuery(t, replica, "SELECT COUNT(*) FROM lagging"))

	// So does a receiver.
	require.NoError(t, replica.StopReceiver(ctx))
	require.NoError(t, primary.Exec(ctx, "INSERT INTO lagging VALUES (2)"))
	require.Error(t, c.WaitCaughtUp(within(t, 150*time.Millisecond)))
	status, err = replica.ReplicaStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"No", "Yes"}, []string{status[receiver(c)], status[applier(c)]})
	require.NoError(t, replica.StartReceiver(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))

	// A delay holds for every transaction, and lifting it frees the one that waits.
	require.NoError(t, replica.SetApplyDelay(ctx, 1300*time.Millisecond)) // two seconds, of which the first may be over at once
	began := time.Now()
	require.NoError(t, primary.Exec(ctx, "INSERT INTO lagging VALUES (3)"))
	require.Error(t, c.WaitCaughtUp(within(t, 150*time.Millisecond)))
	require.NoError(t, c.WaitCaughtUp(ctx))
	// The servers count whole seconds of the clock.
	require.Greater(t, time.Since(began), 150*time.Millisecond)
	require.NoError(t, replica.SetApplyDelay(ctx, time.Hour))
	require.NoError(t, primary.Exec(ctx, "INSERT INTO lagging VALUES (4)"))
	require.Error(t, c.WaitCaughtUp(within(t, 150*time.Millisecond)))
	require.NoError(t, replica.SetApplyDelay(ctx, 0))
	require.NoError(t, c.WaitCaughtUp(within(t, 10*time.Second)))
	require.Equal(t, "4", myQuery(t, replica, "SELECT COUNT(*) FROM lagging"))
}

func receiver(c *dbtest.MySQLCluster) string {
	return map[bool]string{true: "Slave_IO_Running", false: "Replica_IO_Running"}[c.IsMariaDB()]
}

func applier(c *dbtest.MySQLCluster) string {
	return map[bool]string{true: "Slave_SQL_Running", false: "Replica_SQL_Running"}[c.IsMariaDB()]
}

// A server that is ended in any way comes back on its port with what was committed.
func testMySQLStopAndStart(t *testing.T, c *dbtest.MySQLCluster) {
	ctx, primary, replica := t.Context(), c.Primary(), c.Replica(0)
	require.NoError(t, primary.Exec(ctx, "CREATE TABLE stopped (how VARCHAR(20))"))
	for i, way := range []struct {
		name string
		stop func(context.Context, *dbtest.MySQLNode) error
	}{
		{"fast", func(ctx context.Context, n *dbtest.MySQLNode) error { return n.StopFast(ctx) }},
		{"kill", func(ctx context.Context, n *dbtest.MySQLNode) error { return n.Kill(ctx) }},
		{"kill frozen", func(ctx context.Context, n *dbtest.MySQLNode) error {
			return errors.Join(n.Freeze(ctx), n.Kill(ctx))
		}},
	} {
		require.NoError(t, primary.Exec(ctx, "INSERT INTO stopped VALUES ('"+way.name+"')"))
		for _, n := range []*dbtest.MySQLNode{replica, primary} {
			what := way.name + " " + n.Name()
			pid, port := n.Pid(), n.Port()
			require.ErrorContains(t, n.Start(ctx), "it is running", what)
			require.NoError(t, way.stop(ctx, n), what)
			require.False(t, n.IsRunning(), what)
			require.False(t, alive(pid), what)
			require.NoError(t, n.StopFast(ctx), "stopping a stopped server")
			require.NoError(t, n.Kill(ctx), "killing a stopped server")
			require.ErrorContains(t, n.Exec(ctx, "SELECT 1"), "not running", what)
			require.ErrorContains(t, n.Freeze(ctx), "not running", what)
			require.NoError(t, n.Start(ctx), what)
			require.Equal(t, fmt.Sprint(port), myQuery(t, n, "SELECT @@port"))
			require.NotEqual(t, pid, n.Pid())
		}
		require.NoError(t, c.WaitCaughtUp(ctx))
		for _, n := range c.Nodes() {
			require.Equal(t, fmt.Sprint(i+1), myQuery(t, n, "SELECT COUNT(*) FROM stopped"), "%s %s", way.name, n.Name())
		}
		require.Equal(t, "1", myQuery(t, replica, "SELECT @@read_only"))
	}
}

func testMySQLFreeze(t *testing.T, c *dbtest.MySQLCluster) {
	ctx, n := t.Context(), c.Replica(0)
	pid, session := n.Pid(), openMySQL(t, n.AppDSN())
	require.NoError(t, session.PingContext(ctx))
	require.NoError(t, n.Freeze(ctx))
	require.True(t, n.IsRunning())
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	require.Contains(t, string(status), "State:\tT")
	// Neither a session that exists nor a new one gets an answer, and neither an error.
	require.ErrorIs(t, session.PingContext(within(t, 50*time.Millisecond)), context.DeadlineExceeded)
	require.ErrorIs(t, openMySQL(t, n.DSN()).PingContext(within(t, 50*time.Millisecond)), context.DeadlineExceeded)
	require.ErrorContains(t, n.StopFast(ctx), "it is frozen")

	require.NoError(t, c.Primary().Exec(ctx, "CREATE TABLE while_frozen (id INT)"))
	require.NoError(t, n.Thaw(ctx))
	require.NoError(t, n.Thaw(ctx))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.Equal(t, "0", myQuery(t, n, "SELECT COUNT(*) FROM while_frozen"))
	require.Equal(t, pid, n.Pid())
}

func TestMySQLFailover(t *testing.T) {
	onBoth(t, dbtest.MySQLOptions{Replicas: 2}, func(t *testing.T, c *dbtest.MySQLCluster) {
		ctx := t.Context()
		a, b, d := c.Primary(), c.Replica(0), c.Replica(1)
		require.NoError(t, a.Exec(ctx, "CREATE TABLE t (who VARCHAR(20))", "INSERT INTO t VALUES ('a')"))
		require.NoError(t, c.WaitCaughtUp(ctx))

		// In order: the old primary stops, a replica takes over, the others follow, the old primary too.
		require.NoError(t, a.StopFast(ctx))
		require.NoError(t, b.Promote(ctx))
		require.Equal(t, b, c.Primary())
		require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES ('b')"))
		require.NoError(t, d.Follow(ctx, b))
		require.NoError(t, a.Follow(ctx, b))
		require.NoError(t, c.WaitCaughtUp(ctx))
		for _, n := range []*dbtest.MySQLNode{a, d} {
			require.Equal(t, "2", myQuery(t, n, "SELECT COUNT(*) FROM t"))
			require.Equal(t, "1", myQuery(t, n, "SELECT @@read_only"))
		}
		_, err := openMySQL(t, b.AppDSN()).ExecContext(ctx, "INSERT INTO t VALUES ('app')")
		require.NoError(t, err)

		// The applier of d is paused when b dies: what it had received only is lost.
		require.NoError(t, c.WaitCaughtUp(ctx))
		require.NoError(t, d.PauseReplay(ctx))
		require.NoError(t, a.StopReceiver(ctx))
		require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES ('lost')"))
		lost := position(t, b)
		require.NoError(t, b.Kill(ctx))
		require.NoError(t, d.Promote(ctx))
		require.NoError(t, d.Exec(ctx, "INSERT INTO t VALUES ('d')", "INSERT INTO t VALUES ('d')"))
		require.Equal(t, "0", myQuery(t, d, "SELECT COUNT(*) FROM t WHERE who = 'lost'"))
		if c.IsMariaDB() {
			require.Contains(t, lost, "0-2-")
			require.NotContains(t, myQuery(t, d, "SELECT @@gtid_binlog_state"), lost, "which is how the loss is found")
		} else {
			require.Error(t, d.WaitFor(within(t, 100*time.Millisecond), lost))
		}
		require.NoError(t, a.Follow(ctx, d))
		require.NoError(t, b.Rebuild(ctx, d))
		require.NoError(t, c.WaitCaughtUp(ctx))
		for _, n := range c.Nodes() {
			require.Equal(t, "a,app,b,d,d", myQuery(t, n, "SELECT GROUP_CONCAT(who ORDER BY who) FROM t"), n.Name())
		}

		added, err := c.AddReplica(ctx)
		require.NoError(t, err)
		require.Equal(t, "d", added.Name())
		require.Equal(t, "5", myQuery(t, added, "SELECT COUNT(*) FROM t"))
		require.NoError(t, d.Exec(ctx, "INSERT INTO t VALUES ('more')"))
		require.NoError(t, c.WaitCaughtUp(ctx))
		require.Equal(t, "6", myQuery(t, added, "SELECT COUNT(*) FROM t"))
		require.Error(t, d.Promote(ctx), "it has no source")
	})
}

// Settings of appliers and semi-synchronous replication reach the servers.
func TestMySQLSettings(t *testing.T) {
	t.Run("MySQL", func(t *testing.T) {
		c := dbtest.StartMySQLT(t, dbtest.MySQLOptions{Replicas: 1, Settings: map[string]string{
			"replica_parallel_workers": "3", "replica_preserve_commit_order": "OFF",
			"plugin-load-add": "semisync_source.so;semisync_replica.so", "rpl_semi_sync_source_enabled": "ON", "rpl_semi_sync_replica_enabled": "ON",
		}})
		eventually(t, func() bool {
			return myQuery(t, c.Primary(), "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_clients'") == "1"
		}, "the replica is semi-synchronous")
		require.Equal(t, "3/0", myQuery(t, c.Replica(0), "SELECT CONCAT(@@replica_parallel_workers, '/', @@replica_preserve_commit_order)"))
	})
	t.Run("MariaDB", func(t *testing.T) {
		c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{Replicas: 1, Settings: map[string]string{
			"slave_parallel_threads": "3", "slave_parallel_mode": "aggressive",
			"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_slave_enabled": "ON",
		}})
		eventually(t, func() bool {
			return myQuery(t, c.Primary(), "SELECT VARIABLE_VALUE FROM information_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_master_clients'") == "1"
		}, "the replica is semi-synchronous")
		require.Equal(t, "3/aggressive", myQuery(t, c.Replica(0), "SELECT CONCAT(@@slave_parallel_threads, '/', @@slave_parallel_mode)"))
	})
}

// Everything is gone after Close: the folder, the goroutines, the processes. Twice is fine.
func TestMySQLClose(t *testing.T) {
	onBoth(t, dbtest.MySQLOptions{}, func(t *testing.T, c *dbtest.MySQLCluster) {
		ctx := t.Context()
		require.Equal(t, "1", myQuery(t, c.Primary(), "SELECT 1"))
		before := runtime.NumGoroutine()
		start := dbtest.StartMySQL
		if c.IsMariaDB() {
			start = dbtest.StartMariaDB
		}
		began := time.Now()
		other, err := start(ctx, dbtest.MySQLOptions{Replicas: 2})
		require.NoError(t, err)
		t.Logf("a primary with two replicas of %s, from the template: %v", c.Flavor(), time.Since(began).Round(time.Millisecond))
		n := other.Replica(0)
		require.Equal(t, "1", myQuery(t, n, "SELECT 1"))
		require.NoError(t, n.Freeze(ctx))
		pid, folder := n.Pid(), other.Folder()
		require.NoError(t, other.Close())
		require.NoError(t, other.Close())
		require.NoDirExists(t, folder)
		require.False(t, n.IsRunning())
		require.False(t, alive(pid))
		require.Error(t, n.Start(ctx))
		_, err = other.AddReplica(ctx)
		require.Error(t, err)
		eventually(t, func() bool { return runtime.NumGoroutine() <= before }, "no goroutine is left")

		_, err = start(ctx, dbtest.MySQLOptions{Replicas: -1})
		require.ErrorContains(t, err, "negative")
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = start(short, dbtest.MySQLOptions{})
		require.Error(t, err)
	})
}

func TestFindMySQLServers(t *testing.T) {
	program, version, err := dbtest.FindMariaDB()
	require.NoError(t, err)
	require.FileExists(t, program)
	require.Regexp(t, `^1\d\.\d+\.\d+$`, version)

	t.Setenv(dbtest.MariaDBEnv, program)
	again, _, err := dbtest.FindMariaDB()
	require.NoError(t, err)
	require.Equal(t, program, again)

	// MariaDB's own mysqld is no MySQL.
	t.Setenv(dbtest.MySQLEnv, program)
	_, _, err = dbtest.FindMySQL()
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	require.ErrorContains(t, err, "it is MariaDB, not MySQL")
	require.NotContains(t, err.Error(), "\n")
	_, err = dbtest.StartMySQL(t.Context(), dbtest.MySQLOptions{})
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	_, err = dbtest.StartMariaDB(t.Context(), dbtest.MySQLOptions{Program: filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, dbtest.ErrNoServer)

	root := t.TempDir()
	fake := filepath.Join(root, "usr", "sbin", "mysqld")
	require.NoError(t, os.MkdirAll(filepath.Dir(fake), 0o755))
	for version, problem := range map[string]string{"8.0.25": "too old", "8.0.26": "", "8.4.2": ""} {
		script := "#!/bin/sh\necho 'mysqld  Ver " + version + " for Linux on x86_64 (MySQL Community Server - GPL)'\n"
		require.NoError(t, os.WriteFile(fake, []byte(script), 0o755))
		t.Setenv(dbtest.MySQLEnv, root)
		program, got, err := dbtest.FindMySQL()
		if problem != "" {
			require.ErrorContains(t, err, problem)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []string{fake, version}, []string{program, got})
	}
}

func TestParseMySQLVersion(t *testing.T) {
	for line, want := range map[string]string{
		"mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n":                                "MySQL 9.7.4",
		"/usr/sbin/mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64 ((Ubuntu))":        "MySQL 8.0.36",
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)": "MariaDB 10.11.19",
		"mysqld  Ver 11.8.9-MariaDB-log for linux-systemd on aarch64 (MariaDB Server)":        "MariaDB 11.8.9",
		"postgres (PostgreSQL) 15.18": " ",
		"mysqld  Ver x":               " ",
		"":                            " ",
	} {
		flavor, version, err := dbtest.ParseMySQLVersion(line)
		require.Equal(t, want, flavor+" "+version, line)
		require.Equal(t, want == " ", err != nil, line)
	}
	require.Negative(t, dbtest.CompareVersions("8.0.9", "8.0.26"))
	require.Zero(t, dbtest.CompareVersions("10.6", "10.6.0"))
	require.Positive(t, dbtest.CompareVersions("10.11.1", "10.6"))
}

// skipper is a TB that can be skipped.
type skipper struct {
	recorder
	skipped string
}

func (s *skipper) Skipf(format string, a ...any) { s.skipped = fmt.Sprintf(format, a...) }

func TestMissingMySQLIsSaidAloud(t *testing.T) {
	var out strings.Builder
	require.NoError(t, dbtest.Untested(&out))
	if _, _, err := dbtest.FindMySQL(); err == nil {
		require.Empty(t, out.String())
	} else {
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
		s := new(skipper)
		dbtest.StartMySQLT(s, dbtest.MySQLOptions{})
		require.Contains(t, s.skipped, "MySQL NOT TESTED: ")
	}
	// What is named and does not work is a failure, as is a missing MariaDB.
	t.Setenv(dbtest.MySQLEnv, t.TempDir())
	t.Setenv(dbtest.MariaDBEnv, t.TempDir())
	out.Reset()
	require.NoError(t, dbtest.Untested(&out))
	require.Contains(t, out.String(), "MySQL NOT TESTED: ")
	s := new(skipper)
	require.Nil(t, dbtest.StartMySQLT(s, dbtest.MySQLOptions{}))
	require.Empty(t, s.skipped)
	require.Contains(t, s.fatal, "no database server")
	s = new(skipper)
	require.Nil(t, dbtest.StartMariaDBT(s, dbtest.MySQLOptions{}))
	require.Empty(t, s.skipped)
	require.Contains(t, s.fatal, "no database server")
}

// What a call has set for its session is not there for the next one.
func TestMySQLSessionSettingsDoNotLast(t *testing.T) {
	c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{})
	ctx := t.Context()
	for _, text := range []string{"SET SESSION sql_log_bin = 0", "SET @a = 1", "DO 1; SET sql_log_bin = 0"} {
		require.NoError(t, c.Primary().Exec(ctx, text))
		for range 3 {
			value, err := c.Primary().QueryValue(ctx, "SELECT CONCAT(@@SESSION.sql_log_bin + 0, IFNULL(@a, ''))")
			require.NoError(t, err)
			require.Equal(t, "1", value, text)
		}
	}
}
