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
)

// Position is how far a node's log has come. It names the history that it belongs to, because the same number on
// another history means other data. The zero Position is no position; it covers nothing and nothing covers it.
type Position struct {
	Kind     Kind
	System   uint64 // PostgreSQL: system identifier
	Timeline uint32 // PostgreSQL: 0 when it is not known
	LSN      LSN
}

// IsZero reports whether p is no position.
func (p Position) IsZero() bool { return p.Kind == KindNone }

// SameHistory reports whether p and q can be compared by LSN alone.
func (p Position) SameHistory(q Position) bool { return p.sameHistory(&q) }

func (p *Position) sameHistory(q *Position) bool {
	return p.Kind == q.Kind && p.Kind != KindNone && p.System == q.System && p.Timeline == q.Timeline && p.Timeline != 0
}

// String renders p for a human.
func (p Position) String() string {
	if p.IsZero() {
		return "none"
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
// is Incomparable; the caller may know better and fill it in.
func (p Position) CoveredBy(replay Position) Coverage {
	switch {
	case !p.SameHistory(replay):
		return Incomparable
	case replay.LSN >= p.LSN:
		return Covered
	default:
		return NotCovered
	}
}

// MaxPositions bounds how many positions of different histories are kept for one cluster.
const MaxPositions = 4

// MergePositions adds p to a set that holds at most one position a history, in the order of the histories. It never
// changes its argument and never takes a maximum across histories: until it is known how two histories meet, both are
// required. When the set is full, ok is false and the set is returned as it was.
func MergePositions(set []Position, p Position) (merged []Position, ok bool) {
	if p.IsZero() {
		return set, true
	}
	i, found := slices.BinarySearchFunc(set, p, compareHistories)
	switch {
	case found && set[i].LSN >= p.LSN:
		return set, true
	case found:
		merged = slices.Clone(set)
		merged[i] = p
		return merged, true
	case len(set) >= MaxPositions:
		return set, false
	}
	merged = make([]Position, 0, len(set)+1)
	merged = append(merged, set[:i]...)
	merged = append(merged, p)
	return append(merged, set[i:]...), true
}

func compareHistories(p, q Position) int {
	return cmp.Or(cmp.Compare(p.Kind, q.Kind), cmp.Compare(p.System, q.System), cmp.Compare(p.Timeline, q.Timeline))
}
