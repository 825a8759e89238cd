package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Verify returns every violation of the history, in no order that means anything; none when all promises were kept. It
// changes nothing, and its time grows with the size of the history.
func (h *History) Verify() []Violation {
	j := &judge{h: h}
	if j.index(); len(j.found) > 0 {
		return j.found // nothing can be said of what is no history
	}
	for i := range h.Ops {
		j.operation(&h.Ops[i])
	}
	j.runs()
	j.failed()
	j.sweep()
	return j.found
}

// version is what is known of one.
type version struct {
	op     int
	key    int
	index  int // among those of its key
	stands time.Duration
	stood  bool // it is certain that it stands, from stands on
	loss   *Loss
	deps   past // what its writer had to be shown when it began; nil once nobody can need it
}

type judge struct {
	h        *History
	found    []Violation
	versions map[int]*version
	keys     map[int][]int         // the versions of a key, by index
	last     map[int]time.Duration // when a key is read for the last time
	asked    map[int]*demand       // by operation that has begun and not ended
	sessions map[int]past
	tokens   map[int]past // by the operation that made one
	acks     map[int]*acks
	reports  []time.Duration
}

// acks are the versions of a key that were acknowledged, in the order in which they were.
type acks struct {
	at  []time.Duration
	all set
	ids []int
}

// demand is what a read must show, settled when it asked; of a fence, of every key.
type demand struct {
	needs needs
	total set
	fence past
}

func (j *judge) violate(r Rule, op int, format string, args ...any) {
	j.found = append(j.found, Violation{Rule: r, Op: op, Text: fmt.Sprintf(format, args...)})
}

// index finds out what there is, and what is no history.
func (j *judge) index() {
	h := j.h
	j.versions, j.keys, j.last = make(map[int]*version), make(map[int][]int), make(map[int]time.Duration)
	j.asked, j.sessions, j.tokens, j.acks = make(map[int]*demand), make(map[int]past), make(map[int]past), make(map[int]*acks)
	for i := range h.Ops {
		o := &h.Ops[i]
		switch {
		case o.ID != i:
			j.violate(WellFormed, i, "is called %d", o.ID)
		case o.Outcome == Pending || o.Outcome > Unknown:
			j.violate(WellFormed, i, "has no outcome")
		case o.End < o.Begin || o.Asked > o.End:
			j.violate(WellFormed, i, "ends before it has begun")
		case o.Kind == Merge && (o.From < 0 || o.From >= len(h.Ops) || h.Ops[o.From].Kind != Token || h.Ops[o.From].End > o.End):
			j.violate(WellFormed, i, "merges what is no token of before")
		case o.Kind == Write:
			if other := j.versions[o.Version]; other != nil {
				j.violate(WellFormed, i, "writes version %d, as operation %d does", o.Version, other.op)
				break
			}
			j.versions[o.Version] = &version{op: i, key: o.Key, index: len(j.keys[o.Key])}
			j.keys[o.Key] = append(j.keys[o.Key], o.Version)
		case o.Kind == Read:
			j.last[o.Key] = max(j.last[o.Key], o.Asked)
		}
	}
	j.truth()
}

// truth takes in what the servers know, and what those who read have found out.
func (j *judge) truth() {
	h := j.h
	stands := func(v *version, at time.Duration) {
		if !v.stood || at < v.stands {
			v.stands, v.stood = at, true
		}
	}
	known := make(map[int]bool)
	for _, c := range h.Commits {
		if v := j.versions[c.Version]; v != nil {
			stands(v, c.At)
			known[c.Version] = true
		} else {
			j.violate(WellFormed, -1, "version %d stands and was not written", c.Version)
		}
	}
	for i := range h.Losses {
		if v := j.versions[h.Losses[i].Version]; v != nil && (v.loss == nil || h.Losses[i].At < v.loss.At) {
			v.loss = &h.Losses[i]
		}
	}
	for i := range h.Ops {
		if o := &h.Ops[i]; o.Kind == Read && o.Outcome == OK {
			for _, id := range o.Saw {
				if v := j.versions[id]; v != nil && v.key == o.Key && !known[id] {
					stands(v, o.End)
				}
			}
		}
	}
	j.reports = slices.Sorted(slices.Values(h.Reports))
}

// operation judges what can be said of one by itself.
func (j *judge) operation(o *Op) {
	if took := o.End - o.Begin; o.Limit > 0 && took > o.Limit {
		j.violate(InTime, o.ID, "took %s, and may take %s", took, o.Limit)
	}
	if o.Statements > 0 && (len(o.Routes) > o.Statements || o.Outcome == OK && len(o.Routes) < o.Statements) {
		j.violate(OneReason, o.ID, "was given %d reasons for %d statements", len(o.Routes), o.Statements)
	}
	for _, r := range o.Routes {
		if r.Reason == "" || r.Reason == "none" || r.Reason == "invalid" {
			j.violate(OneReason, o.ID, "was given the reason %q", r.Reason)
		}
		if o.Kind == Write && r.Replica {
			j.violate(WriteOnReplica, o.ID, "was sent to %s as a replica", r.Node)
		}
	}
}

