package core

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind says which sort of log a position belongs to.
type Kind uint8

// The kinds of positions.
const (
	KindNone     Kind = iota // no position at all
	KindPostgres             // system identifier, timeline, LSN
	KindMySQL                // a GTIDSet
	KindMariaDB              // a MariaDBGTID
	KindMarker               // the number of the marker table, and a MarkerSet
)

// Position is how far a node's log has come. It names the history that it belongs to, because the same number on
// another history means other data. The zero Position is no position; it covers nothing and nothing covers it.
type Position struct {
	Kind     Kind
	System   uint64 // PostgreSQL: system identifier; marker: which table it is
	Timeline uint32 // PostgreSQL: 0 when it is not known
	// LSN is the place in PostgreSQL's log. Of the other kinds it is how many transactions the server had that told the
	// position: a measure of distance, never of coverage; 0 when it is not known.
	LSN LSN
	set string // the data of the GTIDSet, the MariaDBGTID or the MarkerSet
}

// gtidTimeline is the Timeline of positions whose histories are told by themselves.
const gtidTimeline = 1

// MySQLPosition returns the position of a set, told by a server that has measure transactions; 0 when that is not known.
// The empty set is no position.
func MySQLPosition(set GTIDSet, measure LSN) Position {
	if set.IsZero() {
		return Position{}
	}
	return Position{Kind: KindMySQL, Timeline: gtidTimeline, LSN: measure, set: set.data}
}

// MariaDBPosition is like MySQLPosition.
func MariaDBPosition(list MariaDBGTID, measure LSN) Position {
	if list.IsZero() {
		return Position{}
	}
	return Position{Kind: KindMariaDB, Timeline: gtidTimeline, LSN: measure, set: list.data}
}

// MarkerPosition is like MySQLPosition, of the marker table with a number, which is not 0.
func MarkerPosition(table uint64, set MarkerSet, measure LSN) Position {
	if set.IsZero() || table == 0 {
		return Position{}
	}
	return Position{Kind: KindMarker, System: table, Timeline: gtidTimeline, LSN: measure, set: set.data}
}

// GTIDs returns the set of a MySQL position; the empty set for any other.
func (p Position) GTIDs() GTIDSet {
	if p.Kind != KindMySQL {
		return GTIDSet{}
	}
	return GTIDSet{data: p.set}
}

// Domains returns the list of a MariaDB position; the empty list for any other.
func (p Position) Domains() MariaDBGTID {
	if p.Kind != KindMariaDB {
		return MariaDBGTID{}
	}
	return MariaDBGTID{data: p.set}
}

// Markers returns the set of a marker position; the empty set for any other.
func (p Position) Markers() MarkerSet {
	if p.Kind != KindMarker {
		return MarkerSet{}
	}
	return MarkerSet{data: p.set}
}

// IsZero reports whether p is no position.
func (p Position) IsZero() bool { return p.Kind == KindNone }

// SameHistory reports whether p and q can be compared: PostgreSQL positions by LSN alone, others by what is in them.
func (p Position) SameHistory(q Position) bool { return p.sameHistory(&q) }

func (p *Position) sameHistory(q *Position) bool {
	return p.Kind == q.Kind && p.Kind != KindNone && p.System == q.System && p.Timeline == q.Timeline && p.Timeline != 0
}

// String renders p for a human.
func (p Position) String() string {
	switch p.Kind {
	case KindNone:
		return "none"
	case KindMySQL:
		return p.GTIDs().String()
	case KindMariaDB:
		return p.Domains().String()
	case KindMarker:
		return fmt.Sprintf("%d/%s", p.System, p.Markers())
	case KindPostgres:
	}
	return fmt.Sprintf("%d/%d/%s", p.System, p.Timeline, p.LSN)
}

// Coverage is the answer to "does this replica show that write?". "Cannot say" is an answer of its own.
type Coverage uint8

// The answers. The zero value is the one that proves nothing.
const (
	Incomparable Coverage = iota
	NotCovered
	Covered
)

// CoveredBy compares a required position with a replica's replay position. A replica whose timeline is not known (0)
// is Incomparable; the caller may know better and fill it in. So is a MariaDB replica that was fed by another server than the
// one that wrote: what the primary has logged may say more.
func (p Position) CoveredBy(replay Position) Coverage { return p.coveredBy(&replay, MariaDBGTID{}) }

