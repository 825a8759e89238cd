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

// prepareWrite makes the primary connection commit as the context of a statement asks for. What was asked for before in the open
// transaction is asked for again when text commits it: a savepoint that was rolled back to has taken the setting along.
func (c *Conn) prepareWrite(ctx context.Context, st *sqlclass.Statement, h *held) error {
	if h != &c.primary {
		return nil
	}
	ends := st.EndsTx && !rollsBack(st)
	wants := (st.MayWrite || ends) && wantsRemoteApply(ctx)
	if !wants && !c.applies && h.before == "" {
		return nil
	}
	inTx := c.inTxOn(h)
	switch {
	case inTx && ends && (wants || c.applies):
		return c.confirmRemoteApply(ctx, h)
	case wants && !(inTx && c.applies):
		return c.remoteApply(ctx, h)
	case !inTx && !wants:
		return c.endRemoteApply(ctx, h)
	}
	return nil
}

// inTxOn reports that a transaction is open on h, as far as can be told.
func (c *Conn) inTxOn(h *held) bool {
	if open, known := h.p.wire.InTx(); known {
		return open
	}
	return (c.rawTx || c.tx != nil && c.tx.h == h) && !c.implicit
}

// remoteApply sets it for the open transaction, or for the session until it is put back. The server is asked for its standbys each
// time: what was found before may be gone, and the setting alone waits for nobody.
func (c *Conn) remoteApply(ctx context.Context, h *held) error {
	inTx := c.inTxOn(h)
	node := h.p.pool.cfg.Name
	if h.p.pool.cfg.Pooled && !inTx {
		return notSent{fmt.Errorf("%w: node %q is behind a pooler, where a setting would leak into other sessions: begin a transaction", ErrRemoteApply, node)}
	}
	query := c.cluster.Engine.RemoteApplySQL(inTx)
	if query == "" {
		return notSent{fmt.Errorf("%w: node %q is no PostgreSQL server", ErrRemoteApply, node)}
	}
	var row []string
	err := c.run(ctx, h, false, func(p *physical) (err error) {
		row, err = p.wire.Link().QueryRow(ctx, query)
		return err
	})
	switch {
	case err != nil:
		h.discard = h.discard || !inTx
		return notSent{fmt.Errorf("%w: ask node %q for its standbys: %w", ErrRemoteApply, node, plain(err))}
	case len(row) < 2 || row[1] == "0":
		return notSent{fmt.Errorf("%w: no connected synchronous standby of node %q can be seen: look at synchronous_standby_names, and grant "+
			"the user pg_monitor, without which none can be seen", ErrRemoteApply, node)}
	}
	c.applies = true
	if !inTx && h.before == "" {
		h.before = row[0]
	}
	return nil
}

// confirmRemoteApply is remoteApply just before a COMMIT. A transaction in which the question fails has failed, and is rolled back
// whatever is said of it.
func (c *Conn) confirmRemoteApply(ctx context.Context, h *held) error {
	err := c.remoteApply(ctx, h)
	if err != nil && c.cluster.Engine.Refused(err) {
		return nil
	}
	return err
}

// endRemoteApply forgets that a transaction which is over was to commit so, and puts the session's setting back.
func (c *Conn) endRemoteApply(ctx context.Context, h *held) error {
	c.applies = false
	if h.before == "" {
		return nil
	}
	return c.restore(ctx, h)
}

// restore puts back what was set before.
func (c *Conn) restore(ctx context.Context, h *held) error {
	_, err := h.p.wire.Link().QueryRow(ctx, c.cluster.Engine.RestoreSQL(h.before))
	h.before = ""
	if err != nil {
		h.discard = true
		return notSent{fmt.Errorf("put synchronous_commit of a session of node %q back: %w", h.p.pool.cfg.Name, err)}
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
