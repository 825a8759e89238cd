package vconn_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

var shared struct {
	once    sync.Once
	cluster *dbtest.PostgresCluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedCluster is a primary with one standby, for tests that leave them as they have found them.
func sharedCluster(t testing.TB) *dbtest.PostgresCluster {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = dbtest.StartPostgres(context.Background(), dbtest.PostgresOptions{Standbys: 1})
	})
	require.NoError(t, shared.err)
	return shared.cluster
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func sessionContext(t testing.TB) context.Context {
	t.Helper()
	return readroute.WithSession(testContext(t))
}

// configFor is a config over all nodes of c.
func configFor(c *dbtest.PostgresCluster) readroute.Config {
	config := readroute.Config{}
	for i, n := range c.Nodes() {
		node := readroute.Node{Name: n.Name(), Connector: readroute.Postgres(n.DSN())}
		if i == 0 {
			config.Primary = node
		} else {
			config.Replicas = append(config.Replicas, node)
		}
	}
	return config
}

// pool is a routed pool with what its hooks have heard.
type pool struct {
	*readroute.DB
	c         *dbtest.PostgresCluster
	decisions chan readroute.Decision
	events    chan readroute.Event
}

// open opens a routed pool that is ready, and closes it with the test.
func open(t testing.TB, c *dbtest.PostgresCluster, config readroute.Config) *pool {
	t.Helper()
	p := &pool{c: c, decisions: make(chan readroute.Decision, 10_000), events: make(chan readroute.Event, 10_000)}
	config.Hooks = readroute.Hooks{
		Decision: func(_ context.Context, d readroute.Decision) { p.decisions <- d },
		Event:    func(e readroute.Event) { p.events <- e },
	}
	var err error
	p.DB, err = readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.WaitReady(testContext(t)))
	return p
}

// last returns the newest decision.
func (p *pool) last(t testing.TB) readroute.Decision {
	t.Helper()
	var d readroute.Decision
	n := 0
	for {
		select {
		case d = <-p.decisions:
			n++
		default:
			require.Positive(t, n)
			return d
		}
	}
}

// lastEvent returns the newest event.
func (p *pool) lastEvent(t testing.TB) readroute.Event {
	t.Helper()
	var e readroute.Event
	for {
		select {
		case e = <-p.events:
		default:
			require.NotZero(t, e)
			return e
		}
	}
}

var tables atomic.Int64

// newTable makes an empty table of its own for a test and returns its name.
func newTable(t testing.TB, c *dbtest.PostgresCluster, columns string) string {
	t.Helper()
	name := fmt.Sprintf("v%d", tables.Add(1))
	require.NoError(t, c.Primary().Exec(testContext(t), fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	return name
}

// pauseReplay lets the standby come to where the primary is and stops it there, until the end of the test.
func pauseReplay(t testing.TB, c *dbtest.PostgresCluster) {
	t.Helper()
	ctx := testContext(t)
	require.NoError(t, c.Primary().Exec(ctx, "SELECT pg_switch_wal()"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.NoError(t, c.Standby(0).PauseReplay(ctx))
	t.Cleanup(func() { require.NoError(t, c.Standby(0).ResumeReplay(context.Background())) })
}

// count reads how many rows table has.
func count(t testing.TB, ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, table string) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// resolve waits until the session's position is known.
func resolve(t testing.TB, ctx context.Context) {
	t.Helper()
	_, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
}
