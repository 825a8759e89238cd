package vconn

import (
	"context"
	"slices"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Where the driver does not tell whether a transaction is open, as go-sql-driver/mysql does not, text may have led to one that no
// text has begun: SET autocommit = 0 or completion_type, XA, a procedure that leaves one open, the native connection. Then what one
// session has written is committed by whatever another one runs on the connection, and no position is known to cover it.

// survivesRollback reports that what a transaction has written may stand after it is rolled back: MySQL and MariaDB keep the rows of
// tables without transactions, and a deadlock ends a transaction of which database/sql's Tx goes on. A marker is rolled back with it,
// and PostgreSQL keeps nothing, whatever its driver tells.
func (c *Conn) survivesRollback(h *held) bool {
	return !tellsTx(h) && h.p.proof.Position.Kind != core.KindPostgres && c.cluster.Marking == nil
}

// untoldTx reports that a transaction may be open on h that neither a text nor the driver tells of.
func (c *Conn) untoldTx(h *held) bool {
	return !tellsTx(h) && (c.cluster.Marking == nil || c.cluster.Marking.Untold())
}

// tellsTx reports that the driver says whether a transaction is open.
func tellsTx(h *held) bool {
	_, known := h.p.wire.InTx()
	return known
}

// keep adds a session to those of a transaction that nothing tells of.
func (w *writes) keep(s *core.Session) {
	if !slices.Contains(w.open, s) {
		w.open = append(w.open, s)
	}
}

// tookUntold takes note of a statement on a connection with session state, or that may have left a transaction open. Whatever may
// have ended one gives all who have written there a new position.
func (c *Conn) tookUntold(ctx context.Context, st *sqlclass.Statement, h *held, err error) {
	if !c.untoldTx(h) || err != nil && c.nothingSent(err) {
		return
	}
	within := c.tx != nil || c.rawTx
	if h.state || !within {
		c.writes.untold = true
	}
	if !c.writes.untold {
		return
	}
	for _, s := range c.writes.inTx { // of a transaction that ends here, perhaps only by name: XA PREPARE
		c.writes.keep(s)
	}
	c.writes.last = ctx
	c.writes.open = c.sessions(ctx, c.writes.open) // also of a read, which sees what is not committed yet
	switch {
	case !st.MayWrite && !st.EndsTx && !st.MayEndTx:
	case within && !c.implicit && !st.EndsTx && !st.MayEndTx:
	case err != nil && !c.cluster.Engine.Refused(err) && !h.p.inStep():
		c.unknown(c.writes.open, h)
	default:
		c.wrote(c.writes.open, h)
	}
}

// endUntold keeps a transaction that may be open from the next user of the connection, in the time that the last statement's caller
// has. One with session state is given up anyway.
func (c *Conn) endUntold(h *held) {
	if h.state || h.discard || c.rawTx || h.p.wire.Broken() || !c.untoldTx(h) {
		return
	}
	ctx := c.writes.last
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := h.p.pool.limited(ctx)
	defer cancel()
	interrupted, err := h.p.interruptible(func(p *physical) error {
		_, err := p.wire.Link().QueryRow(ctx, "ROLLBACK")
		return err
	})
	h.discard = interrupted || err != nil
}
