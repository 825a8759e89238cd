package vconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"time"
)

// A pool keeps idle connections without giving them back to the *sql.DB behind it, whose locks and bookkeeping cost more than
// anything else that a statement pays for being routed. What database/sql would do to a connection in between is done all the
// same: IsValid when it is parked, ResetSession when it is taken, and an end to one that is too old or has been idle for too long.

// parkedTick is how often the age and the rest of parked connections are looked at.
const parkedTick = time.Second

// maxParked bounds how many are parked; idle connections beyond it are the *sql.DB's.
const maxParked = 64

// slot has at most one parked connection. Slots do not share cache lines, for each belongs to other users.
type slot struct {
	atomic.Pointer[physical]
	since atomic.Int64 // when it was parked, by the pool's clock
	_     [48]byte
}

// slots is how many connections may be parked. With a limit on open ones the *sql.DB keeps room for one that comes back to
// somebody who waits no more.
func (c *PoolConfig) slots() int {
	switch {
	case !c.parks():
		return 0
	case c.MaxOpenConns > 0:
		return min(maxParked, c.MaxIdleConns-1, c.MaxOpenConns-1)
	}
	return min(maxParked, c.MaxIdleConns)
}

// parks reports whether a pool of this kind parks at all: with a short life or a short rest a tick more would be seen.
func (c *PoolConfig) parks() bool {
	long := func(d time.Duration) bool { return d <= 0 || d >= 10*parkedTick }
	return c.MaxIdleConns > 0 && c.MaxOpenConns != 1 && long(c.ConnMaxLifetime) && long(c.ConnMaxIdleTime)
}

// awaited reports that somebody waits in the *sql.DB for a connection to be given back: no more may be opened. Whoever parks one
// looks after that as well, and whoever begins to wait looks for a parked one after having said so: one of them sees the other.
func (p *Pool) awaited() bool {
	return p.capped && p.waiting.Load() > 0 && int(p.dialled.Load()) >= p.cfg.MaxOpenConns
}

// conn hands out a connection of the *sql.DB, with g, or a parked one, in h, that has been given back meanwhile.
func (p *Pool) conn(g *getting, h *held, home uint32) (*sql.Conn, error) {
	if p.capped && len(p.parked) > 0 {
		p.waiting.Add(1)
		defer p.waiting.Add(-1)
		if p.takeParked(g.Context, h, home) {
			return nil, nil
		}
	}
	return p.db.Conn(g)
}

// ticks reports whether parked connections have to be looked at.
func (c *PoolConfig) ticks() bool {
	return c.ConnMaxLifetime > 0 || c.ConnMaxIdleTime > 0 || c.MaxOpenConns > 0
}

// at is the slot that is the i-th to be looked at from home.
func (p *Pool) at(home uint32, i int) *slot {
	return &p.parked[(home+uint32(i))%uint32(len(p.parked))]
}

// takeParked hands out a parked connection, when there is one and it is still good.
func (p *Pool) takeParked(ctx context.Context, h *held, home uint32) bool {
	if ctx.Err() != nil {
		return false
	}
	for i := range p.parked {
		s := p.at(home, i)
		if s.Load() == nil {
			continue
		}
		c := s.Swap(nil)
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
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}

// putBack parks a connection that takeAsking has taken and not used.
func (p *Pool) putBack(s *slot, c *physical) {
	switch {
	case !c.busy.CompareAndSwap(busyAsking, busyNot): // it was interrupted
		c.end()
	case !s.CompareAndSwap(nil, c):
		c.giveBack()
	case p.closed.Load() || c.epoch != p.epoch.Load() || p.awaited():
		p.unpark()
	}
}

// unpark gives the parked connections back.
func (p *Pool) unpark() {
	for i := range p.parked {
		if c := p.parked[i].Swap(nil); c != nil {
			c.giveBack()
		}
	}
}

func (p *physical) giveBack() {
	sc := p.sc
	p.sc = nil
	_ = sc.Close()
}

// tick is called by the timer while connections are parked.
func (p *Pool) tick() {
	now := int64(time.Since(p.began))
	p.now.Store(now)
	p.ticking.Store(false)
	if p.awaited() {
		p.unpark()
	}
	left := false
	for i := range p.parked {
		s := &p.parked[i]
		c := s.Load()
		if c == nil {
			continue
		}
		old, idle := p.tooOld(c, now), p.cfg.ConnMaxIdleTime > 0 && time.Duration(now-s.since.Load()) >= p.cfg.ConnMaxIdleTime
		switch {
		case !old && !idle:
			left = true
		case !s.CompareAndSwap(c, nil): // taken in between
		case old:
			p.agedOut.Add(1)
			c.end()
		default:
			p.idledOut.Add(1)
			c.end()
		}
	}
	if left && !p.closed.Load() && p.ticking.CompareAndSwap(false, true) {
		p.timer.Reset(parkedTick)
		if p.closed.Load() {
			p.timer.Stop()
		}
	}
}

// tooOld reports that a connection has reached ConnMaxLifetime.
func (p *Pool) tooOld(c *physical, now int64) bool {
	return p.ages && time.Duration(now)-c.opened.Sub(p.began) >= p.cfg.ConnMaxLifetime
}

// end closes a connection that was parked.
func (p *physical) end() {
	sc := p.sc
	p.sc = nil
	_ = sc.Raw(func(any) error { return driver.ErrBadConn })
}
