package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// markedPostgres adds a marker table of its own to a config over c.
func markedPostgres(t testing.TB, c *dbtest.PostgresCluster, config *readroute.Config) {
	t.Helper()
	config.Marker = &readroute.Marker{Table: fmt.Sprintf("marker_%d", tables.Add(1))}
	db, err := sql.Open("pgx", c.Primary().AppDSN())
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, readroute.CreateMarker(testContext(t), db, *config.Marker))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
}

// TestMarkerRefusedWritesLeaveNothing: what the server refuses is told in its own words, nothing of it stands, its session is held
// to nothing, and the next write works.
func TestMarkerRefusedWritesLeaveNothing(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int PRIMARY KEY, twin int UNIQUE DEFERRABLE INITIALLY DEFERRED")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1, 1)"))
	config := configFor(c)
	quick(&config)
	markedPostgres(t, c, &config)
	seen := record(&config)
	db := open(t, config)
	const twins = "INSERT INTO %s VALUES (2, 1) RETURNING id"
	for name, write := range map[string]func(ctx context.Context) error{
		"Exec": func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1, 2)")
			return err
		},
		"Exec at its COMMIT": func(ctx context.Context) error { _, err := db.ExecContext(ctx, fmt.Sprintf(twins, table)); return err },
		"QueryRow at its COMMIT": func(ctx context.Context) error {
			return db.QueryRowContext(ctx, fmt.Sprintf(twins, table)).Scan(new(int))
		},
		"Query at its COMMIT": func(ctx context.Context) error {
			rows, err := db.QueryContext(ctx, fmt.Sprintf(twins, table))
			require.NoError(t, err)
			require.True(t, rows.Next())
			require.False(t, rows.Next())
			require.NoError(t, rows.Close())
			return rows.Err()
		},
		"Query that is closed before its end": func(ctx context.Context) error {
			rows, err := db.QueryContext(ctx, fmt.Sprintf(twins, table))
			require.NoError(t, err)
			require.True(t, rows.Next())
			return errors.Join(rows.Close(), rows.Err())
		},
		"Tx at its COMMIT": func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, fmt.Sprintf(twins, table))
			require.NoError(t, err)
			return tx.Commit()
		},
		"Tx that has failed": func(ctx context.Context) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1, 2)")
			require.Error(t, err)
			return errors.Join(err, tx.Commit())
		},
	} {
		t.Run(name, func(t *testing.T) {
			flush(t, c)
			pauseReplay(t, c)
			ctx := sessionContext(t)
			err := write(ctx)
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, "23505", pg.Code)
			require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
			seen.take()
			require.Zero(t, count(t, ctx, db, table, 2))
			d := seen.one(t)
			require.Equal(t, readroute.ReasonCovered, d.Reason, "the session has written nothing: %+v", d)
			_, err = db.ExecContext(ctx, "UPDATE "+table+" SET twin = 1 WHERE id = 1")
			require.NoError(t, err)
			resumeReplay(t, c)
		})
	}
	for writer, seq := range map[string]string{"rows": "SELECT count(*) FROM "} {
		require.Equal(t, "2", onPrimary(t, c, seq+config.Marker.Table), "%s: one of the process, and that of the table", writer)
	}
	for _, n := range db.RouteStats().Nodes {
		require.Zero(t, n.Writer.InUse, n.Name)
	}
}

// TestMarkerStatementsOutsideTransactions: what cannot run in a transaction runs, and holds its session to the primary.
func TestMarkerStatementsOutsideTransactions(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	markedPostgres(t, c, &config)
	seen := record(&config)
	db := open(t, config)
	for _, text := range []string{
		"VACUUM " + table, "CREATE INDEX CONCURRENTLY ON " + table + " (id)", "REINDEX TABLE CONCURRENTLY " + table,
		"SELECT pg_create_logical_replication_slot('marker', 'nothing')", // is refused once the transaction has written: run again by itself
	} {
		ctx := sessionContext(t)
		_, err := db.ExecContext(ctx, text)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && (pg.Code == "55000" || pg.Code == "58P01" || pg.Code == "42704") {
			err = nil // there is no logical decoding, or no such plugin
		} else if err == nil {
			seen.take()
			require.Zero(t, count(t, ctx, db, table, 1))
			require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason, text)
		}
		require.NoError(t, err, text)
	}
}

