package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// quick returns a strategy and probes for tests that make many reads which cannot be covered.
func quick(config *readroute.Config) {
	config.Strategy = readroute.PositionWait(20 * time.Millisecond)
	config.ProbeInterval = 10 * time.Millisecond
}

// patient is for tests whose replicas are running: a busy machine is no reason to fall back.
func patient(config *readroute.Config) {
	config.Strategy = readroute.PositionWait(10 * time.Second)
	config.CaptureTimeout = 10 * time.Second
}

// TestCaptureBeginsAfterTheCommit lets the replicas have everything of a transaction but its commit record.
func TestCaptureBeginsAfterTheCommit(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	quick(&config)
	db := open(t, config)
	commits := map[string]func(t *testing.T, ctx context.Context, table string){
		"Tx": func(t *testing.T, ctx context.Context, table string) {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
			require.NoError(t, err)
			flush(t, c)
			pauseReplay(t, c)
			require.NoError(t, tx.Commit())
		},
		"COMMIT by text": func(t *testing.T, ctx context.Context, table string) {
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			_, err = conn.ExecContext(ctx, "BEGIN; INSERT INTO "+table+" VALUES (1)")
			require.NoError(t, err)
			flush(t, c)
			pauseReplay(t, c)
			_, err = conn.ExecContext(ctx, "COMMIT")
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		},
		"Query": func(t *testing.T, ctx context.Context, table string) {
			// The row is there before the commit, which a deferred trigger holds up until the standbys stand.
			makeSlowCommit(t, c, table, "PERFORM pg_sleep(0.5)")
			rows, err := db.QueryContext(ctx, "INSERT INTO "+table+" VALUES (1) RETURNING id")
			require.NoError(t, err)
			pauseReplay(t, c)
			require.True(t, rows.Next())
			require.NoError(t, rows.Close())
		},
	}
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, c, "id int")
			ctx := sessionContext(t)
			commit(t, ctx, table)
			require.Equal(t, 1, count(t, ctx, db, table, 1))
			resumeReplay(t, c)
		})
	}
}

// flush sends the standbys the log of open transactions, which goes out with anybody's commit.
func flush(t testing.TB, c *dbtest.PostgresCluster) {
	t.Helper()
	require.NoError(t, c.Primary().Exec(testContext(t), "SELECT pg_logical_emit_message(true, '', '')"))
}

// TestCaptureOfAsynchronousCommitsIsNeverStale reads after each of many writes while the replicas replay.
func TestCaptureOfAsynchronousCommitsIsNeverStale(t *testing.T) {
	c := sharedCluster(t)
	setOnPrimary(t, c, "synchronous_commit", "off")
	setOnPrimary(t, c, "wal_writer_delay", "10ms")
	table := newTable(t, c, "id int primary key")
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	const writers, rounds = 8, 400
	errs := make(chan error, writers)
	for w := range writers {
		go func() {
			errs <- func() error {
				for i := range rounds {
					ctx := readroute.WithSession(context.Background())
					id := w*rounds + i
					if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", id); err != nil {
						return err
					}
					var n int
					err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", id).Scan(&n)
					if err != nil {
						return err
					}
					if n != 1 {
						return fmt.Errorf("row %d was written and not read", id)
					}
				}
				return nil
			}()
		}()
	}
	for range writers {
		require.NoError(t, <-errs)
	}
	onReplicas := 0
	for _, d := range seen.take() {
		if d.Role == readroute.RoleReplica {
			onReplicas++
		}
	}
	require.Greater(t, onReplicas, writers*rounds/2, "most reads must have come from a replica for the test to say anything")
}

