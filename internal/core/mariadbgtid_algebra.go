package core

// Contains reports whether g has, of the same server, all that o has: for each GTID of o, one of the same domain and
// server that is no lower. It says of @@gtid_binlog_state, exactly, whether a server has logged a position; a position
// names one server a domain, and contains less than its server has. The empty list is contained in every list. It
// allocates nothing.
func (g MariaDBGTID) Contains(o MariaDBGTID) bool {
	if g.data == o.data {
		return true
	}
	for i := range o.len() {
		if !g.has(o.entry(i)) {
			return false
		}
	}
	return true
}

func (g MariaDBGTID) has(e MariaDBEntry) bool {
	sequence, ok := g.Find(e.Domain, e.Server)
	return ok && sequence >= e.Sequence
}

// Compare says how two lists lie to each other: -1 when g is contained in o and is not o, +1 when it is the other way
// round, 0 when they are equal. When neither contains the other, ok is false; so it is with 0-1-5 and 0-2-6, of which
// MariaDB says that the second is behind the first.
func (g MariaDBGTID) Compare(o MariaDBGTID) (order int, ok bool) {
	switch {
	case g == o:
		return 0, true
	case o.Contains(g):
		return -1, true
	case g.Contains(o):
		return 1, true
	default:
		return 0, false
	}
}

// CoveredBy compares a required list with a replica's position. history is what the primary has logged or replayed, empty when
// it is not known; it is what the order of a domain can be trusted for.
//
// A required GTID is reached when the position's GTID of that domain has no lower sequence number, and either was written
// by the same server or the history has both: then the writes of both servers lie on one line. Without that the answer is
// Incomparable, since 0-2-106 is reached also by a replica of a primary that never had 0-1-105. It is
// Incomparable, too, when the replica has nothing of a required domain, and when nothing is required. Incomparable
// goes over NotCovered: waiting does not help.
//
// MASTER_GTID_WAIT looks at nothing but domains and sequence numbers.
func (g MariaDBGTID) CoveredBy(position, history MariaDBGTID) Coverage {
	if g.IsZero() {
		return Incomparable
	}
	coverage := Covered
	for i := range g.len() {
		e := g.entry(i)
		reached, known := position.Head(e.Domain)
		switch {
		case !known:
			return Incomparable
		case reached.Sequence < e.Sequence:
			coverage = NotCovered
		case !position.has(e) && (!history.has(e) || !history.has(reached)):
			return Incomparable // two lines of writes, of which the primary has but one
		}
	}
	return coverage
}

// Union returns what is in g, in o, or in both: for each domain and server the GTID that is furthest. A domain keeps the
// GTIDs of both servers when it was written by two.
func (g MariaDBGTID) Union(o MariaDBGTID) MariaDBGTID {
	switch {
	case g.Contains(o):
		return g
	case o.Contains(g):
		return o
	}
	entries := make([]MariaDBEntry, 0, g.len()+o.len())
	for e := range g.Entries() {
		entries = append(entries, e)
	}
	for e := range o.Entries() {
		entries = append(entries, e)
	}
	return sortedMariaDBGTID(entries)
}

// Furthest returns the GTID of each domain of g and o with the highest sequence number, that of g when both have one as high.
func (g MariaDBGTID) Furthest(o MariaDBGTID) MariaDBGTID {
	if g == o {
		return g
	}
	var entries []MariaDBEntry
	for e := range g.Union(o).Entries() {
		if len(entries) > 0 && entries[len(entries)-1].Domain == e.Domain {
			continue
		}
		head, ok := g.Head(e.Domain)
		if other, found := o.Head(e.Domain); found && (!ok || other.Sequence > head.Sequence) {
			head = other
		}
		entries = append(entries, head)
	}
	return sortedMariaDBGTID(entries)
}

// Difference returns the GTIDs of g that o does not contain. Of @@gtid_binlog_state it tells what a server has not: a
// primary on whose state it is not empty has lost these writes, or was made from a backup that does not know of them.
func (g MariaDBGTID) Difference(o MariaDBGTID) MariaDBGTID {
	return g.filter(func(e MariaDBEntry) bool { return !o.has(e) })
}

// Missing returns how many transactions lie between position and the heads of g's domains, in MariaDB's own order of each. It
// allocates nothing.
func (g MariaDBGTID) Missing(position MariaDBGTID) uint64 {
	var missing uint64
	for i := 0; i < g.len(); {
		domain := g.entry(i).Domain
		head, _ := g.Head(domain)
		reached, _ := position.Head(domain)
		if head.Sequence > reached.Sequence {
			missing += head.Sequence - reached.Sequence
		}
		for i < g.len() && g.entry(i).Domain == domain {
			i++
		}
	}
	return missing
}

// MovedSince returns the GTIDs of g that before does not have just so, and in any case those of the given domains. It is
// what a write leaves behind when g was the position after it and before was the position before it. g is a position,
// with one GTID a domain.
func (g MariaDBGTID) MovedSince(before MariaDBGTID, always ...uint32) MariaDBGTID {
	return g.filter(func(e MariaDBEntry) bool {
		for _, domain := range always {
			if e.Domain == domain {
				return true
			}
		}
		sequence, ok := before.Find(e.Domain, e.Server)
		return !ok || sequence != e.Sequence
	})
}

func (g MariaDBGTID) filter(keep func(MariaDBEntry) bool) MariaDBGTID {
	var entries []MariaDBEntry
	for e := range g.Entries() {
		if keep(e) {
			entries = append(entries, e)
		}
	}
	return sortedMariaDBGTID(entries)
}
