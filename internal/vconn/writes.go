package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// writes is what a checkout knows of its own writes that are not over.
type writes struct {
	// inTx are the sessions seen in the open transaction; wrote says that it may have changed something.
	inTx  []*core.Session
	wrote bool
	// handing are the sessions of a write that hands out rows: PostgreSQL commits it at the Sync that follows the last
	// row, so it is over when another statement has succeeded on the connection, or the checkout ends.
	handing []*core.Session
	ctx     context.Context // of that write
	// single are the sessions of a write outside a transaction, while it is taken note of.
	single []*core.Session
	// untold: a transaction may be open on the primary connection, or begin with any statement, of which neither a text nor the
	// driver tells. open are the sessions whose writes it may commit, whoever ends it: they are kept until the checkout ends.
	untold bool
	open   []*core.Session
	last   context.Context // of the last statement there
	// begun are the sessions that are told of what is being sent.
	begun []*core.Session
}

func (w *writes) reset() {
	if len(w.single) > 0 {
		clear(w.single)
		w.single = w.single[:0]
	}
	if w.untold {
		clear(w.open)
		w.open, w.untold, w.last = w.open[:0], false, nil
	}
	if len(w.inTx) == 0 && len(w.handing) == 0 && !w.wrote && w.ctx == nil {
		return
	}
	clear(w.inTx)
	clear(w.handing)
	w.inTx, w.handing, w.wrote, w.ctx = w.inTx[:0], w.handing[:0], false, nil
}

// sessions appends the sessions that a write in ctx belongs to.
func (c *Conn) sessions(ctx context.Context, list []*core.Session) []*core.Session {
	if o := core.FromContext(ctx); o != nil && o.Session != nil && !slices.Contains(list, o.Session) {
		list = append(list, o.Session)
	}
	if c.cluster.Process && !slices.Contains(list, &c.cluster.Router.Process) {
		list = append(list, &c.cluster.Router.Process)
	}
	return list
}

