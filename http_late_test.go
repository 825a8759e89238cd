package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// lateShop is a service whose writes somebody else can hold up: by a row with the same key that is not committed.
type lateShop struct {
	c     *engineCluster
	codec *readroute.Codec
	db    *readroute.DB
	table string
	late  atomic.Int32
}

func openLateShop(t *testing.T, c *engineCluster) *lateShop {
	t.Helper()
	s := &lateShop{c: c, table: c.table(t, "id int PRIMARY KEY")}
	var err error
	s.codec, err = readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{testKey("k1")}, OnLateWrite: func(context.Context) { s.late.Add(1) }})
	require.NoError(t, err)
	config := c.config()
	quick(&config)
	config.CaptureTimeout = 10 * time.Second
	s.db = open(t, config)
	return s
}

func (s *lateShop) insert(ctx context.Context, id int) error {
	_, err := s.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", s.table, id))
	return err
}

// lock keeps everybody from inserting id until it is let go.
func (s *lateShop) lock(t *testing.T, id int) (free func()) {
	t.Helper()
	ctx := testContext(t)
	tx, err := s.c.bare(t, 0).BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", s.table, id))
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback()) }
}

// waiting reports that a statement waits for a lock on the server.
func (s *lateShop) waiting(t *testing.T, bare *sql.DB) bool {
	t.Helper()
	var n int
	var err error
	if s.c.driver == "pgx" {
		err = bare.QueryRowContext(testContext(t), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&n)
	} else {
		err = bare.QueryRowContext(testContext(t), "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(new(string), &n)
	}
	require.NoError(t, err)
	return n > 0
}

// sees reports whether whoever has got an answer sees a row that the primary has.
func (s *lateShop) sees(t *testing.T, answer *http.Response, id int) bool {
	t.Helper()
	ctx := s.codec.Extract(testContext(t), answer.Header)
	return rowsOf(t, ctx, s.db, s.table, id) == 1
}

// TestMiddlewareWriteUnderWay: a write that has not returned when the answer goes out is in the token all the same, as "the primary for
// a while", whether it goes on or its context ends with the handler's time: it may be committed after that.
func TestMiddlewareWriteUnderWay(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		for name, detached := range map[string]bool{"it goes on": true, "it is cancelled": false} {
			t.Run(name, func(t *testing.T) {
				s := openLateShop(t, c)
				bare := c.bare(t, 0)
				c.pause(t, 1)
				c.pause(t, 2)
				free := s.lock(t, 1)
				var wg sync.WaitGroup
				answer := serveOnce(t, s.codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, cancel := context.WithCancel(r.Context())
					if detached {
						ctx = context.WithoutCancel(ctx)
					}
					wg.Go(func() { _ = s.insert(ctx, 1) })
					eventually(t, "the write waits", func() bool { return s.waiting(t, bare) })
					w.WriteHeader(http.StatusServiceUnavailable)
					cancel()
				})))
				require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
				require.Len(t, answer.Cookies(), 1)
				free()
				wg.Wait()
				if !detached { // somebody else's stands in for it, had the server not heard of the cancel in time
					_, _ = bare.ExecContext(testContext(t), "INSERT INTO "+s.table+" VALUES (1)")
				}
				require.True(t, s.sees(t, answer, 1))
				eventually(t, "the replicas stand still", func() bool { return rowsOf(t, sessionContext(t), s.db, s.table, 1) == 0 })
				eventually(t, "the hook is called", func() bool { return s.late.Load() == 1 })
			})
		}
	})
}

// TestMiddlewareOutOfTime: http.TimeoutHandler answers for a handler whose write waits for a lock.
func TestMiddlewareOutOfTime(t *testing.T) {
	c := sharedEngine(t)
	s := openLateShop(t, c)
	free := s.lock(t, 1)
	var wg sync.WaitGroup
	wg.Add(1)
	answer := serveOnce(t, s.codec.Middleware(http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer wg.Done()
		_ = s.insert(r.Context(), 1)
	}), time.Second, "late")))
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Len(t, answer.Cookies(), 1)
	free()
	wg.Wait()
}

