package lite

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func openFleet(t testing.TB, replicas int) *Fleet {
	t.Helper()
	f, err := Open(replicas, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.NoError(t, f.Close(), "a second time")
		_, err := os.Stat(f.dir)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	return f
}

func caughtUp(t testing.TB, f *Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, f.WaitCaughtUp(ctx))
}

func number(t testing.TB, s *Server, query string) int {
	t.Helper()
	var n int
	require.NoError(t, s.bare.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// TestTransactionsArriveWholeAndInOrder: readers of replicas see every transaction after the one before it, and nothing in between,
// while writers of all kinds commit and roll back, tables come and go, and the database shrinks.
func TestTransactionsArriveWholeAndInOrder(t *testing.T) {
	f := openFleet(t, 2)
	p := f.Primary()
	ctx := t.Context()
	require.NoError(t, p.Exec(ctx, "CREATE TABLE account (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, filler TEXT)",
		"CREATE TABLE log (id INTEGER PRIMARY KEY)", "INSERT INTO account SELECT value, 100, '' FROM json_each('[1,2,3,4,5,6,7,8]')"))
	caughtUp(t, f)
	end := time.Now().Add(time.Second)
	var all sync.WaitGroup
	var committed atomic.Int64
	for range 4 {
		all.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				tx, err := p.bare.BeginTx(ctx, nil)
				if err != nil {
					t.Error(err)
					return
				}
				from, to := 1+rand.IntN(8), 1+rand.IntN(8)
				_, err1 := tx.Exec("UPDATE account SET n = n - 1, filler = hex(randomblob(?)) WHERE id = ?", rand.IntN(2000), from)
				_, err2 := tx.Exec("UPDATE account SET n = n + 1 WHERE id = ?", to)
				_, err3 := tx.Exec("INSERT INTO log VALUES ((SELECT coalesce(max(id), 0) + 1 FROM log))")
				if err1 != nil || err2 != nil || err3 != nil {
					t.Error(err1, err2, err3)
				}
				if rand.IntN(5) == 0 {
					err = tx.Rollback()
				} else if err = tx.Commit(); err == nil {
					committed.Add(1)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; time.Now().Before(end) && !t.Failed(); i++ {
			<-ticker.C
			var err error
			switch i % 4 {
			case 0:
				err = p.Exec(ctx, "CREATE TABLE extra AS SELECT hex(randomblob(40000)) AS x")
			case 1:
				err = p.Exec(ctx, "DROP TABLE extra")
			case 2:
				err = p.Exec(ctx, "VACUUM")
			default:
				err = p.bare.QueryRowContext(ctx, "UPDATE account SET n = n WHERE id = 1 RETURNING n").Scan(new(int))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	var reads atomic.Int64
	for _, s := range f.Servers()[1:] {
		all.Go(func() {
			last := 0
			for time.Now().Before(end) && !t.Failed() {
				var sum, newest, logged int
				err := s.bare.QueryRowContext(ctx, "SELECT (SELECT sum(n) FROM account), (SELECT coalesce(max(id), 0) FROM log), (SELECT count(*) FROM log)").Scan(&sum, &newest, &logged)
				if err != nil {
					t.Error(s.name, err)
					return
				}
				if sum != 800 || newest != logged || newest < last {
					t.Errorf("%s shows a sum of %d, %d of %d transactions after %d", s.name, sum, logged, newest, last)
				}
				last = newest
				reads.Add(1)
			}
		})
	}
	all.Wait()
	caughtUp(t, f)
	for _, s := range f.Servers() {
		require.EqualValues(t, committed.Load(), number(t, s, "SELECT count(*) FROM log"), s.name)
		var ok string
		require.NoError(t, s.bare.QueryRow("PRAGMA integrity_check").Scan(&ok))
		require.Equal(t, "ok", ok, s.name)
	}
	t.Logf("%d transactions, %d reads of replicas", committed.Load(), reads.Load())
}

// TestLogIsBegunAnew: what is written back into the database was replicated before.
func TestLogIsBegunAnew(t *testing.T) {
	f := openFleet(t, 1)
	f.maxFrames = 200
	p, r := f.Servers()[0], f.Servers()[1]
	require.NoError(t, p.Exec(t.Context(), "CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)"))
	began := 0
	for i := 0; began < 3 && i < 3000; i++ {
		before := p.wal.header
		require.NoError(t, p.Exec(t.Context(), "INSERT INTO t (x) VALUES (randomblob(100000))"), "insert %d", i)
		if before != p.wal.header {
			began++
			require.NoError(t, p.Exec(t.Context(), "DELETE FROM t"))
		}
	}
	require.Equal(t, 3, began, "the log was never begun anew")
	caughtUp(t, f)
	require.Equal(t, number(t, p, "SELECT count(*) FROM t"), number(t, r, "SELECT count(*) FROM t"))
	var ok string
	require.NoError(t, r.bare.QueryRow("PRAGMA integrity_check").Scan(&ok))
	require.Equal(t, "ok", ok)
	for _, query := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "pragma Journal_Mode = delete", "PRAGMA wal_autocheckpoint = 1"} {
		require.ErrorIs(t, p.Exec(t.Context(), query), errLog)
	}
}

func TestLagAndPause(t *testing.T) {
	f := openFleet(t, 2)
	ctx := t.Context()
	p, late, paused := f.Servers()[0], f.Servers()[1], f.Servers()[2]
	require.NoError(t, p.Exec(ctx, "CREATE TABLE t (id INTEGER PRIMARY KEY)"))
	caughtUp(t, f)
	const lag = 150 * time.Millisecond
	require.NoError(t, late.SetLag(ctx, lag))
	require.NoError(t, paused.Pause(ctx))
	for i := range 5 {
		wrote := time.Now()
		require.NoError(t, p.Exec(ctx, fmt.Sprintf("INSERT INTO t VALUES (%d)", i)))
		for number(t, late, "SELECT count(*) FROM t") <= i {
			require.Less(t, time.Since(wrote), 5*time.Second)
		}
		require.GreaterOrEqual(t, time.Since(wrote), lag)
	}
	require.Zero(t, number(t, paused, "SELECT count(*) FROM t"))
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, f.WaitCaughtUp(short), context.DeadlineExceeded)
	require.NoError(t, paused.Resume(ctx))
	require.NoError(t, late.SetLag(ctx, time.Hour))
	require.NoError(t, p.Exec(ctx, "INSERT INTO t VALUES (99)"))
	require.Equal(t, 5, number(t, late, "SELECT count(*) FROM t"))
	require.NoError(t, late.SetLag(ctx, 0), "a shorter lag counts for what is on its way")
	caughtUp(t, f)
	require.Empty(t, f.history.txs, "what everybody has is not kept")
}

func TestStopAndStart(t *testing.T) {
	f := openFleet(t, 1)
	ctx := t.Context()
	p, r := f.Servers()[0], f.Servers()[1]
	require.NoError(t, p.Exec(ctx, "CREATE TABLE t (id INTEGER PRIMARY KEY)"))
	caughtUp(t, f)
	_, before := r.state()
	tx, err := p.bare.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO t VALUES (1)")
	require.NoError(t, err)
	rows, err := r.bare.Query("SELECT value FROM json_each('[1,2,3]')")
	require.NoError(t, err)
	require.True(t, rows.Next())
	slow := make(chan error, 1)
	go func() {
		slow <- r.bare.QueryRow("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n").Scan(new(int))
	}()
	require.NoError(t, p.Stop(ctx))
	require.NoError(t, r.Stop(ctx))
	require.Error(t, tx.Commit())
	for rows.Next() {
	}
	require.ErrorIs(t, rows.Err(), errStopped)
	require.NoError(t, rows.Close())
	require.Error(t, <-slow, "who is waited for is ended")
	for _, s := range f.Servers() {
		require.ErrorContains(t, s.Exec(ctx, "SELECT 1"), "refused")
	}
	require.NoError(t, p.Start(ctx))
	require.NoError(t, p.Exec(ctx, "INSERT INTO t VALUES (2)"), "nobody holds a lock who is gone")
	require.NoError(t, r.Start(ctx))
	caughtUp(t, f)
	for _, s := range f.Servers() {
		require.Equal(t, 2, number(t, s, "SELECT coalesce(sum(id), -1) FROM t"), s.name+": what was not committed is gone")
	}
	_, after := r.state()
	require.NotEqual(t, before, after)
}

func TestPromote(t *testing.T) {
	f := openFleet(t, 3)
	ctx := t.Context()
	a, b, c, d := f.Servers()[0], f.Servers()[1], f.Servers()[2], f.Servers()[3]
	require.NoError(t, a.Exec(ctx, "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)", "INSERT INTO t VALUES (1, 'a')"))
	caughtUp(t, f)
	require.NoError(t, b.Pause(ctx))
	require.NoError(t, d.SetLag(ctx, time.Hour))
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (2, 'lost')"))
	for number(t, c, "SELECT count(*) FROM t") < 2 {
	}
	require.NoError(t, a.Stop(ctx))
	require.NoError(t, f.Promote(ctx, b))
	require.Equal(t, b, f.Primary())
	require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES (3, 'b')"))
	require.Equal(t, 4, number(t, b, "SELECT sum(id) FROM t"))
	require.NoError(t, d.SetLag(ctx, 0))
	caughtUp(t, f)
	require.Equal(t, 4, number(t, d, "SELECT sum(id) FROM t"), "it follows the new primary")
	require.Equal(t, 3, number(t, c, "SELECT sum(id) FROM t"), "it has what the new primary has not, and stands still")
	require.Error(t, f.Promote(ctx, c))
	require.NoError(t, a.Start(ctx))
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (10, 'nobody hears of it')"), "two primaries")
	require.Error(t, f.Restore(ctx, b))
	for _, s := range []*Server{a, c} {
		require.NoError(t, f.Restore(ctx, s))
	}
	require.Error(t, a.Exec(ctx, "INSERT INTO t VALUES (11, 'a replica')"))
	require.NoError(t, b.Exec(ctx, "INSERT INTO t VALUES (4, 'b')"))
	caughtUp(t, f)
	for _, s := range f.Servers() {
		require.Equal(t, 8, number(t, s, "SELECT sum(id) FROM t"), s.name)
	}
	require.NoError(t, f.Promote(ctx, a), "and back")
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (5, 'a')"))
	require.NoError(t, f.Restore(ctx, b))
	caughtUp(t, f)
	for _, s := range f.Servers() {
		require.Equal(t, 13, number(t, s, "SELECT sum(id) FROM t"), s.name)
	}
	require.NoError(t, c.SetLag(ctx, time.Hour))
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (6, 'a')"))
	require.NoError(t, f.Promote(ctx, c), "what was on its way is not lost")
	require.Equal(t, 19, number(t, c, "SELECT sum(id) FROM t"))
}

func TestDiverge(t *testing.T) {
	f := openFleet(t, 1)
	ctx := t.Context()
	a, b := f.Servers()[0], f.Servers()[1]
	require.NoError(t, a.Exec(ctx, "CREATE TABLE t (id INTEGER PRIMARY KEY)"))
	caughtUp(t, f)
	require.Error(t, f.Diverge(ctx, a, "INSERT INTO t VALUES (1)"))
	require.NoError(t, f.Diverge(ctx, b, "INSERT INTO t VALUES (7)"))
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (1)"))
	caughtUp(t, f)
	require.Equal(t, 7, number(t, b, "SELECT sum(id) FROM t"))
	require.Error(t, b.Exec(ctx, "INSERT INTO t VALUES (8)"), "it is still a replica")
	require.NoError(t, f.Restore(ctx, b))
	caughtUp(t, f)
	require.Equal(t, 1, number(t, b, "SELECT sum(id) FROM t"))
}

// TestReplicasAreReadOnly: by their sessions, whatever the statement.
func TestReplicasAreReadOnly(t *testing.T) {
	f := openFleet(t, 1)
	ctx := t.Context()
	a, b := f.Servers()[0], f.Servers()[1]
	require.NoError(t, a.Exec(ctx, "CREATE TABLE t (id INTEGER PRIMARY KEY)"))
	caughtUp(t, f)
	for _, query := range []string{"INSERT INTO t VALUES (1)", "CREATE TABLE u (a)", "DROP TABLE t", "PRAGMA user_version = 3", "WITH x AS (SELECT 1) DELETE FROM t"} {
		require.Error(t, b.Exec(ctx, query), query)
	}
	_, err := b.bare.BeginTx(ctx, nil)
	require.Error(t, err)
	tx, err := b.bare.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (1)"))
	caughtUp(t, f)
	var n int
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM t").Scan(&n))
	caughtUp(t, f)
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (2)"))
	caughtUp(t, f)
	again := 0
	require.NoError(t, tx.QueryRow("SELECT count(*) FROM t").Scan(&again))
	require.Equal(t, n, again, "a transaction sees one state")
	require.NoError(t, tx.Rollback())
}

// TestGateIsGivenBack: whoever gives up, in whatever way, keeps nobody from writing.
func TestGateIsGivenBack(t *testing.T) {
	f := openFleet(t, 0)
	ctx := t.Context()
	a := f.Primary()
	require.NoError(t, a.Exec(ctx, "CREATE TABLE t (id INTEGER PRIMARY KEY)"))
	conn, err := a.bare.Conn(ctx)
	require.NoError(t, err)
	for _, statement := range []string{"BEGIN", "INSERT INTO t VALUES (1)"} {
		_, err = conn.ExecContext(ctx, statement)
		require.NoError(t, err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = a.bare.ExecContext(short, "INSERT INTO t VALUES (2)")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, conn.Close(), "a transaction that is left open is rolled back")
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (3)"))
	require.Error(t, a.Exec(ctx, "INSERT INTO t VALUES (3)"))
	rows, err := a.bare.Query("INSERT INTO t VALUES (4), (5) RETURNING id")
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.NoError(t, rows.Close())
	tx, err := a.bare.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	conn, err = a.bare.Conn(ctx)
	require.NoError(t, err)
	for _, statement := range []string{"BEGIN", "INSERT INTO t VALUES (6)", "COMMIT", "SAVEPOINT s", "INSERT INTO t VALUES (7)", "ROLLBACK"} {
		_, err = conn.ExecContext(ctx, statement)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	require.NoError(t, a.Exec(ctx, "INSERT INTO t VALUES (8)"))
	require.Equal(t, 26, number(t, a, "SELECT sum(id) FROM t"))
}
