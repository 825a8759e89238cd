package core

import (
	"slices"
	"strings"
	"time"
)

// Entry is what a token says of one cluster. Its slice is never changed after the entry has been published.
type Entry struct {
	Cluster   string
	Positions []Position // at most one a history
	// At is when the newest write ended, by the clock of the process that wrote; zero when nothing was written.
	At time.Time
	// Until is an end by this process's clock: only the primary covers the writes until then. Zero when the positions say it all.
	Until time.Time
	// AtLatest and UntilLatest are the same of what other processes have told, by this process's clock at the latest: what the
	// clocks may differ by is in them already, and is not added again when they go on.
	AtLatest, UntilLatest time.Time
}

// IsZero reports whether the entry asks for nothing.
func (e Entry) IsZero() bool {
	return len(e.Positions) == 0 && e.At.IsZero() && e.Until.IsZero() && e.UntilLatest.IsZero()
}

// Ends is until when only the primary covers the writes, by this process's clock.
func (e *Entry) Ends() time.Time { return later(e.Until, e.UntilLatest) }

// EndsElsewhere is that by every clock that differs from this process's by at most skew.
func (e *Entry) EndsElsewhere(skew time.Duration) time.Time {
	if e.Until.IsZero() {
		return e.UntilLatest
	}
	return later(e.Until.Add(skew), e.UntilLatest)
}

// Wrote is when the newest write ended, by this process's clock.
func (e *Entry) Wrote() time.Time { return later(e.At, e.AtLatest) }

// Arrived takes in what another process has told, whose clock may differ by skew: Until is UntilLatest from now on, and AtLatest is
// the latest moment that At may have been. Nothing was written after now.
func (e *Entry) Arrived(now time.Time, skew time.Duration) {
	if !e.At.IsZero() {
		if e.AtLatest = e.At.Add(skew); e.AtLatest.After(now) {
			e.AtLatest = now
		}
	}
	e.Until, e.UntilLatest = time.Time{}, e.Ends()
}

// Merge returns the least entry that covers e and o, which are of one cluster. window is how long the primary is
// asked for when the positions no longer fit.
func (e Entry) Merge(o Entry, window time.Duration) Entry {
	e.At = later(e.At, o.At)
	e.Until = later(e.Until, o.Until)
	e.AtLatest = later(e.AtLatest, o.AtLatest)
	e.UntilLatest = later(e.UntilLatest, o.UntilLatest)
	for _, p := range o.Positions {
		merged, ok := MergePositions(e.Positions, p)
		if !ok {
			// No replica shows positions of that many histories: the primary will be asked before one serves this again.
			if !e.At.IsZero() {
				e.Until = later(e.Until, e.Wrote().Add(window))
			}
			continue
		}
		e.Positions = merged
	}
	return e
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Token is what writes leave behind: an entry a cluster, in the order of their names. It is immutable.
type Token struct {
	entries []Entry
}

// NewToken makes a token of entries, which it keeps. It takes no longer than to sort them. Entries of one cluster are merged, empty ones dropped.
func NewToken(window time.Duration, entries ...Entry) Token {
	if sorted(entries) {
		return Token{entries: entries}
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Cluster, b.Cluster) })
	kept := entries[:0]
	for _, e := range entries {
		switch n := len(kept); {
		case e.IsZero():
		case n > 0 && kept[n-1].Cluster == e.Cluster:
			kept[n-1] = kept[n-1].Merge(e, window)
		default:
			kept = append(kept, e)
		}
	}
	if len(kept) == 0 {
		return Token{}
	}
	return Token{entries: kept}
}

// sorted reports that entries are what a token is made of: in order, one a cluster, none empty.
func sorted(entries []Entry) bool {
	for i := range entries {
		if entries[i].IsZero() || i > 0 && entries[i-1].Cluster >= entries[i].Cluster {
			return false
		}
	}
	return true
}

// Merge returns the least token that covers t and o.
func (t Token) Merge(o Token, window time.Duration) Token {
	if t.IsZero() {
		return o
	}
	if o.IsZero() {
		return t
	}
	return NewToken(window, slices.Concat(t.entries, o.entries)...)
}

// IsZero reports whether the token asks for nothing.
func (t Token) IsZero() bool { return len(t.entries) == 0 }

// Entries returns the entries. The caller must not change them.
func (t Token) Entries() []Entry { return t.entries }
