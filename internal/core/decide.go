package core

import "time"

// Class is what kind of statement is to be routed, as far as the decision needs to know.
type Class uint8

// The classes. The zero value is the careful one.
const (
	ClassUnknown Class = iota
	ClassRead
	ClassWrite
	ClassSessionState
	ClassTxControl
)

var classTexts = [...]string{"unknown", "read", "write", "session_state", "tx_control"}

// String names the class.
func (c Class) String() string {
	if int(c) < len(classTexts) {
		return classTexts[c]
	}
	return "invalid"
}

// Hint is what a comment in the text asks for.
type Hint uint8

// The hints.
const (
	HintNone Hint = iota
	HintPrimary
	HintReplica
)

// Held is what the checkout already has.
type Held uint8

// What a checkout can hold.
const (
	HeldNothing Held = iota
	HeldTx           // an open transaction
	HeldState        // session state on the primary connection
	HeldPrimary      // the primary connection, with no state on it
)

// AnyNode in Input.Node means that the context names no node.
const AnyNode = -1

// Input is everything about a statement that the decision depends on.
type Input struct {
	Class      Class
	Hint       Hint
	Held       Held
	Level      Level // resolved; LevelUnset only without a session
	HasSession bool
	Need       Need
	Strategy   Strategy
	Fallback   Fallback
	MaxLag     time.Duration // negative: no limit
	Node       int           // named by the context, or AnyNode
	Replica    int           // node of the replica connection that the checkout holds, or AnyNode
	Barred     uint64        // nodes that are kept for reads with other tags
	Exclude    uint64        // nodes that have just failed this statement
	PrimaryAll bool          // the mode sends everything to the primary
	NoPrimary  bool          // it does not fall back to the primary
	Waited     bool          // it has waited for a replica
	NoCapture  bool          // the wait for a capture is over: do not ask for another
	Asked      bool          // Need has what the level asks of the primary's position
	Budget     time.Duration // how long the read may still wait
	Now        time.Time
}

// Action is what is to be done.
type Action uint8

// The actions.
const (
	GoPrimary   Action = iota // run it on the primary
	GoReplica                 // run it on one of Nodes, all of which are right
	WaitReplica               // wait until one of Nodes has come far enough, then decide again
	WaitCapture               // wait for Need.Pending, then decide again
	AskPrimary                // have the primary judge Need.Positions, then decide again
	AskFloor                  // make positions of Need.Floors, then decide again
	AskSince                  // add to Need what the primary had Level.Bound before Now, then decide again
	AskNow                    // add to Need what the primary has now, then decide again
	AskUnproven               // have the session wait for what the primary has now, then decide again
	Refuse                    // no node may serve it: an error
)

// Decision is where a statement goes and why. It has four fields so that it travels in registers.
type Decision struct {
	Action Action
	Nodes  uint64 // bit i is node i; of a wait: those that may serve once it has succeeded
	Reason Reason
	// FellBack is true for a read that is on the primary only because no replica can serve it: one would, if all nodes were well.
	FellBack bool
}

// Decide says where a statement goes. It is a pure function.
func Decide(in *Input, s *Snapshot) Decision {
	if d, done := decideClass(in, s); done {
		return d
	}
	d := decideRead(in, s)
	if d.Action == GoReplica && (d.Reason == ReasonCovered || d.Reason == ReasonLevel) {
		switch {
		case in.Node != AnyNode:
			d.Reason = ReasonContext
		case in.Class == ClassUnknown:
			d.Reason = ReasonHint
		}
	}
	return d
}

func decideRead(in *Input, s *Snapshot) Decision {
	eligible, why := eligible(in, s)
	if in.Level == LevelEventual {
		if eligible == 0 {
			return fallBack(in, s, why)
		}
		return Decision{Action: GoReplica, Nodes: nearest(s, eligible), Reason: ReasonLevel}
	}
	if in.Level > 0 {
		return decideBounded(in, s, eligible, why)
	}
	return decideSession(in, s, eligible, why)
}

// Unmovable is why a statement goes to the primary whatever else is known; ReasonNone when that is not so.
func Unmovable(class Class, held Held) Reason {
	switch {
	case held == HeldTx || class == ClassTxControl:
		return ReasonTx
	case held == HeldState || class == ClassSessionState:
		return ReasonSessionState
	case class == ClassWrite:
		return ReasonWrite
	}
	return ReasonNone
}