// TestMarkerCancelledWrites: a write that is cancelled before its COMMIT leaves nothing, and the next one waits for nobody.
func TestMarkerCancelledWrites(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config, proxy := behindProxy(t, c)
	markedPostgres(t, c, &config)
	seen := record(&config)
	db := open(t, config)
	loseCancels(proxy)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (0)")
	require.NoError(t, err)
	for i := range 4 {
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		_, err := db.ExecContext(short, fmt.Sprintf("INSERT INTO %s SELECT 1 FROM pg_sleep(0.5)", table))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown, "COMMIT was not sent")
		began := time.Now()
		_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", 2)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 300*time.Millisecond, "write %d waits for a row that the server still holds", i)
	}
	require.Zero(t, count(t, ctx, db, table, 1))
	eventually(t, "a replica serves the session", func() bool {
		seen.take()
		require.Equal(t, 4, count(t, ctx, db, table, 2))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestMarkerUnknownOutcomes: a COMMIT whose answer is cut off holds the session to the primary until the table tells.
func TestMarkerUnknownOutcomes(t *testing.T) {
	c := sharedCluster(t)
	for name, write := range map[string]func(w *writing) error{
		"Exec":     func(w *writing) error { _, err := w.db.ExecContext(w.ctx, w.text(insert)); return err },
		"QueryRow": func(w *writing) error { return w.db.QueryRowContext(w.ctx, w.text(returning)).Scan(new(int)) },
		"Tx": func(w *writing) error {
			tx := w.begin(w.ctx)
			w.done(tx.ExecContext(w.ctx, w.text(insert)))
			return tx.Commit()
		},
		"COMMIT by text": func(w *writing) error {
			conn := w.conn()
			w.done(conn.ExecContext(w.ctx, "BEGIN"))
			w.done(conn.ExecContext(w.ctx, w.text(insert)))
			_, err := conn.ExecContext(w.ctx, "COMMIT")
			_ = conn.Close()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, c, "id int")
			config, proxy := behindProxy(t, c)
			markedPostgres(t, c, &config)
			seen := record(&config)
			db := open(t, config)
			w := &writing{TB: t, ctx: sessionContext(t), db: db, table: table, id: 1}
			require.NoError(t, db.PingContext(w.ctx))
			pauseReplay(t, c)
			proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
			require.ErrorIs(t, write(w), readroute.ErrCommitUnknown)
			seen.take()
			require.Equal(t, 1, count(t, w.ctx, db, table, 1))
			require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
			token, err := readroute.SessionFrom(w.ctx).Token(w.ctx)
			require.NoError(t, err)
			require.NotEmpty(t, token.String())
			require.Equal(t, 1, count(t, w.ctx, db, table, 1))
			require.NotEqual(t, readroute.ReasonSticky, seen.one(t).Reason, "the table tells whether it stands")
			resumeReplay(t, c)
			eventually(t, "a replica serves the session", func() bool {
				seen.take()
				require.Equal(t, 1, count(t, w.ctx, db, table, 1))
				return seen.one(t).Role == readroute.RoleReplica
			})
			require.Equal(t, "1", onPrimary(t, c, "SELECT count(*) FROM "+table), "nothing is run twice")
		})
	}
}

