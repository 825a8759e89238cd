package readroute_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// heldBack wants commit to wait for the standby, whose replay is paused, and ends it with its context: it stands, and nobody knows.
func heldBack(t *testing.T, c *dbtest.PostgresCluster, cancel func(), commit func() error) {
	t.Helper()
	waiting := "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
	eventually(t, "nobody waits yet", func() bool { return onPrimary(t, c, waiting) == "0" })
	done := make(chan error, 1)
	go func() { done <- commit() }()
	eventually(t, "the commit waits for the standby", func() bool {
		select {
		case err := <-done:
			require.FailNow(t, "the commit waits for nobody", "it returned %v", err)
		default:
		}
		return onPrimary(t, c, waiting) == "1"
	})
	cancel()
	require.ErrorIs(t, <-done, readroute.ErrCommitUnknown)
}

// paused is a cluster whose synchronous standby stands still.
func paused(t *testing.T) (c *dbtest.PostgresCluster, table string) {
	t.Helper()
	c = breakable(t)
	b := synchronous(t, c)
	table = newTable(t, c, "id int PRIMARY KEY")
	require.NoError(t, b.PauseReplay(testContext(t)))
	t.Cleanup(func() { require.NoError(t, b.ResumeReplay(context.Background())) })
	return c, table
}

// asynchronous makes no standby synchronous any more.
func asynchronous(t *testing.T, c *dbtest.PostgresCluster) {
	t.Helper()
	require.NoError(t, c.Primary().Exec(testContext(t), "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"))
	eventually(t, "no standby is synchronous", func() bool {
		return onPrimary(t, c, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "0"
	})
}

// TestRemoteApplyHoldsTheCommit: whatever has happened in a transaction since it asked for it, its commit waits, and the context of
// BeginTx ends that; of a text, its own.
func TestRemoteApplyHoldsTheCommit(t *testing.T) {
	c, table := paused(t)
	db := critical(t, c)
	id := 0
	for name, run := range map[string]func(t *testing.T, plain, ctx context.Context, insert string, exec func(context.Context, string) error){
		"BeginTx": func(t *testing.T, plain, _ context.Context, insert string, exec func(context.Context, string) error) {
			require.NoError(t, exec(plain, insert))
		},
		"a savepoint takes it along": func(t *testing.T, plain, ctx context.Context, insert string, exec func(context.Context, string) error) {
			require.NoError(t, exec(plain, "SAVEPOINT s"))
			require.NoError(t, exec(ctx, insert))
			require.NoError(t, exec(plain, "ROLLBACK TO s"))
			require.NoError(t, exec(ctx, insert))
		},
		"a setting takes it back": func(t *testing.T, plain, ctx context.Context, insert string, exec func(context.Context, string) error) {
			require.NoError(t, exec(ctx, insert))
			require.NoError(t, exec(plain, "SET LOCAL synchronous_commit = off"))
		},
	} {
		insert := func() string { id++; return "INSERT INTO " + table + " VALUES (" + fmtInt(id) + ")" }
		t.Run(name, func(t *testing.T) {
			session := sessionContext(t)
			plain, cancel := context.WithCancel(session)
			defer cancel()
			ctx := readroute.WithRemoteApply(plain)
			begin := plain
			if name == "BeginTx" {
				begin = ctx
			}
			tx, err := db.BeginTx(begin, nil)
			require.NoError(t, err)
			run(t, plain, ctx, insert(), func(ctx context.Context, query string) error { _, err := tx.ExecContext(ctx, query); return err })
			heldBack(t, c, cancel, tx.Commit)
			require.Equal(t, 1, count(t, session, db, table, id), "its session sees it")
		})
		t.Run(name+", by text", func(t *testing.T) {
			session := sessionContext(t)
			plain, cancel := context.WithCancel(session)
			defer cancel()
			ctx := readroute.WithRemoteApply(plain)
			conn, err := db.Conn(session)
			require.NoError(t, err)
			defer conn.Close()
			exec := func(ctx context.Context, query string) error { _, err := conn.ExecContext(ctx, query); return err }
			require.NoError(t, exec(plain, "BEGIN"))
			run(t, plain, ctx, insert(), exec)
			commit := plain
			if name == "BeginTx" {
				commit = ctx
			}
			heldBack(t, c, cancel, func() error { return exec(commit, "COMMIT") })
		})
	}
}

// TestRemoteApplyOfTheNativeConnection: COPY waits as every other write does, and what comes after it on the connection does not.
func TestRemoteApplyOfTheNativeConnection(t *testing.T) {
	c, table := paused(t)
	db := critical(t, c)
	session := sessionContext(t)
	ctx, cancel := context.WithCancel(readroute.WithRemoteApply(session))
	defer cancel()
	heldBack(t, c, cancel, func() error {
		return db.PrimaryRaw(ctx, func(driverConn any) error {
			rows := pgx.CopyFromRows([][]any{{1}, {2}})
			_, err := driverConn.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table}, []string{"id"}, rows)
			require.Error(t, err)
			return readroute.ErrCommitUnknown // what PrimaryRaw returns is its function's
		})
	})
	require.Equal(t, 2, countIn(t, session, db, table))
	require.Equal(t, "on", showSync(t, db))

	asynchronous(t, c)
	err := db.PrimaryRaw(readroute.WithRemoteApply(session), func(any) error { t.Error("it is called"); return nil })
	require.ErrorIs(t, err, readroute.ErrRemoteApply)
	require.NoError(t, db.PrimaryRaw(session, func(any) error { return nil }))
}