// TestK2_29_PageBoundary ends a write's log exactly at the end of a page: the insert position is then behind the header
// of the next page, which no replica of an idle primary reports.
func TestK2_29_PageBoundary(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Strategy = readroute.PositionWait(400 * time.Millisecond) // less than when the flush position takes over
	config.CaptureTimeout = 10 * time.Second
	config.ProbeInterval = 10 * time.Millisecond
	seen := record(&config)
	db := open(t, config)
	const page, header = 8192, 24

	position := func() int {
		n, err := strconv.Atoi(onPrimary(t, c, "SELECT pg_current_wal_insert_lsn() - '0/0'"))
		require.NoError(t, err)
		return n
	}
	emit := func(ctx context.Context, n int) {
		_, err := db.ExecContext(ctx, "SELECT pg_logical_emit_message(true, '', repeat('x', $1))", n)
		require.NoError(t, err)
	}
	// What a message of n bytes costs, the commit included, is measured; a length is found that fills the page.
	for try := 0; ; try++ {
		require.Less(t, try, 50, "the end of a page was never met")
		before := position()
		emit(testContext(t), 1000)
		after := position()
		cost, left := after-before-1000, page-after%page
		if before/page != after/page || left < cost+100 {
			continue // the measure holds a page header, or what is left of the page is too small
		}
		ctx := sessionContext(t)
		emit(ctx, left-cost)
		if position()%page != header {
			continue
		}
		seen.take()
		var one int
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(&one))
		d := seen.one(t)
		require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
		return
	}
}

