package core

import (
	"slices"
	"sync/atomic"
	"time"
)

// EveryCluster is the name of an entry that speaks for all clusters; no cluster has it. Only its Until counts.
const EveryCluster = ""

// maxPending bounds the captures that one session waits for in one cluster. Writes of known outcome need one; each
// write of unknown outcome needs one of its own.
const maxPending = 16

// Session holds what one user, request or job has written, per cluster. It only moves forward. It is safe for concurrent use;
// reading it takes no lock. The zero Session is ready.
type Session struct {
	state atomic.Pointer[sessionState]
	growth
}

// sessionState is immutable once it is published, but for what it remembers.
type sessionState struct {
	clusters []clusterState
	settled  Settled
	one      [1]clusterState // what clusters is made of when there is but one
}

type clusterState struct {
	// What each write looks at comes first.
	pending []pending
	// alone is what pending is made of when add has found but one, so that it needs no allocation of its own.
	alone   [1]pending
	isAlone bool

	entry       Entry
	ends, wrote time.Time // of entry, for reads do not work them out anew
	captured    time.Time // when the only position was captured; zero when that is not known, or there are several
	marked      MarkerSet // the row that the last write has moved, at markedAt
	markedAt    time.Time
	open        int       // writes that have handed out a row and not ended yet
	floors      []*Floor  // what was read and is no position yet
	shown       time.Time // see Shown
	gone        time.Time // when entry.Until is this, it is because no server can tell any more what was read
	ahead       bool      // some of what was read on a replica is a position now, and the primary has not been found to show it
	unproven    bool      // entry.Until is because of what nobody knows the position of; what the primary has after it counts
}

// pending is a write whose position is not known yet.
type pending struct {
	capture *Capture
	writer  Start         // server that ran the write
	window  time.Duration // how long the primary is asked for when the capture cannot speak for the write
	own     bool          // a later capture does not stand in for this one: the write's outcome was unknown
	anybody bool          // it was a read, and what is left of that is with whoever is the primary now
	fence   bool          // all that its server had is needed, whoever wrote it
	judge   []Position    // positions to be judged by the capture: lost, or carried over to a newer timeline
}

// Verdict says what a capture told of positions or writes that it was asked about.
type Verdict uint8

// The verdicts.
const (
	VerdictNone     Verdict = iota
	VerdictForeign          // the capture was answered by another server than the one that wrote
	VerdictLost             // the primary does not have the position
	VerdictReplaced         // the position's timeline has ended; what is left of it is below the new position
)

// takeIn takes in the captures that have a result, and tells of the verdict. It returns the state after that.
func (s *Session) takeIn(state *sessionState, cluster string, clock func() time.Time) (*sessionState, Verdict) {
	verdict := VerdictNone
	for c := state.find(cluster); c.finished(); c = state.find(cluster) {
		next, v, by := c.absorb(clock())
		if s.swap(state, cluster, next) && v != VerdictNone {
			verdict = max(verdict, v)
			if by.OnVerdict != nil {
				by.OnVerdict(v)
			}
		}
		state = s.state.Load()
	}
	return state, verdict
}

func (s *sessionState) find(cluster string) *clusterState {
	if s == nil {
		return nil
	}
	for i := range s.clusters {
		if s.clusters[i].entry.Cluster == cluster {
			return &s.clusters[i]
		}
	}
	return nil
}

// everyUntil is until when only the primary will do, in any cluster.
func (s *sessionState) everyUntil() time.Time {
	if every := s.find(EveryCluster); every != nil {
		return every.ends
	}
	return time.Time{}
}

// swap replaces the state of one cluster if nothing has changed since state was loaded.
func (s *Session) swap(state *sessionState, cluster string, next clusterState) bool {
	next.entry.Cluster = cluster
	next.ends, next.wrote = next.entry.Ends(), next.entry.Wrote()
	published := new(sessionState)
	published.clusters = published.one[:0]
	if state != nil {
		published.clusters = append(published.clusters, state.clusters...)
	}
	c := published.find(cluster)
	if c == nil {
		published.clusters = append(published.clusters, next)
		c = &published.clusters[len(published.clusters)-1]
	}
	*c = next
	if next.isAlone {
		c.pending = c.alone[:]
	}
	return s.state.CompareAndSwap(state, published)
}

// update applies f, which must not change what its argument points to, until it is published.
func (s *Session) update(cluster string, f func(clusterState) clusterState) {
	for {
		state := s.state.Load()
		var c clusterState
		if p := state.find(cluster); p != nil {
			c = *p
		}
		if s.swap(state, cluster, f(c)) {
			return
		}
	}
}

func (c *clusterState) finished() bool {
	for i := range c.pending {
		if c.pending[i].capture.Result() != nil {
			return true
		}
	}
	return false
}

