package monitor

import (
	"context"
	"errors"
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
	MaxLag       time.Duration // beyond it a replica is late; negative: never
	// OnEvent hears of transitions, in their order and one call at a time, without a lock, on the goroutine of whoever saw
	// one; it must not block.
	OnEvent func(Event)
}

// Monitor watches nodes. Close ends it.
type Monitor struct {
	// What each statement needs comes first, and on a cache line of its own.
	number atomic.Uint64 // of snap; it comes a moment before it, so that nobody goes on by what another number was found for
	snap   atomic.Pointer[core.Snapshot]
	_      [48]byte

	cfg    Config
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	nodes  []*node
	// awaited is how many captures have been joined and have no result.
	awaited atomic.Int64

	mu      sync.Mutex
	history history          // guarded by mu
	views   []core.NodeView  // guarded by mu; copied into every snapshot
	primary int              // guarded by mu
	up      bool             // guarded by mu: the primary answered its newest probe
	claims  int              // guarded by mu: as claimsLocked
	tied    core.Start       // guarded by mu: the server that does so under several names
	reign   reign            // guarded by mu
	logged  core.MariaDBGTID // guarded by mu: MariaDB: what the primary had logged, with the newest point of history
	closed  bool             // guarded by mu: nothing is published any more
	events  []Event          // guarded by mu: published, and OnEvent has not heard of them
	telling bool             // guarded by mu: somebody is calling OnEvent
	waiters waiters          // guarded by mu
	first   core.Sample      // guarded by mu: the oldest sample of a primary
	next    []*core.Capture  // guarded by mu, by node: joined by those who wait for its next probe; nil when nobody does
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
		c.Complete(core.CaptureResult{Position: s.Saw(), Since: s.Since, TimelineFloor: s.TimelineFloor, Start: s.Start, At: time.Now(), Err: err})
	}
}

// Snapshot returns what is known now.
func (m *Monitor) Snapshot() *core.Snapshot { return m.snap.Load() }

// Number returns the snapshot's number, without a look at it.
func (m *Monitor) Number() uint64 { return m.number.Load() }

// Kick asks for a probe of node i soon: something has happened to it.
func (m *Monitor) Kick(i int) { m.nodes[i].kick() }

// Redial asks for a probe of node i over a new connection: its address leads elsewhere than the monitor's own does.
func (m *Monitor) Redial(i int) {
	m.nodes[i].redial.Store(true)
	m.Kick(i)
}

// Shared records that several servers answer under the name of node i.
func (m *Monitor) Shared(i int) {
	m.mu.Lock()
	news := !m.views[i].Shared && !m.closed
	if news {
		m.views[i].Shared = true
		m.events = append(m.events, Event{Kind: EventSharedEndpoint, Node: m.cfg.Nodes[i].Name})
		m.events = append(m.events, m.electLocked()...)
		m.publishLocked()
	}
	m.mu.Unlock()
	m.tell()
}

// Failed records that a connection to node i failed: it is not healthy until a probe has answered that began after that. When half of the replicas
// are out already, only a probe takes out another: whatever is wrong may be on this side.
func (m *Monitor) Failed(i int, err error) {
	m.mu.Lock()
	news := m.views[i].Healthy && !m.closed && !m.halfOutLocked(i)
	if news {
		m.views[i].Healthy, m.views[i].Err = false, err
		m.nodes[i].failed = time.Now()
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

// halfOutLocked reports whether half of the replicas, of which i is one of several, are not healthy.
func (m *Monitor) halfOutLocked(i int) bool {
	replicas, out := 0, 0
	for j := range m.views {
		if m.views[j].Role == core.RoleReplica {
			replicas++
			if !m.views[j].Healthy {
				out++
			}
		}
	}
	return m.views[i].Role == core.RoleReplica && replicas > 1 && 2*out >= replicas
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
		m.nodes[i].failed = time.Now()
		if i == m.primary {
			m.up = false
		}
	} else if !s.Began.Before(v.Sample.Began) && !s.Began.Before(m.nodes[i].failed) { // else it says what was so before
		m.takeLocked(i, s)
	}
	m.rejudgeLocked(i)
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

// published is how many snapshots there have been.
var published atomic.Uint64

// publishLocked makes what is known visible to everyone.
func (m *Monitor) publishLocked() {
	primary := &m.views[m.primary]
	number := published.Add(1)
	m.number.Store(number)
	m.snap.Store(&core.Snapshot{
		Nodes:        append([]core.NodeView(nil), m.views...),
		Number:       number,
		Primary:      m.primary,
		PrimaryUp:    m.up,
		Positionless: primary.Role == core.RolePrimary && primary.Sample.Position.IsZero(),
		Timeline:     m.history.timeline,
	})
}

// jitter spreads d by a quarter either way, so that many processes do not probe in step.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(core.Chance()%uint64(d/2+1))
}
