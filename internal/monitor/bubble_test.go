package monitor_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
)

const (
	interval     = 500 * time.Millisecond
	probeTimeout = time.Second
)

// TestMain keeps the bubbles on one processor. On several, Go 1.26 lets two threads run timers of one bubble with one race
// context, and the race detector crashes now and then. What it finds does not depend on threads.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	m.Run()
}

// watched is a monitor over scripted nodes, inside a bubble.
type watched struct {
	*monitor.Monitor
	tb     testing.TB
	mu     sync.Mutex
	events []monitor.Event
}

// watch starts a monitor over nodes and closes it with the test. It does not wait for the first probes.
func watch(t testing.TB, nodes ...*fakenode.Node) *watched {
	t.Helper()
	return watchWith(t, func(*monitor.Config) {}, nodes...)
}

// watchWith is watch with a configuration that is changed first.
func watchWith(t testing.TB, change func(*monitor.Config), nodes ...*fakenode.Node) *watched {
	t.Helper()
	w := &watched{tb: t}
	config := monitor.Config{
		Engine: fakenode.Engine, Interval: interval, ProbeTimeout: probeTimeout, MaxWaiters: 20_000, MaxLag: 30 * time.Second,
		OnEvent: func(e monitor.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}
	for _, n := range nodes {
		config.Nodes = append(config.Nodes, n.Watch())
	}
	change(&config)
	w.Monitor = monitor.Start(config)
	t.Cleanup(w.Close)
	return w
}

// happened returns the kinds of events of a node since the last call for it.
func (w *watched) happened(node string) []monitor.EventKind {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []monitor.EventKind
	var others []monitor.Event
	for _, e := range w.events {
		if e.Node == node {
			kinds = append(kinds, e.Kind)
		} else {
			others = append(others, e)
		}
	}
	w.events = others
	return kinds
}

func (w *watched) view(i int) core.NodeView { return w.Snapshot().Nodes[i] }

// wantsPrimary fails the test unless node i is the primary and answers.
func (w *watched) wantsPrimary(i int, up bool) {
	w.tb.Helper()
	s := w.Snapshot()
	require.Equal(w.tb, i, s.Primary)
	require.Equal(w.tb, up, s.PrimaryUp)
}

func primaryAt(lsn core.LSN) fakenode.State { return fakenode.State{LSN: lsn} }
func replicaAt(lsn core.LSN) fakenode.State { return fakenode.State{Replica: true, LSN: lsn} }

// pair is a primary a and a replica b that shows everything.
func pair() (a, b *fakenode.Node) {
	return fakenode.New("a", primaryAt(0x5000)), fakenode.New("b", replicaAt(0x5000))
}

func position(timeline uint32, lsn core.LSN) core.Position {
	return core.Position{Kind: core.KindPostgres, System: fakenode.System, Timeline: timeline, LSN: lsn}
}

func gaps(times []time.Time) []time.Duration {
	var list []time.Duration
	for i := 1; i < len(times); i++ {
		list = append(list, times[i].Sub(times[i-1]))
	}
	return list
}
