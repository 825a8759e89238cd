package vconn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestSoak writes and reads in every way at once while server sessions are ended and contexts end at any moment: every
// session reads what it has written, nothing is run twice, and nothing is left of it.
func TestSoak(t *testing.T) {
	const workers = 12
	c := sharedCluster(t)
	table := newTable(t, c, "id int PRIMARY KEY, n int, runs int")
	for i := range workers {
		require.NoError(t, c.Primary().Exec(testContext(t), fmt.Sprintf("INSERT INTO %s VALUES (%d, 0, 0)", table, i)))
	}
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	before := runtime.NumGoroutine()
	config := configFor(c)
	config.Primary.MaxOpenConns, config.Replicas[0].MaxOpenConns = 6, 6
	config.FallbackLimit = 2
	db := open(t, c, config)
	stop := make(chan struct{})
	go db.drain(stop)
	ctx, cancel := context.WithTimeout(testContext(t), 4*time.Second)
	defer cancel()
	insert := "UPDATE " + table + " SET n = $2, runs = runs + 1 WHERE id = $1 AND n < $2"
	stmt, err := db.PrepareContext(ctx, insert)
	require.NoError(t, err)
	query, err := db.PrepareContext(ctx, "SELECT n, runs FROM "+table+" WHERE id = $1")
	require.NoError(t, err)

	var wg sync.WaitGroup
	var done, unclear, reads atomic.Int64
	for id := range workers {
		wg.Go(func() {
			w := worker{pool: db, table: table, id: id, insert: insert, stmt: stmt, query: query, ctx: readroute.WithSession(ctx)}
			for ctx.Err() == nil {
				acked, err := w.write()
				if err != nil {
					unclear.Add(1)
				} else {
					done.Add(1)
				}
				n, runs, err := w.read()
				if err != nil {
					continue
				}
				reads.Add(1)
				if n < acked {
					t.Errorf("worker %d read %d after it had written %d", id, n, acked)
					return
				}
				if runs > w.tried {
					t.Errorf("worker %d: %d runs of %d statements", id, runs, w.tried)
					return
				}
			}
		})
	}
	wg.Go(func() { // servers end sessions
		for ctx.Err() == nil {
			for _, n := range c.Nodes() {
				_, _ = n.QueryValue(ctx, "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"+
					" WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1) s")
			}
		}
	})
	wg.Go(func() { // statements come and go
		for ctx.Err() == nil {
			s, err := db.PrepareContext(ctx, fmt.Sprintf("SELECT %d", rand.IntN(5)))
			if err != nil {
				continue
			}
			var inner sync.WaitGroup
			for range 3 {
				inner.Go(func() { _ = s.QueryRowContext(readroute.WithSession(ctx)).Scan(new(int)) })
			}
			_ = s.Close()
			inner.Wait()
		}
	})
	wg.Wait()
	t.Log(done.Load(), "written", unclear.Load(), "failed or unclear", reads.Load(), "read")
	require.NoError(t, stmt.Close())
	require.NoError(t, query.Close())
	require.Eventually(t, func() bool { // database/sql rolls back, and opens connections, on goroutines of its own
		stats := db.RouteStats().Nodes
		for i, n := range db.Nodes() {
			if n.InFlight != 0 || stats[i].Reader.InUse != 0 || stats[i].Writer.InUse != 0 {
				return false
			}
		}
		return db.Stats().InUse == 0
	}, 20*time.Second, time.Millisecond, "%+v %+v", db.Nodes(), db.RouteStats())
	require.NoError(t, db.Close())
	close(stop)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 20*time.Second, 10*time.Millisecond,
		"pgx lets a cancel request go on for a while")
}

// drain forgets what the hooks hear.
func (p *pool) drain(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-p.decisions:
		case <-p.events:
		}
	}
}

// worker writes ever higher numbers to a row of its own, in a session of its own.
type worker struct {
	*pool
	table, insert string
	id            int
	stmt, query   *sql.Stmt
	ctx           context.Context
	tried         int
	acked         int
}

// write writes the next number in one of many ways, and returns the highest that is acknowledged.
func (w *worker) write() (int, error) {
	w.tried++
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	if rand.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	err := w.writeOne(ctx)
	if err == nil {
		w.acked = w.tried
	}
	return w.acked, err
}

var errUndone = errors.New("rolled back")

func (w *worker) writeOne(ctx context.Context) error {
	args := []any{w.id, w.tried}
	switch rand.IntN(7) {
	case 0:
		_, err := w.ExecContext(ctx, w.insert, args...)
		return err
	case 1:
		_, err := w.stmt.ExecContext(ctx, args...)
		return err
	case 2:
		return w.QueryRowContext(ctx, w.insert+" RETURNING n", args...).Scan(new(int))
	case 3:
		tx, err := w.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err = tx.StmtContext(ctx, w.stmt).ExecContext(ctx, args...); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	case 4:
		conn, err := w.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, text := range []string{"BEGIN", fmt.Sprintf("UPDATE %s SET n = %d, runs = runs + 1 WHERE id = %d AND n < %[2]d", w.table, w.tried, w.id), "COMMIT"} {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		return nil
	case 5:
		_, err := w.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET n = %d, runs = runs + 1 WHERE id = %d AND n < %[2]d", w.table, w.tried, w.id))
		return err
	}
	tx, err := w.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, w.insert, args...)
	return errors.Join(err, tx.Rollback(), errUndone)
}

func (w *worker) read() (n, runs int, err error) {
	if rand.IntN(2) == 0 {
		err = w.query.QueryRowContext(w.ctx, w.id).Scan(&n, &runs)
		return n, runs, err
	}
	err = w.QueryRowContext(w.ctx, "SELECT n, runs FROM "+w.table+" WHERE id = $1", w.id).Scan(&n, &runs)
	return n, runs, err
}
