// Package router finds the node for a statement: it asks core.Decide, and does the waiting that a decision asks for.
//
// It holds no connection and does not import database/sql, so that any driver surface can be built on it.
package router

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

// The sentinels of a statement that no node may serve.
var (
	ErrNotCaughtUp = errors.New("readroute: no replica has caught up with the session")
	ErrNoReplica   = errors.New("readroute: no healthy replica")
	ErrProtected   = errors.New("readroute: too many reads fall back to the primary")
	ErrUnknownNode = errors.New("readroute: no node of that name")
	ErrUnknownTag  = errors.New("readroute: no node has that tag")
	// ErrPositionLost is matched by the error of a read that may not fall back, beside ErrNotCaughtUp.
	ErrPositionLost = errors.New("readroute: the primary has lost the session's position")
	// ErrClosed is that of a statement that has waited when the router was closed.
	ErrClosed = errors.New("readroute: closed")
)

// WithoutSession says what a read gets whose context carries no session and no level.
type WithoutSession uint8

// What such a read gets.
const (
	WithoutSessionPrimary WithoutSession = iota
	WithoutSessionEventual
	WithoutSessionProcess
)

// Config is what a Router needs. Every field must be set.
type Config struct {
	Cluster        string
	Strategy       core.Strategy
	Level          core.Level // of reads with a session; LevelSession unless the user says otherwise
	WithoutSession WithoutSession
	Fallback       core.Fallback
	MaxLag         time.Duration
	CaptureTimeout time.Duration
	FallbackLimit  int // 0: none
	// Tags are those of each node; nil when no node has any. A node with tags serves only reads that ask for one of them.
	Tags [][]string
	// OnDecision and OnVerdict may be nil. They are called on the caller's goroutine and must not keep their arguments. OnVerdict hears of
	// each verdict once, whatever made the session look: a read, or a token that is made of it.
	OnDecision func(context.Context, *Decided)
	OnVerdict  func(core.Verdict)
	// OnAhead hears that a read runs on the primary although a replica may have shown its session more. It may be nil.
	OnAhead func()
}

// Router routes the statements of one cluster.
type Router struct {
	// What each statement needs comes first: it is one cache line.
	Monitor   *monitor.Monitor
	control   atomic.Uint64 // a control
	clean     core.Settled  // of sessions that need nothing
	primary   atomic.Uint64 // the number of a snapshot, and the primary by that
	cluster   string        // the cluster's name
	bySession bool          // reads are at LevelSession unless the context says otherwise
	tells     bool          // somebody hears of decisions
	Captures  *monitor.Captures

	cfg      Config
	closed   atomic.Bool
	inflight []load          // statements that run on each node
	counts   []atomic.Uint64 // by node and reason: a stripe for some of the callers, the next for others
	stripe   int             // how many counters a stripe has
	tallies  tallies

	// Process has written whatever was written through this router.
	Process core.Session

	places   []core.Place
	tags     map[string]uint64        // nodes, by tag
	barred   uint64                   // nodes that have a tag
	goOn     atomic.Pointer[[]string] // transactions that were under way on the primary for too long to be just committing
	fallback chan struct{}            // a slot for each read that falls back; nil: no limit
	names    map[string]int
}

// New returns a router. nodes are the names of the monitor's nodes, in its order, and cfg.Tags their tags.
func New(cfg Config, m *monitor.Monitor, c *monitor.Captures, nodes []string) *Router {
	r := &Router{
		Monitor:   m,
		Captures:  c,
		cfg:       cfg,
		cluster:   cfg.Cluster,
		bySession: cfg.Level == core.LevelSession,
		tells:     cfg.OnDecision != nil,
		inflight:  make([]load, len(nodes)),
		names:     make(map[string]int, len(nodes)),
	}
	c.OnVerdict = cfg.OnVerdict
	r.stripe = ((len(nodes)+1)*core.NumReasons + 15) &^ 7 // no two share a cache line
	r.counts = make([]atomic.Uint64, countStripes*r.stripe)
	for i, n := range nodes {
		r.names[n] = i
		r.places = append(r.places, core.Place{
			Node:    i,
			Newest:  func() *core.Sample { return &m.Snapshot().Nodes[i].Sample },
			After:   func() *core.Capture { return m.After(i) },
			Primary: c.Join,
			Date:    r.date,
		})
	}
	for i, tags := range cfg.Tags {
		for _, t := range tags {
			if r.tags == nil {
				r.tags = make(map[string]uint64)
			}
			r.tags[t] |= 1 << i
			r.barred |= 1 << i
		}
	}
	r.control.Store(uint64(newControl(ModeRoute, everything)))
	if cfg.FallbackLimit > 0 {
		r.fallback = make(chan struct{}, cfg.FallbackLimit)
	}
	return r
}

