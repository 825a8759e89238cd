package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Marking is what a cluster has whose positions are moved by its own transactions, in a table, because its servers tell none.
// Other clusters have none, and pay a look at a nil for it.
type Marking interface {
	// Mark returns what a transaction moves that is about to begin on a node which was seen at a position; nil where there is
	// nothing to move.
	Mark(seen core.Position) Mark
	// Untold reports that a transaction may begin of which no text tells.
	Untold() bool
	// Transactional reports that a text does in a transaction what it does outside of one.
	Transactional(query string) bool
	// RefusedInTx reports that the server refuses a statement for being in a transaction.
	RefusedInTx(err error) bool
	// Aborted reports that the server takes no statement any more because the transaction has failed before.
	Aborted(err error) bool
}

// Mark is what one transaction moves. It is for one goroutine at a time. Exactly one of Committed, RolledBack, Lost and Unknown ends it.
type Mark interface {
	// Move moves it in the transaction that exec runs statements in; exec returns how many rows one has changed.
	Move(ctx context.Context, exec func(ctx context.Context, query string) (int64, error)) error
	// Position is where a transaction leaves it that has moved it and is committed.
	Position() core.Position
	Committed()
	RolledBack()
	Lost()    // it is rolled back, now or later
	Unknown() // nobody knows which
}

// mark is a Mark with what has become of it.
type mark struct {
	Mark
	tried     bool // to move it: a server may hold its lock
	moved     bool
	committed bool
	// loose: a text has run since that may have committed what is before it.
	loose bool
}

// lease takes a mark for a transaction that begins on h. It is held from before the transaction sees anything, so that nobody
// else moves it meanwhile, at whatever isolation.
func (c *Conn) lease(h *held) *mark {
	seen := c.cluster.Router.Monitor.Snapshot().Nodes[h.node].Sample.Position
	if seen.IsZero() {
		seen = h.p.proof.Position
	}
	if m := c.cluster.Marking.Mark(seen); m != nil {
		return &mark{Mark: m}
	}
	return nil
}

// move moves the mark in the transaction that is open on h.
func (c *Conn) move(ctx context.Context, h *held, m *mark) error {
	m.tried = true
	err := m.Move(ctx, func(ctx context.Context, query string) (int64, error) { return execText(ctx, h.p, query) })
	m.moved = err == nil
	c.suspect(h, err)
	return err
}

func execText(ctx context.Context, p *physical, query string) (int64, error) {
	result, err := nativeExec(ctx, p, query, nil)
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
		var stmt driver.Stmt
		if stmt, err = nativePrepare(ctx, p.native, query); err != nil {
			return 0, err
		}
		result, err = nativeStmtExec(ctx, p, stmt, nil)
		err = errors.Join(err, stmt.Close())
	}
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// endMark gives the mark of a transaction back that ended with err.
func (c *Conn) endMark(err error) {
	m := c.mark
	c.mark = nil
	switch {
	case m == nil:
	case m.committed:
		m.Committed()
	case !m.tried, err == nil && !m.moved, err != nil && c.cluster.Engine.Refused(err):
		m.RolledBack()
	case !m.moved:
		m.Lost()
	default:
		m.Unknown()
	}
}

// wroteMarked is what wrote does where writes are marked. What may stand and is not marked, such as VACUUM or what a native
// connection has done, has no position.
func (c *Conn) wroteMarked(list []*core.Session, h *held) {
	now, window := time.Now(), c.cluster.Strategy.Window
	m := c.mark
	switch {
	case len(list) == 0:
	case m != nil && m.committed:
		for _, s := range list {
			s.Marked(c.cluster.Name, m.Position(), now, window)
		}
	case m != nil && m.moved: // it stands or does not, and by now the table tells
		capture := c.cluster.Router.Captures.Join()
		for _, s := range list {
			s.Wrote(c.cluster.Name, now, h.p.proof.Start, capture, false, window)
		}
	default:
		for _, s := range list {
			s.Unprovable(c.cluster.Name, now, now.Add(window))
		}
	}
}

var errMarkedRows = errors.New("readroute: a write on this connection still hands out rows, and is committed when they are closed: close them first")

// commitMarked is Commit of a transaction that has a mark.
func (t *Tx) commitMarked() error {
	c, m := t.c, t.c.mark
	if c.writes.wrote && !m.loose {
		if err := c.move(t.ctx, t.h, m); err != nil && !c.cluster.Marking.Aborted(err) {
			node := t.h.p.pool.cfg.Name // before the connection is given up
			return errors.Join(fmt.Errorf("readroute: commit on node %q: move the marker: %w; the transaction is rolled back", node, err), t.Rollback())
		}
	}
	err := t.commit()
	c.endMark(err)
	return err
}

// executeMarked is the second half of execute for a statement on the primary. done is false when the statement runs as it
// would without marks.
func (c *Conn) executeMarked(ctx context.Context, st *sqlclass.Statement, query string, h *held, rows bool, op func(*physical) error) (done bool, err error) {
	switch {
	case c.marked != nil && st.MayWrite:
		c.report(ctx, &c.decided)
		return true, errMarkedRows
	case c.tx != nil || c.marked != nil:
		if c.mark != nil && (st.EndsTx || st.MayEndTx) {
			c.mark.loose = true
		}
		return false, nil
	case c.rawTx || st.BeginsTx:
		return true, c.executeRawTx(ctx, st, query, h, rows, op)
	case c.writes.untold: // its own would commit one that may be open
		return false, nil
	case !st.MayWrite, st.EndsTx, st.MayEndTx, st.LeavesState, st.TxState, st.Multi, st.Class == sqlclass.SessionState, st.Class == sqlclass.TxControl,
		!c.cluster.Marking.Transactional(query):
		return false, nil
	}
	return c.executeInTx(ctx, st, query, h, rows, op)
}

