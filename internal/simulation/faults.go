package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// storm makes things go wrong until its context ends.
type storm struct {
	w    *world
	c    *cluster
	rng  *rand.Rand // of the goroutine that runs it
	calm Fault
	done Faults
}

// tell writes down what happens, for whoever looks into a violation. cluster.mu is not held.
func (c *cluster) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = append(c.trace, note{c.rec.Now(), fmt.Sprintf(format, args...)})
}

// note is a line of the trace.
type note struct {
	at   time.Duration
	text string
}

// run draws one fault after the other. In some scenarios they come so fast that many are at work at a time.
func (f *storm) run(ctx context.Context) {
	gaps := []time.Duration{900 * time.Millisecond, 900 * time.Millisecond, 300 * time.Millisecond, 80 * time.Millisecond}
	gap := gaps[f.rng.IntN(len(gaps))]
	for f.sleep(ctx, f.between(5*time.Millisecond, gap)) {
		i := f.rng.IntN(numStorms)
		kind := Fault(1) << i
		if f.calm&kind != 0 || kind == Splits || kind == Diverged {
			continue // those two are ways in which a promotion goes
		}
		f.done[i]++
		f.c.tell("%s", kind)
		f.strike(ctx, kind)
	}
}

// numStorms is how many of the kinds of faults happen at a moment; the rest are there all the time.
const numStorms = 16

func (f *storm) between(least, most time.Duration) time.Duration {
	return least + time.Duration(f.rng.Int64N(int64(most-least)))
}

// soon is between, and mostly near the least.
func (f *storm) soon(least, most time.Duration) time.Duration {
	x := f.rng.Float64()
	return least + time.Duration(x*x*x*x*float64(most-least))
}

// sleep reports whether it was not woken by the end.
func (f *storm) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// do changes something about the cluster.
func (f *storm) do(change func()) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.c.settle(time.Now())
	f.w.watchLed()
	change()
	f.w.watchLed()
	f.c.watchSplit()
	f.w.lead()
	f.c.trace = append(f.c.trace, note{f.c.rec.Now(), f.w.state()})
}

// undo changes something back later.
func (f *storm) undo(after time.Duration, change func()) {
	time.AfterFunc(after, func() { f.do(change) })
}

