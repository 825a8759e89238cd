package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

const testTimeout = 60 * time.Second

// world is a cluster with a replica, and a queue on it that workers work.
type world struct {
	cluster *dbtest.PostgresCluster
	shop    *receipts
	db      *readroute.DB
	sent    chan string // what the worker has read of each order: its item, or an error
	roles   chan readroute.Role
}

// newWorld starts a world whose worker runs before each receipt what the test says.
func newWorld(t *testing.T, before func(ctx context.Context, w *world, id int64) error) *world {
	t.Helper()
	ctx := testContext(t)
	w := &world{
		cluster: dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1}),
		sent:    make(chan string, 10_000), roles: make(chan readroute.Role, 10_000),
	}
	db, err := readroute.Open(readroute.Config{
		Primary:        readroute.Node{Name: "a", Connector: readroute.Postgres(w.cluster.Primary().DSN())},
		Replicas:       []readroute.Node{{Name: "b", Connector: readroute.Postgres(w.cluster.Standby(0).DSN())}},
		CaptureTimeout: 10 * time.Second,
		MaxLag:         time.Hour,
		Hooks: readroute.Hooks{Decision: func(_ context.Context, d readroute.Decision) {
			if d.Class == readroute.ClassRead {
				w.roles <- d.Role
			}
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	w.db = db
	require.NoError(t, db.WaitReady(ctx))
	require.NoError(t, prepare(ctx, db))
	require.NoError(t, w.cluster.WaitCaughtUp(ctx))
	worker := &receiptWorker{db: db, send: func(ctx context.Context, db *readroute.DB, id int64) error {
		if before != nil {
			if err := before(ctx, w, id); err != nil {
				return err
			}
		}
		read, err := item(ctx, db, id)
		if err != nil {
			read = err.Error()
		}
		w.sent <- read
		return nil
	}}
	queue, err := newQueue(db, worker, func(c *river.Config) {
		c.FetchPollInterval, c.FetchCooldown = 10*time.Millisecond, time.Millisecond
		c.RetryPolicy = atOnce{}
	})
	require.NoError(t, err)
	w.shop = &receipts{db: db, queue: queue}
	return w
}

// atOnce tries again at once.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func (w *world) start(t *testing.T) {
	t.Helper()
	require.NoError(t, w.shop.queue.Start(context.Background()))
	t.Cleanup(func() { require.NoError(t, w.shop.queue.StopAndCancel(testContext(t))) })
}

// take returns what the worker has read of the next n orders.
func (w *world) take(t *testing.T, n int) []string {
	t.Helper()
	var list []string
	for range n {
		select {
		case read := <-w.sent:
			list = append(list, read)
		case <-time.After(testTimeout):
			require.Fail(t, "the worker does not come to an end", "%d of %d jobs", len(list), n)
		}
	}
	return list
}

// order places an order and returns its id.
func (w *world) order(t *testing.T, ctx context.Context) (id int64) {
	t.Helper()
	require.NoError(t, w.db.QueryRowContext(ctx, "INSERT INTO orders (item) VALUES ('tea') RETURNING id").Scan(&id))
	return id
}

func (w *world) rename(t *testing.T, ctx context.Context, id int64, item string) {
	t.Helper()
	_, err := w.db.ExecContext(ctx, "UPDATE orders SET item = $2 WHERE id = $1", id, item)
	require.NoError(t, err)
}

// TestJobsSeeTheirOrders: on a replica that stands still, and on one that is late, no job misses the row that it is about,
// whichever way it came into the queue. Without a token and a fence nearly all do.
func TestJobsSeeTheirOrders(t *testing.T) {
	w := newWorld(t, nil)
	w.start(t)
	replica := w.cluster.Standby(0)
	place := func(t *testing.T, n int) {
		t.Helper()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range n / 4 {
					if err := w.shop.place(testContext(t), i%2 == 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for _, read := range w.take(t, n) {
			require.Equal(t, "tea", read)
		}
	}
	t.Run("standing still", func(t *testing.T) {
		require.NoError(t, replica.PauseReplay(testContext(t)))
		place(t, 40)
		id := w.order(t, readroute.WithSession(testContext(t)))
		_, err := item(readroute.WithSession(testContext(t)), w.db, id)
		require.ErrorIs(t, err, sql.ErrNoRows, "the replica stands still, or this test proves nothing")
		require.NoError(t, replica.ResumeReplay(testContext(t)))
		for len(w.roles) > 0 {
			<-w.roles
		}
	})
	t.Run("late", func(t *testing.T) {
		require.NoError(t, w.cluster.WaitCaughtUp(testContext(t)))
		require.NoError(t, replica.SetApplyDelay(testContext(t), 30*time.Millisecond))
		// Having stood still, the replica is given up on for a while; then it is waited for.
		off, all := 0, 0
		for began := time.Now(); off < 20; {
			require.Less(t, time.Since(began), testTimeout, "jobs read on the replica when it has come so far: %d of %d", off, all)
			place(t, 40)
			for all += 40; len(w.roles) > 0; {
				if <-w.roles == readroute.RoleReplica {
					off++
				}
			}
		}
		t.Logf("%d of %d reads off the primary", off, all)
	})
}

// token returns the payload's token of the only job.
func (w *world) token(t *testing.T) readroute.Token {
	t.Helper()
	var text []byte
	require.NoError(t, w.db.PrimaryDB().QueryRowContext(testContext(t), "SELECT args FROM river_job").Scan(&text))
	var args ReceiptArgs
	require.NoError(t, json.Unmarshal(text, &args))
	return args.Token
}

// TestJobsDeduplicated: one job stands for two writes, in whichever order their tokens come; it sees both.
func TestJobsDeduplicated(t *testing.T) {
	for _, smallerFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("the smaller first ", smallerFirst), func(t *testing.T) {
			w := newWorld(t, nil)
			require.NoError(t, w.cluster.Standby(0).PauseReplay(testContext(t)))
			small := readroute.WithSession(testContext(t))
			id := w.order(t, small)
			token, err := readroute.SessionFrom(small).Token(small)
			require.NoError(t, err)
			small = readroute.ContextWithSession(small, readroute.NewSession(token))
			large := readroute.WithSession(testContext(t))
			w.rename(t, large, id, "coffee")
			sessions := []context.Context{small, large}
			if !smallerFirst {
				slices.Reverse(sessions)
			}
			for _, ctx := range sessions {
				require.NoError(t, w.shop.after(ctx, id))
			}
			want, err := readroute.SessionFrom(large).Token(large)
			require.NoError(t, err)
			require.Equal(t, want.Merge(token).String(), w.token(t).String())
			w.start(t)
			require.Equal(t, []string{"coffee"}, w.take(t, 1))
		})
	}
	t.Run("who fences sees all", func(t *testing.T) {
		w := newWorld(t, nil)
		require.NoError(t, w.cluster.Standby(0).PauseReplay(testContext(t)))
		ctx := readroute.WithSession(testContext(t))
		id := w.order(t, ctx)
		require.NoError(t, w.shop.after(ctx, id))
		tx, err := w.db.BeginTx(testContext(t), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(testContext(t), "UPDATE orders SET item = 'coffee'")
		require.NoError(t, err)
		require.NoError(t, w.shop.within(testContext(t), tx, id))
		require.NoError(t, tx.Commit())
		require.True(t, w.token(t).IsZero())
		w.start(t)
		require.Equal(t, []string{"coffee"}, w.take(t, 1))
	})
}

// TestJobsAskedForAgainWhileTheyRun: what was written after the worker has read is read as well, by the same job or by
// another one.
func TestJobsAskedForAgainWhileTheyRun(t *testing.T) {
	var once sync.Once
	w := newWorld(t, func(_ context.Context, w *world, id int64) error {
		var err error
		once.Do(func() {
			session := readroute.WithSession(testContext(t))
			_, err = w.db.ExecContext(session, "UPDATE orders SET item = 'coffee' WHERE id = $1", id)
			err = errors.Join(err, w.shop.after(session, id))
		})
		return err
	})
	require.NoError(t, w.cluster.Standby(0).PauseReplay(testContext(t)))
	ctx := readroute.WithSession(testContext(t))
	id := w.order(t, ctx)
	require.NoError(t, w.shop.after(ctx, id))
	w.start(t)
	read := w.take(t, 2)
	require.Equal(t, "coffee", read[1])

	w.rename(t, ctx, id, "milk") // the job is completed, or about to be
	require.NoError(t, w.shop.after(ctx, id))
	for read := w.take(t, 1); read[0] != "milk"; read = w.take(t, 1) {
		require.Equal(t, "coffee", read[0])
	}
}

// TestJobsTriedAgain: the second attempt sees what the first one has written before it failed.
func TestJobsTriedAgain(t *testing.T) {
	attempts := 0
	w := newWorld(t, func(ctx context.Context, w *world, id int64) error {
		if attempts++; attempts == 1 {
			_, err := w.db.ExecContext(ctx, "UPDATE orders SET item = 'coffee' WHERE id = $1", id)
			return errors.Join(err, errors.New("the mail server is down"))
		}
		return nil
	})
	ctx := readroute.WithSession(testContext(t))
	id := w.order(t, ctx)
	require.NoError(t, w.shop.after(ctx, id))
	require.NoError(t, w.cluster.WaitCaughtUp(testContext(t))) // the replica has what the token asks for, and no more
	require.NoError(t, w.cluster.Standby(0).PauseReplay(testContext(t)))
	before := w.token(t)
	w.start(t)
	require.Equal(t, []string{"coffee"}, w.take(t, 1))
	require.Equal(t, before.String(), w.token(t).String(), "the queue keeps the token")
}

func TestProgram(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	require.NoError(t, cluster.Standby(0).SetApplyDelay(testContext(t), 20*time.Millisecond))
	var out strings.Builder
	require.NoError(t, run(testContext(t), &out, cluster.Primary().DSN(), cluster.Standby(0).DSN()))
	require.Contains(t, out.String(), "200 jobs")
	require.Contains(t, out.String(), "; 0 missed")
}
