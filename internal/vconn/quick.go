package vconn

import (
	"context"
	"database/sql/driver"
	"math/bits"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Most statements are the only one of their checkout, and nothing about them is out of the ordinary. They take a short way. Beside a real
// server a statement pays for the code and the data that it finds cold, far more than for what it does: so the short way is little of
// both. It goes by the same facts as the long one, and leaves to that whatever is not as it should be, before the statement was sent or after.
//
// What runs in it stands in this file in the order in which it runs, and nothing else: the linker keeps that order, and a page of code that
// is not at hand costs as much as all that is done there.

// stage is how far a checkout has come.
type stage uint8

const (
	stageIdle     stage = iota // nothing has happened in it
	stagePlain                 // one statement has run, the short way, and left nothing behind
	stageSkipped               // one has been placed, and its driver wants it prepared
	stagePrepared              // it has been, and has not run
	stageRan                   // it has, and is not closed
	stageOther
)

// ResetSession begins a checkout. database/sql takes no error of it seriously, so it is kept for the first use.
func (c *Conn) ResetSession(context.Context) error {
	if c.out {
		c.checkIn()
		c.stage, c.misused = stageOther, errHidden
	}
	c.out = true
	return nil
}

// CheckNamedValue accepts every argument: the native connection has its say once it is chosen.
func (c *Conn) CheckNamedValue(*driver.NamedValue) error { return nil }

// QueryContext implements driver.QueryerContext. The rows are the native driver's own.
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.stage == stageIdle {
		if rows, done, err := c.queryQuickly(ctx, query, args); done {
			return rows, err
		}
	}
	return c.query(ctx, query, args)
}

// queryQuickly runs a read on a replica that is known to be right, on a connection that lies parked, in a checkout in which nothing has
// happened. done is false when nothing was sent, and args are as they were given.
func (c *Conn) queryQuickly(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, done bool, err error) {
	st := c.recent.Get(query)
	if st == nil || st.Class != sqlclass.Read || st.Hint != sqlclass.HintNone || st.Multi {
		return nil, false, nil
	}
	var nodes uint64
	o := core.FromContext(ctx)
	if c.router.AsUsual(o) && o.Session.IsClean() { // most often Quick is not worth the call
		nodes = c.router.CleanNodes()
	}
	node := bits.TrailingZeros64(nodes)
	var s *core.Snapshot
	var positions []core.Position
	var capturedAt time.Time
	if nodes == 0 || nodes&(nodes-1) != 0 {
		if node, s, positions, capturedAt = c.router.Quick(o); node < 0 {
			return nil, false, nil
		}
	}
	if int32(node) != c.readerNode {
		c.reader, c.readerNode = c.cluster.Readers[node], int32(node)
	}
	p := c.reader.takeAsking(ctx, c.number)
	if p == nil {
		return nil, false, nil
	}
	h := &c.replica
	h.p, h.sc, h.node, p.sc = p, p.sc, node, nil
	c.begun(h)
	c.stage = stageOther                                                                                        // also of a driver that panics
	if s != nil && (s.Number != c.router.Monitor.Number() || p.accepted != s.Number && !p.speaksFor(s, node)) { // it may have taken a while
		h.discard = !p.busy.CompareAndSwap(busyAsking, busyNot)
		c.giveUp(h)
		return nil, false, nil
	}
	var g given
	if args, err = g.bind(c, p, args); err == nil {
		rows, err = p.able.QueryContext(ctx, query, args)
	}
	interrupted := !p.busy.CompareAndSwap(busyAsking, busyNot)
	if interrupted || err != nil || c.tells {
		c.skipped = skippedQuickly{query, s, positions, capturedAt}
		rows, err = c.queryOn(ctx, st, &g, rows, interrupted, err)
		return rows, true, err
	}
	g.drop()
	h.ran, c.stage = true, stagePlain
	c.countQuick(node)
	return rows, true, nil
}

// takeAsking hands out the connection that is parked in the slot at home, if it is able and nothing is to be done to it first, and
// leaves it as [physical.interruptible] has it while its server is asked.
func (p *Pool) takeAsking(ctx context.Context, home uint32) *physical {
	if len(p.parked) == 0 || ctx.Err() != nil {
		return nil
	}
	s := p.at(home, 0)
	if s.Load() == nil {
		return nil
	}
	c := s.Swap(nil)
	if c == nil {
		return nil
	}
	c.busy.Store(busyAsking)
	if c.able == nil || p.silent.Load() || p.shared.Load() || c.epoch != p.epoch.Load() || c.litter.Load() {
		p.putBack(s, c)
		return nil
	}
	if !c.justRead() && c.able.ResetSession(ctx) != nil {
		c.end()
		return nil
	}
	return c
}

// justRead reports that the connection is one to read on that was in use just now, and that to reset it is no more than a look at it.
func (p *physical) justRead() bool {
	return p.looks && time.Since(p.pool.began)-p.left < shortRest
}

// bind binds the arguments in place. drop follows.
func (g *given) bind(c *Conn, p *physical, args []driver.NamedValue) ([]driver.NamedValue, error) {
	g.keep(c, p, args)
	for i := range args {
		args[i].Ordinal = i + 1
		if p.able.CheckNamedValue(&args[i]) != nil {
			return g.again(p)
		}
	}
	return args, nil
}

