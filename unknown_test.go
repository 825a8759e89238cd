package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// behindProxy returns a config whose primary is reached through a proxy, as a role that may not see what others do.
func behindProxy(t testing.TB, c *dbtest.PostgresCluster) (readroute.Config, *dbtest.Proxy) {
	t.Helper()
	proxy, err := dbtest.NewProxy(c.Primary().Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	config := configFor(c)
	config.Primary.Connector = readroute.Postgres(c.Primary().DSNVia(proxy, dbtest.AppUser))
	for i := range config.Replicas {
		config.Replicas[i].Connector = readroute.Postgres(standbys(c)[i].AppDSN())
	}
	quick(&config)
	return config, proxy
}

// isCancel recognizes a request to cancel a statement.
func isCancel(data []byte) bool {
	return len(data) == 16 && binary.BigEndian.Uint32(data[4:]) == 80877102
}

// loseCancels makes the proxy lose every request to cancel a statement, as a slow network does.
func loseCancels(proxy *dbtest.Proxy) {
	proxy.OnClientData(func(data []byte) dbtest.Verdict {
		if isCancel(data) {
			return dbtest.CutBefore
		}
		return dbtest.Forward
	})
}

// unknown is a write whose answer never comes although it is committed.
type unknown struct {
	name string
	// write makes the write, whose commit record must not be written before replay is paused. It returns the error.
	write func(u *unknownWrite) error
	// cause is the driver's own error. pgx loses it when a text without arguments, or a COMMIT, is cut off.
	cause error
}

type unknownWrite struct {
	*writing
	c     *dbtest.PostgresCluster
	proxy *dbtest.Proxy
}

// pause stops replay once the log so far is there, and there is a connection to write on.
func (u *unknownWrite) pause() {
	require.NoError(u, u.db.PingContext(u.ctx))
	flush(u, u.c)
	pauseReplay(u, u.c)
}

// short is a context that ends long before a slow write does.
func (u *unknownWrite) short() context.Context {
	ctx, cancel := context.WithTimeout(u.ctx, 50*time.Millisecond)
	u.Cleanup(cancel)
	return ctx
}

var unknowns = []unknown{
	{name: "COMMIT whose answer is cut off", cause: pgconn.ErrConnClosed, write: func(u *unknownWrite) error {
		tx := u.begin(u.ctx)
		u.done(tx.ExecContext(u.ctx, u.text(insert)))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
		return tx.Commit()
	}},
	{name: "COMMIT by text whose answer is cut off", write: func(u *unknownWrite) error {
		conn := u.conn()
		u.done(conn.ExecContext(u.ctx, "BEGIN"))
		u.done(conn.ExecContext(u.ctx, u.text(insert)))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
		_, err := conn.ExecContext(u.ctx, "COMMIT")
		_ = conn.Close()
		return err
	}},
	{name: "COMMIT by text in a Tx whose answer is cut off", write: func(u *unknownWrite) error {
		tx := u.begin(u.ctx)
		u.done(tx.ExecContext(u.ctx, u.text(insert)))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
		_, err := tx.ExecContext(u.ctx, "COMMIT")
		_ = tx.Rollback()
		return err
	}},
	{name: "COMMIT that outlasts its context", cause: context.DeadlineExceeded, write: func(u *unknownWrite) error {
		makeSlowCommit(u, u.c, u.table, "PERFORM pg_sleep(0.25)")
		loseCancels(u.proxy)
		ctx, cancel := context.WithCancelCause(u.ctx)
		u.Cleanup(func() { cancel(nil) })
		tx := u.begin(ctx)
		u.done(tx.ExecContext(u.ctx, u.text(insert)))
		u.pause()
		time.AfterFunc(50*time.Millisecond, func() { cancel(context.DeadlineExceeded) })
		err := tx.Commit()
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
		return err
	}},
	{name: "Exec whose answer is cut off", write: func(u *unknownWrite) error {
		u.pause()
		u.proxy.OnClientData(dbtest.Once("insert into", dbtest.CutAfter))
		_, err := u.db.ExecContext(u.ctx, u.text(insert))
		return err
	}},
	{name: "Exec with arguments whose answer is cut off", cause: io.ErrUnexpectedEOF, write: func(u *unknownWrite) error {
		u.done(u.db.ExecContext(u.ctx, u.text(insertArg), 0)) // prepares
		u.pause()
		u.proxy.OnClientData(dbtest.Once("stmtcache", dbtest.CutAfter))
		_, err := u.db.ExecContext(u.ctx, u.text(insertArg), u.id)
		return err
	}},
	{name: "QueryRow whose answer is cut off", cause: io.ErrUnexpectedEOF, write: func(u *unknownWrite) error {
		query := u.text("INSERT INTO {t} VALUES ($1) RETURNING id")
		u.scan(u.db.QueryRowContext(u.ctx, query, 0)) // prepares
		u.pause()
		u.proxy.OnClientData(dbtest.Once("stmtcache", dbtest.CutAfter))
		return u.db.QueryRowContext(u.ctx, query, u.id).Scan(&u.id)
	}},
	{name: "QueryRow in the simple protocol whose answer is cut off", write: func(u *unknownWrite) error {
		u.pause()
		u.proxy.OnClientData(dbtest.Once("insert into", dbtest.CutAfter))
		return u.db.QueryRowContext(u.ctx, u.text(returning), pgx.QueryExecModeSimpleProtocol).Scan(&u.id)
	}},
	{name: "Exec that outlasts its context", cause: context.DeadlineExceeded, write: func(u *unknownWrite) error {
		makeSlowWrite(u, u.c, u.table, "PERFORM pg_sleep(0.25)")
		loseCancels(u.proxy)
		u.pause()
		_, err := u.db.ExecContext(u.short(), u.text(insert))
		return err
	}},
	{name: "Exec that ignores the cancel request", cause: context.DeadlineExceeded, write: func(u *unknownWrite) error {
		makeSlowWrite(u, u.c, u.table,
			"BEGIN PERFORM pg_sleep(10); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(0.25); END")
		u.pause()
		_, err := u.db.ExecContext(u.short(), u.text(insert))
		return err
	}},
	{name: "prepared Exec that outlasts its context", cause: context.DeadlineExceeded, write: func(u *unknownWrite) error {
		makeSlowWrite(u, u.c, u.table, "PERFORM pg_sleep(0.25)")
		loseCancels(u.proxy)
		u.pause()
		stmt, err := u.db.PrepareContext(u.ctx, u.text(insertArg))
		u.ok(err)
		defer stmt.Close()
		_, err = stmt.ExecContext(u.short(), u.id)
		return err
	}},
	{name: "QueryRow that outlasts its context", cause: context.DeadlineExceeded, write: func(u *unknownWrite) error {
		makeSlowWrite(u, u.c, u.table, "PERFORM pg_sleep(0.25)")
		loseCancels(u.proxy)
		u.pause()
		return u.db.QueryRowContext(u.short(), u.text(returning)).Scan(&u.id)
	}},
	{name: "function that outlasts its context", cause: context.DeadlineExceeded, write: func(u *unknownWrite) error {
		makeSlowWrite(u, u.c, u.table, "PERFORM pg_sleep(0.25)")
		loseCancels(u.proxy)
		u.pause()
		return u.db.QueryRowContext(u.short(), u.text("SELECT add_{t}({id})")).Scan(&u.id)
	}},
}

// TestCaptureOfUnknownOutcomes (K2-18): nobody can say whether the write stands, and it may stand only later. The session reads
// from the primary until a position covers it for certain.
func TestCaptureOfUnknownOutcomes(t *testing.T) {
	c := sharedCluster(t)
	for _, tc := range unknowns {
		t.Run(tc.name, func(t *testing.T) {
			for try := 1; !unknownOutcome(t, c, tc); try++ {
				require.Less(t, try, 10, "the write never begins before it is cancelled")
			}
		})
	}
}

// unknownOutcome reports whether the write was made: a busy server may hear of the cancel before it has begun.
func unknownOutcome(t *testing.T, c *dbtest.PostgresCluster, tc unknown) bool {
	config, proxy := behindProxy(t, c)
	seen := record(&config)
	db := open(t, config)
	w := &writing{TB: t, ctx: sessionContext(t), db: db, table: newWritable(t, c), id: 1}
	defer resumeReplay(t, c)
	err := tc.write(&unknownWrite{writing: w, c: c, proxy: proxy})
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "57014" {
		return false // query_canceled: the server says that it has not begun
	}
	require.ErrorIs(t, err, readroute.ErrCommitUnknown)
	require.NotErrorIs(t, err, driver.ErrBadConn, "database/sql would run it again")
	if tc.cause != nil {
		require.ErrorIs(t, err, tc.cause, "the driver's own error must be matched as well")
	}
	for _, d := range seen.take() {
		require.Empty(t, d.Retry, "%+v", d)
	}

	row := w.text("SELECT count(*) FROM {t} WHERE id = {id}")
	for stands := false; !stands; {
		// In this order: a write that is not under way any more has either left its row or never will.
		underway := onPrimary(t, c, "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid()"+
			" AND (query ILIKE 'commit%' OR query LIKE '%"+w.table+"%')") != "0"
		stands = onPrimary(t, c, row) == "1"
		if !stands && !underway {
			return false
		}
		n := count(t, w.ctx, db, w.table, 1)
		d := seen.one(t)
		if onPrimary(t, c, row) == "1" { // else it may have been given up between the two
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
		}
		if stands {
			require.Equal(t, 1, n, "the write stands and its session does not see it: %+v", d)
		}
	}
	resumeReplay(t, c)
	eventually(t, "a replica serves the session", func() bool {
		require.Equal(t, 1, count(t, w.ctx, db, w.table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
	require.Equal(t, "1", onPrimary(t, c, row), "nothing is run twice")
	return true
}

// TestCaptureTokenOfUnknownOutcome: a token that cannot wait for the outcome is safe.
func TestCaptureTokenOfUnknownOutcome(t *testing.T) {
	c := sharedCluster(t)
	config, proxy := behindProxy(t, c)
	seen := record(&config)
	db := open(t, config)
	table := newWritable(t, c)
	makeSlowWrite(t, c, table, "PERFORM pg_sleep(0.8)")
	loseCancels(proxy)
	ctx := sessionContext(t)
	require.NoError(t, db.PingContext(ctx))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond) // for the server to begin
	defer cancel()
	_, err := db.ExecContext(short, "INSERT INTO "+table+" VALUES (1)")
	require.ErrorIs(t, err, readroute.ErrCommitUnknown)

	early, err := readroute.SessionFrom(ctx).Token(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	late, err := readroute.SessionFrom(ctx).Token(ctx) // waits until the server session is gone
	require.NoError(t, err)
	require.Equal(t, "1", onPrimary(t, c, "SELECT count(*) FROM "+table))

	seen.take()
	count(t, readroute.ContextWithSession(ctx, readroute.NewSession(early)), db, table, 1)
	require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason)
	lateCtx := readroute.ContextWithSession(ctx, readroute.NewSession(late))
	eventually(t, "a replica serves the late token", func() bool {
		require.Equal(t, 1, count(t, lateCtx, db, table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestCaptureEndsAStuckServerSession: a server session that goes on with a write nobody waits for is ended.
func TestCaptureEndsAStuckServerSession(t *testing.T) {
	c := sharedCluster(t)
	config, proxy := behindProxy(t, c)
	seen := record(&config)
	db := open(t, config)
	table := newWritable(t, c)
	makeSlowWrite(t, c, table, "PERFORM pg_sleep(60)")
	loseCancels(proxy)
	ctx := sessionContext(t)
	require.NoError(t, db.PingContext(ctx))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond) // for the server to begin
	defer cancel()
	_, err := db.ExecContext(short, "INSERT INTO "+table+" VALUES (1)")
	require.ErrorIs(t, err, readroute.ErrCommitUnknown)
	began := time.Now()
	stuck := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT INTO %s %%'", table)
	require.Equal(t, "1", onPrimary(t, c, stuck))
	eventually(t, "the server session is ended", func() bool {
		seen.take()
		count(t, ctx, db, table, 1)
		gone := onPrimary(t, c, stuck) == "0"
		if !gone {
			require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
		}
		return gone
	})
	require.InDelta(t, 1.5, time.Since(began).Seconds(), 1, "about a second after the write was given up")
	eventually(t, "a replica serves the session", func() bool {
		seen.take()
		require.Zero(t, count(t, ctx, db, table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestK3_01_NoWriteRunsTwice: a network error in the middle of a statement is no reason to run it again.
func TestK3_01_NoWriteRunsTwice(t *testing.T) {
	c := sharedCluster(t)
	config, proxy := behindProxy(t, c)
	db := open(t, config)
	table := newTable(t, c, "id int, n int")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1, 0)"))
	calls := map[dbtest.Verdict]int{}
	for i := range 100 {
		verdict := dbtest.CutAfter
		if i%4 == 3 {
			verdict = dbtest.CutBefore
		}
		calls[verdict]++
		proxy.OnClientData(dbtest.Once("update "+table, verdict))
		ctx := sessionContext(t)
		_, err := db.ExecContext(ctx, "UPDATE "+table+" SET n = n + 1")
		require.ErrorIs(t, err, readroute.ErrCommitUnknown)
		var n int
		require.NoError(t, db.QueryRowContext(ctx, "SELECT n FROM "+table).Scan(&n))
		require.Equal(t, calls[dbtest.CutAfter], n)
	}
}

// TestCutRowsOfAWrite: the rows are the driver's own, and so is the error that ends them in the middle: it does not say that the write's outcome is
// unknown. Its session is held to the primary all the same.
func TestCutRowsOfAWrite(t *testing.T) {
	c := sharedCluster(t)
	config, proxy := behindProxy(t, c)
	seen := record(&config)
	db := open(t, config)
	table := newTable(t, c, "id int")
	require.NoError(t, c.Primary().Exec(testContext(t), "GRANT ALL ON "+table+" TO "+dbtest.AppUser))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	pauseReplay(t, c)
	ctx := sessionContext(t)
	rows, err := db.QueryContext(ctx, "INSERT INTO "+table+" SELECT generate_series(1, 500000) RETURNING id")
	require.NoError(t, err)
	require.True(t, rows.Next())
	proxy.Cut()
	for rows.Next() {
	}
	require.Error(t, rows.Err())
	require.NotErrorIs(t, rows.Err(), readroute.ErrCommitUnknown)
	require.NoError(t, rows.Close())
	for range 20 {
		seen.take()
		require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)))
		require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
	}
	resumeReplay(t, c)
	eventually(t, "a replica serves what the primary has", func() bool {
		seen.take()
		require.Equal(t, onPrimary(t, c, "SELECT count(*) FROM "+table), fmtInt(countIn(t, ctx, db, table)))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestK2_19_CancelledTxCommitsNothing cancels a statement of a transaction at any time.
func TestK2_19_CancelledTxCommitsNothing(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, configFor(c))
	table := newTable(t, c, "id int, n int")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1, 0)"))
	committed := 0
	for i := range 300 {
		ctx, cancel := context.WithCancel(sessionContext(t))
		timer := time.AfterFunc(time.Duration(i)*5*time.Microsecond, cancel)
		err := func() error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			for range 2 {
				if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET n = n + 1"); err != nil {
					if commit := tx.Commit(); commit == nil {
						return errors.New("a transaction of which a statement failed was committed")
					}
					return err
				}
			}
			return tx.Commit()
		}()
		timer.Stop()
		cancel()
		switch {
		case err == nil:
			committed++
		case errors.Is(err, readroute.ErrCommitUnknown):
			// Whether it stands is read below, once its server session is over.
			eventually(t, "the server session ends", func() bool {
				return onPrimary(t, c, "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query ILIKE '%commit%'"+
					" AND pid <> pg_backend_pid()") == "0"
			})
			var n int
			require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT n FROM "+table+" /* route:primary */").Scan(&n))
			require.Contains(t, []int{2 * committed, 2*committed + 2}, n)
			committed = n / 2
		default:
			require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone), "%v", err)
		}
	}
	require.Equal(t, fmt.Sprint(2*committed), onPrimary(t, c, "SELECT n FROM "+table))
}
