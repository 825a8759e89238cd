package router

import (
	"context"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// marked reports that the primary's position is that of a marker table.
func (r *Router) marked() bool {
	s := r.Monitor.Snapshot()
	return s.Nodes[s.Primary].Sample.Position.Kind == core.KindMarker
}

// catchUpMarkers is catchUp where the positions are rows of a table, which are seen with what they stand for: once the primary shows the
// rows that the session has seen, it shows all of that. It reports whether it does before ctx ends.
func (r *Router) catchUpMarkers(ctx context.Context, session *core.Session, began time.Time) bool {
	if session.Settle(ctx, r.cfg.Cluster, r.cfg.Strategy.Window) != nil {
		return false
	}
	for try := 0; try == 0 || pauseAhead(ctx, try); try++ {
		need, _ := session.View(r.cfg.Cluster, now)
		c := r.Captures.Join()
		if c.Wait(ctx) != nil {
			return false
		}
		shown, missing := c.Result().Position, false
		for _, p := range need.Positions {
			missing = missing || p.Kind == core.KindMarker && p.CoveredBy(shown) == core.NotCovered
		}
		if !missing {
			session.Shown(r.cfg.Cluster, began)
			return true
		}
	}
	return false
}
