package readroute_test

import (
	"context"
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

// TestReadOnlyTxSerializable: a standby has no such transactions, so it is begun on the primary at once; no statement has to fail first.
func TestReadOnlyTxSerializable(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	patient(&config)
	seen := record(&config)
	db := open(t, config)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	ctx := sessionContext(t)
	for isolation, want := range map[sql.IsolationLevel]readroute.Role{
		sql.LevelDefault: readroute.RoleReplica, sql.LevelRepeatableRead: readroute.RoleReplica, sql.LevelSerializable: readroute.RolePrimary,
	} {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: isolation})
		require.NoError(t, err)
		d := seen.one(t)
		require.Equal(t, want, d.Role, isolation.String())
		require.Zero(t, d.Retry, isolation.String())
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)))
		require.Equal(t, want, seen.one(t).Role)
		require.NoError(t, tx.Commit())
	}
}

// TestSerializableByDefault: where every transaction is serializable unless it says otherwise, a standby answers nothing. All runs on the
// primary, nothing fails, and the event says why and what to do.
func TestSerializableByDefault(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	for name, change := range map[string]func(t *testing.T, config *readroute.Config){
		"DSN": func(_ *testing.T, config *readroute.Config) {
			for i, n := range append([]*readroute.Node{&config.Primary}, &config.Replicas[0], &config.Replicas[1]) {
				n.Connector = readroute.Postgres(c.Nodes()[i].DSN() + "&default_transaction_isolation=serializable")
			}
		},
		"role": func(t *testing.T, _ *readroute.Config) {
			set := func(what string) {
				require.NoError(t, c.Primary().Exec(context.Background(), "ALTER ROLE postgres "+what))
				require.NoError(t, c.WaitCaughtUp(context.Background()))
			}
			set("SET default_transaction_isolation = serializable")
			t.Cleanup(func() { set("RESET default_transaction_isolation") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := configFor(c)
			change(t, &config)
			seen, happened := record(&config), listen(&config)
			db, err := readroute.Open(config)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			eventually(t, "both standbys have said so", func() bool { return len(happened.of(readroute.EventSetting)) == 2 })
			for _, e := range happened.of(readroute.EventSetting) {
				require.Contains(t, e.Why, "default_transaction_isolation is serializable")
				require.Contains(t, e.Why, "repeatable read")
				require.NotContains(t, e.Why, "EXECUTE")
			}
			eventually(t, "the primary is known", func() bool { return status(t, db, "a").Healthy })
			ctx := sessionContext(t)
			seen.take()
			tx, err := db.BeginTx(ctx, readOnly)
			require.NoError(t, err)
			var isolation string
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT current_setting('transaction_isolation')").Scan(&isolation))
			require.Equal(t, "serializable", isolation)
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)))
			require.NoError(t, tx.Commit())
			require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)))
			for _, d := range seen.take() {
				require.Equal(t, readroute.RolePrimary, d.Role)
				require.Zero(t, d.Retry)
			}
		})
	}
	t.Run("standbys that are told otherwise", func(t *testing.T) {
		config := configFor(c)
		patient(&config)
		config.Primary.Connector = readroute.Postgres(c.Primary().DSN() + "&default_transaction_isolation=serializable")
		for i := range config.Replicas {
			config.Replicas[i].Connector = readroute.Postgres(standbys(c)[i].DSN() + "&default_transaction_isolation=repeatable%20read")
		}
		seen := record(&config)
		db := open(t, config)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT count(*) FROM "+table).Scan(new(int)))
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
	})
}
