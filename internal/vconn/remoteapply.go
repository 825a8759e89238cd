package vconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// ErrRemoteApply is matched by the error of a write that was to wait until a standby shows it, and that cannot: it has not run.
var ErrRemoteApply = errors.New("readroute: the write cannot wait until a standby shows it")

// restoreTimeout bounds putting a setting back while a checkout ends.
const restoreTimeout = time.Second

// wantsRemoteApply reports whether the context asks for it.
func wantsRemoteApply(ctx context.Context) bool {
	o := core.FromContext(ctx)
	return o != nil && o.RemoteApply
}

// prepareWrite makes the primary connection commit as the context of a statement asks for.
func (c *Conn) prepareWrite(ctx context.Context, st *sqlclass.Statement, h *held) error {
	if h != &c.primary {
		return nil
	}
	inTx := c.tx != nil || c.rawTx
	switch {
	case wantsRemoteApply(ctx) && st.MayWrite:
		return c.remoteApply(ctx, h, inTx)
	case h.before != "" && !inTx:
		return c.restore(ctx, h)
	}
	return nil
}

// remoteApply sets it for the open transaction, or for the session until restore.
func (c *Conn) remoteApply(ctx context.Context, h *held, inTx bool) error {
	switch {
	case h.before != "" && !inTx, c.tx != nil && c.tx.remoteApply:
		return nil // it is set
	case h.p.pool.cfg.Pooled && !inTx:
		return fmt.Errorf("%w: node %q is behind a pooler, where a setting would leak into other sessions: begin a transaction", ErrRemoteApply, h.p.pool.cfg.Name)
	}
	query := c.cluster.Engine.RemoteApplySQL(inTx)
	if query == "" {
		return fmt.Errorf("%w: node %q is no PostgreSQL server", ErrRemoteApply, h.p.pool.cfg.Name)
	}
	row, err := h.p.wire.Link().QueryRow(ctx, query)
	switch {
	case err != nil:
		h.discard = h.discard || !inTx
		return fmt.Errorf("%w: ask node %q for its standbys: %w", ErrRemoteApply, h.p.pool.cfg.Name, err)
	case len(row) < 2 || row[1] == "0":
		return fmt.Errorf("%w: no connected synchronous standby of node %q can be seen: look at synchronous_standby_names, and grant "+
			"the user pg_monitor, without which none can be seen", ErrRemoteApply, h.p.pool.cfg.Name)
	case c.tx != nil:
		c.tx.remoteApply = true
	case !inTx:
		h.before = row[0]
	}
	return nil
}

// restore puts back what was set before.
func (c *Conn) restore(ctx context.Context, h *held) error {
	_, err := h.p.wire.Link().QueryRow(ctx, c.cluster.Engine.RestoreSQL(h.before))
	h.before = ""
	if err != nil {
		h.discard = true
		return fmt.Errorf("put synchronous_commit of a session of node %q back: %w", h.p.pool.cfg.Name, err)
	}
	return nil
}

// restoreAtEnd is restore at the end of a checkout.
func (c *Conn) restoreAtEnd(h *held) {
	if h.before == "" || h.discard {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	_ = c.restore(ctx, h) // a connection on which it fails is closed
}
