package readroute_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestReadOnlyTxRefusesWhatMeansSomethingElse: an advisory lock that only a replica knows of, the state of a sequence, a place in
// the primary's log: the error says so, and what to do.
func TestReadOnlyTxRefusesWhatMeansSomethingElse(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id serial")
	config := configFor(c)
	patient(&config)
	seen := record(&config)
	db := open(t, config)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	ctx := sessionContext(t)
	for _, query := range []string{
		"SELECT pg_try_advisory_lock(691)::text", "SELECT pg_try_advisory_xact_lock(691)::text", "SELECT pg_advisory_lock_shared(691)::text",
		"SELECT last_value::text FROM " + table + "_id_seq", "SELECT pg_current_wal_lsn()::text",
	} {
		tx, err := db.BeginTx(ctx, readOnly)
		require.NoError(t, err)
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
		err = tx.QueryRowContext(ctx, query).Scan(new(string))
		require.ErrorIs(t, err, readroute.ErrNeedsPrimary, query)
		require.ErrorContains(t, err, "LevelPrimary")
		require.Empty(t, seen.one(t).Node)
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)), "the transaction goes on")
		require.NoError(t, tx.Commit())
		seen.take()

		tx, err = db.BeginTx(readroute.WithLevel(ctx, readroute.LevelPrimary), readOnly)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRowContext(ctx, query).Scan(new(string)), query)
		require.NoError(t, tx.Rollback())
		seen.take()
	}
}

// TestReadOnlyTxLeavesNoStateBehind: session state that was set on a replica cannot follow the checkout to the primary. Nothing
// runs as if it had.
func TestReadOnlyTxLeavesNoStateBehind(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	db := open(t, configFor(c))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	tx, err := conn.BeginTx(ctx, readOnly)
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "SET search_path = somewhere_else, public")
	require.NoError(t, err)
	var path string
	require.NoError(t, tx.QueryRowContext(ctx, "SHOW search_path").Scan(&path), "inside it is there")
	require.Equal(t, "somewhere_else, public", path)
	require.NoError(t, tx.Commit())
	for _, use := range []func() error{
		func() error { _, err := conn.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)"); return err },
		func() error { return conn.QueryRowContext(ctx, "SHOW search_path").Scan(new(string)) },
		func() error { return conn.QueryRowContext(ctx, "SELECT 1").Scan(new(int)) },
		func() error { _, err := conn.PrepareContext(ctx, "SELECT 1"); return err },
		func() error { _, err := conn.BeginTx(ctx, &sql.TxOptions{}); return err },
	} {
		require.ErrorIs(t, use(), readroute.ErrNeedsPrimary)
	}
	require.NoError(t, conn.Close())
	require.NoError(t, db.QueryRowContext(ctx, "SHOW search_path").Scan(&path))
	require.NotContains(t, path, "somewhere_else")
	require.Zero(t, countIn(t, ctx, db, table))
}
