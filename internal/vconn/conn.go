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

// Conn is a virtual connection. database/sql gives it to one goroutine at a time.
type Conn struct {
	cluster *Cluster
	grab    func(any) error // take, bound once so that a checkout does not allocate it
	getting getting

	out     bool  // checked out
	closed  bool  // Close was called
	misused error // a wrapper hides Validator: every use says so

	request router.Request // reused
	decided router.Decided // where the current statement runs

	// What this checkout has:
	replica held
	primary held
	tx      *Tx
	rawTx   bool   // a transaction on the primary connection that is not tx: it was begun by text
	skip    *held  // its driver has asked for a prepared statement
	slot    bool   // a fallback slot of the router
	writes  writes // writes whose end is still to come
}

var (
	_ driver.Conn               = (*Conn)(nil)
	_ driver.Pinger             = (*Conn)(nil)
	_ driver.QueryerContext     = (*Conn)(nil)
	_ driver.ExecerContext      = (*Conn)(nil)
	_ driver.ConnPrepareContext = (*Conn)(nil)
	_ driver.ConnBeginTx        = (*Conn)(nil)
	_ driver.SessionResetter    = (*Conn)(nil)
	_ driver.Validator          = (*Conn)(nil)
	_ driver.NamedValueChecker  = (*Conn)(nil)
)

var errHidden = errors.New("readroute: a connection was used again that had not been given back: " +
	"a driver wrapper around the routed pool hides driver.Validator; wrap the nodes' connectors instead")

var errSilent = errors.New("readroute: the replica fell silent")

// ResetSession begins a checkout. database/sql takes no error of it seriously, so it is kept for the first use.
func (c *Conn) ResetSession(context.Context) error {
	if c.out {
		c.checkIn()
		c.misused = errHidden
	}
	c.out = true
	return nil
}

// IsValid ends a checkout: database/sql calls it on every connection just before it goes back to the pool, and at no
// other time while it is out.
func (c *Conn) IsValid() bool {
	c.checkIn()
	return !c.closed
}

// Close ends the connection. Physical connections that are still attached (a panic in Raw skips IsValid) are in a state
// that nobody knows.
func (c *Conn) Close() error {
	c.closed = true
	c.primary.discard, c.replica.discard = true, true
	c.checkIn()
	return nil
}

// CheckNamedValue accepts every argument: the native connection has its say once it is chosen.
func (c *Conn) CheckNamedValue(*driver.NamedValue) error { return nil }

// Ping asks the primary.
func (c *Conn) Ping(ctx context.Context) error {
	st := sqlclass.Statement{Class: sqlclass.Write}
	h, err := c.place(ctx, &st, core.RetryNone, 0)
	if err != nil {
		return err
	}
	return plain(c.run(ctx, h, false, func(p *physical) error {
		if pinger, ok := p.native.(driver.Pinger); ok {
			return pinger.Ping(ctx)
		}
		return nil
	}))
}

// Primary returns the native connection to the primary, for what only the native driver can do. It belongs to the
// caller until the checkout ends, and counts as a write: the sessions of ctx get a position that covers it then.
func (c *Conn) Primary(ctx context.Context) (driver.Conn, error) {
	if c.misused != nil {
		return nil, c.misused
	}
	st := sqlclass.Statement{Class: sqlclass.Write, MayWrite: true}
	h, err := c.placeRaw(ctx, &st)
	if err != nil {
		return nil, err
	}
	c.cluster.Router.Report(ctx, &c.decided)
	h.ran = true
	if c.tx != nil && c.tx.h == h || c.rawTx {
		c.inTx(ctx, &st)
	}
	c.began(ctx) // also in a transaction: the caller may end it
	return h.p.native, nil
}