// executeRawTx runs a statement that begins a transaction by text, or is in one.
func (c *Conn) executeRawTx(ctx context.Context, st *sqlclass.Statement, query string, h *held, rows bool, op func(*physical) error) error {
	if m := c.mark; m != nil && !m.moved && !m.loose && st.EndsTx && c.writes.wrote && !st.Multi && !st.MayWrite && !rollsBack(st) {
		if err := c.move(ctx, h, m); err != nil && !c.cluster.Marking.Aborted(err) {
			c.report(ctx, &c.decided)
			return fmt.Errorf("readroute: commit on node %q: move the marker: %w", h.p.pool.cfg.Name, err)
		}
	}
	before := c.rawTx
	err := c.run(ctx, h, c.changes(st, h), op)
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
		c.skip = &skipped{h: h, query: query, st: *st, decided: c.decided}
		return err
	}
	if c.mark != nil && st.MayEndTx {
		c.mark.loose = true
	}
	if c.mark != nil && st.EndsTx {
		c.mark.committed = c.mark.moved && err == nil
	}
	c.report(ctx, &c.decided)
	told := plain(c.took(ctx, st, h, rows, err))
	if st.EndsTx || before && !c.rawTx {
		c.endMark(err)
	}
	if c.rawTx && c.mark == nil && st.BeginsTx && !st.Multi && h.attached() && !strings.EqualFold(st.Token, "XA") { // which ends before its commit
		c.mark = c.lease(h)
	}
	return told
}

// executeInTx runs a write that is no part of a transaction in one of its own, which moves the mark first: whatever the server says of the
// last statement afterwards, it says of the caller's. done is false when the server refuses that, or there is nothing to move.
func (c *Conn) executeInTx(ctx context.Context, st *sqlclass.Statement, query string, h *held, rows bool, op func(*physical) error) (done bool, err error) {
	own, err := c.tryInTx(ctx, h, op)
	if err != nil && c.cluster.Engine.Retry(err) == core.RetryPlan && own != nil {
		c.decided.Retry = core.RetryPlan
		if _, renewed := h.p.interruptible(func(p *physical) error { return p.renew(ctx, query) }); renewed == nil {
			own, err = c.tryInTx(ctx, h, op)
		} else {
			h.discard = true
		}
	}
	switch {
	case err == nil && own == nil:
		return false, nil
	case err == driver.ErrSkip: //nolint:errorlint // database/sql compares the same way
		c.skip = &skipped{h: h, query: query, st: *st, decided: c.decided}
		return true, err
	case err != nil && own != nil && c.cluster.Marking.RefusedInTx(err):
		return false, nil
	}
	defer c.report(ctx, &c.decided)
	if err != nil {
		c.suspect(h, err)
		return true, plain(err)
	}
	c.followed()
	own.ctx, own.h = ctx, h
	if !rows {
		return true, own.commit(c.writers(ctx))
	}
	c.marked = own
	c.began(ctx)
	return true, nil
}

// ownTx is a transaction that a single statement was put into.
type ownTx struct {
	c      *Conn
	h      *held
	ctx    context.Context
	mark   *mark
	native driver.Tx

	wrapped bool // its rows end it
}

// tryInTx begins a transaction of its own, moves the mark in it and calls op. When op fails it is rolled back, so that nothing
// stands. own is nil when op was not called.
func (c *Conn) tryInTx(ctx context.Context, h *held, op func(*physical) error) (own *ownTx, err error) {
	m := c.lease(h)
	if m == nil {
		return nil, nil
	}
	own = &ownTx{c: c, mark: m}
	err = c.run(ctx, h, false, func(p *physical) (err error) {
		own.native = nil
		if own.native, err = nativeBegin(ctx, p.native, driver.TxOptions{}); err != nil {
			return err
		}
		if err = c.move(ctx, h, m); err != nil {
			return fmt.Errorf("readroute: move the marker on node %q: %w", p.pool.cfg.Name, err)
		}
		return nil
	})
	switch {
	case err == nil:
	case own.native == nil:
		m.RolledBack()
		return nil, err
	default:
		own.rollback(h)
		return nil, err
	}
	if err = c.run(ctx, h, false, op); err != nil {
		own.rollback(h)
	}
	return own, err
}

// rollback ends the transaction without a trace. A connection on which that fails is closed, and the server does it.
func (o *ownTx) rollback(h *held) {
	if h.attached() && o.native.Rollback() == nil && !h.p.wire.Broken() {
		o.mark.RolledBack()
		return
	}
	h.discard = true
	o.mark.Lost() // the server may not have noticed
}

// commit commits for sessions, and returns what the caller is told. Nothing but the answer to COMMIT can be lost.
func (o *ownTx) commit(list []*core.Session) error {
	c, h := o.c, o.h
	if err := o.ctx.Err(); err != nil {
		o.rollback(h)
		return err
	}
	open := !h.p.wire.Broken()
	err := o.native.Commit()
	if open && c.lost(h, err) {
		err = lostError(err)
	}
	if errors.Is(err, driver.ErrBadConn) {
		h.discard = true
	}
	c.mark = o.mark
	c.mark.committed = err == nil
	told := c.txEnded(list, true, h, err)
	c.endMark(err)
	return told
}

// abandon gives up, at the end of a checkout, a transaction that nobody has ended.
func (c *Conn) abandon() {
	if own := c.marked; own != nil {
		c.marked = nil
		own.rollback(own.h)
		c.primary.discard = true
		c.handedOut()
	}
	c.endMark(nil)
}
