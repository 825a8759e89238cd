package readroute_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// behindPoolers returns a config whose nodes are all behind a PgBouncer of their own.
func behindPoolers(t testing.TB, c *dbtest.PostgresCluster, size int) readroute.Config {
	t.Helper()
	config := configFor(c)
	put := func(n *readroute.Node, node *dbtest.PostgresNode) {
		b := dbtest.StartPgBouncerT(t, c, node, dbtest.PgBouncerOptions{PoolSize: size})
		n.Connector, n.Pooled = readroute.Postgres(b.DSN()), true
	}
	put(&config.Primary, c.Primary())
	for i := range config.Replicas {
		put(&config.Replicas[i], standbys(c)[i])
	}
	return config
}

// TestPgBouncerReadsItsOwnWrites: capture, monitor, wait, transactions and prepared statements work through a pooler in
// transaction mode whose few sessions many clients share.
func TestPgBouncerReadsItsOwnWrites(t *testing.T) {
	c := sharedCluster(t)
	config := behindPoolers(t, c, 3)
	patient(&config)
	seen := record(&config)
	happened := listen(&config)
	db := open(t, config)
	table := newWritable(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "GRANT ALL ON "+table+" TO "+dbtest.AppUser))
	stmt, err := db.PrepareContext(testContext(t), "SELECT count(*) FROM "+table+" WHERE id = $1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stmt.Close()) })
	insert, err := db.PrepareContext(testContext(t), "INSERT INTO "+table+" VALUES ($1)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, insert.Close()) })
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 20 {
				ctx := readroute.WithSession(context.Background())
				id := g*1000 + i
				var err error
				switch i % 4 {
				case 0:
					_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", id)
				case 1:
					_, err = insert.ExecContext(ctx, id)
				case 2:
					err = db.QueryRowContext(ctx, "INSERT INTO "+table+" VALUES ($1) RETURNING id", id).Scan(new(int))
				case 3:
					var tx *sql.Tx
					if tx, err = db.BeginTx(ctx, nil); err == nil {
						if _, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", id); err == nil {
							err = tx.Commit()
						}
					}
				}
				if err != nil {
					t.Errorf("write %d: %v", i%4, err)
					return
				}
				var n, again int
				if err := stmt.QueryRowContext(ctx, id).Scan(&n); err != nil || n != 1 {
					t.Errorf("prepared read after write %d: %d, %v", i%4, n, err)
				}
				tx, err := db.BeginTx(ctx, readOnly)
				if err == nil {
					err = tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", id).Scan(&again)
					_ = tx.Rollback()
				}
				if err != nil || again != 1 {
					t.Errorf("read-only transaction: %d, %v", again, err)
				}
			}
		})
	}
	wg.Wait()
	onReplica := 0
	for _, d := range seen.take() {
		if d.Role == readroute.RoleReplica {
			onReplica++
		}
	}
	require.Greater(t, onReplica, 500)
	require.Empty(t, happened.of(readroute.EventPooledState))
	require.Empty(t, happened.of(readroute.EventDown))

	// A write through the pooler whose replicas stand still is not read there.
	pauseReplay(t, c)
	ctx := readroute.WithWait(sessionContext(t), 0)
	_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (-1)")
	require.NoError(t, err)
	require.Equal(t, 1, count(t, ctx, db, table, -1))
	require.Equal(t, readroute.RolePrimary, seen.take()[1].Role)
}

// TestPgBouncerLeavesNothingBehind: whatever this library does, the sessions that another client gets from the pooler
// afterwards are as they were.
func TestPgBouncerLeavesNothingBehind(t *testing.T) {
	c := sharedCluster(t)
	config := behindPoolers(t, c, 1) // the other client gets the very same session
	patient(&config)
	db := open(t, config)
	table := newWritable(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "GRANT ALL ON "+table+" TO "+dbtest.AppUser))
	const state = "SELECT (SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings WHERE source = 'session' AND name <> 'application_name')" +
		", (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')" +
		", (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors), current_setting('transaction_read_only')"
	look := func(n readroute.Node) string {
		t.Helper()
		dsn := n.Connector
		other := sql.OpenDB(dsn)
		defer other.Close()
		var settings, readOnly sql.NullString
		var prepared, locks, listening, cursors int
		require.NoError(t, other.QueryRowContext(testContext(t), state, pgx.QueryExecModeSimpleProtocol).
			Scan(&settings, &prepared, &locks, &listening, &cursors, &readOnly))
		require.Zero(t, prepared+locks+listening+cursors, n.Name)
		return settings.String + " " + readOnly.String
	}
	nodes := append([]readroute.Node{config.Primary}, config.Replicas...)
	fresh := make([]string, len(nodes))
	for i, n := range nodes {
		fresh[i] = look(n)
	}
	for id := range 30 {
		ctx := sessionContext(t)
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", id)
		require.NoError(t, err)
		require.Equal(t, 1, count(t, ctx, db, table, id))
		stmt, err := db.PrepareContext(ctx, "SELECT count(*) FROM "+table)
		require.NoError(t, err)
		require.NoError(t, stmt.QueryRowContext(ctx).Scan(new(int)))
		require.NoError(t, stmt.Close())
		tx, err := db.BeginTx(ctx, readOnly)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		require.NoError(t, tx.Commit())
		tx, err = db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "SET LOCAL work_mem = '1MB'")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, db.Fence(ctx))
	}
	for i, n := range nodes {
		require.Equal(t, fresh[i], look(n), n.Name)
	}
}