// decideClass settles everything that does not depend on how far the replicas are.
func decideClass(in *Input, s *Snapshot) (Decision, bool) {
	primary := func(r Reason) (Decision, bool) { return Decision{Action: GoPrimary, Reason: r}, true }
	if r := Unmovable(in.Class, in.Held); r != ReasonNone {
		return primary(r)
	}
	switch {
	case in.Hint == HintPrimary:
		return primary(ReasonHint)
	case in.Class == ClassUnknown && in.Hint != HintReplica:
		return primary(ReasonUnknown)
	case in.PrimaryAll:
		return primary(ReasonMode)
	case in.Held == HeldPrimary:
		return primary(ReasonSessionState)
	case in.Node != AnyNode && in.Node == s.Primary:
		return primary(ReasonContext)
	case in.Level == LevelPrimary:
		return primary(ReasonLevel)
	case !in.HasSession && in.Level.needsSession():
		return primary(ReasonNoSession)
	}
	return Decision{}, false
}

// eligible returns the replicas that may serve a read at all, and the reason when there is none.
func eligible(in *Input, s *Snapshot) (mask uint64, why Reason) {
	why = ReasonNoReplica
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !in.MayServe(i, n) {
			continue
		}
		if !s.WithinLag(n, in.MaxLag) {
			why = ReasonLagging
			continue
		}
		mask |= 1 << i
	}
	return mask, why
}

// MayServe reports whether node i may serve the read as far as its health and the read's own choices go, and whatever it shows.
func (in *Input) MayServe(i int, n *NodeView) bool {
	return n.Role == RoleReplica && n.Healthy && !n.Stopped && !n.Foreign && (in.Exclude|in.Barred)&(1<<i) == 0 && in.allows(i)
}

// allows reports whether node i may serve at all: a checkout keeps its one replica, and the context may name a node.
func (in *Input) allows(i int) bool {
	return (in.Node == AnyNode || in.Node == i) && (in.Replica == AnyNode || in.Replica == i)
}

// WithinLag holds a replica to a limit; a negative one is none. One that has been beyond it comes back well below it. While the primary is down its own position cannot be known,
// and the lag that was seen last stands; a cluster whose primary was never seen has no lag to hold a replica to. Without
// positions a replica is held to what it says of itself, and to nothing when it says nothing.
func (s *Snapshot) WithinLag(n *NodeView, limit time.Duration) bool {
	switch {
	case limit < 0:
		return true
	case n.LagKnown:
		return n.Lag <= limit && !n.Late
	case s.Positionless:
		return !n.Sample.SourceLagKnown || n.Sample.SourceLag <= limit
	}
	return !s.PrimaryUp
}

func decideSession(in *Input, s *Snapshot, eligible uint64, why Reason) Decision {
	need := &in.Need
	switch {
	case !need.Until.IsZero() && need.Until.After(in.Now):
		if need.Gone {
			return fallBack(in, s, ReasonSticky)
		}
		return stay(in, s, ReasonSticky)
	case need.Unplaced() && need.Sticky(in.Now, in.Strategy.Window):
		return stay(in, s, ReasonSticky)
	}
	if in.Strategy.Sticky {
		return decideSticky(in, s, eligible, why)
	}
	if need.Open {
		return stay(in, s, ReasonCapturePending)
	}
	switch {
	case eligible == 0:
		return fallBack(in, s, why)
	case need.Unproven:
		return Decision{Action: AskUnproven, Nodes: nearest(s, eligible), Reason: ReasonCapturePending}
	case need.Pending != nil:
		return decidePending(in, s, eligible)
	case in.Level == LevelGlobal && !in.Asked:
		if in.NoCapture {
			return fallBack(in, s, ReasonCapturePending)
		}
		return Decision{Action: AskNow, Nodes: nearest(s, eligible), Reason: ReasonCapturePending}
	case in.floored():
		return decideFloor(in, s, eligible)
	}
	return decidePosition(in, s, eligible)
}

// decidePending waits until the position of what the session has written is known. A read that may not wait stays on the primary
// for that moment, in a healthy cluster too; any other comes to it because the primary is late.
func decidePending(in *Input, s *Snapshot, eligible uint64) Decision {
	switch {
	case in.NoCapture || in.Budget <= 0 && in.Waited:
		return fallBack(in, s, ReasonCapturePending)
	case in.Budget <= 0:
		return stay(in, s, ReasonCapturePending)
	}
	return Decision{Action: WaitCapture, Nodes: nearest(s, eligible), Reason: ReasonCapturePending}
}

