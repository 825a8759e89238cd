package monitor

import (
	"context"
	"errors"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// ErrClosed is the cause with which everything here ends.
var ErrClosed = errors.New("readroute: monitor is closed")

// Node is one server to watch.
type Node struct {
	Name   string
	Zone   int
	Weight uint32
	Shared bool
	// Blind: a position that is read there speaks for no later statement, so the node serves nothing that must be fresh.
	Blind bool
	// Pooled: a pooler that may lead each statement to another server than the one before. Seen to do so, it is Blind.
	Pooled bool
	Dial   Dialer
}

// Config is what a Monitor needs to know. Every field must be set.
type Config struct {
	Nodes        []Node // the first one is taken for the primary until a primary is seen
	Engine       Engine
	Interval     time.Duration
	ProbeTimeout time.Duration
	MaxWaiters   int
	// OnEvent hears of transitions, in their order and one call at a time, without a lock, on the goroutine of whoever saw
	// one; it must not block.
	OnEvent func(Event)
}

// Monitor watches nodes. Close ends it.
type Monitor struct {
	cfg    Config
	snap   atomic.Pointer[core.Snapshot]
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	nodes  []*node

	mu      sync.Mutex
	history history         // guarded by mu
	views   []core.NodeView // guarded by mu; copied into every snapshot
	primary int             // guarded by mu
	up      bool            // guarded by mu: the primary answered its newest probe
	claims  int             // guarded by mu: how many nodes call themselves primary
	closed  bool            // guarded by mu: nothing is published any more
	events  []Event         // guarded by mu: published, and OnEvent has not heard of them
	telling bool            // guarded by mu: somebody is calling OnEvent
	waiters waiters         // guarded by mu
	first   core.Sample     // guarded by mu: the oldest sample of a primary
	next    []*core.Capture // guarded by mu, by node: joined by those who wait for its next probe; nil when nobody does
}

// Start watches the nodes until Close.
func Start(cfg Config) *Monitor {
	m := &Monitor{cfg: cfg}
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	m.views = make([]core.NodeView, len(cfg.Nodes))
	m.next = make([]*core.Capture, len(cfg.Nodes))
	for i, n := range cfg.Nodes {
		m.views[i] = core.NodeView{Name: n.Name, Zone: n.Zone, Weight: n.Weight, Shared: n.Shared, Blind: n.Blind}
		m.nodes = append(m.nodes, newNode(m, i, n))
	}
	m.publishLocked() // nobody else is here yet
	for _, n := range m.nodes {
		m.wg.Go(n.run)
	}
	return m
}

// Close stops every goroutine and waits for them: at most for a dialer that does not honour its context. Nothing is
// published after it. It may be called twice.
func (m *Monitor) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel(ErrClosed)
	m.wg.Wait()
	for i := range m.nodes {
		complete(m.take(i), core.Sample{}, ErrClosed)
	}
}

// After returns a capture of what node i shows, by a probe that begins after this call. It does not block.
func (m *Monitor) After(i int) *core.Capture {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next[i] == nil {
		c := core.NewCapture(func() { m.Kick(i) })
		if m.closed {
			complete(c, core.Sample{}, ErrClosed)
			return c
		}
		m.next[i] = c
	}
	return m.next[i]
}

// take returns the capture that a probe of node i serves which begins now, or nil.
func (m *Monitor) take(i int) *core.Capture {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.next[i]
	m.next[i] = nil
	return c
}

func complete(c *core.Capture, s core.Sample, err error) {
	if c != nil {
		c.Complete(core.CaptureResult{Position: s.Saw(), TimelineFloor: s.TimelineFloor, Start: s.Start, At: time.Now(), Err: err})
	}
}

// Snapshot returns what is known now.
func (m *Monitor) Snapshot() *core.Snapshot { return m.snap.Load() }

// Kick asks for a probe of node i soon: something has happened to it.
func (m *Monitor) Kick(i int) { m.nodes[i].kick() }

// Shared records that several servers answer under the name of node i.
func (m *Monitor) Shared(i int) {
	m.mu.Lock()
	news := !m.views[i].Shared && !m.closed
	if news {
		m.views[i].Shared = true
		m.publishLocked()
		m.events = append(m.events, Event{Kind: EventSharedEndpoint, Node: m.cfg.Nodes[i].Name})
	}
	m.mu.Unlock()
	m.tell()
}

// Failed records that a connection to node i failed: it is not healthy until a probe has answered.
func (m *Monitor) Failed(i int, err error) {
	m.mu.Lock()
	news := m.views[i].Healthy && !m.closed
	if news {
		m.views[i].Healthy, m.views[i].Err = false, err
		if i == m.primary {
			m.up = false
		}
		m.publishLocked()
		m.waiters.wakeAll() // a role or a health has changed
		m.events = append(m.events, Event{Kind: EventDown, Node: m.cfg.Nodes[i].Name, Err: err})
	}
	m.mu.Unlock()
	m.Kick(i)
	m.tell()
}

