package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/check"
)

// Faults says how often each kind of fault happened that happens at a moment.
type Faults [numStorms]int

// Total is how many there were.
func (f *Faults) Total() int {
	n := 0
	for _, count := range f {
		n += count
	}
	return n
}

// String names the kinds, with how often each happened.
func (f *Faults) String() string {
	var parts []string
	for i, count := range f {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", faultNames[i], count))
		}
	}
	return strings.Join(parts, ", ")
}

// Tally counts what happened in scenarios.
type Tally struct {
	Scenarios int
	Ops       int
	Reads     int // that were answered
	Replicas  int // of them, by a replica
	Writes    int // that were acknowledged
	Unknown   int // writes of which nobody could say
	Failed    int // operations that were refused, and said so
	Lost      int // acknowledged writes that a failover lost
	Faults    Faults
	Simulated time.Duration
	Slowest   time.Duration // answered read

	Violations int
	Broken     int // scenarios in which anything was wrong
}

// Add counts what came of one.
func (t *Tally) Add(r *Result) {
	t.Scenarios++
	t.Simulated += r.Took
	t.Violations += len(r.Violations)
	if r.Failed() {
		t.Broken++
	}
	for i, n := range r.Faults {
		t.Faults[i] += n
	}
	if r.History == nil {
		return
	}
	t.Ops += len(r.History.Ops)
	t.Lost += len(r.History.Losses)
	for i := range r.History.Ops {
		t.count(&r.History.Ops[i])
	}
}

func (t *Tally) count(o *check.Op) {
	switch {
	case o.Outcome == check.Failed:
		t.Failed++
	case o.Kind == check.Write && o.Outcome == check.Unknown:
		t.Unknown++
	case o.Kind == check.Write && o.Outcome == check.OK:
		t.Writes++
	case o.Kind == check.Read && o.Outcome == check.OK:
		t.Reads++
		t.Slowest = max(t.Slowest, o.End-o.Begin)
		if n := len(o.Routes); n > 0 && o.Routes[n-1].Replica {
			t.Replicas++
		}
	}
}

// String is a few lines for a human.
func (t *Tally) String() string {
	return fmt.Sprintf("%d operations in %d scenarios, %s of simulated time\n"+
		"  %d reads answered, %.1f %% of them off the primary, the slowest in %s\n"+
		"  %d writes acknowledged, %d of unknown outcome, %d lost in failovers and crashes; %d operations refused\n"+
		"  %d faults: %s\n"+
		"  %d violations in %d scenarios",
		t.Ops, t.Scenarios, t.Simulated.Round(time.Second),
		t.Reads, 100*float64(t.Replicas)/float64(max(1, t.Reads)), t.Slowest,
		t.Writes, t.Unknown, t.Lost, t.Failed,
		t.Faults.Total(), &t.Faults,
		t.Violations, t.Broken)
}