// took takes note of what a statement on h has done, and returns its error.
func (c *Conn) took(ctx context.Context, st *sqlclass.Statement, h *held, rows bool, err error) error {
	if !h.attached() {
		return err
	}
	if st.LeavesState && (err == nil || !c.nothingSent(err)) {
		h.state = true // an advisory lock, for one, outlives the failure of the statement that took it
		if h.p.pool.cfg.Pooled && c.cluster.OnPooledState != nil {
			c.cluster.OnPooledState(h.node, st.Token)
		}
	}
	h.unlogged = h.unlogged || st.Unlogged && (err == nil || !c.nothingSent(err))
	if err == nil && (!st.MayWrite || rows && (c.tx != nil || c.rawTx)) { // a write that is rolled back has shown what it has all the same
		c.saw(ctx, h)
	}
	if h == &c.replica {
		return err
	}
	if c.tx == nil || !c.tx.readOnly {
		c.suspect(h, err)
	}
	before := c.rawTx
	c.followRawTx(st, h, err)
	if err == nil {
		c.followed()
	}
	if h.state || st.MayEndTx || c.writes.untold {
		c.tookUntold(ctx, st, h, err)
	}
	if c.tx != nil || c.rawTx {
		c.inTx(ctx, st)
		begun := c.rawTx && !before && st.BeginsTx && !st.Multi // it had nothing to end
		ends := (st.EndsTx || st.MayEndTx) && !begun
		if ends && (err == nil || !c.nothingSent(err)) || err != nil && c.cluster.Engine.Refused(err) && !tellsTx(h) {
			c.implicit = true // an error may be one that has ended the transaction, as a deadlock does
		}
		switch {
		case !ends || !c.writes.wrote:
		case err == nil && rows: // of a CALL, which goes on while they are read
			c.began(ctx)
			return nil
		default:
			return c.endedWithin(h, err)
		}
		if st.EndsTx || !c.endedByText(h) {
			return err
		}
	}
	if before && !c.rawTx && c.tx == nil {
		return c.rawTxEnded(ctx, st, h, err)
	}
	if !st.MayWrite && !st.EndsTx { // COMMIT PREPARED ends another session's transaction
		return err
	}
	switch {
	case err == nil && rows:
		c.began(ctx)
	case err == nil:
		c.wrote(c.writers(ctx), h)
	case c.nothingSent(err):
	case c.cluster.Engine.Refused(err):
		if st.CommitsOnError || st.MayWrite && c.survivesRollback(h) { // a function that has failed, for one
			c.wrote(c.writers(ctx), h)
		}
	case h.p.inStep():
		// Not the server's answer, and yet the connection is in step: a capture from now on covers whatever was done.
		c.wrote(c.writers(ctx), h)
	default:
		c.unknown(c.writers(ctx), h)
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return err
}

// suspect is told that a statement, or a COMMIT, has failed on the primary connection outside a read-only transaction. When it was
// refused as a replica refuses a write, perhaps the node is no primary any more: only a probe can tell. The connection may be of the
// time before.
func (c *Conn) suspect(h *held, err error) {
	if err != nil && c.cluster.Engine.ReadOnly(err) && h.attached() {
		h.discard = true
		c.cluster.Router.Monitor.Kick(h.node)
	}
}

// saw notes that a read has succeeded on h, for sessions whose later reads must not see less.
func (c *Conn) saw(ctx context.Context, h *held) {
	remembered := c.decided.Level == core.LevelCausal || c.decided.Level == core.LevelGlobal
	if c.decided.Reason == core.ReasonTx || c.decided.Reason == core.ReasonSessionState { // whatever the level is
		remembered = c.tx != nil && c.tx.remembered || c.cluster.Router.Remembers(ctx)
	}
	if !remembered {
		return
	}
	var list []*core.Session
	if c.tx != nil || c.rawTx {
		c.writes.inTx = c.sessions(ctx, c.writes.inTx)
		list = c.writes.inTx
	} else {
		list = c.sessions(ctx, nil)
	}
	now := time.Now()
	for _, s := range list {
		s.Saw(c.cluster.Name, c.cluster.Router.Place(h.node), h.p.proof.Start, h == &c.primary, now)
	}
}

// writers are the sessions that a write in ctx belongs to which is committed at once, or may be: those of the
// transaction as well that the primary connection has, or had until text or the native driver ended it, or may have.
func (c *Conn) writers(ctx context.Context) []*core.Session {
	if c.rawTx || c.tx != nil && c.tx.h == &c.primary {
		return c.writes.inTx // with those of ctx
	}
	if c.writes.untold {
		c.writes.open = c.sessions(ctx, c.writes.open)
		return c.writes.open
	}
	c.writes.single = c.sessions(ctx, c.writes.single[:0])
	return c.writes.single
}

func (c *Conn) nothingSent(err error) bool {
	if errors.Is(err, errLost) {
		return false
	}
	var not notSent
	return errors.Is(err, driver.ErrBadConn) || errors.As(err, &not) || c.cluster.Engine.NotSent(err)
}

// notSent is why a statement was not sent at all: its context had ended.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// plain is what the caller is told: the very error of its context, as database/sql does.
func plain(err error) error {
	if e, ok := err.(notSent); ok { //nolint:errorlint // made here and not wrapped
		return e.error
	}
	return err
}

// changes says whether a statement on h may change something for good, or commit what has.
func (c *Conn) changes(st *sqlclass.Statement, h *held) bool {
	if st.EndsTx || st.MayEndTx || !st.MayWrite || c.tx == nil && !c.rawTx {
		return st.EndsTx || st.MayWrite
	}
	open, known := h.p.wire.InTx()
	return known && !open || !known && c.implicit // text has ended the transaction
}

var errLost = errors.New("readroute: the connection broke in the middle of a statement")

// lost reports that a driver says of a statement that it was not sent, and yet the connection, which was open before,
// is closed: it may have been sent.
func (c *Conn) lost(h *held, err error) bool {
	return err != nil && c.nothingSent(err) && h.p.wire.Broken()
}

// lostError is what is said of such a statement. It does not match ErrBadConn: database/sql would run it again.
func lostError(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return errLost
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// followRawTx keeps track of a transaction that is not database/sql's.
func (c *Conn) followRawTx(st *sqlclass.Statement, h *held, err error) {
	if c.tx != nil {
		return
	}
	open, known := h.p.wire.InTx()
	switch {
	case known:
		c.rawTx = open
	case st.BeginsTx && (err == nil || st.Multi):
		if !c.rawTx {
			c.rawTx, c.implicit = true, false
		}
	case err == nil && st.EndsTx:
		c.rawTx = false
	}
}

// endedByText reports that nothing is left of the transaction, although whoever began it does not know: text has ended it,
// and what runs now is committed at once. Where that cannot be told, it may be so once such a text has run.
func (c *Conn) endedByText(h *held) bool {
	if h.p.wire.Broken() {
		return false
	}
	open, known := h.p.wire.InTx()
	if !known {
		return c.implicit
	}
	return c.tx != nil && !open
}

// inTx remembers whose write it is that the transaction will commit.
func (c *Conn) inTx(ctx context.Context, st *sqlclass.Statement) {
	c.writes.inTx = c.sessions(ctx, c.writes.inTx)
	c.writes.wrote = c.writes.wrote || st.MayWrite
}

// endedWithin is told that text may have ended the transaction under database/sql's Tx, or one of several in a text.
func (c *Conn) endedWithin(h *held, err error) error {
	if err != nil && !c.nothingSent(err) && h.p.wire.Broken() {
		return c.txEnded(c.writes.inTx, true, h, err)
	}
	c.wrote(c.writes.inTx, h) // also when a later statement of the text has failed
	return err
}

// rawTxEnded is told that a transaction that was begun by text is over.
func (c *Conn) rawTxEnded(ctx context.Context, st *sqlclass.Statement, h *held, err error) error {
	list := c.sessions(ctx, c.writes.inTx)
	wrote := c.writes.wrote && (!rollsBack(st) || c.implicit || c.survivesRollback(h)) || st.MayWrite
	if err != nil && !st.EndsTx && !st.Multi {
		wrote = false // the connection is gone, and the transaction with it
	}
	c.writes.inTx, c.writes.wrote = nil, false
	return c.txEnded(list, wrote, h, err)
}

// rollsBack reports that a text that has ended a transaction cannot have committed it.
func rollsBack(st *sqlclass.Statement) bool {
	return !st.Multi && (strings.EqualFold(st.Token, "ROLLBACK") || strings.EqualFold(st.Token, "ABORT"))
}

// txEnded takes note of the end of a transaction.
func (c *Conn) txEnded(list []*core.Session, wrote bool, h *held, err error) error {
	switch {
	case !wrote:
	case err == nil:
		c.wrote(list, h)
	case c.nothingSent(err):
	case c.cluster.Engine.Refused(err):
		c.suspect(h, err)
	case h.p.inStep():
		c.wrote(list, h)
	default:
		c.unknown(list, h)
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return err
}

// wrote marks sessions: a position read that begins after now covers what they wrote on h.
func (c *Conn) wrote(list []*core.Session, h *held) {
	if h.unlogged {
		c.unprovable(list) // a position covers it that does not tell of it
	}
	if c.cluster.Marking != nil {
		c.wroteMarked(list, h)
		return
	}
	if len(list) == 0 {
		return
	}
	if c.cluster.Strategy.Sticky {
		now := time.Now()
		for _, s := range list {
			s.Unprovable(c.cluster.Name, now, now.Add(c.cluster.Strategy.Window)) // also in a process that goes by positions
		}
		return
	}
	capture := c.cluster.Router.Captures.Join()
	for _, s := range list {
		c.await(s, h, capture)
	}
}

// began is told that a write hands out rows and is not over.
func (c *Conn) began(ctx context.Context) {
	for _, s := range c.writers(ctx) {
		if !slices.Contains(c.writes.handing, s) {
			s.Open(c.cluster.Name)
			c.writes.handing = append(c.writes.handing, s)
		}
	}
	c.writes.ctx = ctx
}

// followed is told that a statement has succeeded on the primary connection: whatever handed out rows there before is
// over. In a transaction that its own text has begun, it is not committed yet.
func (c *Conn) followed() {
	list := c.writes.handing
	if len(list) == 0 {
		return
	}
	if c.rawTx {
		for _, s := range list {
			if !slices.Contains(c.writes.inTx, s) {
				c.writes.inTx = append(c.writes.inTx, s)
			}
		}
		c.writes.wrote = true
	}
	c.wrote(list, &c.primary)
	c.handedOut()
}

// ended is told that the checkout ends, and with it whatever hands out rows.
func (c *Conn) ended() {
	c.rowsEnded()
	if c.writes.untold {
		c.endUntold(&c.primary)
	}
}

func (c *Conn) rowsEnded() {
	list := c.writes.handing
	if len(list) == 0 {
		return
	}
	h := &c.primary
	// The rows are the native driver's own and do not say how they ended.
	if c.writes.ctx.Err() != nil || h.p.wire.Broken() {
		c.unknown(list, h)
	} else {
		c.wrote(list, h)
	}
	c.handedOut()
}

// handedOut forgets whatever has handed out rows.
func (c *Conn) handedOut() {
	for _, s := range c.writes.handing {
		s.Close(c.cluster.Name)
	}
	clear(c.writes.handing)
	c.writes.handing, c.writes.ctx = c.writes.handing[:0], nil
}
