package vconn

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// A driver that runs arguments in prepared statements only, as go-sql-driver/mysql does unless it is told otherwise, answers driver.ErrSkip.
// database/sql then prepares the statement, runs it and closes it, one after the other. When the short way has led to that driver, it
// goes on here: [stageSkipped], [stagePrepared], [stageRan], and then the checkout ends as after any other statement of the short way.

// skippedQuickly is what is known of a statement that leaves the short way, for the one who goes on.
type skippedQuickly struct {
	query      string
	snapshot   *core.Snapshot // as of Quick, with what follows
	positions  []core.Position
	capturedAt time.Time
}

// skips leaves c.skipped to be prepared, the short way. It is of a checkout in which nothing else has happened.
func (c *Conn) skips(p *physical) bool {
	if p.preparer == nil || c.tells {
		return false
	}
	if inTx, _ := p.wire.InTx(); inTx {
		return false
	}
	c.stage = stageSkipped
	return true
}

// quickHeld is the connection of a checkout that goes the short way.
func (c *Conn) quickHeld() *held {
	if c.replica.attached() {
		return &c.replica
	}
	return &c.primary
}

// decideSkipped puts down where the statement runs as Route would have.
func (c *Conn) decideSkipped() {
	c.waited, c.failed = 0, 0
	if h := c.quickHeld(); h == &c.replica {
		c.decided = router.Covered(h.node, c.skipped.snapshot, c.skipped.positions, c.skipped.capturedAt)
	} else {
		c.decided = router.Written(h.node)
	}
}

// prepareOnce prepares a statement for the one run that follows.
func (s *Stmt) prepareOnce(ctx context.Context) (driver.Stmt, error) {
	c := s.c
	h := c.quickHeld()
	c.stage = stageOther // also of a driver that panics
	err := c.call(h, func(p *physical) (err error) {
		s.once.stmt, err = p.preparer.PrepareContext(ctx, s.query)
		return err
	})
	if err != nil {
		s.once.stmt = nil
		return s.prepareSkipped(ctx, h, err)
	}
	s.once.text, s.once.refs = s.query, 1
	s.first[0] = preparedOn{h.p, &s.once}
	s.on = s.first[:]
	h.ran, c.single, c.stage = true, s, stagePrepared
	return s, nil
}

// prepareSkipped goes the long way from where a connection has returned err.
func (s *Stmt) prepareSkipped(ctx context.Context, h *held, err error) (driver.Stmt, error) {
	c := s.c
	c.decideSkipped()
	c.cluster.Classifier.Hit(c.number)
	s.skip = &skipped{h: h, query: s.query, st: s.classified(), decided: c.decided}
	again, err := c.ran(ctx, h, false, err)
	if again {
		err = c.run(ctx, h, false, s.preparing(ctx))
	}
	if err = c.prepareSkipped(ctx, s, err); err != nil {
		return nil, err
	}
	return s, nil
}

// classified is what the statement is, of one that went the short way: that has been counted, or will be.
func (s *Stmt) classified() sqlclass.Statement {
	if st := s.c.recent.Get(s.query); st != nil {
		return *st
	}
	return s.c.cluster.Classifier.ClassifyFor(s.c.number, s.query) // it has been dropped from the cache
}

// runsOnce reports that s is the statement that has been prepared for one run on h, and has not run.
func (c *Conn) runsOnce(s *Stmt, h *held) bool {
	return c.single == s && c.stage == stagePrepared && h.attached()
}

// queryOnce runs a read where it was prepared.
func (s *Stmt) queryOnce(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	c := s.c
	h := &c.replica
	c.stage = stageOther // also of a driver that panics
	var g given
	g.keep(c, h.p, args)
	err = c.call(h, func(p *physical) (err error) {
		rows, err = nativeStmtQuery(ctx, p, s.once.stmt, args)
		return err
	})
	if err != nil {
		return s.queryOn(ctx, &g, err)
	}
	g.drop()
	c.countQuick(h.node)
	c.stage = stageRan
	return rows, nil
}

// queryOn goes the rest of the way when the connection to a replica has returned err.
//
//go:noinline
func (s *Stmt) queryOn(ctx context.Context, g *given, err error) (rows driver.Rows, _ error) {
	c := s.c
	c.decideSkipped()
	defer g.drop()
	c.cluster.Classifier.Hit(c.number)
	op := func(p *physical) error {
		native, err := s.prepared(ctx, p)
		if err == nil {
			rows, err = nativeStmtQuery(ctx, p, native, g.fresh())
		}
		return err
	}
	st := s.classified()
	if err = c.ranQuickly(ctx, &st, s.query, &c.replica, false, true, err, op); err != nil {
		return nil, err
	}
	return c.wrapRows(rows), nil
}

// execOnce runs a write where it was prepared.
func (s *Stmt) execOnce(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	c := s.c
	h := &c.primary
	p := h.p
	c.stage = stageOther // also of a driver that panics
	var session *core.Session
	if o := core.FromContext(ctx); o != nil && o.Session != nil {
		session = o.Session
		session.Begin()
		defer session.End()
	}
	var g given
	g.keep(c, p, args)
	open := !p.wire.Broken()
	result, err = nativeStmtExec(ctx, p, s.once.stmt, args)
	if inTx, _ := p.wire.InTx(); inTx || err != nil {
		return s.execOn(ctx, &g, result, open, err)
	}
	g.drop()
	c.written.Add()
	c.stage = stageRan
	if session != nil {
		c.await(session, h, c.router.Captures.Join())
	}
	return result, nil
}

// execOn goes the rest of the way when the connection to the primary has returned err, or is in a transaction.
//
//go:noinline
func (s *Stmt) execOn(ctx context.Context, g *given, result driver.Result, open bool, err error) (driver.Result, error) {
	c := s.c
	c.decideSkipped()
	defer g.drop()
	c.cluster.Classifier.Hit(c.number)
	op := func(p *physical) error {
		native, err := s.prepared(ctx, p)
		if err == nil {
			result, err = nativeStmtExec(ctx, p, native, g.fresh())
		}
		return err
	}
	st := s.classified()
	err = c.ranQuickly(ctx, &st, s.query, &c.primary, open, false, err, op)
	return result, err
}

// closeOnce closes a statement that has run where it was prepared, as its driver does. It reports false when that has to wait for whoever has the
// connection next: a driver that is not known may wait for its server.
func (s *Stmt) closeOnce() bool {
	c := s.c
	if c.single != s || c.stage != stageRan {
		return false
	}
	c.single = nil
	h := c.quickHeld()
	if !h.p.rebinds {
		c.stage = stagePlain
		return false
	}
	c.stage = stageOther // also of a driver that panics
	stmt := s.once.stmt
	s.once.stmt = nil
	s.mu.Lock()
	s.on, s.closed = nil, true
	s.mu.Unlock()
	if interrupted, _ := h.p.interruptible(func(*physical) error { return stmt.Close() }); interrupted {
		h.discard = true
		return true
	}
	c.stage = stagePlain
	return true
}
