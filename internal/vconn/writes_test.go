package vconn_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestRefusedReadIsAWriteOnThePrimary: what a replica has refused may write on the primary, whatever its text looks like,
// so the session is held to its position.
func TestRefusedReadIsAWriteOnThePrimary(t *testing.T) {
	c := sharedCluster(t)
	ctx := sessionContext(t)
	table := newTable(t, c, "id int")
	require.NoError(t, c.Primary().Exec(ctx, "CREATE OR REPLACE FUNCTION says_it_reads() RETURNS int LANGUAGE sql AS"+
		" 'INSERT INTO "+table+" VALUES (1) RETURNING 1'"))
	config := configFor(c)
	config.ReadFunctions = []string{"says_it_reads"}
	const text = "SELECT says_it_reads()"
	for name, call := range map[string]func(context.Context, *pool) *sql.Row{
		"text": func(ctx context.Context, db *pool) *sql.Row { return db.QueryRowContext(ctx, text) },
		"prepared": func(ctx context.Context, db *pool) *sql.Row {
			stmt, err := db.PrepareContext(ctx, text)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, stmt.Close()) })
			return stmt.QueryRowContext(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.Primary().Exec(ctx, "TRUNCATE "+table))
			db := open(t, c, config)
			ctx := readroute.ContextWithSession(ctx, readroute.NewSession())
			pauseReplay(t, c)
			require.NoError(t, call(ctx, db).Scan(new(int)))
			require.Equal(t, readroute.Decision{
				Node: "a", Role: readroute.RolePrimary, Reason: readroute.ReasonWrite, Class: readroute.ClassWrite, Retry: readroute.RetryRefused,
			}, db.last(t))
			require.Equal(t, 1, count(t, ctx, db, table))
		})
	}
}

// TestRawWriteInATransaction: the position is taken after the commit, also when a statement comes in between.
func TestRawWriteInATransaction(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	tx, err := conn.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, conn.Raw(func(v any) error {
		native, err := v.(readroute.Conn).Primary(ctx)
		require.NoError(t, err)
		_, err = native.(*stdlib.Conn).Conn().Exec(ctx, "INSERT INTO "+table+" VALUES (1)")
		return err
	}))
	_, err = tx.ExecContext(ctx, "SELECT 1")
	require.NoError(t, err)
	resolve(t, ctx)
	pauseReplay(t, c)
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, count(t, ctx, db, table))
}

// TestRawCommit: the native driver commits what text has written, for another session.
func TestRawCommit(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	for _, text := range []string{"BEGIN", "INSERT INTO " + table + " VALUES (1)"} {
		_, err = conn.ExecContext(ctx, text)
		require.NoError(t, err)
	}
	pauseReplay(t, c)
	other := sessionContext(t)
	require.NoError(t, conn.Raw(func(v any) error {
		native, err := v.(readroute.Conn).Primary(other)
		require.NoError(t, err)
		_, err = native.(*stdlib.Conn).Conn().Exec(ctx, "COMMIT")
		return err
	}))
	require.NoError(t, conn.Close())
	require.Equal(t, 1, count(t, ctx, db, table))
	require.Equal(t, 1, count(t, other, db, table))
}

// TestStatementsAfterCommitByText: database/sql does not know that the transaction is over, and each write from then on
// is committed at once.
func TestStatementsAfterCommitByText(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, c, configFor(c))
	for name, write := range map[string]func(*sql.Tx, string) error{
		"exec": func(tx *sql.Tx, table string) error {
			_, err := tx.Exec("INSERT INTO " + table + " VALUES (1)")
			return err
		},
		"query": func(tx *sql.Tx, table string) error {
			return tx.QueryRow("INSERT INTO " + table + " VALUES (1) RETURNING id").Scan(new(int))
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, c, "id int")
			ctx := sessionContext(t)
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, "COMMIT")
			require.NoError(t, err)
			pauseReplay(t, c)
			// With the session of BEGIN alone: the write's own context has none.
			require.NoError(t, write(tx, table))
			require.NoError(t, tx.Rollback())
			require.Equal(t, 1, count(t, ctx, db, table))
		})
	}
}

// TestBeginTxInATransactionOfText: Commit of database/sql's transaction commits what was written before it began.
func TestBeginTxInATransactionOfText(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for _, text := range []string{"BEGIN", "INSERT INTO " + table + " VALUES (1)"} {
		_, err = conn.ExecContext(ctx, text)
		require.NoError(t, err)
	}
	tx, err := conn.BeginTx(ctx, nil)
	require.NoError(t, err)
	pauseReplay(t, c)
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, count(t, ctx, db, table))
}

// TestTextThatHasCommittedAPartIsNotRunTwice: its last statement has an old plan, which is no reason to run the others
// again.
func TestTextThatHasCommittedAPartIsNotRunTwice(t *testing.T) {
	c := sharedCluster(t)
	changes, log := newTable(t, c, "id int"), newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for _, text := range []string{"PREPARE p AS SELECT * FROM " + changes, "EXECUTE p"} {
		_, err = conn.ExecContext(ctx, text)
		require.NoError(t, err)
	}
	require.NoError(t, c.Primary().Exec(ctx, "ALTER TABLE "+changes+" ADD v text"))
	_, err = conn.ExecContext(ctx, "BEGIN; INSERT INTO "+log+" VALUES (1); COMMIT; EXECUTE p")
	require.ErrorContains(t, err, "cached plan")
	require.Equal(t, 1, count(t, ctx, db, log))
}

// TestConnectionOfFinishedRowsIsNotEnded: the context of a write that has handed out all its rows ends, and the
// connection goes on. Nobody may take it for one of unknown outcome, whose server session is ended after a while.
func TestConnectionOfFinishedRowsIsNotEnded(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	of, cancel := context.WithCancel(ctx)
	require.NoError(t, conn.QueryRowContext(of, "INSERT INTO "+table+" VALUES (1) RETURNING id").Scan(new(int)))
	cancel()
	_, err = conn.ExecContext(ctx, "SELECT 1")
	require.NoError(t, err)
	began := time.Now()
	_, err = conn.ExecContext(ctx, "SELECT pg_sleep(1.5)")
	require.NoError(t, err)
	require.Greater(t, time.Since(began), time.Second)
}
