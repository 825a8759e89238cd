package vconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/router"
)

// physical is a real connection in a node's pool. database/sql pools it; a Conn that has it checked out uses the native
// connection directly.
type physical struct {
	// What each statement needs comes first: it is one cache line, and for a write one more.
	pool      *Pool
	able      able             // the native connection; nil when it cannot do all of that
	validator driver.Validator // as queryer
	epoch     uint64           // of the pool when it was opened: a node that changes its role drops what is older
	sc        *sql.Conn        // while it is parked; owned by whoever has the connection checked out
	busy      atomic.Uint32
	litter    atomic.Bool // dead is not empty

	rebinds  bool          // see given
	looks    bool          // its driver only looks at it to reset it, and a read that fails on it can run again
	left     time.Duration // of a writer, and where it looks: when it went back to its pool, since that was made
	accepted uint64        // the number of the snapshot that has accepted it, or spoken for it
	wire     monitor.Wire  // of native
	opened   time.Time     // when it was open: a sample that began later can speak for it
	native   driver.Conn
	// What the native connection can do, found once; nil when it cannot.
	queryer  driver.QueryerContext
	execer   driver.ExecerContext
	checker  driver.NamedValueChecker
	resetter driver.SessionResetter
	preparer driver.ConnPrepareContext // also nil where statements are not prepared
	closed   atomic.Bool               // Close was called
	used     bool                      // it has been checked out before; owned as sc is
	proof    core.Sample               // read on this very connection: when it was opened, or newer
	backend  monitor.Backend           // the server's side of it; zero when unknown

	// Owned by whoever has the connection checked out:
	stmts map[string]*shared

	mu   sync.Mutex
	dead []*shared // guarded by mu: statements that nobody uses, to be closed by the next who has the connection
}

// able is what a native connection can do that most statements need.
type able interface {
	driver.QueryerContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.SessionResetter
}

// shared is a native statement that several virtual statements of the same text use on one connection.
type shared struct {
	stmt driver.Stmt // owned by whoever has the connection checked out
	text string
	refs int // guarded by physical.mu
}

var (
	_ driver.Conn            = (*physical)(nil)
	_ driver.SessionResetter = (*physical)(nil)
	_ driver.Validator       = (*physical)(nil)
)

var errNotForCallers = errors.New("readroute: a physical connection is not for callers")

// newPhysical wraps a native connection that has just been opened for a pool.
func newPhysical(native driver.Conn, pool *Pool, epoch uint64) *physical {
	p := &physical{native: native, wire: pool.cfg.Engine.Wire(native), pool: pool, epoch: epoch}
	p.queryer, _ = native.(driver.QueryerContext)
	p.execer, _ = native.(driver.ExecerContext)
	p.checker, _ = native.(driver.NamedValueChecker)
	p.resetter, _ = native.(driver.SessionResetter)
	p.validator, _ = native.(driver.Validator)
	p.able, _ = native.(able)
	if !pool.cfg.Pooled {
		p.preparer, _ = native.(driver.ConnPrepareContext)
	}
	p.rebinds = rebinds(native)
	p.looks = !pool.writer && isOf(native, goSQLDriver)
	return p
}

// Prepare is not used: a Conn talks to the native connection.
func (p *physical) Prepare(string) (driver.Stmt, error) { return nil, errNotForCallers }

// Begin is not used.
func (p *physical) Begin() (driver.Tx, error) { return nil, errNotForCallers }

// Close closes the native connection.
func (p *physical) Close() error {
	if !p.closed.Swap(true) {
		p.pool.dialled.Add(-1)
	}
	p.pool.forget(p)
	return p.native.Close()
}

// shortRest is for how long a connection is taken to be alive that was in use just now: a look at it costs a system call,
// and whatever happens to it meanwhile may as well happen a moment later, when nothing can be known in advance.
const shortRest = time.Millisecond

// inStep reports that the connection is known to have answered, and to be where the next statement can follow. A driver that hides
// driver.Validator cannot say so of a connection that has failed.
func (p *physical) inStep() bool {
	if t, ok := p.wire.(interface{ Tells() bool }); ok && !t.Tells() {
		return false
	}
	return !p.wire.Broken()
}

// ResetSession runs before the connection is used again. database/sql takes no other error than ErrBadConn seriously,
// so a connection that could not be reset is a bad one.
func (p *physical) ResetSession(ctx context.Context) error {
	if p.epoch != p.pool.epoch.Load() {
		return driver.ErrBadConn
	}
	g, _ := ctx.(*getting)
	if g != nil {
		ctx = g.Context
	}
	if p.able != nil || p.resetter != nil {
		var interrupted bool
		var err error
		if p.pool.shared.Load() {
			interrupted, err = p.resetShared(ctx)
		} else {
			interrupted, err = p.reset(ctx)
		}
		if interrupted || err != nil {
			return driver.ErrBadConn
		}
	}
	if p.litter.Load() {
		if !p.swept(ctx) {
			return driver.ErrBadConn
		}
	}
	if g != nil {
		g.p = p
	}
	return nil
}