// runs judges what the servers ran.
func (j *judge) runs() {
	primary, wrote := make(map[int]int), make(map[int]int)
	for _, r := range j.h.Runs {
		if r.Primary {
			primary[r.Op]++
		} else if r.Wrote {
			j.violate(WriteOnReplica, r.Op, "was run by %s, which is no primary", r.Node)
		}
		if r.Wrote {
			wrote[r.Op]++
		}
		if n := max(primary[r.Op], wrote[r.Op]); n == 2 && (r.Primary || r.Wrote) {
			j.violate(RunsOnce, r.Op, "was run twice, the second time on %s", r.Node)
		}
	}
}

// failed judges writes that were said not to stand.
func (j *judge) failed() {
	for _, c := range j.h.Commits {
		v := j.versions[c.Version]
		if o := &j.h.Ops[v.op]; o.Outcome == Failed {
			j.violate(FailedIsGone, o.ID, "was said to have failed, and version %d stands", c.Version)
		}
	}
}

// event is a moment of the sweep: those that ask come before those that end then, which they cannot have known of.
type event struct {
	at   time.Duration
	ends bool
	op   int
}

// sweep goes through time.
func (j *judge) sweep() {
	events := make([]event, 0, 2*len(j.h.Ops))
	for i := range j.h.Ops {
		o := &j.h.Ops[i]
		asks, ends := event{o.Begin, false, i}, event{o.End, true, i}
		switch {
		case o.Kind == Read:
			asks.at = min(o.Asked, o.End)
		case o.Kind == Write && o.Outcome == Unknown:
			v := j.versions[o.Version]
			if !v.stood {
				continue
			}
			ends.at = max(o.End, v.stands)
		}
		events = append(events, asks, ends)
	}
	slices.SortFunc(events, func(a, b event) int {
		switch c := cmp.Compare(a.at, b.at); {
		case c != 0:
			return c
		case a.ends == b.ends:
			return cmp.Compare(a.op, b.op)
		case a.ends:
			return 1
		}
		return -1
	})
	for _, e := range events {
		if o := &j.h.Ops[e.op]; e.ends {
			j.ends(o, e.at)
		} else {
			j.asks(o, e.at)
		}
	}
}

func (j *judge) past(session int) past {
	p := j.sessions[session]
	if p == nil {
		p = make(past)
		j.sessions[session] = p
	}
	return p
}

func (j *judge) ackedOf(key int) *acks {
	a := j.acks[key]
	if a == nil {
		a = new(acks)
		j.acks[key] = a
	}
	return a
}

// asks settles what an operation depends on.
func (j *judge) asks(o *Op, now time.Duration) {
	live := func(key int) bool { return j.last[key] >= now }
	switch o.Kind {
	case Read:
		d := &demand{}
		if o.Session != 0 {
			if n := j.past(o.Session)[o.Key]; n != nil {
				for w := range n {
					d.needs[w] = n[w].clone()
				}
			}
		}
		switch acked := j.ackedOf(o.Key); o.Level {
		case Global:
			d.total = acked.all.clone()
		case Bounded:
			for i, at := range acked.at {
				if at < o.Asked-o.Within {
					d.total.add(acked.ids[i])
				}
			}
		case Eventual, Session, Causal, Primary:
		}
		j.asked[o.ID] = d
	case Write:
		if o.Session != 0 && o.Outcome != Failed {
			j.versions[o.Version].deps = j.past(o.Session).snapshot(live)
		}
	case Token:
		if o.Session != 0 {
			j.tokens[o.ID] = j.past(o.Session).snapshot(live)
		}
	case Fence:
		d := &demand{fence: make(past)}
		for key, a := range j.acks {
			if live(key) {
				d.fence.of(key)[fenced] = a.all.clone()
			} else {
				delete(j.acks, key)
			}
		}
		j.asked[o.ID] = d
	case Merge, Other:
	}
}

// ends takes in what an operation has done.
func (j *judge) ends(o *Op, now time.Duration) {
	d := j.asked[o.ID]
	delete(j.asked, o.ID)
	switch o.Kind {
	case Read:
		if o.Outcome == OK {
			j.shown(o, d)
		}
	case Write:
		if o.Outcome == Failed {
			return
		}
		v := j.versions[o.Version]
		if o.Session != 0 {
			j.past(o.Session).of(o.Key)[wrote].add(v.index)
		}
		if o.Outcome == OK {
			a := j.ackedOf(o.Key)
			a.all.add(v.index)
			a.at, a.ids = append(a.at, now), append(a.ids, v.index)
		}
	case Merge:
		if o.Session != 0 && j.tokens[o.From] != nil {
			j.past(o.Session).merge(j.tokens[o.From])
		}
	case Fence:
		if o.Session != 0 && o.Outcome == OK && !j.split(o.Begin, o.End) {
			j.past(o.Session).merge(d.fence)
		}
	case Token, Other:
	}
}