// QueryContext implements driver.QueryerContext. The rows are the native driver's own.
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st := c.cluster.Classifier.Classify(query)
	var rows driver.Rows
	err := c.execute(ctx, &st, query, true, func(p *physical) (err error) {
		rows, err = nativeQuery(ctx, p.native, query, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// ExecContext implements driver.ExecerContext.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	st := c.cluster.Classifier.Classify(query)
	var result driver.Result
	err := c.execute(ctx, &st, query, false, func(p *physical) (err error) {
		result, err = nativeExec(ctx, p.native, query, args)
		return err
	})
	return result, err
}

// execute finds a node for a statement, runs op on a connection to it, once more elsewhere when a replica could not
// serve a read, and takes note of what the statement has done. rows says that op hands out rows.
func (c *Conn) execute(ctx context.Context, st *sqlclass.Statement, query string, rows bool, op func(*physical) error) error {
	if c.misused != nil {
		return c.misused
	}
	h, err := c.place(ctx, st, core.RetryNone, 0)
	if err != nil {
		return err
	}
	err = c.run(ctx, h, c.changes(st, h), op)
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
		c.skip = h
		return err
	}
	if err != nil && c.tx == nil && !c.rawTx && !st.CommitsOnError && c.cluster.Engine.Retry(err) == core.RetryPlan {
		// It has not run, on whichever node. Of several statements, or a procedure, a part may have.
		c.decided.Retry = core.RetryPlan
		_, renewed := h.p.interruptible(func(p *physical) error { return p.renew(ctx, query) })
		if renewed == nil {
			err = c.run(ctx, h, c.changes(st, h), op)
		} else {
			h.discard = true
		}
	}
	if err != nil && c.mayRetry(ctx, st) {
		if retry := c.retryFor(h, err); retry != core.RetryNone {
			h, err = c.again(ctx, st, query, h, retry, err, op)
		}
	}
	if h != nil {
		c.cluster.Router.Report(ctx, &c.decided)
	}
	if h == nil {
		return err
	}
	return plain(c.took(ctx, st, h, rows, err))
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
	if retry == core.RetryConnection && !errors.Is(err, driver.ErrBadConn) && !c.cluster.Engine.Broken(h.p.native) {
		return core.RetryNone
	}
	return retry
}

// again runs a read for the second and last time. When no node is found for it, that has been reported, h is nil, and
// err is the first failure, which says more.
func (c *Conn) again(ctx context.Context, st *sqlclass.Statement, query string, h *held,
	retry core.Retry, first error, op func(*physical) error,
) (*held, error) {
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
		if c.decided.Level == core.LevelEventual && !c.otherReplica(exclude) {
			// An eventual read has not asked for the primary; a report that replay cancels must not end up there.
			return h, first
		}
	case core.RetryNone, core.RetryPlan:
	}
	c.release(&c.replica)
	h, err := c.place(ctx, st, retry, exclude)
	if err != nil {
		return nil, first
	}
	return h, c.run(ctx, h, c.changes(st, h), op)
}

func (c *Conn) otherReplica(exclude uint64) bool {
	s := c.cluster.Router.Monitor.Snapshot()
	for i := range s.Nodes {
		if s.Nodes[i].Role == core.RoleReplica && s.Nodes[i].Healthy && exclude&(1<<i) == 0 {
			return true
		}
	}
	return false
}

// held is a physical connection that a checkout has.
type held struct {
	sc      *sql.Conn
	p       *physical
	node    int
	ran     bool // something has run on it in this checkout
	state   bool // it carries session state that outlives a transaction
	fresh   bool // nobody has had it before
	discard bool // not fit for another checkout
	// interrupted: the statement was ended because the node fell silent
	interrupted bool
}

func (h *held) attached() bool { return h.sc != nil }

// getting is the context of a checkout from a node's pool. The pool resets the connection that it is about to hand out
// with it, which tells whose it is without the cost of (*sql.Conn).Raw.
type getting struct {
	context.Context
	p *physical
}

// take is called by (*sql.Conn).Raw with the pool's connection.
func (c *Conn) take(dc any) error {
	p, ok := dc.(*physical)
	if !ok {
		return fmt.Errorf("readroute: unexpected connection of type %T in a node's pool", dc)
	}
	c.getting.p = p
	return nil
}

