package router_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/router"
)

const (
	cluster        = "main"
	captureTimeout = 50 * time.Millisecond
	waitTimeout    = 100 * time.Millisecond
	window         = 15 * time.Second
)

// TestMain keeps the bubbles on one processor. On several, Go 1.26 lets two threads run timers of one bubble with one race
// context, and the race detector crashes now and then. What it finds does not depend on threads.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	m.Run()
}

var errRefused = errors.New("connection refused")

// routed is a router over a scripted primary a and replicas, inside a bubble.
type routed struct {
	*router.Router
	tb    testing.TB
	nodes []*fakenode.Node

	mu   sync.Mutex
	told []core.Verdict
	// quick is how many reads the short way has had an answer for. It is for one goroutine.
	quick int
}

// route starts a router and waits until its nodes have been seen. The first node is the primary.
func route(t testing.TB, change func(*router.Config), maxWaiters int, nodes ...*fakenode.Node) *routed {
	t.Helper()
	r := &routed{tb: t, nodes: nodes}
	watch := monitor.Config{Engine: fakenode.Engine, Interval: 500 * time.Millisecond, ProbeTimeout: time.Second, MaxWaiters: maxWaiters, MaxLag: 30 * time.Second}
	var names []string
	for i, n := range nodes {
		watch.Nodes = append(watch.Nodes, n.Watch())
		watch.Nodes[i].Weight = uint32(1 + 2*(i/2)) // 1, 1, 3, 3
		names = append(names, watch.Nodes[i].Name)
	}
	m := monitor.Start(watch)
	t.Cleanup(m.Close)
	c := monitor.StartCaptures(m)
	t.Cleanup(c.Close)
	config := router.Config{
		Cluster: cluster, Strategy: core.Strategy{Wait: waitTimeout, Window: window}, Level: core.LevelSession,
		Fallback: core.FallbackPrimary, MaxLag: 30 * time.Second, CaptureTimeout: captureTimeout,
		OnVerdict: func(v core.Verdict) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, v)
		},
	}
	if change != nil {
		change(&config)
	}
	r.Router = router.New(config, m, c, names)
	<-time.After(2 * time.Second)
	return r
}

// nodes are a primary a and replicas b, c, ... that show everything.
func newNodes(replicas int) []*fakenode.Node {
	list := []*fakenode.Node{fakenode.New("a", fakenode.State{LSN: 0x5000})}
	for i := range replicas {
		list = append(list, fakenode.New(string(rune('b'+i)), fakenode.State{Replica: true, LSN: 0x5000}))
	}
	return list
}

func position(timeline uint32, lsn core.LSN) core.Position {
	return core.Position{Kind: core.KindPostgres, System: fakenode.System, Timeline: timeline, LSN: lsn}
}

// session returns a session that a token with positions came with, and a context that carries it.
func session(ctx context.Context, positions ...core.Position) (*core.Session, context.Context) {
	s := new(core.Session)
	e := core.Entry{Cluster: cluster}
	for _, p := range positions {
		e.At = time.Now()
		e.Positions, _ = core.MergePositions(e.Positions, p)
	}
	s.Require(e, window)
	return s, core.NewContext(ctx, &core.Options{Session: s})
}

// wrote records a write on the primary that ends now.
func (r *routed) wrote(s *core.Session) {
	s.Wrote(cluster, time.Now(), core.Start{System: fakenode.System, At: 1}, r.Captures.Join(), false, window)
}

// read routes a read and says how long that took.
func (r *routed) read(ctx context.Context, change ...func(*router.Request)) (router.Decided, time.Duration) {
	req := router.Request{Class: core.ClassRead, Replica: core.AnyNode}
	for _, f := range change {
		f(&req)
	}
	quick, number := -1, r.Monitor.Number()
	var as router.Decided
	if req == (router.Request{Class: core.ClassRead, Replica: core.AnyNode}) {
		node, s, positions, capturedAt := r.Quick(core.FromContext(ctx))
		quick, as = node, router.Covered(node, s, positions, capturedAt)
	}
	var d router.Decided
	began := time.Now()
	r.Route(ctx, &req, &d)
	if quick >= 0 && r.Monitor.Number() == number {
		r.quick++
		require.Contains(r.tb, r.covered(d), quick, "the short way ends where the long one may")
		as.Node = d.Node
		if as.Covering == nil {
			as.Covering = d.Covering // nothing has to be covered
		}
		require.Equal(r.tb, d, as)
	}
	return d, time.Since(began)
}

// covered returns the nodes that the decision may have been for: the replicas of the nearest zone that cover it.
func (r *routed) covered(d router.Decided) (nodes []int) {
	s := r.Monitor.Snapshot()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		replay, _ := n.Proof()
		if n.Role == core.RoleReplica && n.Healthy && !n.Stopped && s.Covers(replay, d.Positions, d.CapturedAt) == core.Covered {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// verdicts returns what was told of positions.
func (r *routed) verdicts() []core.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

// wants fails the test unless a decision is for a node and a reason.
func (r *routed) wants(d router.Decided, node int, reason core.Reason) {
	r.tb.Helper()
	require.NoError(r.tb, d.Err)
	require.Equal(r.tb, reason.String(), d.Reason.String())
	require.Equal(r.tb, node, d.Node)
	role := core.RoleReplica
	if r.Monitor.Snapshot().Primary == node {
		role = core.RolePrimary
	}
	require.Equal(r.tb, role, d.Role)
}

func dry(r *router.Request) { r.Dry = true }