// keep keeps the arguments as they are. drop follows.
func (g *given) keep(c *Conn, p *physical, args []driver.NamedValue) {
	if g.bound = args; !p.rebinds {
		g.copy = &c.kept
		g.copy.keep(args)
		g.copy.used = true
	}
}

// countQuick counts a read that went the short way.
func (c *Conn) countQuick(node int) {
	if node == c.covered.Node() {
		c.covered.Add()
	} else {
		c.countElsewhere(node)
	}
}

// IsValid ends a checkout: database/sql calls it on every connection just before it goes back to the pool, and at no
// other time while it is out.
func (c *Conn) IsValid() bool {
	if c.stage == stagePlain {
		c.endQuickly()
	} else {
		c.checkIn()
	}
	return !c.closed
}

// endQuickly ends a checkout in which one statement has run the short way.
func (c *Conn) endQuickly() {
	h := c.quickHeld()
	c.out, c.stage = false, stageIdle
	if h.p.litter.Load() || !h.p.pool.park(h, c.number) {
		c.release(h)
		return
	}
	c.over(h)
}

// park keeps a connection that is fit for another checkout, in the slot at home or one after it. It reports whether it has.
func (p *Pool) park(h *held, home uint32) bool {
	c := h.p
	if p.ticks && !p.ticking.Load() {
		p.now.Store(int64(time.Since(p.began)))
	}
	now := p.now.Load()
	if p.awaited() || p.tooOld(c, now) || !c.IsValid() {
		return false
	}
	c.sc = h.sc
	for i := range p.parked {
		s := p.at(home, i)
		if s.Load() != nil {
			continue
		}
		if s.since.Load() != now {
			s.since.Store(now) // whoever parks here instead does it now as well
		}
		if !s.CompareAndSwap(nil, c) {
			continue
		}
		if p.closed.Load() || c.epoch != p.epoch.Load() || p.awaited() {
			p.unpark() // it came too late for whoever closes, drops or waits
		} else if p.ticks && !p.ticking.Load() && p.ticking.CompareAndSwap(false, true) {
			p.timer.Reset(parkedTick)
		}
		return true
	}
	c.sc = nil
	return false
}

// IsValid says whether the connection may go back to its pool.
func (p *physical) IsValid() bool {
	if p.epoch != p.pool.epoch.Load() {
		return false
	}
	if p.looks || p.pool.writer {
		p.left = time.Since(p.pool.began)
	}
	return p.validator == nil || p.validator.IsValid()
}

// ExecContext implements driver.ExecerContext.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.stage == stageIdle {
		if result, done, err := c.execQuickly(ctx, query, args); done {
			return result, err
		}
	}
	return c.exec(ctx, query, args)
}

// execQuickly runs a write on the primary, on a connection that lies parked, in a checkout in which nothing has happened. done is false
// when nothing was sent, and args are as they were given.
func (c *Conn) execQuickly(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, done bool, err error) {
	st := c.recent.Get(query)
	if st == nil || !c.quickWrites || !onlyWrites(st) {
		return nil, false, nil
	}
	o := core.FromContext(ctx)
	node := c.router.QuickWrite(o)
	if node < 0 {
		return nil, false, nil
	}
	if node != c.written.Node() {
		c.router.MoveTally(&c.written, node)
		c.writer = c.cluster.Writers[node]
	}
	p := c.writer.takeAsking(ctx, c.number)
	if p == nil {
		return nil, false, nil
	}
	h := &c.primary
	h.p, h.sc, h.node, p.sc = p, p.sc, node, nil
	c.begun(h)
	c.stage = stageOther                                                // also of a driver that panics
	if !p.busy.CompareAndSwap(busyAsking, busyNot) || p.wire.Broken() { // a write is not ended when its server falls silent
		h.discard = true
		c.giveUp(h)
		return nil, false, nil
	}
	if p.accepted != c.router.Monitor.Number() && c.accept(h) != nil { // it may have taken a while
		c.stage = stageIdle
		return nil, false, nil
	}
	var session *core.Session
	if o != nil && o.Session != nil {
		session = o.Session
		session.Begin()
		defer session.End()
	}
	var g given
	args, err = g.bind(c, p, args)
	open := !p.gone()
	if !open {
		err = driver.ErrBadConn
	} else if err == nil {
		result, err = p.able.ExecContext(ctx, query, args)
	}
	if inTx, _ := p.wire.InTx(); inTx || err != nil || c.tells {
		c.skipped = skippedQuickly{query: query}
		result, err = c.execOn(ctx, st, &g, result, open, err)
		return result, true, err
	}
	g.drop()
	h.ran, c.stage = true, stagePlain
	c.written.Add()
	if session != nil {
		c.await(session, h, c.router.Captures.Join())
	}
	return result, true, nil
}

// gone reports that the server has ended the connection while it lay idle in its pool.
func (p *physical) gone() bool {
	return time.Since(p.pool.began)-p.left >= shortRest && p.wire.HungUp()
}

// await marks a session: it needs what a capture finds that begins after its write on h.
func (c *Conn) await(s *core.Session, h *held, capture *core.Capture) {
	if !s.Awaits(c.cluster.Name, h.p.proof.Start, capture) { // of many writes the first asks the clock
		s.Wrote(c.cluster.Name, time.Now(), h.p.proof.Start, capture, false, c.cluster.Strategy.Window)
	}
}