// attach takes a connection out of a node's pool.
func (c *Conn) attach(ctx context.Context, h *held, pool *Pool) error {
	c.getting = getting{Context: ctx}
	sc, err := pool.db.Conn(&c.getting)
	if err == nil && c.getting.p == nil {
		if err = sc.Raw(c.grab); err != nil { // a new connection is not reset
			_ = sc.Close()
		}
	}
	p := c.getting.p
	c.getting = getting{}
	if err != nil {
		return err
	}
	*h = held{sc: sc, p: p, node: pool.cfg.Index, fresh: !p.used}
	p.used = true
	c.cluster.Router.Begin(h.node)
	return nil
}

// release gives a connection back to its pool, or closes it.
func (c *Conn) release(h *held) {
	if !h.attached() {
		return
	}
	if !h.discard && h.p.litter.Load() {
		h.discard, _ = h.p.interruptible((*physical).sweep)
	}
	if h.discard {
		_ = h.sc.Raw(func(any) error { return driver.ErrBadConn })
	} else {
		_ = h.sc.Close() // the pool looks after a connection that fails
	}
	c.cluster.Router.End(h.node)
	*h = held{}
}

// run calls op with a connection. One out of the idle pool that turns out to be dead, and on which nothing has run in
// this checkout, is replaced, until one was opened for it: handed to database/sql, ErrBadConn would end with a fresh
// virtual connection over yet another stale physical one. When it cannot be replaced, h has none, and nothing was sent.
//
// changes says that op may change something. Then a driver that claims to have sent nothing is not believed when the
// connection was closed meanwhile: pgx 5.12 says so of a text without arguments, or a COMMIT, whose answer was cut off.
func (c *Conn) run(ctx context.Context, h *held, changes bool, op func(*physical) error) error {
	for {
		err := driver.ErrBadConn
		if h != &c.primary || h.ran || h.fresh || !c.cluster.Engine.HungUp(h.p.native) {
			open := changes && !c.cluster.Engine.Broken(h.p.native)
			if err = c.call(h, op); open && c.lost(h, err) {
				h.ran, h.discard = true, true
				return lostError(err)
			}
		}
		if err == nil || !errors.Is(err, driver.ErrBadConn) {
			if err != driver.ErrSkip { //nolint:errorlint // database/sql compares the same way
				h.ran = true
			}
			return err
		}
		if ctx.Err() != nil && !c.cluster.Engine.Broken(h.p.native) {
			return notSent{ctx.Err()} // nothing is wrong with the connection
		}
		h.discard = true
		if h.ran || h.fresh {
			return err
		}
		pool := h.p.pool
		c.release(h)
		if again := c.attach(ctx, h, pool); again != nil {
			return again
		}
	}
}

// call calls op. A read on a replica, outside a transaction, is ended when the replica falls silent.
func (c *Conn) call(h *held, op func(*physical) error) error {
	if h != &c.replica || c.tx != nil {
		return op(h.p)
	}
	interrupted, err := h.p.interruptible(op)
	h.interrupted = interrupted
	if interrupted {
		h.discard = true
		if err == nil || errors.Is(err, driver.ErrBadConn) {
			err = errSilent // an answer that came at the last moment has its rows on a closed socket
		}
	}
	return err
}

// checkIn ends the checkout: whatever it has goes back.
func (c *Conn) checkIn() {
	c.ended()
	c.sanitize(&c.primary)
	c.sanitize(&c.replica)
	c.release(&c.primary)
	c.release(&c.replica)
	if c.slot {
		c.cluster.Router.Release()
	}
	c.out, c.slot, c.tx, c.rawTx, c.skip, c.misused = false, false, nil, false, nil, nil
	c.writes.reset()
}

// sanitize keeps session state and open transactions from the next user of the connection.
func (c *Conn) sanitize(h *held) {
	if !h.attached() || h.discard {
		return
	}
	why := ""
	if h.state {
		why = "session state"
	}
	if open, known := c.cluster.Engine.InTx(h.p.native); known && open || !known && c.rawTx && h == &c.primary {
		why = "open transaction"
	}
	if why == "" {
		return
	}
	h.discard = true
	if c.cluster.OnDiscard != nil {
		c.cluster.OnDiscard(h.node, why)
	}
}
