package readroute_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/check"
)

// judge finds out what is true, and lets the checker compare.
func (c *chaos[N]) judge() {
	final := map[int]int{}
	for _, v := range c.list(c.primary) {
		final[v]++
	}
	h := c.rec.History()
	name := c.nodes[c.primary].Name()
	lost := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Kind != check.Write {
			continue
		}
		switch times := final[o.Version]; {
		case times > 0:
			for range times {
				h.Runs = append(h.Runs, check.Run{Op: o.ID, Node: name, Primary: true, Wrote: true})
			}
			if o.Outcome != check.Unknown { // since when that stands, only those know that have read it
				h.Commits = append(h.Commits, check.Commit{Version: o.Version, At: o.End})
			}
		case o.Outcome != check.Failed:
			at, ok := c.lost(o)
			if !ok && o.Outcome == check.OK {
				c.t.Errorf("version %d was acknowledged by the primary, and is gone without a failover: %+v", o.Version, o)
			}
			h.Losses = append(h.Losses, check.Loss{Version: o.Version, At: at})
			if o.Outcome == check.OK {
				lost++
			}
		}
	}
	c.keep(h)
	began := time.Now()
	violations := h.Verify()
	took := time.Since(began)
	violations = append(violations, c.late(h)...)
	amount := c.report(h, lost, len(violations), took)
	for i, v := range violations {
		if i == 3 {
			break
		}
		since := time.Duration(0)
		if v.Op >= 0 {
			since = h.Ops[v.Op].Begin - 6*time.Second
		}
		c.t.Errorf("%s\n%s", h.Describe(v), c.tale(since))
	}
	require.Empty(c.t, len(violations), "violations")
	c.enough(amount)
}

// lost says when a write that does not stand in the end was lost: with the first new primary that did not have it, or when it was made, on a
// former one. ok is false when neither can be.
func (c *chaos[N]) lost(o *check.Op) (at time.Duration, ok bool) {
	on, primary := "", c.nodes[0].Name()
	if len(o.Routes) > 0 {
		on = o.Routes[len(o.Routes)-1].Node
	}
	made := false // on what was the primary then
	for _, p := range c.promotions {
		if p.seen < o.Begin {
			primary = p.node
			continue
		}
		switch {
		case !made && on == primary:
			made = true
		case !made && on == p.node && p.at <= o.End:
			made = true
			continue // perhaps after we had looked what there was
		}
		if made && !p.has[o.Version] {
			return max(p.at, o.Begin), true
		}
	}
	return o.Begin, !made && on != primary
}

// chaosBound is how long a read may take that a replica has served: the wait, a replica that falls silent until that is found out, and
// as long for the one retry, on one that does so as well.
const chaosBound = chaosWait + 2*(chaosInterval*5/4+time.Second) + chaosPatience

// late finds reads that took longer. One on the primary takes what the primary takes, and one in a transaction goes nowhere else:
// they are held to the time that their callers gave them.
func (c *chaos[N]) late(h *check.History) (found []check.Violation) {
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Kind != check.Read || len(o.Routes) != 1 || !o.Routes[0].Replica || o.Routes[0].Reason == "tx" || o.End-o.Begin <= chaosBound {
			continue
		}
		found = append(found, check.Violation{Rule: check.InTime, Op: i, Text: fmt.Sprintf("took %s on a replica", o.End-o.Begin)})
	}
	return found
}

// recovered is how long after each promotion, counted from when the server was ready, the new primary served a read; of those
// during which nothing else happened to it.
func (c *chaos[N]) recovered(h *check.History) []time.Duration {
	var took []time.Duration
	for _, p := range c.promotions {
		if !p.calm {
			continue
		}
		first := time.Duration(-1)
		for i := range h.Ops {
			o := &h.Ops[i]
			if o.Kind == check.Read && o.Outcome == check.OK && o.Begin >= p.at && len(o.Routes) == 1 && o.Routes[0].Node == p.node &&
				!o.Routes[0].Replica && (first < 0 || o.End < first) {
				first = o.End
			}
		}
		if first >= 0 {
			took = append(took, max(0, first-p.ready))
		}
	}
	slices.Sort(took)
	return took
}

// tally is how much there was to judge.
type tally struct {
	reads, replica, writes int
	recovered              []time.Duration
}

