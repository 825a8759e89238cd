package core

import "cmp"

func compareIntervals(a, b gtidInterval) int { return cmp.Compare(a.first, b.first) }

// appendInterval adds an interval that begins no earlier than the last one, and joins the two if they overlap or touch.
func appendInterval(intervals []gtidInterval, i gtidInterval) []gtidInterval {
	if n := len(intervals); n > 0 && i.first <= intervals[n-1].last+1 {
		intervals[n-1].last = max(intervals[n-1].last, i.last)
		return intervals
	}
	return append(intervals, i)
}

// Contains reports whether every transaction of o is one of s. The empty set is contained in every set: whoever asks
// whether a position is reached wants [GTIDSet.CoveredBy]. It allocates nothing.
func (s GTIDSet) Contains(o GTIDSet) bool {
	if s.data == o.data {
		return true
	}
	for i := range o.streams() {
		j, found := s.find(o.key(i))
		if !found || !intervalsContain(s.intervals(j), o.intervals(i)) {
			return false
		}
	}
	return true
}

// intervalsContain reports whether have, intervals as they are encoded, holds every transaction of need.
func intervalsContain(have, need string) bool {
	for ; need != ""; need = need[gtidIntervalSize:] {
		want := gtidIntervalAt(need)
		// The only interval that can hold it is the last one that begins no later.
		low, high := 0, len(have)/gtidIntervalSize
		for low < high {
			middle := int(uint(low+high) >> 1)
			if be64(have[middle*gtidIntervalSize:]) <= want.first {
				low = middle + 1
			} else {
				high = middle
			}
		}
		if low == 0 || gtidIntervalAt(have[(low-1)*gtidIntervalSize:]).last < want.last {
			return false
		}
		have = have[(low-1)*gtidIntervalSize:] // what is needed ascends, too
	}
	return true
}

// Compare says how two sets lie to each other: -1 when s is contained in o and is not o, +1 when it is the other way
// round, 0 when they are equal. Sets are only partly ordered: when each has a transaction that the other has not, ok is
// false.
func (s GTIDSet) Compare(o GTIDSet) (order int, ok bool) {
	switch {
	case s == o:
		return 0, true
	case o.Contains(s):
		return -1, true
	case s.Contains(o):
		return 1, true
	default:
		return 0, false
	}
}

// CoveredBy compares a required set with a replica's @@gtid_executed. A replica that has nothing of one of the required
// UUIDs is Incomparable: it may be of another cluster, or a promotion has not come to it yet. So is everything when
// nothing is required: what was meant is not known, and nothing must follow from it.
func (s GTIDSet) CoveredBy(executed GTIDSet) Coverage {
	switch {
	case s.IsZero():
		return Incomparable
	case executed.Contains(s):
		return Covered
	}
	for i := range s.streams() {
		if !executed.hasUUID(s.key(i)) {
			return Incomparable
		}
	}
	return NotCovered
}

// Union returns the transactions that are in s, in o, or in both.
func (s GTIDSet) Union(o GTIDSet) GTIDSet {
	switch {
	case s.Contains(o):
		return s
	case o.Contains(s):
		return o
	}
	return combine(s, o, true, func(a, b []gtidInterval) []gtidInterval {
		return normalizeIntervals(append(a, b...))
	})
}

// Difference returns the transactions of s that are not in o, as GTID_SUBTRACT does.
func (s GTIDSet) Difference(o GTIDSet) GTIDSet {
	return combine(s, o, false, subtractIntervals)
}

// Missing returns how many transactions of s are not in o. It allocates nothing.
func (s GTIDSet) Missing(o GTIDSet) uint64 {
	if s.data == o.data {
		return 0
	}
	var missing uint64
	for i := range s.streams() {
		have := ""
		if j, found := o.find(s.key(i)); found {
			have = o.intervals(j)
		}
		missing += intervalsMissing(have, s.intervals(i))
	}
	return missing
}

// intervalsMissing counts the transactions of need that have, intervals as they are encoded, does not hold.
func intervalsMissing(have, need string) uint64 {
	var missing uint64
	for ; need != ""; need = need[gtidIntervalSize:] {
		want := gtidIntervalAt(need)
		left := want.last - want.first + 1
		for ; have != ""; have = have[gtidIntervalSize:] {
			got := gtidIntervalAt(have)
			if got.first > want.last {
				break
			}
			if first, last := max(got.first, want.first), min(got.last, want.last); first <= last {
				left -= last - first + 1
			}
			if got.last > want.last {
				break // it may hold some of the next as well
			}
		}
		missing += left
	}
	return missing
}

// combine makes a set of the streams of s and, if both is true, those that only o has. What is in both f decides; it may
// change its arguments.
func combine(s, o GTIDSet, both bool, f func(a, b []gtidInterval) []gtidInterval) GTIDSet {
	var streams []gtidStream
	i, j := 0, 0
	for i < s.streams() || j < o.streams() {
		switch {
		case j == o.streams() || i < s.streams() && s.key(i) < o.key(j):
			streams = append(streams, s.stream(i))
			i++
		case i == s.streams() || o.key(j) < s.key(i):
			if both {
				streams = append(streams, o.stream(j))
			}
			j++
		default:
			a := s.stream(i)
			a.intervals = f(a.intervals, o.stream(j).intervals)
			streams = append(streams, a)
			i++
			j++
		}
	}
	return newGTIDSet(streams)
}

// subtractIntervals returns what is in a and not in b. Both ascend and have gaps.
func subtractIntervals(a, b []gtidInterval) []gtidInterval {
	var left []gtidInterval
	for _, i := range a {
		for len(b) > 0 && b[0].last < i.first {
			b = b[1:]
		}
		for _, hole := range b {
			if hole.first > i.last || i.first > i.last {
				break
			}
			if hole.first > i.first {
				left = append(left, gtidInterval{i.first, hole.first - 1})
			}
			i.first = hole.last + 1
		}
		if i.first <= i.last {
			left = append(left, i)
		}
	}
	return left
}

// MovedSince returns the streams of s, whole, that are not the same in before, and those of the given UUIDs in any case.
// It is what a write leaves behind when s was executed after it and before was executed before it: never the bare
// difference, since a write builds on what was there, and nothing when nobody has written and no UUID is given that
// has. The rest of s, which grows without bound, stays out.
func (s GTIDSet) MovedSince(before GTIDSet, always ...UUID) GTIDSet {
	var streams []gtidStream
	for i := range s.streams() {
		key := s.key(i)
		j, found := before.find(key)
		moved := !found || before.intervals(j) != s.intervals(i)
		for _, u := range always {
			moved = moved || key[:len(u)] == string(u[:])
		}
		if moved {
			streams = append(streams, s.stream(i))
		}
	}
	return newGTIDSet(streams)
}
