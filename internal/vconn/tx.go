package vconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Tx is a transaction on one physical connection. All its statements run there.
type Tx struct {
	c          *Conn
	h          *held
	role       core.Role
	native     driver.Tx
	ctx        context.Context
	readOnly   bool           // by BeginTx
	remembered bool           // what is read in it counts for later reads, by what BeginTx was asked for
	shadow     *router.Shadow // of BeginTx: its statements would have gone there too
}

var _ driver.Tx = (*Tx)(nil)

// Begin begins a transaction on the primary.
func (c *Conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx begins a transaction. A read-only one goes where a read would go, unless it is serializable, which a
// PostgreSQL standby refuses; any other goes to the primary whatever its first statement will be.
func (c *Conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.misused != nil {
		return nil, c.misused
	}
	if c.marked != nil {
		return nil, errMarkedRows
	}
	st := sqlclass.Statement{Class: sqlclass.TxControl}
	if opts.ReadOnly && sql.IsolationLevel(opts.Isolation) < sql.LevelSerializable {
		st.Class = sqlclass.Read
	}
	h, err := c.place(ctx, &st, core.RetryNone, 0)
	if err != nil {
		return nil, err
	}
	if h == &c.primary && (c.applies || h.before != "") && !c.inTxOn(h) {
		if err := c.endRemoteApply(ctx, h); err != nil {
			c.report(ctx, &c.decided)
			return nil, plain(err)
		}
	}
	var native driver.Tx
	begin := func(p *physical) (err error) {
		native, err = nativeBegin(ctx, p.native, opts)
		return err
	}
	err = c.run(ctx, h, false, begin)
	if err != nil && c.mayRetry(ctx, &st) {
		if retry := c.retryFor(h, err); retry != core.RetryNone {
			h, err = c.again(ctx, &st, "", h, retry, err, begin)
			err = final(err)
		}
	}
	if h != nil {
		c.report(ctx, &c.decided)
	}
	if err != nil {
		return nil, plain(err)
	}
	if h == &c.primary {
		c.followed()
	}
	t := &Tx{c: c, h: h, role: c.decided.Role, native: native, ctx: ctx, readOnly: opts.ReadOnly, remembered: c.cluster.Router.Remembers(ctx), shadow: c.decided.Shadow}
	if h == &c.primary && (h.state || c.writes.untold || c.rawTx && c.writes.wrote) && c.untoldTx(h) {
		c.wrote(c.writes.open, h) // it has committed whatever was open
		c.wrote(c.writers(ctx), h)
	}
	if !c.rawTx && c.tx == nil { // else it begins nothing
		c.writes.inTx, c.writes.wrote, c.implicit = c.writes.inTx[:0], false, false
	}
	if c.cluster.Marking != nil && h == &c.primary && !opts.ReadOnly && !c.rawTx && c.tx == nil {
		c.mark = c.lease(h)
	}
	c.tx = t
	c.writes.inTx = c.sessions(ctx, c.writes.inTx)
	if h == &c.primary && wantsRemoteApply(ctx) && !opts.ReadOnly {
		if err := c.remoteApply(ctx, h); err != nil {
			return nil, errors.Join(plain(err), t.Rollback())
		}
	}
	return t, nil
}

// Commit commits. When its answer is lost, the error matches ErrCommitUnknown as well as the driver's own.
func (t *Tx) Commit() error {
	if t.c.writes.wrote {
		defer t.c.settle()
		t.c.beginAll(t.c.writes.inTx)
	}
	if t.c.mark != nil {
		return t.commitMarked()
	}
	return t.commit()
}

func (t *Tx) commit() error {
	c := t.c
	if c.applies && t.h == &c.primary && c.inTxOn(t.h) {
		if err := c.confirmRemoteApply(t.ctx, t.h); err != nil {
			return errors.Join(fmt.Errorf("%w; the transaction is rolled back", plain(err)), t.Rollback())
		}
	}
	gone := t.h.p.wire.Broken()
	open := c.writes.wrote && !gone
	err := t.native.Commit()
	t.over()
	if open && c.lost(t.h, err) {
		err = lostError(err)
	}
	if errors.Is(err, driver.ErrBadConn) {
		t.h.discard = true
	}
	if c.mark != nil {
		c.mark.committed = c.mark.moved && err == nil
	}
	list, wrote := c.writes.inTx, c.writes.wrote
	c.writes.inTx, c.writes.wrote = nil, false
	if t.role != core.RolePrimary {
		return err
	}
	if gone && err != nil && !c.implicit {
		return err // COMMIT was not sent, and the server rolls back
	}
	return c.txEnded(list, wrote, t.h, err)
}

// Rollback rolls back. database/sql discards the connection of a transaction that ended with its context, unless the
// driver both resets and validates; this one does what the native one would have had done to it.
func (t *Tx) Rollback() error {
	err := t.native.Rollback()
	t.over()
	if t.c.writes.wrote && (t.c.implicit || t.c.survivesRollback(t.h)) {
		t.c.wrote(t.c.writes.inTx, t.h)
	}
	t.c.writes.inTx, t.c.writes.wrote = nil, false
	t.c.endMark(err)
	if errors.Is(err, driver.ErrBadConn) || t.ctx.Err() != nil && !t.h.p.keepsAfterRollback() {
		t.h.discard = true
	}
	return err
}

// over takes note that database/sql has ended the transaction.
func (t *Tx) over() {
	t.c.tx = nil
	if t.h == &t.c.primary {
		t.c.rawTx, _ = t.h.p.wire.InTx()
	}
}
