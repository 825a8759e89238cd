package vconn

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"
)

// A pool keeps some connections between two checkouts without giving them back to the *sql.DB behind it, whose locks and
// bookkeeping cost more than anything else that a statement pays for being routed. What database/sql would do to a
// connection in between is done all the same: IsValid when it is parked, ResetSession when it is taken.

// parkedFor is after how long parked connections go back to the *sql.DB, which looks after their age and closes them when they
// have been idle for too long.
const parkedFor = time.Second

// maxParked bounds how many are parked: their pointers share a cache line.
const maxParked = 8

// slots is how many connections may be parked. They are idle ones, and half of those at most.
func (c *PoolConfig) slots() int {
	if !c.parks() {
		return 0
	}
	return max(1, min(maxParked, c.MaxIdleConns/2))
}

// parks reports whether a pool of this kind parks at all. With a limit on open connections somebody may be waiting in the
// *sql.DB for this very one; with a short life or a short rest a second more would be seen.
func (c *PoolConfig) parks() bool {
	long := func(d time.Duration) bool { return d <= 0 || d >= 10*parkedFor }
	return c.MaxOpenConns <= 0 && c.MaxIdleConns > 0 && long(c.ConnMaxLifetime) && long(c.ConnMaxIdleTime)
}

// park keeps a connection that is fit for another checkout. It reports whether it has.
func (p *Pool) park(h *held) bool {
	slot := p.empty()
	if slot == nil {
		return false
	}
	c := h.p
	if !c.IsValid() {
		return false
	}
	c.sc = h.sc
	for !slot.CompareAndSwap(nil, c) {
		if slot = p.empty(); slot == nil {
			c.sc = nil
			return false
		}
	}
	if p.closed.Load() || c.epoch != p.epoch.Load() {
		p.unpark() // it came too late for whoever closes or drops
		return true
	}
	if !p.unparking.Load() && p.unparking.CompareAndSwap(false, true) {
		p.limitIdle()
		p.timer.Reset(parkedFor)
	}
	return true
}

// empty returns a slot that nothing is parked in, or nil.
func (p *Pool) empty() *atomic.Pointer[physical] {
	for i := range p.parked {
		if p.parked[i].Load() == nil {
			return &p.parked[i]
		}
	}
	return nil
}

// takeParked hands out a parked connection, when there is one and it is still good.
func (p *Pool) takeParked(ctx context.Context, h *held) bool {
	for i := range p.parked {
		if p.parked[i].Load() == nil || ctx.Err() != nil {
			continue
		}
		c := p.parked[i].Swap(nil)
		if c == nil {
			continue
		}
		sc := c.sc
		c.sc = nil
		if c.ResetSession(ctx) == nil {
			*h = held{sc: sc, p: c, node: p.cfg.Index}
			return true
		}
		_ = sc.Raw(func(any) error { return driver.ErrBadConn })
	}
	return false
}

// unpark gives the parked connections back.
func (p *Pool) unpark() {
	for i := range p.parked {
		if c := p.parked[i].Swap(nil); c != nil {
			sc := c.sc
			c.sc = nil
			_ = sc.Close()
		}
	}
}

// unparkLater is called by the timer, once after a connection was parked.
func (p *Pool) unparkLater() {
	p.unparking.Store(false)
	p.limitIdle()
	p.unpark()
}

// limitIdle keeps the limit on idle connections, of which the parked ones are some.
func (p *Pool) limitIdle() {
	n := p.cfg.MaxIdleConns
	if p.unparking.Load() {
		n -= len(p.parked)
	}
	p.db.SetMaxIdleConns(n)
}
