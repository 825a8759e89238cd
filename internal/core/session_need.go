package core

import "time"

// Need is what a read of a session asks of a node, at one moment.
type Need struct {
	Positions  []Position
	CapturedAt time.Time
	Until      time.Time // the primary until then
	Gone       bool      // Until is that because of what was read, and of no write
	Unproven   bool      // once Until is over, what the primary has then is needed as well: see [Session.Prove]
	LastWrite  time.Time
	Pending    *Capture // a capture to wait for; nil when none is pending
	Open       bool     // a write of the session has not ended
	Ahead      bool     // see AheadOf
	shown      time.Time
	Floors     []*Floor // what was read and is no position yet; it counts for LevelCausal and above
	entry      *Entry   // what it is made of
	state      *sessionState
}

// Unplaced reports a write that has no position, neither known nor asked for: a process has told of it that knew none. Time is all
// that says when a replica shows it.
func (n *Need) Unplaced() bool {
	return !n.LastWrite.IsZero() && len(n.Positions) == 0 && n.Pending == nil
}

// Sticky reports that the last write was less than window ago.
func (n *Need) Sticky(now time.Time, window time.Duration) bool {
	return !n.LastWrite.IsZero() && now.Sub(n.LastWrite) < window
}

// View returns what the session needs in a cluster, and takes in the captures that have finished. The verdict is the gravest of
// what they said; it is returned once, and the capture's OnVerdict has heard of it.
func (s *Session) View(cluster string, clock func() time.Time) (n Need, v Verdict) {
	v = s.ViewTo(cluster, clock, &n)
	return n, v
}

// ViewTo is View for a Need that is there already.
func (s *Session) ViewTo(cluster string, clock func() time.Time, n *Need) Verdict {
	state := s.state.Load()
	c := state.find(cluster)
	if c == nil {
		*n = Need{Until: state.everyUntil(), state: state}
		return VerdictNone
	}
	verdict := VerdictNone
	if c.finished() {
		state, verdict = s.takeIn(state, cluster, clock)
		c = state.find(cluster)
	}
	n.state = state
	n.Positions = c.entry.Positions
	n.CapturedAt = c.captured
	n.Until = c.ends
	if len(state.clusters) > 1 {
		n.Until = later(n.Until, state.everyUntil())
	}
	n.Gone = !n.Until.IsZero() && n.Until.Equal(c.gone)
	n.LastWrite = c.wrote
	n.entry = &c.entry
	n.Open, n.Unproven = c.open > 0, c.unproven
	n.Floors, n.Ahead, n.shown = c.floors, c.ahead, c.shown
	n.Pending = nil
	if len(c.pending) > 0 {
		n.Pending = c.pending[0].capture
	}
	return verdict
}