// coveredBy is CoveredBy with what the primary has logged.
func (p *Position) coveredBy(replay *Position, history MariaDBGTID) Coverage {
	switch {
	case !p.sameHistory(replay):
		return Incomparable
	case p.Kind == KindMySQL:
		return p.GTIDs().CoveredBy(replay.GTIDs())
	case p.Kind == KindMariaDB:
		return p.Domains().CoveredBy(replay.Domains(), history)
	case p.Kind == KindMarker:
		return p.Markers().CoveredBy(replay.Markers())
	case replay.LSN >= p.LSN:
		return Covered
	default:
		return NotCovered
	}
}

// ReachedBy reports whether a server at replay has come as far as p, whoever wrote what is there: a measure of how old the
// server's state is, never of coverage. Everything has reached no position.
func (p *Position) ReachedBy(replay *Position) bool {
	switch p.Kind {
	case KindMySQL:
		return replay.GTIDs().Contains(p.GTIDs())
	case KindMariaDB:
		return p.Domains().Missing(replay.Domains()) == 0
	case KindMarker:
		return replay.Markers().Contains(p.Markers())
	case KindNone, KindPostgres:
	}
	return replay.LSN >= p.LSN
}

// Missing returns how much of p a server at replay does not have: bytes of log on PostgreSQL, transactions elsewhere. It is
// a measure of distance, never of coverage.
func (p *Position) Missing(replay *Position) uint64 {
	switch p.Kind {
	case KindMySQL:
		return p.GTIDs().Missing(replay.GTIDs())
	case KindMariaDB:
		return p.Domains().Missing(replay.Domains())
	case KindMarker:
		return p.Markers().Missing(replay.Markers())
	case KindNone, KindPostgres:
	}
	if replay.LSN >= p.LSN {
		return 0
	}
	return uint64(p.LSN - replay.LSN)
}

// Size is how many bytes the position takes beside its fixed fields.
func (p *Position) Size() int { return len(p.set) }

// within reports whether q, of the same history, asks for all that p asks for.
func (p Position) within(q Position) bool {
	switch p.Kind {
	case KindMySQL:
		return q.GTIDs().Contains(p.GTIDs())
	case KindMariaDB:
		return q.Domains().Contains(p.Domains())
	case KindMarker:
		return q.Markers().Contains(p.Markers())
	case KindNone, KindPostgres:
	}
	return q.LSN >= p.LSN
}

// join returns the least position that asks for all that p and q, of the same history, ask for.
func (p Position) join(q Position) Position {
	switch p.Kind {
	case KindMySQL:
		return MySQLPosition(p.GTIDs().Union(q.GTIDs()), max(p.LSN, q.LSN))
	case KindMariaDB:
		return MariaDBPosition(p.Domains().Union(q.Domains()), max(p.LSN, q.LSN))
	case KindMarker:
		return MarkerPosition(p.System, p.Markers().Union(q.Markers()), max(p.LSN, q.LSN))
	case KindNone, KindPostgres:
	}
	return q
}

// MaxPositions bounds how many positions of different histories are kept for one cluster.
const MaxPositions = 4

// MergePositions adds p to a set that holds at most one position a history, in the order of the histories. It never
// changes its argument and never takes a maximum across histories of PostgreSQL: until it is known how two histories meet, both are
// required. When the set is full, ok is false and the set is returned as it was.
func MergePositions(set []Position, p Position) (merged []Position, ok bool) {
	if p.IsZero() {
		return set, true
	}
	i, found := slices.BinarySearchFunc(set, p, compareHistories)
	switch {
	case found && p.within(set[i]):
		return set, true
	case found:
		merged = slices.Clone(set)
		merged[i] = set[i].join(p)
		return merged, true
	case len(set) >= MaxPositions:
		return set, false
	}
	merged = make([]Position, 0, len(set)+1)
	merged = append(merged, set[:i]...)
	merged = append(merged, p)
	return append(merged, set[i:]...), true
}

// Precedes reports whether p stands before q in a set that MergePositions has made.
func (p Position) Precedes(q Position) bool { return compareHistories(p, q) < 0 }

func compareHistories(p, q Position) int {
	return cmp.Or(cmp.Compare(p.Kind, q.Kind), cmp.Compare(p.System, q.System), cmp.Compare(p.Timeline, q.Timeline))
}
