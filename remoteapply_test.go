package readroute_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// synchronous makes standby b of a cluster synchronous, until the end of the test.
func synchronous(t *testing.T, c *dbtest.PostgresCluster) *dbtest.PostgresNode {
	t.Helper()
	b := standbys(c)[0]
	set := func(names string) {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		require.NoError(t, c.Primary().Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'", "SELECT pg_reload_conf()"))
	}
	set(b.Name())
	t.Cleanup(func() { set("") })
	eventually(t, "the standby is synchronous", func() bool {
		return onPrimary(t, c, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
	})
	return b
}

// critical is a pool whose user may see the state of standbys.
func critical(t *testing.T, c *dbtest.PostgresCluster) *readroute.DB {
	t.Helper()
	return open(t, configFor(c))
}

// TestRemoteApply: when the write returns, the synchronous standby shows it, whatever way in it took; and no other write waits.
func TestRemoteApply(t *testing.T) {
	c := breakable(t)
	b := synchronous(t, c)
	table := newTable(t, c, "id int PRIMARY KEY")
	db := critical(t, c)
	onStandby := func(id int) string {
		v, err := b.QueryValue(testContext(t), "SELECT count(*) FROM "+table+" WHERE id = "+fmtInt(id))
		require.NoError(t, err)
		return v
	}
	ctx := readroute.WithRemoteApply(sessionContext(t))
	plain := sessionContext(t)
	insert := "INSERT INTO " + table + " VALUES ($1)"
	id := 0
	for range 20 {
		for name, write := range map[string]func(id int) error{
			"exec":  func(id int) error { _, err := db.ExecContext(ctx, insert, id); return err },
			"query": func(id int) error { return db.QueryRowContext(ctx, insert+" RETURNING id", id).Scan(new(int)) },
			"prepared": func(id int) error {
				stmt, err := db.PrepareContext(ctx, insert)
				if err != nil {
					return err
				}
				defer stmt.Close()
				_, err = stmt.ExecContext(ctx, id)
				return err
			},
			"transaction": func(id int) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(plain, insert, id); err != nil {
					return err
				}
				return tx.Commit()
			},
			"a write in a transaction": func(id int) error {
				tx, err := db.BeginTx(plain, nil)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, insert, id); err != nil {
					return err
				}
				return tx.Commit()
			},
			"by text": func(id int) error {
				conn, err := db.Conn(plain)
				if err != nil {
					return err
				}
				defer conn.Close()
				if _, err := conn.ExecContext(plain, "BEGIN"); err != nil {
					return err
				}
				if _, err := conn.ExecContext(ctx, insert, id); err != nil {
					return err
				}
				_, err = conn.ExecContext(plain, "COMMIT")
				return err
			},
		} {
			id++
			require.NoError(t, write(id), name)
			require.Equal(t, "1", onStandby(id), name)
		}
	}

	require.NoError(t, b.PauseReplay(testContext(t)))
	t.Cleanup(func() { require.NoError(t, b.ResumeReplay(context.Background())) })
	for range 20 { // over the connections that were used above
		id++
		_, err := db.ExecContext(plain, insert, id)
		require.NoError(t, err)
	}
	require.Equal(t, "on", showSync(t, db), "what was set is put back")
}

func showSync(t *testing.T, db *readroute.DB) string {
	t.Helper()
	var v string
	require.NoError(t, db.QueryRowContext(readroute.WithLevel(testContext(t), readroute.LevelPrimary), "SHOW synchronous_commit").Scan(&v))
	return v
}

