package readroute_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/router"
)

// queries counts the simple queries that go out on connections: the probes and captures of whatever uses it.
type queries struct {
	n atomic.Int64
}

type countedConn struct {
	net.Conn
	to *queries
}

// Write counts one for every message that is a simple query: pgx sends each with a call of its own.
func (c countedConn) Write(b []byte) (int, error) {
	if len(b) > 0 && b[0] == 'Q' {
		c.to.n.Add(1)
	}
	return c.Conn.Write(b)
}

// watch makes a node's name and dialer of a server, whose simple queries are counted.
func (q *queries) watch(t testing.TB, n *dbtest.PostgresNode) monitor.Node {
	t.Helper()
	config, err := pgx.ParseConfig(n.WatchDSN())
	require.NoError(t, err)
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return countedConn{conn, q}, nil
	}
	return monitor.Node{Name: n.Name(), Weight: 1, Dial: func(ctx context.Context) (monitor.Link, error) {
		conn, err := pgx.ConnectConfig(ctx, config.Copy())
		if err != nil {
			return nil, err
		}
		return postgres.PgxLink{Conn: conn}, nil
	}}
}

// during waits for d and returns how many queries a second went out meanwhile.
func (q *queries) during(d time.Duration) float64 {
	before, began := q.n.Load(), time.Now()
	<-time.After(d)
	return float64(q.n.Load()-before) / time.Since(began).Seconds()
}

// TestFleet has 200 routers, as of 200 processes, watch one replica that does not replay, with a read that waits on each.
// What that replica is asked is bounded by what one process may ask: twice a second when nobody waits; when somebody
// does, every millisecond at first, and within half a second no more than every 50 ms.
func TestFleet(t *testing.T) {
	const (
		routers = 200
		idle    = 2.0  // probes a second of one process
		waiting = 20.0 // the same while somebody waits: every 50 ms
		quick   = 45.0 // before: 8 in the first 8 ms, then one an eighth of the time that has passed
	)
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1, Settings: map[string]string{"max_connections": "450"}})
	ctx := testContext(t)
	replica := c.Standby(0)
	var asked, primary queries
	fleet := make([]*router.Router, routers)
	for i := range fleet {
		m := monitor.Start(monitor.Config{
			Nodes:  []monitor.Node{primary.watch(t, c.Primary()), asked.watch(t, replica)},
			Engine: postgres.Engine{}, Interval: 500 * time.Millisecond, ProbeTimeout: 10 * time.Second, MaxWaiters: 10, MaxLag: time.Minute,
		})
		captures := monitor.StartCaptures(m)
		t.Cleanup(func() { captures.Close(); m.Close() })
		fleet[i] = router.New(router.Config{
			Cluster: "main", Level: core.LevelSession, MaxLag: time.Minute, CaptureTimeout: 10 * time.Second,
			Strategy: core.Strategy{Wait: time.Minute, Window: time.Minute},
		}, m, captures, []string{"a", "b"})
	}
	everyone := func(what string, cond func(*core.Snapshot) bool) {
		for _, r := range fleet {
			eventually(t, what, func() bool { return cond(r.Monitor.Snapshot()) })
		}
	}
	everyone("the replica is measured", func(s *core.Snapshot) bool { return s.PrimaryUp && s.Nodes[1].Healthy && s.Nodes[1].LagKnown })
	idleRate := asked.during(2 * time.Second)

	require.NoError(t, c.WaitCaughtUp(ctx))
	require.NoError(t, replica.PauseReplay(ctx))
	require.NoError(t, c.Primary().Exec(ctx, "CREATE TABLE written (id int)"))
	var written core.Position
	everyone("the write is known", func(s *core.Snapshot) bool {
		p := s.Nodes[0].Sample.Position
		if written.IsZero() && p.LSN > s.Nodes[1].Sample.Position.LSN {
			written = p
		}
		return !written.IsZero() && p.LSN >= written.LSN
	})
	var readers sync.WaitGroup
	var waited atomic.Int64
	for _, r := range fleet {
		readers.Go(func() {
			session := new(core.Session)
			session.Require(core.Entry{Cluster: "main", Positions: []core.Position{written}}, time.Minute)
			var d router.Decided
			r.Route(core.NewContext(ctx, &core.Options{Session: session}), &router.Request{Class: core.ClassRead, Replica: core.AnyNode}, &d)
			if d.Node == 1 && d.Reason == core.ReasonWaited {
				waited.Add(1)
			}
		})
	}
	before := primary.n.Load()
	first := asked.during(time.Second)
	rate := asked.during(2 * time.Second)
	primaryRate := float64(primary.n.Load()-before) / 3
	require.Zero(t, waited.Load())
	for _, r := range fleet {
		require.Equal(t, 1, r.Monitor.Waiting())
	}

	began := time.Now()
	require.NoError(t, replica.ResumeReplay(ctx))
	readers.Wait()
	served := time.Since(began)
	require.Equal(t, int64(routers), waited.Load())

	t.Logf("%d routers, queries a second on the replica: idle %.0f, first second of the wait %.0f, then %.0f; "+
		"on the primary %.0f; all served %s after replay went on", routers, idleRate, first, rate, primaryRate, served.Round(time.Millisecond))
	require.LessOrEqual(t, idleRate, routers*idle*1.15)
	require.LessOrEqual(t, first, routers*(quick+waiting))
	require.LessOrEqual(t, rate, routers*waiting*1.1)
	require.LessOrEqual(t, primaryRate, routers*idle*1.5)
	require.Less(t, served, 5*time.Second)
}