func decideSticky(in *Input, s *Snapshot, eligible uint64, why Reason) Decision {
	need := &in.Need
	switch {
	case need.Open, need.Sticky(in.Now, in.Strategy.Window):
		return stay(in, s, ReasonSticky)
	case need.Pending != nil:
		return stay(in, s, ReasonSticky) // the primary was seen without a position, and may well have one when it is asked
	case eligible == 0:
		return fallBack(in, s, why)
	case in.Level == LevelGlobal:
		return stay(in, s, ReasonSticky) // nothing can prove it of a replica
	case in.floored():
		if eligible = sameServer(in, s, eligible); eligible == 0 {
			return stay(in, s, ReasonSticky)
		}
	}
	return Decision{Action: GoReplica, Nodes: nearest(s, eligible), Reason: ReasonCovered}
}

func decidePosition(in *Input, s *Snapshot, eligible uint64) Decision {
	var covered, behind uint64
	for i := range s.Nodes {
		if eligible&(1<<i) == 0 {
			continue
		}
		switch covers(in, s, &s.Nodes[i]) {
		case Covered:
			covered |= 1 << i
		case NotCovered:
			behind |= 1 << i
		case Incomparable:
		}
	}
	reason := ReasonCovered
	if in.Waited {
		reason = ReasonWaited
	}
	if covered != 0 {
		return Decision{Action: GoReplica, Nodes: nearest(s, covered), Reason: reason}
	}
	if doubtful(in, s) {
		return Decision{Action: AskPrimary, Nodes: nearest(s, eligible), Reason: ReasonIncomparable, FellBack: true}
	}
	if behind == 0 {
		return fallBack(in, s, ReasonIncomparable)
	}
	return decideWait(in, s, behind)
}

func decideWait(in *Input, s *Snapshot, behind uint64) Decision {
	if in.Budget <= 0 {
		if in.Waited {
			return fallBack(in, s, ReasonWaitTimeout)
		}
		return fallBack(in, s, ReasonLagging)
	}
	var inTime uint64
	for i := range s.Nodes {
		if behind&(1<<i) != 0 && s.Nodes[i].catchesUpIn(in.Budget, in, s) {
			inTime |= 1 << i
		}
	}
	if inTime == 0 {
		return fallBack(in, s, ReasonHopeless)
	}
	return Decision{Action: WaitReplica, Nodes: inTime, Reason: ReasonWaited}
}

// catchesUpIn estimates whether the replica shows all that is needed within budget. It errs on the side of waiting: a
// wait has an end, while a read that falls back loads the primary.
func (n *NodeView) catchesUpIn(budget time.Duration, in *Input, s *Snapshot) bool {
	if n.Behind > budget && n.Rate <= 0 {
		return false // it stands still
	}
	delay := max(n.Delay, n.Behind)
	if !in.Need.CapturedAt.IsZero() {
		delay -= in.Now.Sub(in.Need.CapturedAt)
	}
	if delay <= budget {
		return true
	}
	return n.Rate > 0 && float64(n.gap(in, s))/n.Rate <= budget.Seconds()
}

// gap is how much of what is needed the replica does not show.
func (n *NodeView) gap(in *Input, s *Snapshot) uint64 {
	var gap uint64
	replay, _ := n.Proof()
	for _, p := range in.Need.Positions {
		p = s.Effective(p, in.Need.CapturedAt)
		gap = max(gap, p.Missing(&replay))
	}
	return gap
}

// Expected estimates how long the replica takes to show all that is needed, and how much it does not show now. known is false
// for one that stands still. What is not known yet is taken for all that the primary had when it was seen last.
func (n *NodeView) Expected(in *Input, s *Snapshot) (wait time.Duration, known bool, gap uint64) {
	if gap = n.gap(in, s); gap == 0 {
		gap = n.Missing // what is needed is not known, and no more than the primary has
	}
	switch {
	case n.Rate > 0 && gap > 0:
		return time.Duration(float64(gap) / n.Rate * float64(time.Second)), true, gap
	case n.Behind > 0:
		return 0, false, gap
	}
	return n.Delay, true, gap
}

// nearest keeps the nodes of the nearest zone that has any.
func nearest(s *Snapshot, mask uint64) uint64 {
	if mask&(mask-1) == 0 {
		return mask
	}
	var best uint64
	rank := -1
	for i := range s.Nodes {
		if mask&(1<<i) == 0 {
			continue
		}
		switch z := s.Nodes[i].Zone; {
		case rank < 0 || z < rank:
			rank, best = z, 1<<i
		case z == rank:
			best |= 1 << i
		}
	}
	return best
}