// TestRemoteApplyLeaksIntoNothing: on one connection, what does not ask for it does not wait.
func TestRemoteApplyLeaksIntoNothing(t *testing.T) {
	c := breakable(t)
	b := synchronous(t, c)
	table := newTable(t, c, "id int PRIMARY KEY")
	db := critical(t, c)
	id := 0
	for name, write := range map[string]func(conn *sql.Conn, plain context.Context, insert string) error{
		"BeginTx": func(conn *sql.Conn, plain context.Context, insert string) error {
			tx, err := conn.BeginTx(plain, nil)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(plain, insert); err != nil {
				return err
			}
			return tx.Commit()
		},
		"the native connection": func(conn *sql.Conn, plain context.Context, insert string) error {
			return conn.Raw(func(driverConn any) error {
				native, err := driverConn.(readroute.Conn).Primary(plain)
				if err != nil {
					return err
				}
				_, err = native.(*stdlib.Conn).Conn().Exec(plain, insert)
				return err
			})
		},
		"a statement": func(conn *sql.Conn, plain context.Context, insert string) error {
			_, err := conn.ExecContext(plain, insert)
			return err
		},
		"by text": func(conn *sql.Conn, plain context.Context, insert string) error {
			_, err := conn.ExecContext(plain, "BEGIN; "+insert+"; COMMIT")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain := sessionContext(t)
			insert := func() string { id++; return "INSERT INTO " + table + " VALUES (" + fmtInt(id) + ")" }
			conn, err := db.Conn(plain)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.ExecContext(readroute.WithRemoteApply(plain), insert())
			require.NoError(t, err)
			require.NoError(t, b.PauseReplay(testContext(t)))
			defer func() { require.NoError(t, b.ResumeReplay(context.Background())) }()
			require.NoError(t, write(conn, plain, insert()))
		})
	}
}

// TestRemoteApplyIsAskedForEachTime: what was there for the last write may be gone, and the setting alone waits for nobody.
func TestRemoteApplyIsAskedForEachTime(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int PRIMARY KEY")
	db := critical(t, c)
	plain := sessionContext(t)
	ctx := readroute.WithRemoteApply(plain)
	t.Run("autocommit", func(t *testing.T) {
		synchronous(t, c)
		conn, err := db.Conn(plain)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err)
		asynchronous(t, c)
		_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" VALUES (2)")
		require.ErrorIs(t, err, readroute.ErrRemoteApply)
		_, err = conn.ExecContext(plain, "INSERT INTO "+table+" VALUES (3)")
		require.NoError(t, err)
	})
	t.Run("transaction", func(t *testing.T) {
		synchronous(t, c)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(plain, "INSERT INTO "+table+" VALUES (4)")
		require.NoError(t, err)
		asynchronous(t, c)
		err = tx.Commit()
		require.ErrorIs(t, err, readroute.ErrRemoteApply)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
	})
	t.Run("by text", func(t *testing.T) {
		synchronous(t, c)
		conn, err := db.Conn(plain)
		require.NoError(t, err)
		defer conn.Close()
		for _, step := range []struct {
			ctx   context.Context
			query string
		}{{plain, "BEGIN"}, {ctx, "INSERT INTO " + table + " VALUES (5)"}} {
			_, err = conn.ExecContext(step.ctx, step.query)
			require.NoError(t, err)
		}
		asynchronous(t, c)
		_, err = conn.ExecContext(plain, "COMMIT")
		require.ErrorIs(t, err, readroute.ErrRemoteApply)
		_, err = conn.ExecContext(plain, "ROLLBACK")
		require.NoError(t, err)
	})
	require.Equal(t, "2", onPrimary(t, c, "SELECT count(*) FROM "+table), "1 and 3")
}

// TestRemoteApplyOfAFailedTransaction: it ends as any other that has failed.
func TestRemoteApplyOfAFailedTransaction(t *testing.T) {
	c := breakable(t)
	synchronous(t, c)
	db := critical(t, c)
	tx, err := db.BeginTx(readroute.WithRemoteApply(sessionContext(t)), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(testContext(t), "SELECT 1/0")
	require.Error(t, err)
	require.ErrorIs(t, tx.Commit(), pgx.ErrTxCommitRollback)
}

// TestRemoteApplyOfAMisjudgedWrite: what a replica has refused runs on the primary as a write of its context.
func TestRemoteApplyOfAMisjudgedWrite(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	name := "f_" + table
	require.NoError(t, c.Primary().Exec(testContext(t), "CREATE FUNCTION "+name+"() RETURNS int LANGUAGE sql AS 'INSERT INTO "+table+" VALUES (1) RETURNING 1'"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	config := configFor(c)
	config.ReadFunctions = []string{name}
	seen := record(&config)
	db := open(t, config)
	err := db.QueryRowContext(readroute.WithRemoteApply(sessionContext(t)), "SELECT "+name+"()").Scan(new(int))
	require.ErrorIs(t, err, readroute.ErrRemoteApply)
	require.Equal(t, readroute.RetryRefused, seen.one(t).Retry)
	require.Equal(t, "0", onPrimary(t, c, "SELECT count(*) FROM "+table))
}