// report says what there was to judge.
func (c *chaos[N]) report(h *check.History, lost, violations int, verified time.Duration) tally {
	var reads, writes, unknown, replica int
	var slowest, slowestOnReplica time.Duration
	for i := range h.Ops {
		switch o := &h.Ops[i]; o.Kind {
		case check.Read:
			if o.Outcome == check.OK && len(o.Routes) > 0 {
				reads++
				slowest = max(slowest, o.End-o.Begin)
				if o.Routes[len(o.Routes)-1].Replica {
					replica++
					slowestOnReplica = max(slowestOnReplica, o.End-o.Begin)
				}
			}
		case check.Write:
			switch o.Outcome {
			case check.OK:
				writes++
			case check.Unknown:
				unknown++
			case check.Failed, check.Pending:
			}
		case check.Token, check.Merge, check.Fence, check.Other:
		}
	}
	faults := 0
	var names []string
	for _, what := range slices.Sorted(maps.Keys(c.done)) {
		faults += c.done[what]
		names = append(names, fmt.Sprintf("%s %d", what, c.done[what]))
	}
	recovered := c.recovered(h)
	c.t.Logf("%s: %d reads in %s, %.1f %% of them off the primary, the slowest in %s (on a replica %s); %d writes, %d of them lost, %d more of unknown "+
		"outcome; %d faults and what ended them, %d promotions, after which reads went on in %v; %d violations, of %d operations of %d processes, found in %s",
		c.engine, reads, c.rec.Now().Round(time.Second), 100*float64(replica)/float64(max(reads, 1)), slowest.Round(time.Millisecond),
		slowestOnReplica.Round(time.Millisecond), writes, lost, unknown, faults, len(c.promotions), recovered, violations, len(h.Ops),
		len(c.load.Pools), verified.Round(time.Millisecond))
	c.t.Log(strings.Join(names, ", "))
	return tally{reads, replica, writes, recovered}
}

// enough demands that there was enough to judge.
func (c *chaos[N]) enough(t tally) {
	require.GreaterOrEqual(c.t, t.reads, *chaosReads, "too few reads to say anything")
	require.Positive(c.t, t.replica)
	require.Positive(c.t, t.writes)
	require.Empty(c.t, c.missing(), "it has not happened")
	if len(t.recovered) > 0 {
		require.Less(c.t, slices.Max(t.recovered), 2*chaosInterval+chaosPatience, "reads go on after a promotion")
	}
}

// missing is something that has not happened yet, and happens to every cluster that is broken for long enough.
func (c *chaos[N]) missing() string {
	if *chaosFor < 30*time.Second {
		return ""
	}
	for _, what := range []string{
		"pause the replay of", "freeze", "kill", "stop", "cut connections to", "make a hole before", "slow down", "lead to another",
		"restore an older backup of", "promote", "a former primary returns",
	} {
		if c.done[what] == 0 {
			return what
		}
	}
	return ""
}

// keep puts down what has happened, for whoever wants to look at it with a program.
func (c *chaos[N]) keep(h *check.History) {
	if *chaosKeep == "" {
		return
	}
	data, err := json.Marshal(h)
	require.NoError(c.t, err)
	name := filepath.Join(*chaosKeep, c.t.Name())
	require.NoError(c.t, os.WriteFile(name+".json", data, 0o600))
	require.NoError(c.t, os.WriteFile(name+".txt", []byte(c.tale(0)), 0o600))
}

// nothingIsLeft demands that neither a connection nor a goroutine is left of the pools.
func (c *chaos[N]) nothingIsLeft() {
	left := func() string {
		for i, p := range c.proxies {
			if n := p.Live(); n > 0 {
				return fmt.Sprintf("%d connections to %s", n, c.nodes[i%len(c.nodes)].Name())
			}
		}
		var all bytes.Buffer
		require.NoError(c.t, pprof.Lookup("goroutine").WriteTo(&all, 1))
		label := fmt.Sprintf("%q:%q", "chaos", c.engine)
		for _, group := range strings.Split(all.String(), "\n\n") {
			if strings.Contains(group, label) {
				return group
			}
		}
		return ""
	}
	for deadline := time.Now().Add(20 * time.Second); left() != ""; c.pause(20 * time.Millisecond) {
		require.Truef(c.t, time.Now().Before(deadline), "something is left after Close: %s", left())
	}
}
