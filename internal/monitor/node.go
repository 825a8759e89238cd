package monitor

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
)

const (
	// pollFirst and pollMax bound how often a replica that somebody waits for is asked.
	pollFirst = time.Millisecond
	pollMax   = 50 * time.Millisecond
	// deadInterval is how often a node that fails is probed.
	deadInterval = time.Second
	// rateWindow is over how long the speed of replay is measured.
	rateWindow = 100 * time.Millisecond
)

// node probes one server. Its goroutine is run; Monitor.Close ends it.
type node struct {
	m     *Monitor
	index int
	cfg   Node
	link  Link      // owned by run
	since time.Time // owned by run: before link was opened

	kicked   chan struct{} // capacity 1
	waiting  atomic.Int32  // waiters that want this node polled
	progress atomic.Bool   // a waiter has been served since the last probe
	redial   atomic.Bool   // the link may lead to another server than the name does by now

	failed      time.Time    // guarded by m.mu: when it was seen to fail last
	anchor      core.Sample  // guarded by m.mu: where the measurement of the replay rate began
	sourceless  int          // guarded by m.mu: samples in a row without a source
	lostSource  time.Time    // guarded by m.mu: when the first of them began
	claimed     time.Time    // guarded by m.mu: when it was first heard that it is a primary, and it is since
	formerSince time.Time    // guarded by m.mu: since when it is one of before a failover, and nobody else is the primary
	starts      []core.Start // guarded by m.mu: runs of servers seen here before, the newest last
	claim       claim        // guarded by m.mu
	waitedSince time.Time    // owned by run: since when somebody waits without a break
}

func newNode(m *Monitor, i int, cfg Node) *node {
	return &node{m: m, index: i, cfg: cfg, kicked: make(chan struct{}, 1)}
}

// startsKept is how many runs of servers are remembered.
const startsKept = 8

// cameBack remembers runs of servers and reports one that was seen before another. m.mu is held.
func (n *node) cameBack(before, now core.Start) bool {
	if before == now || now.IsZero() {
		return false
	}
	back := slices.Contains(n.starts, now)
	if !before.IsZero() && !slices.Contains(n.starts, before) {
		n.starts = append(n.starts, before)
		if len(n.starts) > startsKept {
			n.starts = n.starts[1:]
		}
	}
	return back
}

func (n *node) kick() {
	select {
	case n.kicked <- struct{}{}:
	default:
	}
}

// run probes until the monitor is closed.
func (n *node) run() {
	defer n.hangUp()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	failed := false
	for {
		select {
		case <-n.m.ctx.Done():
			return
		case <-timer.C:
		case <-n.kicked:
			// A node is not probed more often because many notice something of it.
			gap := pollFirst
			if failed {
				gap = deadInterval
			}
			if wait := time.Until(last.Add(gap)); wait > 0 {
				timer.Reset(wait)
				continue
			}
		}
		last = time.Now()
		asked := n.m.take(n.index)
		sample, err := n.probe()
		if n.m.ctx.Err() != nil {
			complete(asked, core.Sample{}, ErrClosed)
			return
		}
		failed = err != nil
		n.m.observe(n.index, sample, err)
		complete(asked, sample, err)
		timer.Reset(n.pause(failed, last))
	}
}

// pause returns how long to wait before the next probe. A replica that somebody waits for is asked often at first, then
// ever more seldom: in proportion to how long it is expected to take, and to how long it has served nobody.
func (n *node) pause(failed bool, last time.Time) time.Duration {
	served := n.progress.Swap(false)
	switch {
	case failed:
		n.waitedSince = time.Time{}
		return deadInterval + jitter(deadInterval/4)
	case n.waiting.Load() == 0:
		n.waitedSince = time.Time{}
		return jitter(n.m.cfg.Interval)
	case n.waitedSince.IsZero() || served:
		n.waitedSince = last
	}
	v := &n.m.Snapshot().Nodes[n.index]
	expected := max(v.Delay, v.Behind, time.Since(n.waitedSince))
	return jitter(min(pollMax, max(pollFirst, expected/8)))
}

// probe asks the node once. A connection that has gone stale since the last probe says nothing of the node: a new one
// is tried within the same time.
func (n *node) probe() (core.Sample, error) {
	ctx, cancel := context.WithTimeout(n.m.ctx, n.m.cfg.ProbeTimeout)
	defer cancel()
	fresh := n.link == nil
	for {
		s, err := n.ask(ctx)
		if err == nil {
			return s, nil
		}
		n.hangUp()
		if fresh || ctx.Err() != nil {
			return core.Sample{}, fmt.Errorf("probe node %q: %w", n.cfg.Name, err)
		}
		fresh = true
	}
}

func (n *node) ask(ctx context.Context) (core.Sample, error) {
	if n.redial.Swap(false) {
		n.hangUp()
	}
	if n.link == nil {
		n.since = time.Now()
		link, err := n.cfg.Dial(ctx)
		if err != nil {
			return core.Sample{}, err
		}
		n.link = link
	}
	s, err := Ask(ctx, n.link, n.m.cfg.Engine)
	s.Since = n.since
	return s, err
}

func (n *node) hangUp() {
	if n.link != nil {
		_ = n.link.Close() // the connection is given up whatever it says
		n.link = nil
	}
}

// Ask reads a sample on a link.
func Ask(ctx context.Context, link Link, engine Engine) (core.Sample, error) {
	began := time.Now()
	s, err := engine.Ask(ctx, link)
	if err != nil {
		return core.Sample{}, err
	}
	s.Began, s.Ended = began, time.Now()
	return s, nil
}

// rate measures how fast the replica replays while it is behind. m.mu is held.
func (n *node) rate(v *core.NodeView) {
	s := v.Sample
	if v.Behind == 0 {
		n.anchor = s
		return
	}
	elapsed := s.Began.Sub(n.anchor.Began)
	if elapsed < rateWindow {
		return
	}
	v.Rate = 0
	if s.Position.LSN > n.anchor.Position.LSN {
		v.Rate = float64(s.Position.LSN-n.anchor.Position.LSN) / elapsed.Seconds()
	}
	n.anchor = s
}

// stopped reports that nothing feeds the replica although the primary is up. One sample is not enough: a receiver that
// restarts is away for a moment, however often it is asked meanwhile, and a replica that moves is fed by something. Of one that
// does not tell, its lag has to be enough.
// m.mu is held.
func (n *node) stopped(v *core.NodeView, prev core.Sample, primaryUp bool) bool {
	if v.Sample.HasSource || v.Sample.SourceUnknown || !primaryUp || v.Sample.Position != prev.Position {
		n.sourceless = 0
		return false
	}
	if n.sourceless == 0 {
		n.lostSource = v.Sample.Began
	}
	n.sourceless++
	return n.sourceless > 2 && v.Sample.Began.Sub(n.lostSource) >= n.m.cfg.Interval
}