// TestPgBouncerReportsSessionState: session state that a statement leaves outside a transaction runs on the primary, and
// the hook hears that it is in a session that others share.
func TestPgBouncerReportsSessionState(t *testing.T) {
	c := sharedCluster(t)
	config := behindPoolers(t, c, 2)
	happened := listen(&config)
	seen := record(&config)
	db := open(t, config)
	for query, token := range map[string]string{
		"SET work_mem = '2MB'": "SET", "SELECT pg_advisory_lock(1)": "pg_advisory_lock", "LISTEN news": "LISTEN",
	} {
		before := len(happened.of(readroute.EventPooledState))
		_, err := db.ExecContext(sessionContext(t), query)
		require.NoError(t, err, query)
		require.Equal(t, readroute.RolePrimary, seen.one(t).Role, query)
		events := happened.of(readroute.EventPooledState)
		require.Len(t, events, before+1, query)
		require.Equal(t, config.Primary.Name, events[before].Node)
		require.Equal(t, token, events[before].Why)
	}
	before := len(happened.of(readroute.EventPooledState))
	tx, err := db.BeginTx(sessionContext(t), nil)
	require.NoError(t, err)
	for _, local := range []string{"SET LOCAL work_mem = '3MB'", "SELECT pg_advisory_xact_lock(2)", "SELECT set_config('work_mem', '4MB', true)"} {
		_, err = tx.ExecContext(testContext(t), local)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	require.Len(t, happened.of(readroute.EventPooledState), before, "what ends with the transaction leaks to nobody")
}

// TestPgBouncerRestartBehindThePooler: the pooler's connections outlive a crash of the replica, which comes back further
// behind. A read that must be fresh asks on its own connection.
func TestPgBouncerRestartBehindThePooler(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	config := behindPoolers(t, c, 2)
	config.ProbeInterval = time.Minute // the monitor notices nothing in this test
	seen := record(&config)
	db := open(t, config)
	table := newWritable(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "GRANT ALL ON "+table+" TO "+dbtest.AppUser))
	standby := c.Standby(0)
	// The standby comes back as of its last restartpoint, and stays there.
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, c.Primary().Exec(testContext(t), "CHECKPOINT"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, standby.Exec(testContext(t), "CHECKPOINT"))
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	_, err = readroute.SessionFrom(ctx).Token(testContext(t))
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	seen.take()
	require.Equal(t, 1, count(t, readroute.WithWait(ctx, 10*time.Second), db, table, 1))
	require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
	require.NoError(t, standby.SetApplyDelay(testContext(t), time.Hour))
	require.NoError(t, standby.Kill(testContext(t)))
	require.NoError(t, standby.Start(testContext(t)))
	left, err := standby.QueryValue(testContext(t), "SELECT count(*) FROM "+table)
	require.NoError(t, err)
	require.Equal(t, "0", left, "the replica is as it was before the write")
	ctx = readroute.WithWait(ctx, 0)
	for range 20 {
		require.Equal(t, 1, count(t, ctx, db, table, 1), "a read that was promised fresh")
	}
}

// TestPgBouncerQueryModes says which of pgx's query modes work through a pooler in transaction mode that does not follow
// prepared statements. The connectors of this package choose one that does.
func TestPgBouncerQueryModes(t *testing.T) {
	c := sharedCluster(t)
	b := dbtest.StartPgBouncerT(t, c, c.Primary(), dbtest.PgBouncerOptions{PoolSize: 2})
	table := newWritable(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "GRANT ALL ON "+table+" TO "+dbtest.AppUser))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			pg, err := pgx.ParseConfig(b.DSN())
			require.NoError(t, err)
			pg.DefaultQueryExecMode = mode
			config := configFor(c)
			config.Primary.Connector, config.Primary.Pooled = readroute.PostgresConfig(pg), true
			config.Replicas = nil
			db := open(t, config)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 50 {
						var n int
						err := db.QueryRowContext(context.Background(), "INSERT INTO "+table+" VALUES ($1) RETURNING id", g*100+i).Scan(&n)
						if err != nil || n != g*100+i {
							t.Errorf("%d: %d, %v", i, n, err)
							return
						}
					}
				})
			}
			wg.Wait()
			require.NotNil(t, stdlib.GetDefaultDriver())
		})
	}
}

// TestPgBouncerFullOfReads: the probe waits in the pooler's queue behind slow reads. They are not ended for it.
func TestPgBouncerFullOfReads(t *testing.T) {
	c := sharedCluster(t)
	config := behindPoolers(t, c, 4)
	config.Replicas = config.Replicas[:1]
	config.ProbeInterval, config.ProbeTimeout = 50*time.Millisecond, 200*time.Millisecond
	happened := listen(&config)
	seen := record(&config)
	db := open(t, config)
	ctx := readroute.WithFallback(readroute.WithLevel(testContext(t), readroute.LevelEventual), readroute.FallbackError)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			errs <- db.QueryRowContext(ctx, "SELECT count(*) FROM generate_series(1, 3000) a, generate_series(1, 4000) b").Scan(new(int))
		}()
	}
	eventually(t, "the probe is not answered", func() bool { return len(happened.of(readroute.EventDown)) > 0 })
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	for _, d := range seen.take() {
		require.Empty(t, d.Retry)
	}
	eventually(t, "the replica is back", func() bool { return db.Nodes()[1].Healthy })
}