// tell calls OnEvent for what has happened, in the order in which it was published, whichever goroutine saw it: a node
// that is taken for down when it is up again would stay so. When another goroutine is at it, it goes on with these.
func (m *Monitor) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.telling || m.cfg.OnEvent == nil {
		return
	}
	m.telling = true
	defer func() { m.telling = false }()
	for len(m.events) > 0 {
		e := m.events[0]
		m.events = m.events[1:]
		m.tellOne(e)
	}
}

// tellOne calls OnEvent without m.mu, which is held.
func (m *Monitor) tellOne(e Event) {
	m.mu.Unlock()
	defer m.mu.Lock()
	m.cfg.OnEvent(e)
}

// Observe takes in a sample of node i that was read on another connection of ours: a capture.
func (m *Monitor) Observe(i int, s core.Sample) { m.observe(i, s, nil) }

// Base takes in what a connection for writes was told when it was opened: it was so before anything was written there.
func (m *Monitor) Base(s core.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.baseLocked(s)
}

func (m *Monitor) baseLocked(s core.Sample) {
	if s.Role == core.RolePrimary && !s.Position.IsZero() && (m.first.Position.IsZero() || s.Began.Before(m.first.Began)) {
		m.first = s
	}
}

// base returns what a primary showed before everything that was written through this process.
func (m *Monitor) base() core.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first
}

// observe takes in the result of a probe.
func (m *Monitor) observe(i int, s core.Sample, err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	var events []Event
	v := &m.views[i]
	before := *v
	if err != nil {
		v.Healthy, v.Err = false, err
		v.Failures++
		if i == m.primary {
			m.up = false
		}
	} else if !s.Began.Before(v.Sample.Began) {
		m.takeLocked(i, s)
	}
	events = append(events, m.electLocked()...)
	events = append(events, transitions(before, *v)...)
	m.publishLocked()
	if len(events) > 0 {
		m.waiters.wakeAll() // a role or a health has changed
	}
	if err == nil {
		m.wakeLocked()
	}
	m.events = append(m.events, events...)
	m.mu.Unlock()
	m.tell()
}

func (m *Monitor) takeLocked(i int, s core.Sample) {
	v := &m.views[i]
	prev := v.Sample
	v.Healthy, v.Err, v.Failures = true, nil, 0
	v.Role, v.Sample = s.Role, s
	if prev.Start != s.Start || !prev.Position.ReachedBy(&s.Position) {
		// Another run of the server, or a crash that did not end it: what was known of it is of the past.
		v.Confirmed, v.ConfirmedTimeline = core.Position{}, 0
		v.Rate, v.Delay, v.AsOf = 0, 0, time.Time{}
		m.nodes[i].anchor = s
	} else if prev.Role == core.RoleReplica && prev.Position.Timeline != 0 && s.Position.Timeline == 0 {
		// Its receiver has ended, and with it the word for the timeline. What was exact stays proven.
		v.Confirmed, v.ConfirmedTimeline, v.ConfirmedBegan = prev.Position, prev.Position.Timeline, prev.Began
	}
	m.baseLocked(s)
	if m.nodes[i].cameBack(prev.Start, s.Start) {
		// No run of a server comes back: there are several.
		if !v.Shared || m.cfg.Nodes[i].Pooled && !v.Blind {
			m.events = append(m.events, Event{Kind: EventSharedEndpoint, Node: v.Name})
		}
		v.Shared, v.Blind = true, v.Blind || m.cfg.Nodes[i].Pooled
	}
	v.Foreign = m.history.system != 0 && s.Position.System != m.history.system
	if s.Role == core.RolePrimary {
		v.Stopped, v.Lag, v.LagKnown, v.Missing, v.Behind = false, 0, true, 0, 0
		if i == m.primary {
			m.up = true
			m.rememberLocked(s)
		}
		return
	}
	if i == m.primary {
		m.up = false
	}
	m.measureLocked(i, prev)
}

// measureLocked works out how far behind replica i is.
func (m *Monitor) measureLocked(i int, prev core.Sample) {
	v := &m.views[i]
	s := v.Sample
	if m.history.system != s.Position.System {
		v.Lag, v.LagKnown, v.Missing, v.Behind = 0, false, 0, 0
		v.Stopped = m.nodes[i].stopped(v, prev, m.up)
		return
	}
	newest, ok := m.history.newest()
	ended := s.Ended
	if !m.up && ok {
		// What the primary has done since it went silent is not known: the replica is held to what was seen of it last.
		ended = newest.began
	}
	v.Lag, v.LagKnown, v.Behind = m.history.lag(&s.Position, s.Began, ended)
	v.Missing = 0
	if ok {
		v.Missing = newest.inserted.Missing(&s.Position)
	}
	if prev.Start == s.Start {
		if d, ok := m.history.passed(&prev.Position, &s.Position, prev.Began); ok {
			v.Delay = d
		}
	}
	m.dateLocked(v)
	m.nodes[i].rate(v)
	v.Stopped = m.nodes[i].stopped(v, prev, m.up)
}

