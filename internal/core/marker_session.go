package core

import "time"

// Marked records a write that was over at now and is at p, which marks no more than what was written before now. There is no
// capture to wait for.
func (s *Session) Marked(cluster string, p Position, now time.Time, window time.Duration) {
	s.grow(cluster, func(c clusterState) clusterState {
		c.entry.At = later(c.entry.At, now)
		c.marked, c.markedAt = p.Markers(), now
		merged, ok := MergePositions(c.entry.Positions, p)
		if !ok {
			c.entry.Until = later(c.entry.Until, now.Add(window))
			return c
		}
		c.entry.Positions = merged
		if c.captured = now; len(merged) > 1 {
			c.captured = time.Time{}
		}
		return c
	})
}

// MarkerKept is for how long at least nobody forgets a row that was moved: one that is not there any more by then is lost.
const MarkerKept = time.Hour

// absent says what it tells of p that the primary does not show rows of it at all which it has shown to this process, and when. The row of
// the session's last write is lost, with its first transaction, while nobody can have forgotten it. Any other was forgotten, as it may be
// when it has not moved for long: all that it stood for is there. Of a row that only a token tells of nobody can say either.
func (c *clusterState) absent(p Position, r *CaptureResult) Verdict {
	shown := r.Position.Markers()
	switch {
	case p.Kind != KindMarker || c.captured.IsZero() || !r.At.After(c.captured) || shown.Contains(p.Markers()):
		return VerdictNone
	case !c.marked.IsZero() && p.Markers().Contains(c.marked) && !shown.Contains(c.marked) && r.At.Sub(c.markedAt) < MarkerKept:
		return VerdictLost
	}
	return VerdictReplaced
}
