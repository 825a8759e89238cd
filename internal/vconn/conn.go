package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Conn is a virtual connection. database/sql gives it to one goroutine at a time.
type Conn struct {
	// What each statement needs comes first: it is two cache lines.
	router     *router.Router
	recent     sqlclass.Recent
	reader     *Pool  // of readerNode
	writer     *Pool  // of the node that written counts for
	number     uint32 // of those that were made: those that are in use at one time differ in it
	stage      stage
	out        bool // checked out
	closed     bool // Close was called
	rawTx      bool // a transaction on the primary connection that is not tx: it was begun by text
	readerNode int32
	// quickWrites: of a write nothing is to be known but its position, which the primary is asked for.
	quickWrites bool
	tells       bool // somebody hears of decisions
	counts      bool // the router asks how much runs on each node
	tx          *Tx
	skip        *skipped     // a driver has asked for a prepared statement
	covered     router.Tally // reads that went the quick way
	replica     held
	written     router.Tally // writes that did
	primary     held
	cluster     *Cluster
	misused     error // a wrapper hides Validator: every use says so

	kept    arguments       // see given
	single  *Stmt           // a statement for one run that the short way has prepared, and that is not closed
	skipped skippedQuickly  // the one that the short way has placed, for the preparation that follows
	grab    func(any) error // take, bound once so that a checkout does not allocate it
	getting getting

	request router.Request // reused
	decided router.Decided // where the current statement runs
	waited  time.Duration  // how long the current statement has waited for a replica
	failed  int            // replicas that could not serve the current statement

	// What this checkout has:
	// implicit: a text that ends transactions has run in tx or rawTx. Where the driver does not tell whether one is open, what has
	// run since may have been committed at once.
	implicit bool
	applies  bool   // a write, or the transaction that is open, commits with remote_apply
	slot     bool   // a fallback slot of the router
	mark     *mark  // of the open transaction, where writes are marked
	marked   *ownTx // the transaction of a marked write that still hands out rows
	writes   writes // writes whose end is still to come
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

// Close ends the connection. Physical connections that are still attached (a panic in Raw skips IsValid) are in a state
// that nobody knows.
func (c *Conn) Close() error {
	if !c.closed {
		c.router.CloseTally(&c.covered)
		c.router.CloseTally(&c.written)
	}
	c.closed = true
	c.primary.discard, c.replica.discard = true, true
	c.checkIn()
	return nil
}

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
	err = c.prepareWrite(ctx, &st, h)
	c.report(ctx, &c.decided)
	if err != nil {
		return nil, plain(err)
	}
	h.ran = true
	if c.tx != nil && c.tx.h == h || c.rawTx {
		c.inTx(ctx, &st)
	}
	if c.untoldTx(h) {
		c.writes.untold, c.writes.last = true, ctx
	}
	c.began(ctx) // also in a transaction: the caller may end it
	return h.p.native, nil
}

// within is the context of a statement in a transaction, for those who hear of it: database/sql's Tx.Query has no context of its
// own, and what the transaction was begun with holds for it as well.
type within struct {
	context.Context
	begun context.Context
}

// Value implements context.Context.
func (w within) Value(key any) any {
	if v := w.Context.Value(key); v != nil {
		return v
	}
	return w.begun.Value(key)
}

// report counts the current statement's decision and tells of it.
func (c *Conn) report(ctx context.Context, d *router.Decided) {
	if c.tx != nil && c.cluster.Router.Tells() {
		ctx = within{ctx, c.tx.ctx}
	}
	c.cluster.Router.Report(ctx, d, c.number)
}

func (c *Conn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st := c.cluster.Classifier.ClassifyInto(&c.recent, c.number, query)
	var rows driver.Rows
	var a arguments
	a.keep(args)
	err := c.execute(ctx, &st, query, nil, true, func(p *physical) (err error) {
		rows, err = nativeQuery(ctx, p, query, a.fresh(args))
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.wrapRows(rows), nil
}

func (c *Conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	st := c.cluster.Classifier.ClassifyInto(&c.recent, c.number, query)
	var result driver.Result
	var a arguments
	a.keep(args)
	err := c.execute(ctx, &st, query, nil, false, func(p *physical) (err error) {
		result, err = nativeExec(ctx, p, query, a.fresh(args))
		return err
	})
	return result, err
}
