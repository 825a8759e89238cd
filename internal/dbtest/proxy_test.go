package dbtest_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// echo starts a server that answers every read with its name and what it has read.
func echo(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				buf := make([]byte, 1024)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					if _, err := conn.Write([]byte(name + ":" + string(buf[:n]))); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func newProxy(t *testing.T, target string) *dbtest.Proxy {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	p, err := dbtest.NewProxy(target)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
		require.Zero(t, p.Live())
		eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines }, "the proxy leaves no goroutine")
	})
	return p
}

func dial(t *testing.T, p *dbtest.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ask(conn net.Conn, text string, wait time.Duration) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", err
	}
	buf := make([]byte, 1024)
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

func requireAnswer(t *testing.T, conn net.Conn, text, want string) {
	t.Helper()
	got, err := ask(conn, text, 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestProxyForwardsAndCuts(t *testing.T) {
	p := newProxy(t, echo(t, "x"))
	one, two := dial(t, p), dial(t, p)
	requireAnswer(t, one, "hello", "x:hello")
	requireAnswer(t, two, "there", "x:there")
	require.Equal(t, 2, p.Live())
	require.Equal(t, 2, p.Accepted())
	p.Cut()
	for _, conn := range []net.Conn{one, two} {
		_, err := ask(conn, "still?", 5*time.Second)
		require.Error(t, err)
		require.False(t, isTimeout(err))
	}
	eventually(t, func() bool { return p.Live() == 0 }, "cut connections are gone")
	requireAnswer(t, dial(t, p), "again", "x:again")
}

func TestProxyRefuses(t *testing.T) {
	p := newProxy(t, echo(t, "x"))
	before := dial(t, p)
	requireAnswer(t, before, "a", "x:a")
	require.NoError(t, p.Refuse(true))
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	requireAnswer(t, before, "b", "x:b")
	addr := p.Addr()
	require.NoError(t, p.Refuse(false))
	require.NoError(t, p.Refuse(false))
	require.Equal(t, addr, p.Addr())
	requireAnswer(t, dial(t, p), "c", "x:c")
}

func TestProxyDelays(t *testing.T) {
	p := newProxy(t, echo(t, "x"))
	conn := dial(t, p)
	requireAnswer(t, conn, "warm", "x:warm")
	p.SetDelay(50 * time.Millisecond)
	began := time.Now()
	requireAnswer(t, conn, "slow", "x:slow")
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond, "both directions")

	// A delay does not throttle: many messages on the way take the time of one.
	began = time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1024)
		for seen := 0; seen < 20; {
			n, err := conn.Read(buf)
			if err != nil {
				t.Error(err)
				return
			}
			seen += strings.Count(string(buf[:n]), "m")
		}
	})
	for range 20 {
		_, err := conn.Write([]byte("m"))
		require.NoError(t, err)
	}
	wg.Wait()
	require.Less(t, time.Since(began), time.Second)

	p.SetDelay(0)
	requireAnswer(t, dial(t, p), "fast", "x:fast")
	p.SetDelay(time.Hour)
	_, err := ask(dial(t, p), "never", 20*time.Millisecond)
	require.True(t, isTimeout(err), err)
}

func TestProxyStalls(t *testing.T) {
	p := newProxy(t, echo(t, "x"))
	before := dial(t, p)
	requireAnswer(t, before, "a", "x:a")
	p.Stall(true)
	p.Stall(true)
	_, err := ask(before, "b", 20*time.Millisecond)
	require.True(t, isTimeout(err), err)
	during := dial(t, p)
	_, err = ask(during, "c", 20*time.Millisecond)
	require.True(t, isTimeout(err), err)

	p.Stall(false)
	p.Stall(false)
	for conn, want := range map[net.Conn]string{before: "x:b", during: "x:c"} {
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		buf := make([]byte, 10)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		require.Equal(t, want, string(buf[:n]))
	}

	// The end of a connection is held back, too. A stalled proxy can be cut and closed.
	p.Stall(true)
	late := dial(t, p)
	eventually(t, func() bool { return p.Live() == 3 }, "the proxy has accepted")
	require.NoError(t, before.Close())
	require.Never(t, func() bool { return p.Live() < 3 }, 50*time.Millisecond, 5*time.Millisecond)
	p.Cut()
	_, err = ask(late, "d", 5*time.Second)
	require.Error(t, err)
	require.False(t, isTimeout(err))
}