// replica draws one that is meant to be one. cluster.mu is held.
func (f *storm) replica() *server {
	var list []*server
	for _, s := range f.c.servers {
		if !s.primary {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[f.rng.IntN(len(list))]
}

func (f *storm) network() *network { return f.w.networks[f.rng.IntN(len(f.w.networks))] }

// strike makes one kind of thing go wrong.
func (f *storm) strike(ctx context.Context, kind Fault) {
	short, long := f.between(time.Millisecond, 400*time.Millisecond), f.between(100*time.Millisecond, 5*time.Second)
	victim := f.c.servers[f.rng.IntN(len(f.c.servers))]
	var r *server
	f.do(func() { r = f.replica() })
	n := f.network()
	if r == nil {
		return
	}
	switch kind {
	case Pauses:
		f.do(func() { r.paused = true })
		f.undo(long, func() { r.paused = false })
	case Lags:
		late := short
		if f.rng.IntN(3) == 0 {
			late = long
		}
		f.do(func() { r.lag, r.transit = late, f.between(0, late+1) })
		f.undo(long, func() { r.lag, r.transit = 0, 0 })
	case Freezes:
		f.do(victim.freeze)
		f.undo(long, victim.thaw)
	case Kills:
		f.kill(victim, long)
	case Crashes:
		f.do(func() {
			if victim.running {
				victim.crash(f.rng.IntN(60))
			}
		})
	case Cuts:
		f.do(n.cut)
	case Slowness:
		f.do(func() { n.delay = short })
		f.undo(long, func() { n.delay = 0 })
	case Holes:
		f.do(func() { n.fall(true) })
		f.undo(short, func() { n.fall(false) })
	case Losses:
		f.do(func() { n.loses = 0.3 })
		f.undo(long, func() { n.loses = 0 })
	case Promotions:
		f.failover(ctx)
	case Moves:
		f.do(func() { f.w.move(f.rng) })
		f.undo(long, f.w.settleEndpoints)
	case Rebuilds:
		f.do(func() {
			if f.c.truth.running && !f.c.truth.frozen {
				r.rebuild(f.c.truth, f.rng.IntN(100))
			}
		})
	case Strangers:
		f.do(func() { f.w.stranger(f.rng) })
		f.undo(long, func() {
			f.w.settleEndpoints()
			f.w.alien.endSessions()
		})
	case Cascades:
		f.do(func() {
			if other := f.replica(); other != r && r.source == f.c.truth && other.source == f.c.truth {
				r.source = other
			}
		})
		f.undo(long, func() {
			if r.source != nil && !r.source.primary {
				r.source = f.c.truth
			}
		})
	}
}

// kill ends a server, and starts it again later.
func (f *storm) kill(s *server, after time.Duration) {
	back, inOrder := f.rng.IntN(60), f.rng.IntN(2) == 0
	stopped := false
	f.do(func() {
		if s.running {
			s.stop(inOrder)
			stopped = true
		}
	})
	if stopped {
		f.undo(after, func() {
			switch {
			case s.running:
			case s.primary && s != f.c.truth && f.calm&Splits != 0:
				s.follow(f.c.truth)
			default:
				s.start(back)
			}
		})
	}
}

// failover makes another server the primary, in one of the ways in which that happens.
func (f *storm) failover(ctx context.Context) {
	var old, next *server
	f.do(func() { old, next = f.c.truth, f.candidate() })
	if next == nil {
		return
	}
	way := f.rng.IntN(4)
	if f.calm&Splits != 0 && way > 1 {
		way = f.rng.IntN(2)
	}
	f.do(func() {
		switch way {
		case 0:
			old.stop(true)
		case 1:
			old.stop(false)
		case 2:
			old.freeze()
		case 3: // it goes on
		}
	})
	if !f.sleep(ctx, f.soon(time.Millisecond, 1500*time.Millisecond)) {
		return
	}
	promoted := false
	f.do(func() {
		if next.running && !next.frozen && !next.primary && f.c.truth == old {
			if way < 2 && old.running && f.calm&Splits != 0 {
				old.stop(way == 0) // it was started again meanwhile
			}
			next.promote()
			promoted = true
		}
	})
	if !promoted {
		return
	}
	for _, s := range f.c.servers {
		if s == next || s == old {
			continue
		}
		f.undo(f.soon(0, time.Second), func() {
			if s.running && !s.primary && f.c.truth == next && s != next {
				s.follow(next)
			}
		})
	}
	f.former(old, next, way)
}

// former is what becomes of the former primary.
func (f *storm) former(old, next *server, way int) {
	after := f.between(time.Millisecond, 3*time.Second)
	if way == 2 {
		f.undo(after/2, old.thaw)
	}
	if f.calm&Splits == 0 && way == 1 && f.rng.IntN(2) == 0 {
		f.undo(after/2, func() { // it comes back as if nothing had happened
			if !old.running && old.primary {
				old.start(0)
			}
		})
	}
	diverged, age := f.calm&Diverged == 0 && f.rng.IntN(2) == 0, f.rng.IntN(50)
	f.undo(after, func() {
		if f.c.truth == old || !old.primary {
			return
		}
		old.thaw()
		if diverged || old.at.within(next.at) {
			old.follow(f.c.truth)
		} else {
			old.rebuild(f.c.truth, age)
		}
	})
	// A server that cannot follow is made anew, but not at once.
	f.undo(after+f.between(time.Second, 4*time.Second), f.repair)
}

// repair makes servers anew that cannot follow, and gives those a source that have none.
func (f *storm) repair() {
	for _, s := range f.c.servers {
		switch {
		case s == f.c.truth || !s.running || s.frozen || !f.c.truth.running:
		case s.primary:
			s.rebuild(f.c.truth, 0)
		case s.source == nil || s.source == s || s.source.primary && s.source != f.c.truth:
			s.follow(f.c.truth)
		}
		if s != f.c.truth && !s.primary && s.running && !s.frozen && f.c.engine != MySQL && s.source != nil && s.source.running && !s.canFollow() {
			s.rebuild(f.c.truth, 0)
		}
	}
}

// candidate draws a replica that may be promoted: one that has nothing that the primary lacks.
func (f *storm) candidate() *server {
	var list []*server
	for _, s := range f.c.servers {
		if !s.primary && s.running && !s.frozen && s.received.within(f.c.truth.at) && len(s.more) == 0 {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[f.rng.IntN(len(list))]
}

// heal ends everything that is wrong.
func (f *storm) heal() {
	f.do(func() {
		for _, s := range f.c.servers {
			s.thaw()
			if !s.running {
				s.start(0)
			}
			s.paused, s.lag, s.transit = false, 0, 0
		}
		f.repair()
		for _, s := range f.c.servers {
			if s != f.c.truth {
				s.source, s.linked = f.c.truth, true
			}
		}
		f.repair()
		for _, s := range f.c.servers {
			s.advance(time.Now())
			s.control = s.at.b.timeline // a restart point has come
		}
		for _, n := range f.w.networks {
			n.fall(false)
			n.delay, n.loses = 0, 0
		}
		f.w.settleEndpoints()
		f.w.recall()
	})
}
