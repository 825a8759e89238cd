package vconn

import (
	"time"

	"github.com/readroute/readroute/internal/core"
)

// unknown marks sessions whose write may or may not stand, and may be committed only after this. A capture covers it
// once the server's side of the connection is gone.
func (c *Conn) unknown(list []*core.Session, h *held) {
	h.discard = true
	if len(list) == 0 {
		return
	}
	now := time.Now()
	window := c.cluster.Strategy.Window
	if !h.unlogged && !c.cluster.Strategy.Sticky && (c.cluster.Marking == nil || c.mark != nil && c.mark.moved) {
		capture, ok := c.cluster.Router.Captures.JoinWhenGone(h.p.backend, h.p.proof.Start)
		if ok {
			for _, s := range list {
				s.Wrote(c.cluster.Name, now, h.p.proof.Start, capture, true, window)
			}
			return
		}
		if c.cluster.Marking == nil {
			capture = c.cluster.Router.Captures.Join()
			for _, s := range list {
				s.Doubtful(c.cluster.Name, now, capture, window)
			}
			return
		}
	}
	c.unprovable(list)
}

// unprovable marks sessions whose write no position covers: the primary for a while.
func (c *Conn) unprovable(list []*core.Session) {
	now := time.Now()
	for _, s := range list {
		s.Unprovable(c.cluster.Name, now, now.Add(c.cluster.Strategy.Window))
	}
}
