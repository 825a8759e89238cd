package vconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// held is a physical connection that a checkout has.
type held struct {
	p        *physical
	sc       *sql.Conn
	node     int
	ran      bool   // something has run on it in this checkout
	state    bool   // it carries session state that outlives a transaction
	unlogged bool   // what is written on it may never come to a replica
	fresh    bool   // nobody has had it before
	discard  bool   // not fit for another checkout
	before   string // what synchronous_commit was before it was set to remote_apply; empty when it is not
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
	if pool.takeParked(ctx, h, c.number) {
		c.begun(h)
		return nil
	}
	c.getting = getting{Context: ctx}
	sc, err := pool.conn(&c.getting, h, c.number)
	switch {
	case err != nil:
	case sc == nil: // a parked one
		c.getting = getting{}
		c.begun(h)
		return nil
	case c.getting.p == nil:
		if err = sc.Raw(c.grab); err != nil { // a new connection is not reset
			_ = sc.Close()
		}
	}
	p := c.getting.p
	c.getting = getting{}
	if err != nil {
		return final(err)
	}
	*h = held{sc: sc, p: p, node: pool.cfg.Index, fresh: !p.used}
	p.used = true
	c.begun(h)
	return nil
}

// begun is told that a connection is attached. release is its end.
func (c *Conn) begun(h *held) {
	if c.counts {
		c.router.Begin(h.node)
	}
}

// final is an error after which database/sql does not run the statement again, as it does after driver.ErrBadConn: what could
// be tried again was.
func final(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return finalError{err}
	}
	return err
}

// finalError says what its error says, and matches what it matches but for driver.ErrBadConn.
type finalError struct{ error }

func (e finalError) Is(target error) bool {
	return target != driver.ErrBadConn && errors.Is(e.error, target)
} //nolint:errorlint // as errors.Is does

func (e finalError) As(target any) bool { return errors.As(e.error, target) }

// release gives a connection back to its pool, or closes it.
func (c *Conn) release(h *held) {
	if !h.attached() {
		return
	}
	if !h.discard && h.p.litter.Load() {
		h.discard = !h.p.swept(context.Background())
	}
	if h.discard {
		_ = h.sc.Raw(func(any) error { return driver.ErrBadConn })
	} else if !h.p.pool.park(h, c.number) {
		_ = h.sc.Close() // the pool looks after a connection that fails
	}
	c.over(h)
}

// over is told that a connection has gone back.
func (c *Conn) over(h *held) {
	if c.counts {
		c.router.End(h.node)
	}
	*h = held{}
}

// checkIn ends the checkout: whatever it has goes back.
func (c *Conn) checkIn() {
	if c.primary.attached() {
		if c.marked != nil || c.mark != nil {
			c.abandon()
		}
		c.ended()
		c.restoreAtEnd(&c.primary)
		c.sanitize(&c.primary)
		c.release(&c.primary)
	}
	if c.replica.attached() {
		c.sanitize(&c.replica)
		c.release(&c.replica)
	}
	if c.slot {
		c.cluster.Router.Release()
	}
	c.writes.reset()
	if c.kept.n > 0 { // of a driver that has panicked
		c.kept = arguments{}
	}
	c.stage, c.out, c.slot, c.rawTx, c.implicit, c.applies = stageIdle, false, false, false, false, false
	if c.tx != nil || c.skip != nil || c.misused != nil || c.single != nil { // few checkouts have any, and a pointer is dear to write
		c.tx, c.skip, c.misused, c.single = nil, nil, nil, nil
	}
}

// sanitize keeps session state and open transactions from the next user of the connection.
func (c *Conn) sanitize(h *held) {
	if h.discard {
		return
	}
	why := ""
	if h.state {
		why = "session state"
	}
	if open, known := h.p.wire.InTx(); known && open || !known && c.rawTx && h == &c.primary {
		why = "open transaction"
		if !known && c.writes.wrote {
			c.unknown(c.writes.inTx, h) // the text may have been misread, and what it has written stand
		}
	}
	if why == "" {
		return
	}
	h.discard = true
	if c.cluster.OnDiscard != nil {
		c.cluster.OnDiscard(h.node, why)
	}
}
