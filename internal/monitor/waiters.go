package monitor

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// ErrTooManyWaiters is returned by Wait when the limit on waiters is reached.
var ErrTooManyWaiters = errors.New("readroute: too many reads wait for a replica")

// waiter waits until one of nodes has replayed target, or shows what its group waits for.
type waiter struct {
	target core.LSN
	group  *group // nil when target says it all
	nodes  uint64
	ready  chan struct{}
	index  int    // in the heap; -1 when it is not there
	number uint64 // in a group: who came first
}

// group is the waiters for one position that no number can stand for: each poll compares it once, however many there are.
// Who came first is let go first, as from the heap.
type group struct {
	number    uint64
	positions []core.Position
	waiters   map[*waiter]struct{}
}

// waiters are those that wait: by number, the lowest target first, so that a poll looks only at those it can serve, and by
// set of GTIDs.
type waiters struct {
	heap   heapOfWaiters
	groups map[core.Position]*group
	inSets int // how many are in groups
	came   uint64
}

type heapOfWaiters []*waiter

func (w heapOfWaiters) Len() int           { return len(w) }
func (w heapOfWaiters) Less(i, j int) bool { return w[i].target < w[j].target }

func (w heapOfWaiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push is for container/heap.
func (w *heapOfWaiters) Push(x any) {
	e := x.(*waiter)
	e.index = len(*w)
	*w = append(*w, e)
}

// Pop is for container/heap.
func (w *heapOfWaiters) Pop() any {
	old := *w
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	e.index = -1
	return e
}

// any reports whether somebody at or below place root of the heap waits for node i to replay at most lsn.
func (w heapOfWaiters) any(root, i int, lsn core.LSN) bool {
	if root >= len(w) || w[root].target > lsn {
		return false
	}
	return w[root].nodes&(1<<i) != 0 || w.any(2*root+1, i, lsn) || w.any(2*root+2, i, lsn)
}

// Len returns how many wait.
func (w *waiters) Len() int { return len(w.heap) + w.inSets }

// add makes e wait for positions.
func (w *waiters) add(e *waiter, positions []core.Position) {
	for i := range positions {
		p := positions[i]
		if p.Kind == core.KindPostgres {
			e.target = max(e.target, p.LSN)
			continue
		}
		p.LSN = 0 // a measure of whoever told it, and no part of what is waited for
		g := w.groups[p]
		if g == nil {
			g = &group{number: w.came, positions: positions, waiters: make(map[*waiter]struct{})}
			if w.groups == nil {
				w.groups = make(map[core.Position]*group)
			}
			w.groups[p] = g
		}
		g.waiters[e], e.group, e.number = struct{}{}, g, w.came
		w.came++
		w.inSets++
		return // of another kind, the rest cannot be shown with it
	}
	heap.Push(&w.heap, e)
}

// waits reports whether e has not been let go of.
func (w *waiters) waits(e *waiter) bool {
	if e.group == nil {
		return e.index >= 0
	}
	_, waits := e.group.waiters[e]
	return waits
}

// remove takes out e, which waits.
func (w *waiters) remove(e *waiter) {
	if e.group == nil {
		heap.Remove(&w.heap, e.index)
		return
	}
	delete(e.group.waiters, e)
	w.inSets--
	w.forget(e.group)
}

// forget drops a group that nobody is in any more.
func (w *waiters) forget(g *group) {
	if len(g.waiters) > 0 {
		return
	}
	for _, p := range g.positions {
		if p.LSN = 0; w.groups[p] == g {
			delete(w.groups, p)
		}
	}
}

// wake lets go of every waiter that node i, which is proven to have replayed so far, may serve. They decide again by
// themselves. It returns how many it let go.
func (w *waiters) wake(i int, replayed core.LSN, shows func(sets []core.Position) bool) int {
	var others []*waiter
	woken := 0
	for len(w.heap) > 0 && w.heap[0].target <= replayed {
		e := heap.Pop(&w.heap).(*waiter)
		if e.nodes&(1<<i) == 0 {
			others = append(others, e)
			continue
		}
		close(e.ready)
		woken++
	}
	for _, e := range others {
		heap.Push(&w.heap, e)
	}
	for _, g := range w.inOrder() {
		woken += w.wakeGroup(g, i, shows)
	}
	return woken
}

// inOrder are the groups, the one that came first at first.
func (w *waiters) inOrder() []*group {
	if len(w.groups) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(w.groups), func(a, b *group) int { return cmp.Compare(a.number, b.number) })
}

