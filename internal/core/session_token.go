package core

import (
	"context"
	"time"
)

// Token returns what the session needs, once every pending capture has its result. When ctx ends first, or a write has
// not ended, the entry asks for the primary until now + window instead, and err says why; the token is safe all the same.
func (s *Session) Token(ctx context.Context, clock func() time.Time, window time.Duration) (Token, error) {
	var firstErr error
	var entries []Entry
	state := s.state.Load()
	if state == nil {
		return Token{}, nil
	}
	for i := range state.clusters {
		name := state.clusters[i].entry.Cluster
		e, err := s.entry(ctx, name, clock, window)
		if firstErr == nil {
			firstErr = err
		}
		entries = append(entries, e)
	}
	return NewToken(window, entries...), firstErr
}

func (s *Session) entry(ctx context.Context, cluster string, clock func() time.Time, window time.Duration) (Entry, error) {
	for {
		need, _ := s.View(cluster, clock)
		if settled := s.Settle(ctx, cluster, window); settled != nil {
			e := *need.entry
			e.Until = later(e.Until, clock().Add(window))
			return e, settled
		}
		need, _ = s.View(cluster, clock)
		e := *need.entry
		var err error
		switch {
		case need.Open:
			err = ErrWriteOpen
		case need.Pending == nil:
			if at := clock(); need.Unproven && !e.Until.After(at) {
				e.Until = at.Add(window) // whoever reads the token cannot know that there was a doubt
			}
			return e, nil
		default:
			err = need.Pending.Wait(ctx)
			if err == nil {
				continue
			}
			if need.Pending.Result() != nil {
				continue // given up; View turns it into "the primary until"
			}
		}
		e.Until = later(e.Until, clock().Add(window))
		return e, err
	}
}

// Merge makes the session need what the token needs as well.
func (s *Session) Merge(t Token, window time.Duration) {
	for _, e := range t.Entries() {
		s.Require(e, window)
	}
}

// MergeLearned is Merge for what no answer has to tell.
func (s *Session) MergeLearned(t Token, window time.Duration) {
	for _, e := range t.Entries() {
		s.Learn(e, window)
	}
}