// Route finds the node for a statement. It blocks for at most CaptureTimeout plus the strategy's wait, or until ctx
// ends. It does not report the decision: Report does, once the caller knows that it stands.
func (r *Router) Route(ctx context.Context, req *Request, out *Decided) {
	*out = Decided{Node: -1, Class: req.Class, Retry: req.Retry}
	o := core.FromContext(ctx)
	if reason := core.Unmovable(req.Class, req.Held); reason != core.ReasonNone && r.Mode() != ModeShadow && (o == nil || o.Node == "" && o.Tags == nil) {
		out.Waited = req.Waited + r.catchUpFor(ctx, o, req)
		out.Node, out.Role, out.Reason = r.Monitor.Snapshot().Primary, core.RolePrimary, reason
		return
	}
	in := core.Input{
		Class:    req.Class,
		Hint:     req.Hint,
		Held:     req.Held,
		Strategy: r.cfg.Strategy,
		Fallback: r.cfg.Fallback,
		MaxLag:   r.cfg.MaxLag,
		Node:     core.AnyNode,
		Replica:  req.Replica,
		Exclude:  req.Exclude,
		Budget:   r.cfg.Strategy.Wait,
	}
	session, err := r.apply(o, &in)
	if req.Waited > 0 {
		in.Budget = max(0, in.Budget-req.Waited)
		in.Waited = in.Budget == 0
	}
	if err != nil {
		out.Level, out.Reason, out.Err = in.Level, core.ReasonContext, err
		return
	}
	if in.Class == core.ClassWrite || in.Class == core.ClassTxControl || in.Held == core.HeldTx {
		// Nothing to look up: such a statement goes to the primary whatever the session needs.
		session, in.Level = nil, core.LevelUnset
		out.Waited = r.catchUpFor(ctx, o, req)
	}
	if mode := control(r.control.Load()); mode.holdsBack() {
		in.PrimaryAll = true
		if mode.mode() == ModeShadow {
			out.Shadow = r.shadow(session, in)
		}
	}
	if in.Level == core.LevelEventual || in.Level > 0 {
		session = nil // what it needs does not matter
	}
	// An eventual read has not asked for the primary; a report that replay cancels must not end up there.
	in.NoPrimary = req.Retry == core.RetryConflict && in.Level == core.LevelEventual
	var began time.Time
	limit := in.Budget
	lost, clipped := false, false
	var extra demand
	for {
		if session != nil {
			lost = session.ViewTo(r.cfg.Cluster, now, &in.Need) == core.VerdictLost || lost
		}
		if in.Asked {
			extra.add(&in)
		}
		if c := in.Need.Pending; c != nil && in.Budget <= 0 && time.Since(c.Asked()) > r.cfg.CaptureTimeout {
			in.NoCapture = true // others have waited for it in vain
		}
		d, s := r.decide(&in)
		if lost {
			d = afterLoss(&in, s, d)
		}
		switch d.Action {
		case core.GoPrimary, core.GoReplica, core.Refuse:
			if d.Reason == core.ReasonCovered && began.IsZero() && !lost && session != nil {
				r.keep(o, req, &in, d.Nodes, s)
			}
			if d.Action == core.GoPrimary && session != nil && !req.Dry && (in.Level == core.LevelCausal || in.Level == core.LevelGlobal) && in.Need.AheadOf() {
				if began.IsZero() {
					began = time.Now()
				}
				r.catchUp(ctx, session)
			}
			r.settle(ctx, req, &in, d, s, began, out)
			return
		case core.WaitReplica, core.WaitCapture, core.AskPrimary, core.AskFloor, core.AskSince, core.AskNow, core.AskUnproven:
		}
		if req.Dry {
			r.dry(&in, d, out)
			return
		}
		if deadline, ok := ctx.Deadline(); ok && !clipped {
			// What falls back must be able to run as well, before the caller's time is over.
			clipped = true
			if left := time.Until(deadline) / 2; left < in.Budget {
				limit = max(0, left)
				in.Budget = limit
				continue
			}
		}
		if began.IsZero() {
			began = in.Now
		}
		if r.wait(ctx, session, &in, d, &extra) {
			in.Budget = max(0, limit-time.Since(began))
			in.Waited = in.Waited || in.Budget == 0 // for a capture, for as long as it might
		} else {
			in.Budget = 0
		}
		if err := r.over(ctx); err != nil {
			out.Level, out.Reason, out.Err = in.Level, d.Reason, err
			out.Waited = req.Waited + time.Since(began)
			return
		}
		in.PrimaryAll = in.PrimaryAll || r.Mode() != ModeRoute // it may have been changed during the wait
	}
}

// over returns why a statement that has waited needs no answer any more.
func (r *Router) over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Close has statements that wait end with ErrClosed, once what they wait for is closed.
func (r *Router) Close() { r.closed.Store(true) }

// now is the clock of a session.
var now = time.Now

// decide asks the clock only when the answer depends on it: a read of a covered session does not.
func (r *Router) decide(in *core.Input) (core.Decision, *core.Snapshot) {
	s := r.Monitor.Snapshot()
	if s.Positionless {
		in.Strategy.Sticky, in.Budget = true, 0
	}
	in.Now = time.Time{}
	if in.Strategy.Sticky || !in.Need.Until.IsZero() || in.Level > 0 || in.Need.Unplaced() {
		in.Now = time.Now()
	}
	d := core.Decide(in, s)
	if in.Now.IsZero() && d.Action != core.GoReplica && (d.Action != core.GoPrimary || d.FellBack) {
		in.Now = time.Now()
		d = core.Decide(in, s)
	}
	return d, s
}

