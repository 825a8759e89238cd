package monitor

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// ErrTooManyWaiters is returned by Wait when the limit on waiters is reached.
var ErrTooManyWaiters = errors.New("readroute: too many reads wait for a replica")

// waiter waits until one of nodes has replayed target, and shows sets.
type waiter struct {
	target core.LSN
	sets   []core.Position // those that no number can stand for; their waiters have a target of 0
	nodes  uint64
	ready  chan struct{}
	index  int // in the heap; -1 when it is not there
}

// waiters is a heap of waiters, the lowest target first, so that a poll looks only at those it can serve.
type waiters []*waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Less(i, j int) bool { return w[i].target < w[j].target }

func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push is for container/heap.
func (w *waiters) Push(x any) {
	e := x.(*waiter)
	e.index = len(*w)
	*w = append(*w, e)
}

// Pop is for container/heap.
func (w *waiters) Pop() any {
	old := *w
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	e.index = -1
	return e
}

// wake lets go of every waiter that node i, which is proven to have replayed so far, may serve. They decide again by
// themselves. It returns how many it let go.
func (w *waiters) wake(i int, replayed core.LSN, shows func(sets []core.Position) bool) int {
	var others []*waiter
	woken := 0
	for w.Len() > 0 && (*w)[0].target <= replayed {
		e := heap.Pop(w).(*waiter)
		if e.nodes&(1<<i) == 0 || len(e.sets) > 0 && !shows(e.sets) {
			others = append(others, e)
			continue
		}
		close(e.ready)
		woken++
	}
	for _, e := range others {
		heap.Push(w, e)
	}
	return woken
}

// any reports whether somebody at or below place root of the heap waits for node i to replay at most lsn.
func (w waiters) any(root, i int, lsn core.LSN) bool {
	if root >= len(w) || w[root].target > lsn {
		return false
	}
	return w[root].nodes&(1<<i) != 0 || w.any(2*root+1, i, lsn) || w.any(2*root+2, i, lsn)
}

// wakeLocked lets go of whoever the replicas can serve now. A replica whose timeline is not known proves a position only
// once the primary has been seen after it: the primary is asked at once when somebody waits for just that.
func (m *Monitor) wakeLocked() {
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RoleReplica || len(m.waiters) == 0 {
			continue
		}
		shows := func(sets []core.Position) bool {
			return m.snap.Load().Covers(v.Sample.Position, sets, time.Time{}) != core.NotCovered
		}
		if m.waiters.wake(i, provenLSN(v), shows) > 0 {
			m.nodes[i].progress.Store(true)
		}
		if v.Sample.Position.Timeline == 0 && v.Sample.TimelineFloor == m.history.timeline && m.waiters.any(0, i, v.Sample.Position.LSN) {
			m.nodes[m.primary].kick()
		}
	}
}

// provenLSN returns how far a replica is proven to be.
func provenLSN(v *core.NodeView) core.LSN {
	if v.Sample.Position.Timeline == 0 {
		return v.Confirmed.LSN
	}
	return v.Sample.Position.LSN
}

// wakeAll lets go of everyone: a role or a health has changed.
func (w *waiters) wakeAll() {
	for _, e := range *w {
		e.index = -1
		close(e.ready)
	}
	clear(*w)
	*w = (*w)[:0]
}

// Wait returns nil when one of nodes may have come to show positions, or when a role or a health has changed: the
// caller decides again. It returns an error when timeout is over (context.DeadlineExceeded), when ctx ends or the monitor is closed, or
// at once when too many wait already. It holds no connection.
func (m *Monitor) Wait(ctx context.Context, nodes uint64, positions []core.Position, timeout time.Duration) error {
	e := &waiter{nodes: nodes, ready: make(chan struct{})}
	for _, p := range positions {
		if p.Kind == core.KindPostgres {
			e.target = max(e.target, p.LSN)
		} else {
			e.sets = append(e.sets, p)
		}
	}
	if len(e.sets) > 0 {
		e.target = 0 // the node's own measure is of another kind
	}
	m.mu.Lock()
	if m.waiters.Len() >= m.cfg.MaxWaiters {
		m.mu.Unlock()
		return ErrTooManyWaiters
	}
	heap.Push(&m.waiters, e)
	m.wakeLocked() // a replica may have come so far since the caller looked
	m.mu.Unlock()
	m.poll(nodes, 1)
	defer m.poll(nodes, -1)

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case <-e.ready:
		return nil
	case <-timer.C:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.ctx.Done():
		err = ErrClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.index >= 0 {
		heap.Remove(&m.waiters, e.index)
	} else if ctx.Err() == nil && m.ctx.Err() == nil {
		return nil // let go at the very end of its time
	}
	return err
}

// poll counts the waiters of nodes; the first one wakes the probe.
func (m *Monitor) poll(nodes uint64, delta int32) {
	for i, n := range m.nodes {
		if nodes&(1<<i) == 0 {
			continue
		}
		if n.waiting.Add(delta) == delta && delta > 0 {
			n.kick()
		}
	}
}

// Waiting returns how many reads wait for a replica now.
func (m *Monitor) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiters.Len()
}