// absorb takes in every capture that has a result. by is the one that gave the verdict.
func (c *clusterState) absorb(now time.Time) (next clusterState, verdict Verdict, by *Capture) {
	next = *c
	next.pending, next.alone, next.isAlone = nil, [1]pending{}, false
	for _, p := range c.pending {
		r := p.capture.look()
		if r == nil {
			next.pending = append(next.pending, p)
			continue
		}
		if v := next.apply(p, r, now); v > verdict {
			verdict, by = v, p.capture
		}
	}
	return next, verdict, by
}

func (c *clusterState) apply(p pending, r *CaptureResult, now time.Time) Verdict {
	verdict := VerdictNone
	if len(p.judge) == 0 && !p.anybody && !p.fence {
		// A write that found its capture joined by an earlier one has not said when it was: before this.
		c.entry.At = later(c.entry.At, r.At)
	}
	switch {
	case r.Err != nil || r.Position.IsZero():
		c.doubt(now.Add(p.window))
		return verdict
	case p.fence:
		c.require(r.Position, r.At, p.window, now)
		return verdict
	case len(p.judge) == 0 && !p.anybody && p.writer != r.Start:
		// Another server answered than the one that wrote, or another run of it. Whether it has the write nobody knows, so the primary
		// is asked for a while; what is in its position now is what a token can tell of the write.
		c.doubt(now.Add(p.window))
		c.require(r.need(), r.At, p.window, now)
		return VerdictForeign
	}
	for _, judged := range p.judge {
		v := judge(judged, r)
		if v == VerdictNone {
			v = c.absent(judged, r)
		}
		if v != VerdictNone && slices.Contains(c.entry.Positions, judged) {
			c.entry.Positions = slices.DeleteFunc(slices.Clone(c.entry.Positions), func(q Position) bool { return q == judged })
			verdict = max(verdict, v)
		}
	}
	if len(p.judge) > 0 && verdict == VerdictNone {
		return verdict
	}
	need := r.need()
	if len(p.judge) > 0 {
		need = r.Position // also what others have written, as far as it is left
	}
	c.require(need, r.At, p.window, now)
	return verdict
}

// doubt has the primary asked until a moment, and holds the session to what the primary has then.
func (c *clusterState) doubt(until time.Time) {
	c.entry.Until, c.unproven = later(c.entry.Until, until), true
}

// require adds what a capture has found at a moment to what the session needs.
func (c *clusterState) require(p Position, at time.Time, window time.Duration, now time.Time) {
	merged, ok := MergePositions(c.entry.Positions, p)
	if !ok {
		c.doubt(now.Add(window))
		return
	}
	c.entry.Positions = merged
	c.captured = capturedAt(merged, p, at, c.captured)
}

// capturedAt returns when the only position of a set was captured, after p, captured at a moment, was merged into it. A position that
// came from elsewhere and is higher was captured at a time that nobody here knows.
func capturedAt(merged []Position, p Position, at, before time.Time) time.Time {
	switch {
	case len(merged) > 1:
		return time.Time{}
	case merged[0] == p:
		return at
	}
	return before
}

// judge says what the primary's own position, read after p had arrived, tells of p.
func judge(p Position, r *CaptureResult) Verdict {
	switch {
	case p.Kind != r.Position.Kind || p.System != r.Position.System:
		return VerdictLost
	case p.Kind != KindPostgres:
		if missing(&p, &r.Position, r.History) {
			return VerdictLost
		}
		return VerdictNone
	case p.Timeline <= r.Position.Timeline && p.LSN > r.Reported:
		return VerdictLost // a timeline that has ended did so before that
	case p.Timeline < r.Position.Timeline && r.Recovered != 0 && p.LSN > r.Recovered:
		return VerdictLost // and the new one has come past it since
	case p.Timeline < r.Position.Timeline:
		return VerdictReplaced
	}
	return VerdictNone
}

// missing reports that a primary at position does not have all of the GTIDs of p, although it has heard of their servers:
// one that it has never heard of may be newer than it.
func missing(p, position *Position, history MariaDBGTID) bool {
	if p.Kind == KindMariaDB {
		return !history.IsZero() && !history.Contains(p.Domains())
	}
	if p.Kind == KindMarker {
		return p.Markers().Behind(position.Markers())
	}
	return p.GTIDs().CoveredBy(position.GTIDs()) == NotCovered
}

// Awaits reports that the session waits for a capture already, with an earlier write on the same server: Wrote would change nothing.
func (s *Session) Awaits(cluster string, writer Start, capture *Capture) bool {
	c := s.state.Load().find(cluster)
	return c != nil && c.waitsFor(writer, capture)
}

