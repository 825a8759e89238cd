package router

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Fence makes a session need everything that is committed now.
func (r *Router) Fence(ctx context.Context, session *core.Session) error {
	began := time.Now()
	e := core.Entry{Cluster: r.cfg.Cluster}
	if r.cfg.Strategy.Sticky {
		e.At = began
		session.Require(e, r.cfg.Strategy.Window)
		return nil
	}
	c := r.Captures.Join()
	if err := c.Wait(ctx); err != nil {
		e.Until = time.Now().Add(r.cfg.Strategy.Window)
		session.Require(e, r.cfg.Strategy.Window)
		return fmt.Errorf("readroute: fence cluster %q: %w", r.cfg.Cluster, err)
	}
	if p := c.Result().Position; p.IsZero() {
		e.Until = time.Now().Add(r.cfg.Strategy.Window) // a cluster without positions: only the primary shows it for certain
	} else {
		e.Positions = []core.Position{p}
	}
	session.Require(e, r.cfg.Strategy.Window)
	return nil
}