func TestProxyTargets(t *testing.T) {
	x, y := echo(t, "x"), echo(t, "y")
	p := newProxy(t, x)
	old := dial(t, p)
	requireAnswer(t, old, "1", "x:1")
	p.SetTarget(y)
	requireAnswer(t, old, "2", "x:2")
	requireAnswer(t, dial(t, p), "3", "y:3")

	p.SetTarget(x, y)
	p.SetTarget()
	var got []string
	for range 4 {
		answer, err := ask(dial(t, p), "n", 5*time.Second)
		require.NoError(t, err)
		got = append(got, answer)
	}
	require.Equal(t, []string{"x:n", "y:n", "x:n", "y:n"}, got)

	// A target that is not there ends the client's connection.
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone.Close()
	p.SetTarget(gone.Addr().String())
	_, err = ask(dial(t, p), "n", 5*time.Second)
	require.Error(t, err)
	require.False(t, isTimeout(err))
}

// What a client has sent reaches the server although the client has hung up, or has been cut off, in the meantime:
// that is how a commit comes after its own cancellation.
func TestProxyDeliversAfterHangUp(t *testing.T) {
	c := sharedCluster(t)
	ctx, n := t.Context(), c.Primary()
	createTable(t, c, "late")
	p := newProxy(t, n.Addr())
	conn := connect(t, n.DSNVia(p))
	_, err := conn.Exec(ctx, "BEGIN; INSERT INTO late VALUES (1)")
	require.NoError(t, err)
	p.Stall(true)
	_, err = conn.Exec(within(t, 50*time.Millisecond), "COMMIT")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, conn.IsClosed())
	require.Equal(t, "0", query(t, n, "SELECT count(*) FROM late"))
	p.Stall(false)
	eventually(t, func() bool { return query(t, n, "SELECT count(*) FROM late") == "1" }, "the commit arrives")
}

func TestProxyLosesACommit(t *testing.T) {
	c := sharedCluster(t)
	ctx, n := t.Context(), c.Primary()
	createTable(t, c, "lost")
	p := newProxy(t, n.Addr())
	for _, test := range []struct {
		verdict dbtest.Verdict
		rows    string
	}{{dbtest.CutBefore, "0"}, {dbtest.CutAfter, "1"}} {
		p.OnClientData(dbtest.Once("Commit", test.verdict))
		conn, err := pgx.Connect(ctx, n.DSNVia(p, dbtest.SuperUser))
		require.NoError(t, err)
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "INSERT INTO lost VALUES (1)")
		require.NoError(t, err)
		require.Error(t, tx.Commit(ctx))
		require.True(t, conn.IsClosed())
		eventually(t, func() bool {
			return query(t, n, "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE '%commit%' AND pid <> pg_backend_pid()") == "0"
		}, "the session has ended")
		require.Equal(t, test.rows, query(t, n, "SELECT count(*) FROM lost"))

		// Once is once.
		conn, err = pgx.Connect(ctx, n.DSNVia(p))
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "COMMIT")
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
	}
}

// Data of any size and shape arrives as it was sent, also by many connections at a time.
func TestProxyKeepsTheStream(t *testing.T) {
	c := sharedCluster(t)
	p := newProxy(t, c.Primary().Addr())
	p.OnClientData(func([]byte) dbtest.Verdict { return dbtest.Forward })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			conn, err := pgx.Connect(t.Context(), c.Primary().DSNVia(p))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.Background())
			want := strings.Repeat("0123456789", 200_000)
			var got string
			if err := conn.QueryRow(t.Context(), "SELECT $1::text", want).Scan(&got); err != nil || got != want {
				t.Errorf("%d bytes came back of %d: %v", len(got), len(want), err)
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool { return p.Live() == 0 }, "closed connections are gone")
	require.Equal(t, 8, p.Accepted())
}
