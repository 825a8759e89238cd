package check

import (
	"fmt"
	"strings"
)

// Rule is a promise that a history can break.
type Rule uint8

// The rules.
const (
	WellFormed        Rule = iota // the history is one: whoever recorded it made no mistake
	ReadYourWrites                // a read shows what its session has written
	MonotonicReads                // a read at level Causal shows what its session has read
	WritesFollowReads             // whoever shows a write shows what its writer had seen
	MonotonicWrites               // whoever shows a write shows what its writer had written before
	BoundedStaleness              // a read at level Bounded shows what is older than its bound
	FenceHolds                    // a read shows what had been acknowledged when its session asked for all
	GlobalOrder                   // a read at level Global shows what was acknowledged before
	LossIsReported                // a replica serves a session whose write was lost only once it has been told
	FailedIsGone                  // a write that has failed does not stand
	NothingInvented               // what is read was written
	WriteOnReplica                // no write goes to a replica
	RunsOnce                      // no statement runs twice on a primary, and no write twice at all
	InTime                        // no operation takes longer than it may
	OneReason                     // every statement has exactly one
	numRules
)

var ruleNames = [numRules]string{
	"well_formed", "read_your_writes", "monotonic_reads", "writes_follow_reads", "monotonic_writes", "bounded_staleness",
	"fence_holds", "global_order", "loss_is_reported", "failed_is_gone", "nothing_invented", "write_on_replica", "runs_once", "in_time", "one_reason",
}

// String is the rule's name, as in "read_your_writes".
func (r Rule) String() string {
	if r < numRules {
		return ruleNames[r]
	}
	return "invalid"
}

// Violation is a promise that was broken.
type Violation struct {
	Rule Rule
	Op   int // the operation that shows it; -1 when it is none
	Text string
}

// String describes it.
func (v Violation) String() string {
	if v.Op < 0 {
		return fmt.Sprintf("%s: %s", v.Rule, v.Text)
	}
	return fmt.Sprintf("%s: operation %d %s", v.Rule, v.Op, v.Text)
}

// describe renders an operation for a human.
func (h *History) describe(i int) string {
	o := &h.Ops[i]
	var b strings.Builder
	fmt.Fprintf(&b, "#%d session %d %s-%s ", i, o.Session, o.Begin, o.End)
	switch o.Kind {
	case Read:
		fmt.Fprintf(&b, "read %s key %d saw %v", levelNames[o.Level], o.Key, o.Saw)
		if o.Asked != o.Begin {
			fmt.Fprintf(&b, " asked %s", o.Asked)
		}
	case Write:
		fmt.Fprintf(&b, "write %d to key %d", o.Version, o.Key)
	case Merge:
		fmt.Fprintf(&b, "merge of #%d", o.From)
	default:
		b.WriteString([...]string{"read", "write", "token", "merge", "fence", "other"}[o.Kind])
	}
	fmt.Fprintf(&b, " %s", [...]string{"pending", "ok", "failed", "unknown"}[o.Outcome])
	if o.Err != "" {
		fmt.Fprintf(&b, " (%s)", o.Err)
	}
	for _, r := range o.Routes {
		role := "primary"
		if r.Replica {
			role = "replica"
		}
		fmt.Fprintf(&b, " [%s %s %s]", r.Node, role, r.Reason)
	}
	return b.String()
}

var levelNames = [...]string{"eventual", "bounded", "session", "causal", "global", "primary"}

// Describe renders a violation with the operations that it is about, for a human.
func (h *History) Describe(v Violation) string {
	var b strings.Builder
	b.WriteString(v.String())
	if v.Op < 0 || v.Op >= len(h.Ops) {
		return b.String()
	}
	fmt.Fprintf(&b, "\n  %s", h.describe(v.Op))
	o := &h.Ops[v.Op]
	for i := range h.Ops {
		p := &h.Ops[i]
		if i != v.Op && (p.Kind == Write && p.Key == o.Key && o.Kind == Read || p.Session == o.Session && p.Kind != Read && p.End <= o.End && o.End-p.End < describeWithin) {
			fmt.Fprintf(&b, "\n  %s", h.describe(i))
			for _, l := range h.Losses {
				if p.Kind == Write && l.Version == p.Version {
					fmt.Fprintf(&b, " (lost at %s, silently %t)", l.At, l.Silent)
				}
			}
			for _, c := range h.Commits {
				if p.Kind == Write && c.Version == p.Version {
					fmt.Fprintf(&b, " (stood from %s)", c.At)
				}
			}
		}
	}
	return b.String()
}

// describeWithin is how far back Describe looks for what else the session did.
const describeWithin = 10_000_000_000
