package router

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Fence makes a session need everything that is committed now. It waits for the primary's position for at most CaptureTimeout, or
// until ctx ends. The session is held to that position whether it is known by then or not. Whoever is answered has written nothing of it.
func (r *Router) Fence(ctx context.Context, session *core.Session) error {
	if r.cfg.Strategy.Sticky {
		began := time.Now()
		e := core.Entry{Cluster: r.cfg.Cluster, At: began, Until: began.Add(r.cfg.Strategy.Window)}
		session.Learn(e, r.cfg.Strategy.Window)
		return nil
	}
	c := r.Captures.Join()
	session.Fence(r.cfg.Cluster, time.Now(), c, r.cfg.Strategy.Window)
	r.waitCapture(ctx, c)
	err := ctx.Err()
	if result := c.Result(); result != nil {
		err = result.Err
	}
	if err != nil {
		return fmt.Errorf("readroute: fence cluster %q: %w", r.cfg.Cluster, err)
	}
	return nil
}

// MayCache reports whether what a read in ctx, outside of a transaction, shows may be kept for others: it shows everything that was
// committed before it began. A fence that the session had does not make it so: nobody knows whether that was before an invalidation.
func (r *Router) MayCache(ctx context.Context) bool {
	in := core.Input{Strategy: r.cfg.Strategy, Fallback: r.cfg.Fallback}
	session, err := r.apply(core.FromContext(ctx), &in)
	switch {
	case err != nil:
		return false
	case in.Level == core.LevelPrimary, in.Level == core.LevelUnset && session == nil:
		return true // the primary shows it
	case in.Fallback == core.FallbackStale, in.Strategy.Sticky, r.Monitor.Snapshot().Positionless:
		return false
	}
	return in.Level == core.LevelGlobal
}