func (p *physical) reset(ctx context.Context) (interrupted bool, err error) {
	return p.interruptible(func(p *physical) error {
		if p.able != nil {
			return p.able.ResetSession(ctx)
		}
		return p.resetter.ResetSession(ctx)
	})
}

// resetShared is reset where the monitor may be talking to another server than the one that is silent, so that nobody would interrupt it.
func (p *physical) resetShared(ctx context.Context) (interrupted bool, err error) {
	ctx, cancel := p.pool.limited(ctx)
	defer cancel()
	return p.reset(ctx)
}

// keepsAfterRollback says whether database/sql would keep the native connection when the context of a transaction ends.
func (p *physical) keepsAfterRollback() bool {
	return p.resetter != nil && p.validator != nil
}

// prepare returns the native statement of a text and takes a reference to it.
func (p *physical) prepare(ctx context.Context, text string) (*shared, error) {
	p.mu.Lock()
	s := p.stmts[text]
	if s != nil && s.refs > 0 {
		s.refs++
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	stmt, err := p.nativeStmt(ctx, text)
	if err != nil {
		return nil, err
	}
	s = &shared{stmt: stmt, text: text, refs: 1}
	p.mu.Lock()
	if p.stmts == nil {
		p.stmts = make(map[string]*shared)
	}
	p.stmts[text] = s
	p.mu.Unlock()
	return s, nil
}

// nativeStmt prepares a text on the native connection. A pooler may run each statement in another session, where a
// prepared one is not known, or belongs to somebody else: there the text itself is run each time.
func (p *physical) nativeStmt(ctx context.Context, text string) (driver.Stmt, error) {
	if p.pool.cfg.Pooled {
		return &textStmt{p: p, text: text}, nil
	}
	return nativePrepare(ctx, p.native, text)
}

// renew prepares a text anew on the connection, for everyone who uses it there: the server has found its plan to be out of
// date. A driver that keeps plans of its own for direct statements renews those by itself.
func (p *physical) renew(ctx context.Context, text string) error {
	p.mu.Lock()
	s := p.stmts[text]
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := s.stmt.Close(); err != nil {
		return err
	}
	stmt, err := p.nativeStmt(ctx, text)
	if err != nil {
		return err
	}
	s.stmt = stmt
	return nil
}

// release gives a reference up. It does no I/O and does not wait for any: database/sql closes statements under its own
// locks. The native statement is closed by whoever has the connection next.
func (p *physical) release(s *shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.refs--
	if s.refs > 0 {
		return
	}
	if p.stmts[s.text] == s {
		delete(p.stmts, s.text)
	}
	p.dead = append(p.dead, s)
	p.litter.Store(true)
}

// swept closes the statements that nobody uses, within ctx and the time that a server has to answer: a driver waits for that
// longer, and the statements were somebody else's. It reports whether the connection is still good.
func (p *physical) swept(ctx context.Context) bool {
	ctx, cancel := p.pool.limited(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, p.wire.Interrupt)
	interrupted, _ := p.interruptible((*physical).sweep)
	return stop() && !interrupted
}

// sweep closes the statements that nobody uses. Only who has the connection checked out may call it.
func (p *physical) sweep() error {
	p.mu.Lock()
	p.litter.Store(false)
	dead := p.dead
	p.dead = nil
	p.mu.Unlock()
	for _, s := range dead {
		_ = s.stmt.Close() // a connection that cannot close a statement shows it at its next use
	}
	return nil
}

// proves reports whether what is known of the node now, or what was read when the connection was opened, shows that the
// connection's own server has all of positions. A sample speaks only for a connection that was open before it, on the
// same run of the same server.
func (p *physical) proves(s *core.Snapshot, d *router.Decided) bool {
	n := &s.Nodes[d.Node]
	if n.Shared || n.Sample.Start != p.proof.Start || d.Floor != nil && (d.Floor.Start != p.proof.Start || !d.Floor.Lived(p.opened, &n.Sample)) {
		return false
	}
	if s == d.Covering && n.Sample.Position.Timeline != 0 && p.opened.Before(n.Sample.Began) {
		return true // nothing is known that the decision did not go by
	}
	replay, began := n.Proof()
	if p.opened.Before(began) && s.Covers(replay, d.Positions, d.CapturedAt) == core.Covered {
		return true
	}
	return s.Covers(p.proof.Position, d.Positions, d.CapturedAt) == core.Covered
}

// interruptible runs op, which asks the server something whose answer the caller can do without, so that
// [Pool.Silence] ends it when the server falls silent. It reports whether it was ended so: then the connection is of no
// use any more. A server that is silent already is not asked: nobody would end that.
func (p *physical) interruptible(op func(*physical) error) (interrupted bool, err error) {
	p.busy.Store(busyAsking)
	if p.pool.silent.Load() {
		p.busy.Store(busyNot)
		return true, driver.ErrBadConn
	}
	err = op(p)
	return !p.busy.CompareAndSwap(busyAsking, busyNot), err
}

// The states of physical.busy.
const (
	busyNot         = iota
	busyAsking      // a statement is out that may be interrupted
	busyInterrupted // and was
)