// apply takes in what the context says and returns the session that the read belongs to.
func (r *Router) apply(o *core.Options, in *core.Input) (session *core.Session, err error) {
	in.Barred = r.barred
	if o != nil {
		session = o.Session
		in.Level = o.Level
		if o.Fallback != core.FallbackUnset {
			in.Fallback = o.Fallback
		}
		if o.HasWait {
			in.Budget = o.Wait
		}
		if o.Node != "" || o.Tags != nil {
			err = r.choose(o, in)
		}
	}
	session, in.Level = r.level(session, in.Level)
	in.HasSession = session != nil
	return session, err
}

// wait does what the decision asks for. It reports whether the read may wait again.
func (r *Router) wait(ctx context.Context, session *core.Session, in *core.Input, d core.Decision, extra *demand) bool {
	switch d.Action {
	case core.AskFloor:
		in.NoCapture = !r.settleFloors(ctx, session)
	case core.AskSince, core.AskNow:
		in.Asked = r.askPrimary(ctx, in, d.Action, extra)
		in.NoCapture = !in.Asked
	case core.AskUnproven:
		session.Prove(r.cfg.Cluster, in.Now, r.Captures.Join(), r.cfg.Strategy.Window)
	case core.WaitCapture:
		in.NoCapture = !r.waitCapture(ctx, in.Need.Pending)
	case core.AskPrimary:
		in.NoCapture = true
		if session == nil {
			return true // the primary's own position of just now, and another primary since
		}
		c := r.Captures.Join()
		session.Judge(r.cfg.Cluster, in.Now, in.Need.Positions, c, r.cfg.Strategy.Window)
		r.waitCapture(ctx, c)
	case core.WaitReplica:
		s := r.Monitor.Snapshot()
		required := make([]core.Position, len(in.Need.Positions))
		for i, p := range in.Need.Positions {
			required[i] = s.Effective(p, in.Need.CapturedAt)
		}
		err := r.Monitor.Wait(ctx, d.Nodes, required, in.Budget)
		in.Waited = !errors.Is(err, monitor.ErrTooManyWaiters)
		return err == nil
	case core.GoPrimary, core.GoReplica, core.Refuse:
	}
	return true
}

// waitCapture waits for a capture, at most CaptureTimeout.
func (r *Router) waitCapture(ctx context.Context, c *core.Capture) bool {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CaptureTimeout)
	defer cancel()
	return c.Wait(ctx) == nil || c.Result() != nil
}

// settle turns the final decision into a node.
func (r *Router) settle(ctx context.Context, req *Request, in *core.Input, d core.Decision, s *core.Snapshot,
	began time.Time, out *Decided,
) {
	out.Level, out.Reason, out.FellBack = in.Level, d.Reason, d.FellBack
	out.Positions, out.CapturedAt = in.Need.Positions, in.Need.CapturedAt
	out.Waited += req.Waited
	if !began.IsZero() {
		out.Waited += time.Since(began)
	}
	switch d.Action {
	case core.GoReplica:
		out.Role = core.RoleReplica
		out.Node = r.pick(d.Nodes, s)
		switch {
		case d.Reason == core.ReasonStale || in.Level == core.LevelEventual:
			out.Positions = nil
			return
		case in.Level > 0 && !in.Asked:
			proof, _ := s.Nodes[out.Node].Proof()
			out.Positions, out.CapturedAt = []core.Position{proof}, time.Time{} // what AsOf rests on
		}
		if !in.Strategy.Sticky {
			out.Covering = s
		}
		if len(in.Need.Floors) > 0 && (in.Level == core.LevelCausal || in.Level == core.LevelGlobal) {
			out.Floor = in.Need.Floors[0] // one that is not settled is the node's own
		}
	case core.Refuse:
		out.Err = r.refusal(in, d)
	default:
		out.Role = core.RolePrimary
		out.Node = r.Monitor.Snapshot().Primary
		if d.FellBack && !req.Dry && !req.Slot {
			r.protect(ctx, in, out)
		}
	}
}

// countStripes is how many callers count at one time without waiting for each other's cache lines.
const countStripes = 16

// Tells reports whether anybody hears of decisions.
func (r *Router) Tells() bool { return r.tells }

// Tally counts a decision that nobody is told of. Callers at one time should give different numbers.
func (r *Router) Tally(node int, reason core.Reason, caller uint32) {
	r.counts[int(caller%countStripes)*r.stripe+(node+1)*core.NumReasons+int(reason)].Add(1)
}

// Report counts a decision and tells the hook. Callers at one time should give different numbers.
func (r *Router) Report(ctx context.Context, d *Decided, caller uint32) {
	r.Tally(d.Node, d.Reason, caller)
	if r.cfg.OnDecision != nil {
		r.cfg.OnDecision(ctx, d)
	}
}
