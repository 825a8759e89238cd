package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// execute finds a node for a statement, unless it was placed already, runs op on a connection to it, once more elsewhere when a replica could not
// serve a read, and takes note of what the statement has done. rows says that op hands out rows.
func (c *Conn) execute(ctx context.Context, st *sqlclass.Statement, query string, placed *skipped, rows bool, op func(*physical) error) error {
	if c.misused != nil {
		return c.misused
	}
	var h *held
	var err error
	second := false
	if placed != nil && placed.h.attached() {
		h, c.decided, second = placed.h, placed.decided, placed.second
	} else if h, err = c.place(ctx, st, core.RetryNone, 0); err != nil {
		return err
	}
	if err = c.prepareWrite(ctx, st, h); err != nil {
		c.report(ctx, &c.decided)
		return plain(err)
	}
	changes := c.changes(st, h)
	if changes {
		defer c.settle()
		c.begin(ctx)
	}
	if c.cluster.Marking != nil && h == &c.primary {
		if done, err := c.executeMarked(ctx, st, query, h, rows, op); done {
			return err
		}
	}
	return c.finish(ctx, st, query, h, second, rows, c.run(ctx, h, changes, op), op)
}

// finish is the second half of execute: op has run on h, and has returned err.
func (c *Conn) finish(ctx context.Context, st *sqlclass.Statement, query string, h *held, second, rows bool, err error, op func(*physical) error) error {
	if err != nil {
		var over bool
		defer c.settle()
		if h, err, over = c.failing(ctx, st, query, h, second, err, op); over {
			return err
		}
	}
	c.report(ctx, &c.decided)
	return plain(c.took(ctx, st, h, rows, err))
}

// failing runs a statement that has failed once more, where that may be. over says that there is nothing more to take note of: the
// error is the caller's.
func (c *Conn) failing(ctx context.Context, st *sqlclass.Statement, query string, h *held, second bool, err error, op func(*physical) error) (
	_ *held, _ error, over bool,
) {
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
		c.skip = &skipped{h: h, query: query, st: *st, decided: c.decided, second: second}
		return h, err, true
	}
	if c.tx == nil && !c.rawTx && !st.CommitsOnError && c.cluster.Engine.Retry(err) == core.RetryPlan {
		// It has not run, on whichever node. Of several statements, or a procedure, a part may have.
		c.decided.Retry = core.RetryPlan
		_, renewed := h.p.interruptible(func(p *physical) error { return p.renew(ctx, query) })
		if renewed == nil {
			err = c.run(ctx, h, c.changes(st, h), op)
		} else {
			h.discard = true
		}
	}
	if second {
		return h, final(err), false
	}
	if err == nil || !c.mayRetry(ctx, st) {
		return h, err, false
	}
	retry := c.retryFor(h, err)
	if retry == core.RetryNone {
		return h, err, false
	}
	h, err = c.again(ctx, st, query, h, retry, err, op)
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
		c.skip = &skipped{h: h, query: query, st: *st, decided: c.decided, second: true}
		return h, err, true
	}
	return h, final(err), h == nil
}

// mayRetry says whether a failed statement may run once more: a read that a replica was asked for, outside a
// transaction, while its caller still waits. op returned an error, so no row has been delivered.
func (c *Conn) mayRetry(ctx context.Context, st *sqlclass.Statement) bool {
	return c.decided.Role == core.RoleReplica && c.tx == nil && st.Class != sqlclass.Write && ctx.Err() == nil
}

// retryFor says why a failed read may run once more. An error that is neither the server's nor leaves the connection
// broken comes from the arguments: it would come again.
func (c *Conn) retryFor(h *held, err error) core.Retry {
	if h.interrupted || !h.attached() {
		return core.RetryConnection
	}
	retry := c.cluster.Engine.Retry(err)
	if retry == core.RetryPlan || c.decided.Retry == core.RetryPlan {
		return core.RetryNone // that was the second time
	}
	if retry == core.RetryConnection && !errors.Is(err, driver.ErrBadConn) && !h.p.wire.Broken() {
		return core.RetryNone
	}
	return retry
}

