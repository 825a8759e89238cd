package vconn

import (
	"context"
	"database/sql/driver"
	"time"
)

// A pool keeps one connection between two checkouts without giving it back to the *sql.DB behind it, whose locks and
// bookkeeping cost more than anything else that a statement pays for being routed. What database/sql would do to the
// connection in between is done all the same: IsValid when it is parked, ResetSession when it is taken.

// parkedFor is after how long a parked connection goes back to the *sql.DB, which looks after its age and closes it when it has
// been idle for too long.
const parkedFor = time.Second

// parks reports whether a pool of this kind parks at all. With a limit on open connections somebody may be waiting in the
// *sql.DB for this very one; with a short life or a short rest a second more would be seen.
func (c *PoolConfig) parks() bool {
	long := func(d time.Duration) bool { return d <= 0 || d >= 10*parkedFor }
	return c.MaxOpenConns <= 0 && c.MaxIdleConns > 0 && long(c.ConnMaxLifetime) && long(c.ConnMaxIdleTime)
}

// park keeps a connection that is fit for another checkout. It reports whether it has.
func (p *Pool) park(h *held) bool {
	c := h.p
	if !p.parking || p.parked.Load() != nil || !c.IsValid() {
		return false
	}
	c.sc = h.sc
	if !p.parked.CompareAndSwap(nil, c) {
		c.sc = nil
		return false
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

// takeParked hands out the parked connection, when there is one and it is still good.
func (p *Pool) takeParked(ctx context.Context, h *held) bool {
	if p.parked.Load() == nil || ctx.Err() != nil {
		return false
	}
	c := p.parked.Swap(nil)
	if c == nil {
		return false
	}
	sc := c.sc
	c.sc = nil
	if c.ResetSession(ctx) != nil {
		_ = sc.Raw(func(any) error { return driver.ErrBadConn })
		return false
	}
	*h = held{sc: sc, p: c, node: p.cfg.Index}
	return true
}

// unpark gives the parked connection back.
func (p *Pool) unpark() {
	if c := p.parked.Swap(nil); c != nil {
		sc := c.sc
		c.sc = nil
		_ = sc.Close()
	}
}

// unparkLater is called by the timer, once after a connection was parked.
func (p *Pool) unparkLater() {
	p.unparking.Store(false)
	p.limitIdle()
	p.unpark()
}

// limitIdle keeps the limit on idle connections, of which the parked one is one.
func (p *Pool) limitIdle() {
	n := p.cfg.MaxIdleConns
	if p.unparking.Load() {
		n--
	}
	p.db.SetMaxIdleConns(n)
}
