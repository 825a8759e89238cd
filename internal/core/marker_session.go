package core

import "time"

// Marked records a write that was over at now and is at p, which marks no more than what was written before now. There is no
// capture to wait for.
func (s *Session) Marked(cluster string, p Position, now time.Time, window time.Duration) {
	s.grow(cluster, func(c clusterState) clusterState {
		c.entry.At = later(c.entry.At, now)
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

// hadBefore reports that the primary does not show a row of p that it has shown to this process, which knows when: the row's first
// transaction is lost, or it was forgotten long after. Of a row that only a token tells of nobody can say that.
func (c *clusterState) hadBefore(p Position, r *CaptureResult) bool {
	return p.Kind == KindMarker && !c.captured.IsZero() && r.At.After(c.captured) && !r.Position.Markers().Contains(p.Markers())
}