// again runs a read for the second and last time. When no node is found for it, that has been reported, h is nil, and
// err is the first failure, which says more, unless the primary is protected.
func (c *Conn) again(ctx context.Context, st *sqlclass.Statement, query string, h *held,
	retry core.Retry, first error, op func(*physical) error,
) (*held, error) {
	c.failed++
	node := c.decided.Node // h has none when its connection could not be replaced
	exclude := uint64(1) << node
	switch retry {
	case core.RetryRefused:
		c.cluster.Classifier.LearnWrite(query)
		st.Class, st.MayWrite = sqlclass.Write, true // it is taken for one on the primary as well
		exclude = ^uint64(0)
	case core.RetrySchema:
		exclude = ^uint64(0)
	case core.RetryConnection:
		h.discard = true
		c.cluster.Router.Monitor.Kick(node)
	case core.RetryConflict:
		h.discard = h.discard || !h.p.inStep() // replay ends the session of a read in a subtransaction
	case core.RetryNone, core.RetryPlan:
	}
	c.release(&c.replica)
	h, err := c.place(ctx, st, retry, exclude)
	if err == nil && retry == core.RetryConnection && h.node == node {
		// The replica has become the primary since, and may have run it as that already.
		c.decided.Node, c.decided.Err = -1, first
		c.report(ctx, &c.decided)
		return nil, first
	}
	if errors.Is(err, router.ErrProtected) {
		return nil, fmt.Errorf("%w: %w", err, first)
	}
	if err != nil {
		return nil, first
	}
	if err = c.prepareWrite(ctx, st, h); err != nil {
		return h, err
	}
	changes := c.changes(st, h)
	if changes {
		c.begin(ctx)
	}
	return h, c.run(ctx, h, changes, op)
}

// run calls op with a connection. One out of the idle pool that turns out to be dead, and on which nothing has run in
// this checkout, is replaced, until one was opened for it: handed to database/sql, ErrBadConn would end with a fresh
// virtual connection over yet another stale physical one. When it cannot be replaced, h has none, and nothing was sent.
//
// changes says that op may change something. Then a driver that claims to have sent nothing is not believed when the
// connection was closed meanwhile: pgx 5.12 says so of a text without arguments, or a COMMIT, whose answer was cut off.
func (c *Conn) run(ctx context.Context, h *held, changes bool, op func(*physical) error) error {
	for {
		err, open := driver.ErrBadConn, false
		if h != &c.primary || h.ran || h.fresh || !h.p.gone() {
			open = changes && !h.p.wire.Broken()
			err = c.call(h, op)
		}
		if again, err := c.ran(ctx, h, open, err); !again {
			return err
		}
	}
}

// ran is told how op has ended. again says that nothing was sent, and h has another connection; else the error is op's. open says
// that op may have changed something, and the connection was open before.
func (c *Conn) ran(ctx context.Context, h *held, open bool, err error) (again bool, _ error) {
	if open && c.lost(h, err) {
		h.ran, h.discard = true, true
		return false, lostError(err)
	}
	if err == nil || !errors.Is(err, driver.ErrBadConn) {
		if err != driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
			h.ran = true
		}
		return false, err
	}
	if ctx.Err() != nil && !h.p.wire.Broken() {
		return false, notSent{ctx.Err()} // nothing is wrong with the connection
	}
	h.discard = true
	if h.ran || h.fresh {
		return false, err
	}
	pool := h.p.pool
	c.release(h)
	if err := c.attach(ctx, h, pool); err != nil {
		return false, err
	}
	if h == &c.replica {
		if err := c.prove(ctx, h, &c.decided); err != nil {
			return false, err
		}
	}
	return true, nil
}

// call calls op. A read on a replica, outside a transaction, is ended when the replica falls silent.
func (c *Conn) call(h *held, op func(*physical) error) error {
	if h != &c.replica || c.tx != nil {
		return op(h.p)
	}
	interrupted, err := h.p.interruptible(op)
	return c.silenced(h, interrupted, err)
}

// silenced is told how a read has ended that was ended when its replica fell silent, if it was interrupted.
func (c *Conn) silenced(h *held, interrupted bool, err error) error {
	h.interrupted = interrupted
	if interrupted {
		h.discard = true
		if err == nil || !c.cluster.Engine.Refused(err) {
			err = errSilent // an answer that came at the last moment has its rows on a closed socket
		}
	}
	return err
}
