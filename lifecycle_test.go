package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestSoakLeavesNothing runs everything for a while, with cancellations and errors, and looks for what is left.
func TestSoakLeavesNothing(t *testing.T) {
	c := sharedCluster(t)
	table := newWritable(t, c)
	config := named(c, "soak")
	quick(&config)
	config.Primary.MaxOpenConns = 12
	db := open(t, config)
	work := func(ctx context.Context, i int) error {
		ctx = readroute.WithSession(ctx)
		switch i % 8 {
		case 0:
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
			return err
		case 1:
			return db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", i).Scan(new(int))
		case 2:
			stmt, err := db.PrepareContext(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE id > $1 OR id = %d", table, rand.N(50)))
			if err != nil {
				return err
			}
			defer stmt.Close()
			return stmt.QueryRowContext(ctx, i).Scan(new(int))
		case 3:
			tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: i%16 == 3})
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)); err != nil {
				return err
			}
			return tx.Commit()
		case 4:
			rows, err := db.QueryContext(ctx, "INSERT INTO "+table+" VALUES ($1) RETURNING id", i)
			if err != nil {
				return err
			}
			return rows.Close()
		case 5:
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.ExecContext(ctx, "SET application_name = 'soak'")
			return err
		case 6:
			_, err := db.ExecContext(ctx, "SELECT 1/0")
			if err == nil {
				return errors.New("a division by zero succeeded")
			}
			return ctx.Err()
		default:
			if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i); err != nil {
				return err
			}
			return db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", i).Scan(new(int))
		}
	}
	round := func() {
		errs := make(chan error, 8)
		for w := range cap(errs) {
			go func() {
				var failed error
				for i := range 80 {
					ctx, cancel := context.WithCancel(context.Background())
					if i%10 == 9 {
						time.AfterFunc(rand.N(time.Millisecond), cancel)
					}
					err := work(ctx, w*80+i)
					if err != nil && ctx.Err() == nil {
						failed = err
					}
					cancel()
				}
				errs <- failed
			}()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
	}
	round()
	settle := func() int {
		eventually(t, "nothing is in use", func() bool {
			busy := db.Stats().InUse
			for _, n := range db.RouteStats().Nodes {
				busy += n.Reader.InUse + n.Writer.InUse
			}
			for _, n := range db.Nodes() {
				busy += int(n.InFlight)
			}
			return busy == 0 && db.RouteStats().Waiting == 0
		})
		runtime.GC()
		return runtime.NumGoroutine()
	}
	before := settle()
	for range 3 {
		round()
	}
	eventually(t, "no goroutine more, but for the connections' own", func() bool { return settle() <= before+4 })

	// A pool holds what its limits say, and two more for the monitor; nothing is prepared that nobody uses.
	require.LessOrEqual(t, sessionsOf(t, c, "soak"), 12+3*readroute.DefaultMaxIdleConns+4)
	for _, n := range db.Nodes() {
		ctx := readroute.WithNode(sessionContext(t), n.Name)
		conns := make([]*sql.Conn, 4)
		for i := range conns {
			var err error
			conns[i], err = db.Conn(ctx)
			require.NoError(t, err)
			var ours int
			require.NoError(t, conns[i].QueryRowContext(ctx,
				"SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%OR id = %' AND name NOT LIKE 'stmtcache%'").Scan(&ours))
			require.Zero(t, ours, n.Name)
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	}
}

// TestPreparedStatementsEndOnTheServer: closing a statement leaves nothing on any of the connections it ran on.
func TestPreparedStatementsEndOnTheServer(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	db := open(t, config)
	left := func(ctx context.Context) int {
		var n int
		require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%left over%'").Scan(&n))
		return n
	}
	for i := range 20 {
		ctx := sessionContext(t)
		stmt, err := db.PrepareContext(ctx, fmt.Sprintf("SELECT %d, 'left over' FROM %s", i, table))
		require.NoError(t, err)
		for _, ctx := range []context.Context{ctx, readroute.WithLevel(ctx, readroute.LevelPrimary)} {
			rows, err := stmt.QueryContext(ctx)
			require.NoError(t, err)
			require.NoError(t, rows.Close())
		}
		require.NoError(t, stmt.Close())
	}
	require.LessOrEqual(t, left(sessionContext(t)), 1)
	require.LessOrEqual(t, left(readroute.WithLevel(sessionContext(t), readroute.LevelPrimary)), 1)
}

// TestSessionStateEndsWithTheCheckout: whoever gets the connection next finds nothing of it.
func TestSessionStateEndsWithTheCheckout(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Primary.MaxIdleConns = 1
	happened := listen(&config)
	db := open(t, config)
	ctx := readroute.WithLevel(sessionContext(t), readroute.LevelPrimary)
	for i, text := range []string{
		"SET statement_timeout = '123s'", "CREATE TEMP TABLE mine (id int)", "SELECT pg_advisory_lock(7)", "LISTEN ours",
		"PREPARE p AS SELECT 1", "BEGIN",
	} {
		conn, err := db.Conn(ctx)
		require.NoError(t, err)
		_, err = conn.ExecContext(ctx, text)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		// The server takes a moment to end the session that is closed, and with it what others see of its state.
		eventually(t, text+" has left nothing", func() bool {
			var timeout string
			var state int
			require.NoError(t, db.QueryRowContext(ctx, `SELECT (SELECT setting FROM pg_settings WHERE name = 'statement_timeout'),
				(SELECT count(*) FROM pg_class WHERE relname = 'mine') + (SELECT count(*) FROM pg_prepared_statements WHERE name = 'p')
				+ (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')`).Scan(&timeout, &state))
			require.Equal(t, "0", timeout)
			return state == 0
		})
		require.Len(t, happened.of(readroute.EventStateDiscarded), i+1, text)
	}
}