// TestRemoteApplyPutsBackWhatWasSet: in one checkout, what its user has set stays.
func TestRemoteApplyPutsBackWhatWasSet(t *testing.T) {
	c := breakable(t)
	synchronous(t, c)
	table := newTable(t, c, "id int PRIMARY KEY")
	db := critical(t, c)
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(ctx, "SET synchronous_commit = off")
	require.NoError(t, err)
	_, err = conn.ExecContext(readroute.WithRemoteApply(ctx), "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	var v string
	require.NoError(t, conn.QueryRowContext(ctx, "SHOW synchronous_commit").Scan(&v))
	require.Equal(t, "off", v)
}

// TestRemoteApplyEndsWithTheContext: a standby that stands still holds the commit; then the commit stands, and nobody knows.
func TestRemoteApplyEndsWithTheContext(t *testing.T) {
	c := breakable(t)
	b := synchronous(t, c)
	table := newTable(t, c, "id int PRIMARY KEY")
	db := critical(t, c)
	require.NoError(t, b.PauseReplay(testContext(t)))
	t.Cleanup(func() { require.NoError(t, b.ResumeReplay(context.Background())) })
	for name, write := range map[string]func(ctx context.Context, id int) error{
		"autocommit": func(ctx context.Context, id int) error {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", id)
			return err
		},
		"transaction": func(ctx context.Context, id int) error {
			tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(context.WithoutCancel(ctx), "INSERT INTO "+table+" VALUES ($1)", id)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { done <- tx.Commit() }()
			select {
			case err := <-done:
				return err
			case <-ctx.Done(): // (*sql.Tx).Commit has no context of its own: the server is asked to go on
				require.NoError(t, c.Primary().Exec(testContext(t), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
				return <-done
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			session := sessionContext(t)
			id := len(name)
			ctx, cancel := context.WithTimeout(readroute.WithRemoteApply(session), 300*time.Millisecond)
			defer cancel()
			err := write(ctx, id)
			require.ErrorIs(t, err, readroute.ErrCommitUnknown)
			require.Equal(t, 1, count(t, session, db, table, id), "it stands, and its session sees it")
		})
	}
}

// TestRemoteApplyIsRefused: where the server would silently protect nothing, the write does not run.
func TestRemoteApplyIsRefused(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	require.NoError(t, c.Primary().Exec(testContext(t), "GRANT ALL ON "+table+" TO "+dbtest.AppUser))
	refused := func(t *testing.T, db *readroute.DB, want string) {
		t.Helper()
		ctx := readroute.WithRemoteApply(sessionContext(t))
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.ErrorIs(t, err, readroute.ErrRemoteApply)
		require.ErrorContains(t, err, want)
		_, err = db.BeginTx(ctx, nil)
		require.ErrorIs(t, err, readroute.ErrRemoteApply)
		require.Zero(t, db.RouteStats().Nodes[0].Writer.InUse)
		_, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		require.NoError(t, err, "it writes nothing")
		require.Equal(t, "0", onPrimary(t, c, "SELECT count(*) FROM "+table))
		require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)), "a read commits nothing")
	}
	t.Run("no standby is synchronous", func(t *testing.T) { refused(t, critical(t, c), "synchronous_standby_names") })
	t.Run("the user sees none", func(t *testing.T) {
		synchronous(t, c)
		config := configFor(c)
		config.Primary.Connector = readroute.Postgres(c.Primary().AppDSN())
		refused(t, open(t, config), "pg_monitor")
	})
	t.Run("the standby is gone", func(t *testing.T) {
		b := synchronous(t, breakable(t))
		require.NoError(t, b.StopFast(testContext(t)))
		eventually(t, "the primary knows", func() bool { return onPrimary(t, c, "SELECT count(*) FROM pg_stat_replication") == "1" })
		refused(t, critical(t, c), "synchronous_standby_names")
	})
	t.Run("MySQL", func(t *testing.T) {
		onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
			db := open(t, gtidConfig(c))
			_, err := db.ExecContext(readroute.WithRemoteApply(sessionContext(t)), "CREATE TABLE not_made (id int)")
			require.ErrorIs(t, err, readroute.ErrRemoteApply)
			require.ErrorContains(t, err, "no PostgreSQL")
		})
	})
}
