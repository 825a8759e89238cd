package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Stmt is a statement that is prepared on every physical connection it runs on, when it first runs there.
type Stmt struct {
	c     *Conn
	query string
	skip  *skipped // where it was placed already; nil once it has run
	once  shared   // the native statement, of one that went the short way: see queryOnce

	mu     sync.Mutex
	closed bool          // guarded by mu
	on     []preparedOn  // guarded by mu
	first  [1]preparedOn // what on is made of when it has but one
}

// skipped is a statement whose driver wants it prepared first (driver.ErrSkip). database/sql prepares it at once, and runs it:
// where it goes has been decided.
type skipped struct {
	h       *held
	query   string
	st      sqlclass.Statement
	decided router.Decided
	second  bool // it has failed elsewhere, and does not run a third time
}

type preparedOn struct {
	p *physical
	s *shared
}

var (
	_ driver.Stmt              = (*Stmt)(nil)
	_ driver.StmtQueryContext  = (*Stmt)(nil)
	_ driver.StmtExecContext   = (*Stmt)(nil)
	_ driver.NamedValueChecker = (*Stmt)(nil)
)

var errStmtClosed = errors.New("readroute: statement is closed")

// Prepare implements driver.Conn.
func (c *Conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext prepares a statement on the node where it would run now, so that bad SQL fails at once.
func (c *Conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.misused != nil {
		return nil, c.misused
	}
	s := &Stmt{c: c, query: query}
	if c.stage == stageSkipped && c.skipped.query == query {
		return s.prepareOnce(ctx)
	}
	if c.skip != nil && c.skip.query == query && c.skip.h.attached() {
		s.skip = c.skip
	}
	c.skip = nil
	if s.skip != nil {
		c.stage = stageOther
		c.decided = s.skip.decided
		if err := c.prepareSkipped(ctx, s, c.run(ctx, s.skip.h, false, s.preparing(ctx))); err != nil {
			return nil, err
		}
		return s, nil
	}
	st := c.cluster.Classifier.ClassifyFor(c.number, query)
	prepare := s.preparing(ctx)
	h, err := c.placePrepare(ctx, &st)
	if err != nil {
		return nil, err
	}
	err = c.run(ctx, h, false, prepare)
	if err != nil && h == &c.replica && c.tx == nil && ctx.Err() == nil && c.retryFor(h, err) != core.RetryNone {
		if again, placed := c.connectPrimary(ctx, c.onPrimary()); placed == nil {
			err = c.run(ctx, again, false, prepare)
		}
	}
	if err != nil {
		return nil, plain(err)
	}
	return s, nil
}

// preparing prepares the statement on a connection.
func (s *Stmt) preparing(ctx context.Context) func(*physical) error {
	return func(p *physical) error {
		_, err := s.prepared(ctx, p)
		return err
	}
}

// prepareSkipped is told how a statement has been prepared that its driver runs in no other way. That is the first half of running it: it
// is done where the statement was placed, a replica that cannot is the one that the statement may be retried for, and when it fails the
// statement has.
func (c *Conn) prepareSkipped(ctx context.Context, s *Stmt, err error) error {
	h, second, st := s.skip.h, s.skip.second, s.skip.st
	if second {
		err = final(err)
	} else if err != nil && c.mayRetry(ctx, &st) {
		if retry := c.retryFor(h, err); retry != core.RetryNone {
			second = true
			h, err = c.again(ctx, &st, s.query, h, retry, err, s.preparing(ctx))
			err = final(err)
		}
	}
	switch {
	case err == nil:
		s.skip = &skipped{h: h, query: s.query, st: st, decided: c.decided, second: second}
	case h != nil && !errors.Is(err, driver.ErrBadConn): // else it has been reported, or database/sql runs it once more
		c.report(ctx, &c.decided)
	}
	return plain(err)
}

func (c *Conn) onPrimary() *router.Decided {
	return &router.Decided{Node: c.cluster.Router.Monitor.Snapshot().Primary, Role: core.RolePrimary}
}

// placePrepare finds the connection to prepare on. It waits for no position: a replica that is behind can prepare.
func (c *Conn) placePrepare(ctx context.Context, st *sqlclass.Statement) (*held, error) {
	if c.tx != nil || c.replica.state {
		return c.place(ctx, st, core.RetryNone, 0)
	}
	c.stage = stageOther
	c.waited, c.failed = 0, 0
	req := c.ask(st, core.RetryNone, 0)
	req.Dry = true
	d := &c.decided
	c.cluster.Router.Route(ctx, req, d)
	if d.Err == nil && d.Role == core.RoleReplica {
		d.Positions = nil
		if h, err := c.connect(ctx, d); err == nil || ctx.Err() != nil {
			return h, err
		}
	}
	return c.connectPrimary(ctx, c.onPrimary())
}

// NumInput returns -1: the native statement's own count is checked after its own argument rules.
func (s *Stmt) NumInput() int { return -1 }

// CheckNamedValue accepts every argument: the native statement has its say once it is chosen.
func (s *Stmt) CheckNamedValue(*driver.NamedValue) error { return nil }

// QueryContext implements driver.StmtQueryContext.
func (s *Stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if s.once.stmt != nil && s.c.runsOnce(s, &s.c.replica) {
		return s.queryOnce(ctx, args)
	}
	var rows driver.Rows
	var a arguments
	a.keep(args)
	st, placed := s.placed()
	err := s.c.execute(ctx, &st, s.query, placed, true, func(p *physical) error {
		native, err := s.prepared(ctx, p)
		if err == nil {
			rows, err = nativeStmtQuery(ctx, p, native, a.fresh(args))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.c.wrapRows(rows), nil
}

// ExecContext implements driver.StmtExecContext.
func (s *Stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if s.once.stmt != nil && s.c.runsOnce(s, &s.c.primary) {
		return s.execOnce(ctx, args)
	}
	var result driver.Result
	var a arguments
	a.keep(args)
	st, placed := s.placed()
	err := s.c.execute(ctx, &st, s.query, placed, false, func(p *physical) error {
		native, err := s.prepared(ctx, p)
		if err == nil {
			result, err = nativeStmtExec(ctx, p, native, a.fresh(args))
		}
		return err
	})
	return result, err
}

// placed returns where the statement was placed already, once, and what it is.
func (s *Stmt) placed() (sqlclass.Statement, *skipped) {
	if placed := s.skip; placed != nil {
		s.skip = nil
		return placed.st, placed
	}
	return s.c.cluster.Classifier.ClassifyFor(s.c.number, s.query), nil
}

var errStmtOld = errors.New("readroute: the statement needs a context")

// Exec is not used: database/sql prefers ExecContext.
func (s *Stmt) Exec([]driver.Value) (driver.Result, error) { return nil, errStmtOld }

// Query is not used: database/sql prefers QueryContext.
func (s *Stmt) Query([]driver.Value) (driver.Rows, error) { return nil, errStmtOld }

// prepared returns the native statement on p.
func (s *Stmt) prepared(ctx context.Context, p *physical) (driver.Stmt, error) {
	s.mu.Lock()
	for _, on := range s.on {
		if on.p == p {
			s.mu.Unlock()
			return on.s.stmt, nil // s is in use, so nobody sweeps it
		}
	}
	s.mu.Unlock()
	shared, err := p.prepare(ctx, s.query)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		p.release(shared)
		return nil, errStmtClosed
	}
	s.forget()
	s.on = append(s.on, preparedOn{p, shared})
	return shared.stmt, nil
}

// forget drops connections that are closed: their statements went with them. s.mu is held.
func (s *Stmt) forget() {
	kept := s.on[:0]
	for _, on := range s.on {
		if !on.p.closed.Load() {
			kept = append(kept, on)
		}
	}
	clear(s.on[len(kept):])
	s.on = kept
}

// Close gives the native statements up. It does no I/O and waits for none, but for a statement of one run, as its driver would: database/sql
// also calls it while the connection lies idle, or under its own pool's lock.
func (s *Stmt) Close() error {
	if s.once.stmt != nil && s.closeOnce() {
		return nil
	}
	s.mu.Lock()
	on := s.on
	s.on, s.closed = nil, true
	s.mu.Unlock()
	for _, o := range on {
		o.p.release(o.s)
	}
	return nil
}