// TestMiddlewareCommitUnderWay: what an open transaction has written is told of once its commit has been sent, and not before: a handler
// that answers with an error, and rolls back then, has written nothing.
func TestMiddlewareCommitUnderWay(t *testing.T) {
	codec := codecWith(t, "k1")
	c := sharedCluster(t)
	proxy, err := dbtest.NewProxy(c.Primary().Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	s := openShop(t, c, codec, false, func(config *readroute.Config) {
		config.Primary.Connector = readroute.Postgres(c.Primary().DSNVia(proxy))
		config.ProbeTimeout = 10 * time.Second
	})
	for _, commits := range []bool{true, false} {
		sent := make(chan struct{})
		var wg sync.WaitGroup
		answer := serveOnce(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tx, err := s.db.BeginTx(context.WithoutCancel(r.Context()), nil)
			if err == nil {
				_, err = tx.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES (1)")
			}
			if err != nil {
				t.Error(err)
				return
			}
			if commits {
				proxy.Stall(true)
				wg.Go(func() {
					close(sent)
					if err := tx.Commit(); err != nil {
						t.Error(err)
					}
				})
				<-sent
				eventually(t, "the answer has a token", func() bool { return codec.Reply(r.Context(), http.Header{}) })
			}
			w.WriteHeader(http.StatusConflict)
			if !commits {
				_ = tx.Rollback()
			}
		})))
		proxy.Stall(false)
		wg.Wait()
		require.Len(t, answer.Cookies(), map[bool]int{true: 1, false: 0}[commits])
		if commits {
			ctx := codec.Extract(testContext(t), answer.Header)
			s.seen.take()
			require.Equal(t, 1, countIn(t, ctx, s.db, s.table))
			require.Equal(t, readroute.ReasonSticky, s.seen.one(t).Reason)
		}
	}
}

// TestMiddlewareWriteAfterTheHandler: OnLateWrite hears, once, of what a goroutine writes that outlives the handler.
func TestMiddlewareWriteAfterTheHandler(t *testing.T) {
	s := openLateShop(t, sharedEngine(t))
	var ctx context.Context
	answer := serveOnce(t, s.codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx = context.WithoutCancel(r.Context())
	})))
	require.Empty(t, answer.Cookies())
	require.Zero(t, rowsOf(t, ctx, s.db, s.table, 1))
	require.Error(t, s.insert(ctx, 1<<40), "out of range")
	require.Zero(t, s.late.Load())
	require.NoError(t, s.insert(ctx, 1))
	require.EqualValues(t, 1, s.late.Load())
	require.NoError(t, s.insert(ctx, 2))
	require.EqualValues(t, 1, s.late.Load())
}

// TestMiddlewareOnEachEngine: the position of a write, in a cookie, keeps the next request from the replicas until they have it.
func TestMiddlewareOnEachEngine(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		s := openLateShop(t, c)
		codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{testKey("k1")}, CaptureTimeout: 10 * time.Second})
		require.NoError(t, err)
		var role atomic.Value
		h := codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if err := s.insert(r.Context(), 1); err != nil {
					t.Error(err)
				}
				return
			}
			d, err := s.db.Explain(r.Context(), "SELECT count(*) FROM "+s.table)
			role.Store(d.Role)
			fmt.Fprint(w, rowsOf(t, r.Context(), s.db, s.table, 1), err)
		}))
		resume := []func(){c.pause(t, 1), c.pause(t, 2)}
		saved := httptest.NewRecorder()
		h.ServeHTTP(saved, httptest.NewRequestWithContext(testContext(t), http.MethodPost, "/", nil))
		require.Len(t, saved.Result().Cookies(), 1)
		show := func(cookies ...*http.Cookie) string {
			r := httptest.NewRequestWithContext(testContext(t), http.MethodGet, "/", nil)
			for _, cookie := range cookies {
				r.AddCookie(cookie)
			}
			shown := httptest.NewRecorder()
			h.ServeHTTP(shown, r)
			require.Empty(t, shown.Result().Cookies())
			return shown.Body.String()
		}
		require.Equal(t, "0 <nil>", show(), "the replicas stand still")
		require.Equal(t, "1 <nil>", show(saved.Result().Cookies()...))
		for _, f := range resume {
			f()
		}
		eventually(t, "a replica serves the client", func() bool {
			require.Equal(t, "1 <nil>", show(saved.Result().Cookies()...))
			return role.Load() == readroute.RoleReplica
		})
	})
}
