package vconn

import (
	"context"
	"slices"

	"github.com/readroute/readroute/internal/core"
)

// A write marks its sessions once it has returned. An answer to a client may go out before that, when its handler has run out of
// time: so the sessions hear of it before it is sent. What an open transaction has written is nobody's until its commit is sent.

// begin tells the sessions of a statement in ctx that is about to be sent, and may change something for good. settle follows.
func (c *Conn) begin(ctx context.Context) {
	if o := core.FromContext(ctx); o != nil && o.Session != nil {
		c.writes.begin(o.Session)
	}
	switch {
	case c.rawTx || c.tx != nil:
		c.beginAll(c.writes.inTx)
	case c.writes.untold:
		c.beginAll(c.writes.open)
	}
}

func (c *Conn) beginAll(list []*core.Session) {
	for _, s := range list {
		if s != &c.cluster.Router.Process { // which answers nobody
			c.writes.begin(s)
		}
	}
}

func (w *writes) begin(s *core.Session) {
	if !slices.Contains(w.begun, s) {
		s.Begin()
		w.begun = append(w.begun, s)
	}
}

// settle tells the sessions that what they were told of has returned, and been taken note of.
func (c *Conn) settle() {
	w := &c.writes
	if len(w.begun) == 0 {
		return
	}
	for i, s := range w.begun {
		s.End()
		w.begun[i] = nil
	}
	w.begun = w.begun[:0]
}