// TestCaptureOfOpenRows: PostgreSQL commits INSERT ... RETURNING only after the last row has been handed out.
func TestCaptureOfOpenRows(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	rows, err := db.QueryContext(ctx, "INSERT INTO "+table+" SELECT generate_series(1, 10000) RETURNING id")
	require.NoError(t, err)
	require.True(t, rows.Next())
	seen.take()

	count(t, ctx, db, table, 1)
	d := seen.one(t)
	require.Equal(t, readroute.RolePrimary, d.Role)
	require.Equal(t, readroute.ReasonCapturePending, d.Reason)
	early, err := readroute.SessionFrom(ctx).Token(ctx)
	require.ErrorIs(t, err, readroute.ErrWriteOpen)
	count(t, readroute.ContextWithSession(ctx, readroute.NewSession(early)), db, table, 1)
	require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason, "the token must be safe all the same")

	pauseReplay(t, c)
	require.NoError(t, rows.Close())
	require.Equal(t, 1, count(t, ctx, db, table, 1))
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.False(t, token.IsZero())
	resumeReplay(t, c)
	eventually(t, "a replica serves the session", func() bool {
		seen.take()
		require.Equal(t, 1, count(t, ctx, db, table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestCaptureRefusedWritesLeaveNothing: what the server has refused or rolled back holds no read of the session, except
// where a part may stand.
func TestCaptureRefusedWritesLeaveNothing(t *testing.T) {
	c := sharedCluster(t)
	table := newWritable(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "ALTER TABLE "+table+" ADD PRIMARY KEY (id)",
		"INSERT INTO "+table+" VALUES (1)"))
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	cases := []struct {
		name  string
		dirty bool
		write func(w *writing)
	}{
		{"Exec", false, func(w *writing) { w.refused(w.db.ExecContext(w.ctx, w.text(insert))) }},
		{"Exec that cannot be parsed", false, func(w *writing) { w.refused(w.db.ExecContext(w.ctx, "INSERT INTO")) }},
		{"Exec that a later row breaks", false, func(w *writing) {
			w.refused(w.db.ExecContext(w.ctx, w.text("INSERT INTO {t} SELECT generate_series(-50, {id})")))
		}},
		{"Query", false, func(w *writing) {
			rows, err := w.db.QueryContext(w.ctx, w.text(returning))
			require.Error(w, err)
			require.Nil(w, rows)
		}},
		{"QueryRow", false, func(w *writing) {
			require.Error(w, w.db.QueryRowContext(w.ctx, w.text(returning)).Scan(new(int)))
		}},
		{"function", false, func(w *writing) { w.refused(w.db.ExecContext(w.ctx, w.text("SELECT add_{t}({id})"))) }},
		{"prepared Exec", false, func(w *writing) {
			stmt, err := w.db.PrepareContext(w.ctx, w.text(insertArg))
			require.NoError(w, err)
			w.refused(stmt.ExecContext(w.ctx, w.id))
			require.NoError(w, stmt.Close())
		}},
		{"Rollback", false, func(w *writing) {
			tx := w.begin(w.ctx)
			w.done(tx.ExecContext(w.ctx, w.text("DELETE FROM {t}")))
			require.NoError(w, tx.Rollback())
		}},
		{"Rollback of DDL", false, func(w *writing) {
			tx := w.begin(w.ctx)
			w.done(tx.ExecContext(w.ctx, w.text("DROP TABLE {t}")))
			require.NoError(w, tx.Rollback())
		}},
		{"Tx whose context ends", false, func(w *writing) {
			ctx, cancel := context.WithCancel(w.ctx)
			tx := w.begin(ctx)
			w.done(tx.ExecContext(w.ctx, w.text("DELETE FROM {t}")))
			cancel()
			require.Error(w, tx.Commit())
		}},
		{"Commit of a failed Tx", false, func(w *writing) {
			tx := w.begin(w.ctx)
			w.done(tx.ExecContext(w.ctx, w.text("DELETE FROM {t}")))
			w.refused(tx.ExecContext(w.ctx, "SELECT 1/0"))
			err := tx.Commit()
			require.ErrorIs(w, err, pgx.ErrTxCommitRollback)
			require.NotErrorIs(w, err, readroute.ErrCommitUnknown)
		}},
		{"ROLLBACK by text", false, func(w *writing) {
			conn := w.conn()
			w.done(conn.ExecContext(w.ctx, "BEGIN"))
			w.done(conn.ExecContext(w.ctx, w.text("DELETE FROM {t}")))
			w.done(conn.ExecContext(w.ctx, "ROLLBACK"))
			require.NoError(w, conn.Close())
		}},
		{"transaction by text that is left open", false, func(w *writing) {
			conn := w.conn()
			w.done(conn.ExecContext(w.ctx, "BEGIN"))
			w.done(conn.ExecContext(w.ctx, w.text("DELETE FROM {t}")))
			require.NoError(w, conn.Close())
		}},
		{"Tx of reads", false, func(w *writing) {
			tx := w.begin(w.ctx)
			w.scan(tx.QueryRowContext(w.ctx, w.text("SELECT id FROM {t} WHERE id = {id}")))
			require.NoError(w, tx.Commit())
		}},
		{"read-only Tx on the primary that tries to write", false, func(w *writing) {
			tx, err := w.db.BeginTx(readroute.WithLevel(w.ctx, readroute.LevelPrimary), readOnly)
			require.NoError(w, err)
			w.refused(tx.ExecContext(w.ctx, w.text("DELETE FROM {t}")))
			require.Error(w, tx.Commit())
		}},
		{"context that has ended before", false, func(w *writing) {
			ctx, cancel := context.WithCancel(w.ctx)
			cancel()
			w.refused(w.db.ExecContext(ctx, w.text("DELETE FROM {t}")))
		}},
		{"wrong arguments", false, func(w *writing) { w.refused(w.db.ExecContext(w.ctx, w.text(insertArg), "no number")) }},

		{"CALL", true, func(w *writing) { w.refused(w.db.ExecContext(w.ctx, w.text("CALL put_{t}({id})"))) }},
		{"DO", true, func(w *writing) {
			w.refused(w.db.ExecContext(w.ctx, w.text("DO $$BEGIN INSERT INTO {t} VALUES (-1); COMMIT; PERFORM 1/0; END$$")))
		}},
		{"DDL", true, func(w *writing) { w.refused(w.db.ExecContext(w.ctx, w.text("CREATE TABLE {t} (id int)"))) }},
		{"several statements in one text", true, func(w *writing) {
			w.refused(w.db.ExecContext(w.ctx, w.text("BEGIN; INSERT INTO {t} VALUES (-2); COMMIT; SELECT 1/0")))
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w := &writing{TB: t, ctx: sessionContext(t), db: db, table: table, id: 1}
			// Something is written, so that a captured position could not be the replicas'.
			pauseReplay(t, c)
			flush(t, c)
			tc.write(w)
			seen.take()
			require.Equal(t, 1, count(t, w.ctx, db, table, 1))
			d := seen.one(t)
			if tc.dirty {
				require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			} else {
				require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
				require.Equal(t, readroute.ReasonCovered, d.Reason)
			}
			resumeReplay(t, c)
		})
	}
}

var readOnly = &sql.TxOptions{ReadOnly: true}

// refused wants an error that the server, or the driver, is sure of.
func (w *writing) refused(_ sql.Result, err error) {
	w.Helper()
	require.Error(w, err)
	require.NotErrorIs(w, err, readroute.ErrCommitUnknown)
}
