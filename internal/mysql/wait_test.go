package mysql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

func TestWaitSQL(t *testing.T) {
	my, maria := mysqlPosition(t, uuidA+":1-5"), mariadbPosition(t, "0-1-5,0-2-6,3-1-1")
	for _, c := range []struct {
		timeout         time.Duration
		mysql, atMostMy string
		mariadb         string
	}{
		{250 * time.Millisecond, "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + uuidA + ":1-5', 0.250)", "", "0.250"},
		{time.Nanosecond, "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + uuidA + ":1-5', 0.001)", "", "0.001"},
		{1500*time.Millisecond + 1, "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + uuidA + ":1-5', 1.501)", "", "1.501"},
		{1 << 62, "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + uuidA + ":1-5', 3600.000)", "", "3600.000"},
		{0, "SELECT GTID_SUBSET('" + uuidA + ":1-5', @@GLOBAL.gtid_executed) = 0", "", "0"},
		{-time.Hour, "SELECT GTID_SUBSET('" + uuidA + ":1-5', @@GLOBAL.gtid_executed) = 0", "", "0"},
	} {
		text, err := mysql.Engine{}.WaitSQL(my, core.RoleReplica, c.timeout)
		require.NoError(t, err)
		require.Equal(t, c.mysql, text)
		text, err = mysql.Engine{MariaDB: true}.WaitSQL(maria, core.RoleReplica, c.timeout)
		require.NoError(t, err)
		require.Equal(t, "SELECT MASTER_GTID_WAIT('0-2-6,3-1-1', "+c.mariadb+")", text)
	}
	_, err := mysql.Engine{MariaDB: true}.WaitSQL(maria, core.RolePrimary, time.Second)
	require.ErrorIs(t, err, mysql.ErrWaitOnPrimary)
	_, err = mysql.Engine{MariaDB: true}.WaitSQL(my, core.RoleReplica, time.Second)
	require.Error(t, err)
	_, err = mysql.Engine{}.WaitSQL(core.Position{}, core.RoleReplica, time.Second)
	require.Error(t, err)
}

// K2-25: only the documented 0 is success.
func TestK2_25_OnlyZeroIsReached(t *testing.T) {
	require.True(t, mysql.Reached([]string{"0"}))
	for _, row := range [][]string{nil, {}, {""}, {"1"}, {"-1"}, {"00"}, {"0.0"}, {"NULL"}, {"0", "0"}} {
		require.False(t, mysql.Reached(row), "%q", row)
	}
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		ctx, replica := testContext(t), c.Replica(0)
		l := link(t, replica.WatchDSN())
		wait := func(p core.Position, timeout time.Duration) bool {
			t.Helper()
			reached, err := e.Wait(ctx, l, p, core.RoleReplica, timeout)
			require.NoError(t, err)
			return reached
		}
		require.NoError(t, replica.PauseReplay(ctx))
		exec(t, c.Primary(), "INSERT INTO app.t (v) VALUES (4)")
		p := look(t, e, c.Primary().WatchDSN()).Position
		for _, timeout := range []time.Duration{-1, 0, 1, 20 * time.Millisecond} {
			began := time.Now()
			require.False(t, wait(p, timeout), "the time is up: %v", timeout)
			require.Less(t, time.Since(began), 10*time.Second)
		}
		// A caller that goes away leaves the server waiting, and for no longer than it was told.
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		_, err := e.Wait(short, e.Wire(quiet(t, replica.WatchDSN())).Link(), p, core.RoleReplica, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		eventually(t, "no server waits any more", func() bool {
			return query(t, l, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT %GTID%(%' AND ID <> CONNECTION_ID()")[0] == "0"
		})

		done := make(chan bool, 1)
		go func() {
			reached, err := e.Wait(ctx, l, p, core.RoleReplica, 20*time.Second)
			done <- reached && err == nil
		}()
		require.NoError(t, replica.ResumeReplay(ctx))
		require.True(t, <-done)
		require.True(t, wait(p, 0))
		require.True(t, wait(p, time.Nanosecond))
	})
}

// On a MariaDB primary the wait would see nothing of its own writes.
func TestWaitOnPrimary(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		r := look(t, e, c.Primary().WatchDSN())
		reached, err := e.Wait(testContext(t), link(t, c.Primary().WatchDSN()), r.Position, r.Role, 50*time.Millisecond)
		require.Equal(t, e.MariaDB, errors.Is(err, mysql.ErrWaitOnPrimary))
		require.Equal(t, !e.MariaDB, reached)
		if e.MariaDB {
			row := query(t, link(t, c.Primary().WatchDSN()), "SELECT MASTER_GTID_WAIT('"+r.Position.String()+"', 0.05)")
			require.Equal(t, []string{"-1"}, row, "which is why it is not asked")
		}
	})
}
