package check

import (
	"slices"
	"time"
)

// shown judges what a read has shown, and remembers it.
func (j *judge) shown(o *Op, d *demand) {
	var saw set
	for _, id := range o.Saw {
		v := j.versions[id]
		switch {
		case v == nil || v.key != o.Key:
			j.violate(NothingInvented, o.ID, "saw version %d, which nobody has written to key %d", id, o.Key)
			continue
		case j.h.Ops[v.op].Begin > o.End:
			j.violate(NothingInvented, o.ID, "saw version %d before it was written", id)
		case j.h.Ops[v.op].Outcome == Failed:
			j.violate(FailedIsGone, o.ID, "saw version %d, whose write was said to have failed", id)
		case saw.has(v.index):
			j.violate(RunsOnce, o.ID, "saw version %d twice", id)
		}
		saw.add(v.index)
	}
	j.promised(o, d, saw)
	if o.Level == Causal || o.Level == Global {
		j.learn(o, saw)
	}
}

// promised judges a read by what was settled when it asked.
func (j *judge) promised(o *Op, d *demand, saw set) {
	for w, need := range d.needs {
		own := why(w) == wrote || why(w) == fenced
		if o.Level == Causal || o.Level == Global || own && (o.Level == Session || o.Level == Primary) {
			need.without(saw, func(i int) { j.missing(o, whyRules[w], i) })
		}
	}
	rule, from := GlobalOrder, o.Asked
	if o.Level == Bounded {
		rule, from = BoundedStaleness, o.Asked-o.Within
	}
	if !j.split(from, o.End) {
		d.total.without(saw, func(i int) { j.missing(o, rule, i) })
	}
}

// missing judges that a read did not show a version.
func (j *judge) missing(o *Op, r Rule, index int) {
	id := j.keys[o.Key][index]
	v := j.versions[id]
	write := &j.h.Ops[v.op]
	if r != ReadYourWrites && r != GlobalOrder && r != BoundedStaleness && r != FenceHolds && !served(o) && j.ahead(o) {
		return
	}
	if v.loss == nil || o.End < v.loss.At {
		j.violate(r, o.ID, "(%s, key %d) did not see version %d of operation %d (session %d, ended %s)",
			levelNames[o.Level], o.Key, id, write.ID, write.Session, write.End)
		return
	}
	if r != ReadYourWrites || v.loss.Silent || write.Outcome != OK || !served(o) {
		return
	}
	if !j.reported(o, v.loss.At) {
		j.violate(LossIsReported, o.ID, "was served by a replica without version %d of operation %d, which was lost at %s, and nobody "+
			"has said so", id, write.ID, v.loss.At)
	}
}

// reported reports whether something was said to be lost since a moment, during an operation of the session of o or of one whose token
// has come to it.
func (j *judge) reported(o *Op, since time.Duration) bool {
	i, _ := slices.BinarySearch(j.reports, since)
	from := j.from(o)
	for _, at := range j.reports[i:] {
		if at > o.End {
			break
		}
		if slices.ContainsFunc(j.h.Ops, func(p Op) bool { return from[p.Session] && p.Begin <= at && at <= p.End }) {
			return true
		}
	}
	return false
}

// from are the session of an operation and those whose tokens have come to it.
func (j *judge) from(o *Op) map[int]bool {
	from := map[int]bool{o.Session: true}
	for i := o.ID - 1; i >= 0; i-- { // a token comes from an operation before the merge
		if m := &j.h.Ops[i]; m.Kind == Merge && from[m.Session] {
			from[j.h.Ops[m.From].Session] = true
		}
	}
	return from
}

// served reports that a replica was what served a read.
func served(o *Op) bool {
	return len(o.Routes) > 0 && o.Routes[len(o.Routes)-1].Replica
}

// ahead reports whether it was said during a read on the primary that replicas may have shown more.
func (j *judge) ahead(o *Op) bool {
	return slices.ContainsFunc(j.h.Ahead, func(at time.Duration) bool { return o.Begin <= at && at <= o.End })
}

// split reports whether more than one server took writes at some time.
func (j *judge) split(from, to time.Duration) bool {
	return slices.ContainsFunc(j.h.Split, func(s Span) bool { return s.From <= to && from <= s.To })
}

// learn makes the session of a causal read depend on what it was shown, and on what that was built on.
func (j *judge) learn(o *Op, saw set) {
	var before set
	mine := past{}
	if o.Session != 0 {
		mine = j.past(o.Session)
		before = mine.of(o.Key)[read].clone()
	}
	saw.without(before, func(i int) {
		mine.of(o.Key)[read].add(i)
		v := j.versions[j.keys[o.Key][i]]
		for key, n := range v.deps {
			to := mine.of(key)
			to[ordered].union(n[wrote])
			for _, w := range []why{read, follows, ordered, fenced} {
				to[follows].union(n[w])
			}
			if key == o.Key { // it is built on what the same read must have shown
				n[wrote].without(saw, func(i int) { j.missing(o, MonotonicWrites, i) })
			}
		}
	})
}