// dateLocked works out up to when a replica is proven to show everything. What one run of a server shows only grows.
func (m *Monitor) dateLocked(v *core.NodeView) {
	proof, _ := v.Proof()
	newest, ok := m.history.newest()
	if !ok || !proof.SameHistory(newest.inserted) {
		return
	}
	if n := m.history.reached(&proof, inserted); n > 0 && m.history.points[n-1].began.After(v.AsOf) {
		v.AsOf = m.history.points[n-1].began
	}
}

// Since returns what the primary had at some moment after since, the earliest that is known, and when that had been read.
// ok is false when nothing is known of it.
func (m *Monitor) Since(since time.Time) (p core.Position, at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	points := m.history.points
	i := sort.Search(len(points), func(i int) bool { return !points[i].began.Before(since) })
	if i == len(points) {
		return core.Position{}, time.Time{}, false
	}
	return points[i].inserted, points[i].ended, true
}

// rememberLocked takes in a sample of the primary. Replicas are measured against it: the first one of a log is the
// first moment at which they can be.
func (m *Monitor) rememberLocked(s core.Sample) {
	if s.Position.IsZero() {
		return
	}
	first := s.Position.System != m.history.system || s.Position.Timeline != m.history.timeline
	m.history.add(s)
	m.confirmLocked(s)
	for i := range m.views {
		if v := &m.views[i]; v.Role == core.RoleReplica {
			m.dateLocked(v)
		}
	}
	if !first {
		return
	}
	for i, n := range m.nodes {
		if i != m.primary {
			n.kick()
		}
	}
}

// confirmLocked lets a sample of the primary vouch for the replicas' samples that are older than it.
func (m *Monitor) confirmLocked(primary core.Sample) {
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RoleReplica || v.Sample.Position.Timeline != 0 || v.Sample.TimelineFloor != primary.Position.Timeline ||
			v.Sample.Position.System != primary.Position.System || !primary.Began.After(v.Sample.Ended) {
			continue
		}
		v.Confirmed, v.ConfirmedTimeline, v.ConfirmedBegan = v.Sample.Position, primary.Position.Timeline, v.Sample.Began
	}
}

// electLocked finds the primary among the nodes that say that they are it. The higher timeline wins; the one that was
// the primary keeps a tie. A node on an older timeline than the last primary's is the primary of before a failover, and
// not elected again because the new one is silent.
func (m *Monitor) electLocked() []Event {
	best, claims := -1, 0
	if m.history.system == 0 && m.views[0].Role == core.RoleUnknown && m.views[0].Failures == 0 {
		return nil // the one that is configured as the primary says first which system this is
	}
	system := m.history.system
	if system == 0 {
		system = m.views[0].Sample.Position.System // also a replica says which one is meant
	}
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RolePrimary || !v.Healthy {
			continue
		}
		claims++
		switch p := v.Sample.Position; {
		case system != 0 && p.System != system && i != m.primary:
			// Another system's primary is none of this cluster. The primary itself may have been made anew.
		case best >= 0 && p.System != m.views[best].Sample.Position.System:
			// Nor is this one, next to the first in the order of the configuration.
		case i != m.primary && p.System == m.history.system && p.Timeline < m.history.timeline:
		case best < 0, v.Sample.Position.Timeline > m.views[best].Sample.Position.Timeline:
			best = i
		case v.Sample.Position.Timeline == m.views[best].Sample.Position.Timeline && i == m.primary:
			best = i
		}
	}
	var events []Event
	if claims > 1 && best >= 0 && m.claims != claims {
		events = append(events, Event{Kind: EventTwoPrimaries, Node: m.views[best].Name})
	}
	m.claims = claims
	if best < 0 || best == m.primary {
		return events
	}
	m.primary, m.up = best, true
	m.rememberLocked(m.views[best].Sample)
	return append(events, Event{Kind: EventPrimaryChanged, Node: m.views[best].Name})
}

// publishLocked makes what is known visible to everyone.
func (m *Monitor) publishLocked() {
	primary := &m.views[m.primary]
	m.snap.Store(&core.Snapshot{
		Nodes:        append([]core.NodeView(nil), m.views...),
		Primary:      m.primary,
		PrimaryUp:    m.up,
		Positionless: primary.Role == core.RolePrimary && primary.Sample.Position.IsZero(),
	})
}

// jitter spreads d by a quarter either way, so that many processes do not probe in step.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(core.Chance()%uint64(d/2+1))
}