// TestMarkerFailover: by StateSQL a promoted server takes the writes; what it has lost is told to the session that wrote it, and what
// is written there afterwards never passes for it.
func TestMarkerFailover(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	config := failoverConfig(c)
	markedPostgres(t, c, &config)
	config.Marker.StateSQL = "SELECT CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE 'primary' END, pg_postmaster_start_time()::text"
	seen, happened := record(&config), listen(&config)
	db, other := open(t, config), open(t, config)
	kept, lost := sessionContext(t), sessionContext(t)
	_, err := db.ExecContext(kept, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	for _, n := range standbys(c) {
		require.NoError(t, n.StopFast(testContext(t)))
	}
	_, err = db.ExecContext(lost, "INSERT INTO "+table+" VALUES (2)")
	require.NoError(t, err)
	token, err := readroute.SessionFrom(lost).Token(lost)
	require.NoError(t, err)
	require.NoError(t, c.Primary().Kill(testContext(t)))
	next := standbys(c)[0]
	require.NoError(t, next.Start(testContext(t)))
	require.NoError(t, next.Promote(testContext(t)))
	require.NoError(t, standbys(c)[1].Follow(testContext(t), next))
	for _, pool := range []*readroute.DB{db, other} {
		eventually(t, "the promoted server takes writes", func() bool {
			_, err := pool.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (3)")
			return err == nil
		})
	}
	carried := carrying(t, token)
	for _, ctx := range []context.Context{lost, carried} {
		eventually(t, "the loss is found, as soon as there is a replica that could serve", func() bool {
			seen.take()
			require.Zero(t, count(t, ctx, db, table, 2))
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			return d.Reason == readroute.ReasonPositionLost
		})
	}
	happened.first(t, readroute.EventPositionLost)
	require.Equal(t, 1, count(t, kept, db, table, 1))
	_, err = db.ExecContext(lost, "INSERT INTO "+table+" VALUES (4)")
	require.NoError(t, err)
	eventually(t, "the replica that follows serves the session", func() bool {
		seen.take()
		require.Equal(t, 1, count(t, lost, db, table, 4))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestMarkerTableComesAndGoes: without a table sessions are on the sticky window, which is said; when it is made they are not, and
// when it is made anew no session is stale.
func TestMarkerTableComesAndGoes(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	config.Marker = &readroute.Marker{Table: fmt.Sprintf("marker_%d", tables.Add(1))}
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	write := func(ctx context.Context, id int) {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", id)
		require.NoError(t, err)
	}
	require.True(t, db.RouteStats().Sticky)
	require.Contains(t, fmt.Sprint(status(t, db, c.Primary().Name()).Missing), "CreateMarker")
	eventually(t, "the event says so, too", func() bool {
		return strings.Contains(fmt.Sprint(happened.of(readroute.EventSetting)), "CreateMarker")
	})
	ctx := sessionContext(t)
	write(ctx, 1)
	seen.take()
	require.Equal(t, 1, count(t, ctx, db, table, 1))
	require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason)

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := readroute.CreateMarker(testContext(t), db.PrimaryDB(), *config.Marker); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	eventually(t, "the table is seen", func() bool { return !db.RouteStats().Sticky })
	ctx = sessionContext(t)
	write(ctx, 2)
	eventually(t, "a replica serves the session", func() bool {
		seen.take()
		require.Equal(t, 1, count(t, ctx, db, table, 2))
		return seen.one(t).Role == readroute.RoleReplica
	})
	require.NotEmpty(t, status(t, db, c.Primary().Name()).Marker)

	pauseReplay(t, c)
	write(ctx, 3)
	require.NoError(t, c.Primary().Exec(testContext(t), "DROP TABLE "+config.Marker.Table))
	require.NoError(t, readroute.CreateMarker(testContext(t), db.PrimaryDB(), *config.Marker))
	for range 20 {
		require.Equal(t, 1, count(t, ctx, db, table, 3), "%+v", seen.take())
		write(ctx, 4)
	}
	require.Equal(t, 20, count(t, ctx, db, table, 4))
	resumeReplay(t, c)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.Equal(t, 20, count(t, ctx, db, table, 4))
}

// TestMarkerPrune: rows of processes that are gone go, and whoever still has one takes another.
func TestMarkerPrune(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	markedPostgres(t, c, &config)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	write := func() {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err)
	}
	write()
	n, err := readroute.PruneMarker(ctx, db.PrimaryDB(), *config.Marker, time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, c.Primary().Exec(ctx, "UPDATE "+config.Marker.Table+" SET moved_at = 1"))
	n, err = readroute.PruneMarker(ctx, db.PrimaryDB(), *config.Marker, time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, 1, count(t, ctx, db, table, 1), "nobody knows its row any more")
	for range 3 {
		write()
	}
	require.NoError(t, c.WaitCaughtUp(ctx))
	eventually(t, "a replica serves new sessions", func() bool {
		seen.take()
		require.Equal(t, 4, count(t, readroute.WithSession(ctx), db, table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
	_, err = readroute.PruneMarker(ctx, db.PrimaryDB(), *config.Marker, 0)
	require.ErrorIs(t, err, readroute.ErrBadConfig)
}

func TestMarkerConfigIsChecked(t *testing.T) {
	bad := readroute.Marker{Table: "a; DROP TABLE b"}
	_, err := readroute.Open(readroute.Config{Primary: readroute.Node{Name: "a", Connector: readroute.Postgres("")}, Marker: &bad})
	require.ErrorIs(t, err, readroute.ErrBadConfig)
	require.ErrorContains(t, err, "Marker: ")
	require.ErrorIs(t, readroute.CreateMarker(t.Context(), nil, bad), readroute.ErrBadConfig)
	_, err = readroute.PruneMarker(t.Context(), nil, bad, time.Hour)
	require.ErrorIs(t, err, readroute.ErrBadConfig)
}
