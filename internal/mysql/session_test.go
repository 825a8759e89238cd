package mysql_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/mysql"
)

// A session to a replica refuses writes even of an administrator, where the server itself does not.
func TestReadOnlySession(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		l := link(t, c.Primary().DSN())
		query(t, l, "SET SESSION autocommit = 0")
		query(t, l, e.ReadOnlySQL())
		for _, write := range []string{
			"INSERT INTO t (v) VALUES (9)", "UPDATE t SET v = 9", "DELETE FROM t", "CREATE TABLE u (id INT)", "DROP TABLE t",
			"CREATE TEMPORARY TABLE u (id INT)", "SELECT * FROM t FOR UPDATE", "LOCK TABLES t WRITE", "TRUNCATE t", "CREATE DATABASE other",
		} {
			_, err := l.QueryRow(testContext(t), write)
			require.Error(t, err, write)
			require.True(t, e.ReadOnly(err), "%s: %v", write, err)
			require.True(t, e.Refused(err), "%s: %v", write, err)
			require.Equal(t, core.RetryRefused, e.Retry(err), "%s: %v", write, err)
		}
		// What is committed meanwhile is seen: no old snapshot stays.
		count := query(t, l, "SELECT COUNT(*) FROM t")
		exec(t, c.Primary(), "INSERT INTO app.t (v) VALUES (9)")
		require.NotEqual(t, count, query(t, l, "SELECT COUNT(*) FROM t"))
		require.Equal(t, []string{"1"}, query(t, l, "SELECT @@SESSION.autocommit"))
	})
}

func TestSettings(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		require.Equal(t, []string{"false", "off", "0", "200"}, query(t, link(t, c.Primary().AppDSN()), e.SettingsSQL()))
		require.Equal(t, []string{"true", "off", "0", "200"}, query(t, link(t, c.Replica(0).AppDSN()), e.SettingsSQL()))
		l := link(t, c.Primary().AppDSN())
		query(t, l, e.ReadOnlySQL())
		if e.MariaDB {
			query(t, l, "SET SESSION max_statement_time = 1.5")
		} else {
			query(t, l, "SET SESSION max_execution_time = 1500")
		}
		require.Equal(t, []string{"false", "on", "1500", "200"}, query(t, l, e.SettingsSQL()))
	})
}

// A session is found by whoever has the same user, is not confused with another, and can be ended.
func TestGone(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		conn := quiet(t, c.Primary().AppDSN())
		own, l := e.Wire(conn).Link(), link(t, c.Primary().AppDSN())
		row, err := own.QueryRow(testContext(t), e.SelfSQL())
		require.NoError(t, err)
		b, err := e.ParseSelf(row)
		require.NoError(t, err)
		require.NotZero(t, b.PID)
		require.WithinRange(t, time.Unix(b.Start, 0), time.Now().Add(-time.Hour), time.Now().Add(time.Second))
		gone, err := e.Gone(testContext(t), l, b, false)
		require.NoError(t, err)
		require.False(t, gone)
		// Of another run of the server.
		other := b
		other.Start--
		gone, err = e.Gone(testContext(t), l, other, true)
		require.NoError(t, err)
		require.True(t, gone)
		require.NotNil(t, query(t, link(t, c.Primary().AppDSN()), "SELECT 1"))

		// A client that has gone leaves its statement behind, which goes on until it is ended.
		ctx, cancel := context.WithCancel(testContext(t))
		done := make(chan error, 1)
		go func() {
			_, err := own.QueryRow(ctx, "SELECT SLEEP(30)")
			done <- err
		}()
		eventually(t, "it runs", func() bool {
			return query(t, l, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(30)%'")[0] == "1"
		})
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		gone, err = e.Gone(testContext(t), l, b, false)
		require.NoError(t, err)
		require.False(t, gone)
		eventually(t, "it is ended", func() bool {
			gone, err := e.Gone(testContext(t), l, b, true)
			require.NoError(t, err)
			return gone
		})
		gone, err = e.Gone(testContext(t), l, b, false)
		require.NoError(t, err)
		require.True(t, gone)

		// While it runs a routine of another definer, its own user is not shown it, and cannot end it.
		exec(t, c.Primary(), "CREATE PROCEDURE app.nap(s DOUBLE) DO SLEEP(s)")
		t.Cleanup(func() { require.NoError(t, c.Primary().Exec(context.Background(), "DROP PROCEDURE app.nap")) })
		napping := link(t, c.Primary().AppDSN())
		b, err = e.ParseSelf(query(t, napping, e.SelfSQL()))
		require.NoError(t, err)
		ctx, cancel = context.WithCancel(testContext(t))
		go func() {
			_, err := napping.QueryRow(ctx, "CALL app.nap(0.5)")
			done <- err
		}()
		sleeps := func() bool {
			v, err := c.Primary().QueryValue(testContext(t), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(%' AND ID <> CONNECTION_ID()")
			require.NoError(t, err)
			return v != "0"
		}
		eventually(t, "it runs", sleeps)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		eventually(t, "it is over", func() bool {
			gone, err := e.Gone(testContext(t), l, b, true)
			require.NoError(t, err)
			require.False(t, gone && sleeps())
			return gone
		})
	})
	e := mysql.Engine{}
	_, err := e.Gone(testContext(t), oneRow{}, monitor.Backend{}, true)
	require.Error(t, err)
	_, err = e.Gone(testContext(t), oneRow{}, monitor.Backend{PID: 1}, true)
	require.ErrorContains(t, err, "0 columns")
}

func TestParseSelf(t *testing.T) {
	e := mysql.Engine{}
	for _, c := range []struct {
		row  []string
		want monitor.Backend
		ok   bool
	}{
		{[]string{"7", "1700000000", "1", "NO_CHAIN"}, monitor.Backend{PID: 7, Start: 1700000000}, true},
		{[]string{"4294967296", "1700000000", "1", "NO_CHAIN"}, monitor.Backend{}, true},
		{[]string{"7", "", "1", "NO_CHAIN"}, monitor.Backend{}, true},
		{[]string{"x", "1", "1", "NO_CHAIN"}, monitor.Backend{}, false},
		{[]string{"7", "1700000000", "0", "NO_CHAIN"}, monitor.Backend{}, false},
		{[]string{"7", "1700000000", "1", "CHAIN"}, monitor.Backend{}, false},
		{[]string{"7", "1700000000"}, monitor.Backend{}, false},
		{nil, monitor.Backend{}, false},
	} {
		b, err := e.ParseSelf(c.row)
		require.Equal(t, c.ok, err == nil, c.row)
		require.Equal(t, c.want, b, c.row)
	}
}

// What is asked leaves no prepared statement behind.
func TestLinkPreparesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		l := link(t, c.Primary().DSN())
		count := func() string { return query(t, l, "SHOW GLOBAL STATUS LIKE 'Com_stmt_prepare'")[1] }
		before := count()
		for range 3 {
			_, err := e.Ask(testContext(t), l)
			require.NoError(t, err)
		}
		query(t, l, e.SelfSQL())
		require.Equal(t, before, count())
		columns, rows, err := l.Query(testContext(t), "SELECT 1 AS a, NULL AS b UNION ALL SELECT 2, 'x'")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, columns)
		require.Equal(t, [][]string{{"1", ""}, {"2", "x"}}, rows)
		require.Nil(t, query(t, l, "DO 1"))
		_, err = l.QueryRow(testContext(t), "SELECT * FROM nowhere")
		require.Equal(t, core.RetrySchema, e.Retry(err))
	})
}