// Wrote records a write that ended at now on the server writer. Its position is what capture will find. own says that the
// write's outcome is unknown, so that only this capture covers it. window is how long the primary is asked for if the capture
// cannot speak for the write.
func (s *Session) Wrote(cluster string, now time.Time, writer Start, capture *Capture, own bool, window time.Duration) {
	if !own && s.Awaits(cluster, writer, capture) {
		return
	}
	s.grow(cluster, func(c clusterState) clusterState {
		c.entry.At = later(c.entry.At, now)
		return c.add(pending{capture: capture, writer: writer, window: window, own: own}, now)
	})
}

// Unprovable records a write whose position cannot be had, and never will: the primary until then.
func (s *Session) Unprovable(cluster string, now, until time.Time) {
	s.grow(cluster, func(c clusterState) clusterState {
		c.entry.At = later(c.entry.At, now)
		c.entry.Until = later(c.entry.Until, until)
		return c
	})
}

// Doubtful records a write of unknown outcome that the server cannot be asked about. It stands or does not within window: for that
// time it is the primary, and then whatever shows what the primary has by then. capture begins now; a token tells of what it finds.
func (s *Session) Doubtful(cluster string, now time.Time, capture *Capture, window time.Duration) {
	s.grow(cluster, func(c clusterState) clusterState {
		c.entry.At = later(c.entry.At, now)
		c.doubt(now.Add(window))
		return c.add(pending{capture: capture, window: window, anybody: true}, now)
	})
}

// Prove makes the session need what a capture finds that begins after its doubts have ended. See [Need.Unproven].
func (s *Session) Prove(cluster string, now time.Time, capture *Capture, window time.Duration) {
	s.update(cluster, func(c clusterState) clusterState {
		if !c.unproven || c.entry.Until.After(now) {
			return c
		}
		c.unproven = false
		return c.add(pending{capture: capture, window: window, anybody: true}, now)
	})
}

// Judge asks capture, which must begin after this call, whether the primary still has positions. Those that it has
// lost, or whose timeline has ended, give way to the position that it reports.
func (s *Session) Judge(cluster string, now time.Time, positions []Position, capture *Capture, window time.Duration) {
	s.update(cluster, func(c clusterState) clusterState {
		return c.add(pending{capture: capture, window: window, judge: positions}, now)
	})
}

// Require makes the session need what the entry needs as well.
func (s *Session) Require(e Entry, window time.Duration) {
	if s.Learn(e, window) {
		s.grew()
	}
}

// Learn is Require for what no answer has to tell, because whoever is answered has brought it, or has written nothing. It reports
// whether the session needs more than before.
func (s *Session) Learn(e Entry, window time.Duration) (more bool) {
	s.update(e.Cluster, func(c clusterState) clusterState {
		before := c.entry
		c.entry = c.entry.Merge(e, window)
		moved := !slices.Equal(before.Positions, c.entry.Positions)
		if moved {
			c.captured = time.Time{}
		}
		// AtLatest is not told: whoever is told makes his own of At.
		more = moved || c.entry.At.After(before.At) || c.entry.Until.After(before.Until) || c.entry.UntilLatest.After(before.UntilLatest)
		return c
	})
	return more
}

// add queues p. A later capture stands in for an earlier one of the same server that nobody else asked for.
func (c clusterState) add(p pending, now time.Time) clusterState {
	plain := p.plain()
	if plain && c.waitsFor(p.writer, p.capture) {
		return c // another goroutine of the session was faster: the capture that it waits for begins later
	}
	var list []pending
	for _, q := range c.pending {
		if plain && q.plain() && q.writer == p.writer || p.fence && q.fence {
			continue // whatever it has found, or will: this one begins later
		}
		list = append(list, q)
	}
	c.alone, c.isAlone = [1]pending{}, false
	if len(list) == 0 {
		c.pending, c.alone[0], c.isAlone = nil, p, true
		return c
	}
	if len(list) >= maxPending {
		c.doubt(now.Add(p.window))
		return c
	}
	c.pending = append(list, p)
	return c
}

// waitsFor reports that a plain write on writer that joins capture finds the session waiting for that one already, or for
// one that begins later.
func (c *clusterState) waitsFor(writer Start, capture *Capture) bool {
	for i := range c.pending {
		if q := &c.pending[i]; q.plain() && q.writer == writer && q.capture.order >= capture.order {
			return true
		}
	}
	return false
}

// plain reports that a later capture stands in for this one.
func (p *pending) plain() bool { return !p.own && !p.anybody && !p.fence && len(p.judge) == 0 }

// Open records that a write has begun to hand out rows and has not ended. Close ends it.
func (s *Session) Open(cluster string) {
	s.grow(cluster, func(c clusterState) clusterState { c.open++; return c })
}

// Close ends a write that Open began.
func (s *Session) Close(cluster string) {
	s.update(cluster, func(c clusterState) clusterState { c.open--; return c })
}
