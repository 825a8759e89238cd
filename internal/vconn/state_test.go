package vconn_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestStateInAReadOnlyTransaction ends with the checkout, on a replica as well.
func TestStateInAReadOnlyTransaction(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Replicas[0].MaxOpenConns = 1
	db := open(t, c, config)
	ctx := sessionContext(t)
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "SET datestyle TO German")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, readroute.RoleReplica, db.last(t).Role)
	require.Equal(t, readroute.EventStateDiscarded, db.lastEvent(t).Kind)
	var day string
	require.NoError(t, db.QueryRowContext(ctx, "SELECT '2026-01-02'::date::text").Scan(&day))
	require.Equal(t, "2026-01-02", day)
	require.Equal(t, readroute.RoleReplica, db.last(t).Role)
}

// TestLockOfAFailedStatement: an advisory lock outlives the failure of the statement that took it.
func TestLockOfAFailedStatement(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Primary.MaxOpenConns = 1
	db := open(t, c, config)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "SELECT pg_advisory_lock(4711), 1 / (SELECT 0)")
	require.ErrorContains(t, err, "division by zero")
	require.NoError(t, db.PingContext(ctx), "it waits for the connection to be given back")
	require.Equal(t, readroute.EventStateDiscarded, db.lastEvent(t).Kind)
	require.Eventually(t, func() bool {
		locks, err := c.Primary().QueryValue(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711")
		require.NoError(t, err)
		return locks == "0"
	}, 20*time.Second, 10*time.Millisecond)
}

// TestPrimaryInAReadOnlyTransaction is the primary's connection, not the one that the transaction has to a replica.
func TestPrimaryInAReadOnlyTransaction(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, c, configFor(c))
	table := newTable(t, c, "id int")
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	tx, err := conn.BeginTx(readroute.WithLevel(testContext(t), readroute.LevelEventual), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	require.Equal(t, readroute.RoleReplica, db.last(t).Role)
	pauseReplay(t, c)
	require.NoError(t, conn.Raw(func(v any) error {
		native, err := v.(readroute.Conn).Primary(ctx)
		if err != nil {
			return err
		}
		_, err = native.(driver.ExecerContext).ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)", nil)
		return err
	}))
	require.Equal(t, readroute.RolePrimary, db.last(t).Role)
	require.NoError(t, tx.Commit())
	require.NoError(t, conn.Close())
	resolve(t, ctx)
	require.Equal(t, 1, count(t, ctx, db, table))
}

// TestErrorOfAContextIsItsOwn: the very error of the context, as database/sql gives it, although the driver has said
// ErrBadConn of a statement that it did not send.
func TestErrorOfAContextIsItsOwn(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.PingContext(ctx))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = conn.ExecContext(ended, "INSERT INTO nowhere VALUES (1)")
	require.Same(t, context.Canceled, err)
	require.NoError(t, conn.PingContext(ctx), "nothing is wrong with the connection")
}

// TestConnectionLostInATransaction gives the driver's own error: nothing of the transaction can stand, and whoever
// begins it again on ErrBadConn may.
func TestConnectionLostInATransaction(t *testing.T) {
	c := sharedCluster(t)
	proxy, err := dbtest.NewProxy(c.Primary().Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	config := configFor(c)
	config.Primary.Connector = readroute.Postgres(c.Primary().DSNVia(proxy))
	db := open(t, c, config)
	table := newTable(t, c, "id int")
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	_, err = conn.ExecContext(ctx, "BEGIN")
	require.NoError(t, err)
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	for _, exec := range []func(context.Context, string, ...any) (sql.Result, error){tx.ExecContext, conn.ExecContext} {
		proxy.OnClientData(dbtest.Once("insert", dbtest.CutAfter))
		_, err = exec(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.Same(t, driver.ErrBadConn, err)
	}
	require.Error(t, tx.Rollback())
	require.ErrorIs(t, conn.Close(), sql.ErrConnDone)
	resolve(t, ctx)
	require.Zero(t, count(t, ctx, db, table))
}

// TestNoStatementIsLeft on a server by statements that are closed, also while their rows are open.
func TestNoStatementIsLeft(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Primary.MaxOpenConns, config.Replicas[0].MaxOpenConns = 1, 1
	db := open(t, c, config)
	ctx := sessionContext(t)
	table := newTable(t, c, "id int")
	for i := range 20 {
		read, err := db.PrepareContext(ctx, fmt.Sprintf("SELECT %d", i))
		require.NoError(t, err)
		write, err := db.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, i))
		require.NoError(t, err)
		for range 2 {
			rows, err := read.QueryContext(ctx)
			require.NoError(t, err)
			if i%2 == 0 {
				require.NoError(t, read.Close())
			}
			require.NoError(t, rows.Close())
			if i%2 == 0 {
				break
			}
			_, err = write.ExecContext(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, read.Close())
		require.NoError(t, write.Close())
	}
	for _, readOnly := range []bool{false, true} {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: readOnly})
		require.NoError(t, err)
		require.Equal(t, readOnly, db.last(t).Role == readroute.RoleReplica)
		var left int
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM pg_prepared_statements WHERE name NOT LIKE 'stmtcache%'").Scan(&left))
		require.Zero(t, left)
		require.NoError(t, tx.Rollback())
	}
}