func (w *waiters) wakeGroup(g *group, i int, shows func(sets []core.Position) bool) int {
	if !shows(g.positions) {
		return 0
	}
	var woken []*waiter
	for e := range g.waiters {
		if e.nodes&(1<<i) != 0 {
			delete(g.waiters, e)
			woken = append(woken, e)
		}
	}
	letGo(woken)
	w.inSets -= len(woken)
	w.forget(g)
	return len(woken)
}

func letGo(list []*waiter) {
	slices.SortFunc(list, func(a, b *waiter) int { return cmp.Compare(a.number, b.number) })
	for _, e := range list {
		close(e.ready)
	}
}

// wakeAll lets go of everyone: a role or a health has changed.
func (w *waiters) wakeAll() {
	for _, e := range w.heap {
		e.index = -1
		close(e.ready)
	}
	clear(w.heap)
	w.heap = w.heap[:0]
	for _, g := range w.inOrder() {
		letGo(slices.Collect(maps.Keys(g.waiters)))
		clear(g.waiters)
	}
	clear(w.groups)
	w.inSets = 0
}

// wakeLocked lets go of whoever the replicas can serve now. A replica whose timeline is not known proves a position only
// once the primary has been seen after it: the primary is asked at once when somebody waits for just that.
func (m *Monitor) wakeLocked() {
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RoleReplica || m.waiters.Len() == 0 {
			continue
		}
		if m.waiters.wake(i, provenLSN(v), m.shows(v)) > 0 {
			m.nodes[i].progress.Store(true)
		}
		if v.Sample.Position.Timeline == 0 && v.Sample.TimelineFloor == m.history.timeline && m.waiters.heap.any(0, i, v.Sample.Position.LSN) {
			m.nodes[m.primary].kick()
		}
	}
}

// shows says whether a replica may show sets: what cannot be compared is for whoever waits to decide.
func (m *Monitor) shows(v *core.NodeView) func(sets []core.Position) bool {
	return func(sets []core.Position) bool {
		return m.snap.Load().Covers(v.Sample.Position, sets, time.Time{}) != core.NotCovered
	}
}

// wakeOneLocked lets go of e when a replica has come so far since its caller looked.
func (m *Monitor) wakeOneLocked(e *waiter) {
	if e.group == nil {
		m.wakeLocked()
		return
	}
	for i := range m.views {
		if v := &m.views[i]; v.Role == core.RoleReplica && e.nodes&(1<<i) != 0 && m.waiters.waits(e) {
			m.waiters.wakeGroup(e.group, i, m.shows(v))
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

// Wait returns nil when one of nodes may have come to show positions, or when a role or a health has changed: the
// caller decides again. It returns an error when timeout is over (context.DeadlineExceeded), when ctx ends or the monitor is closed, or
// at once when too many wait already. It holds no connection.
func (m *Monitor) Wait(ctx context.Context, nodes uint64, positions []core.Position, timeout time.Duration) error {
	e := &waiter{nodes: nodes, ready: make(chan struct{}), index: -1}
	m.mu.Lock()
	if m.waiters.Len() >= m.cfg.MaxWaiters {
		m.mu.Unlock()
		return ErrTooManyWaiters
	}
	m.waiters.add(e, positions)
	m.wakeOneLocked(e)
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
	if m.waiters.waits(e) {
		m.waiters.remove(e)
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
