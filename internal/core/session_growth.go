package core

import "sync/atomic"

// growth is what an answer has to know of a session: whether there is, or may be, more to tell than when it was asked.
type growth struct {
	grown   atomic.Uint64
	writing atomic.Int32 // writes and commits that have been sent and have not returned
	onGrown atomic.Pointer[func()]
}

// Grown changes when the session comes to need more because of a write, or because it is told so; not because of what a
// capture finds. A later write that waits for a capture with an earlier one does not change it again.
func (g *growth) Grown() uint64 { return g.grown.Load() }

// OnGrown has f called whenever Grown has changed from now on, by whoever has changed it. There is one at a time.
func (g *growth) OnGrown(f func()) { g.onGrown.Store(&f) }

// Begin is told, before it is sent, of what may change something for good. End is told once it has returned, and the
// session knows what has become of it.
func (g *growth) Begin() { g.writing.Add(1) }

// End ends what Begin began.
func (g *growth) End() { g.writing.Add(-1) }

// Writing reports whether something has begun that has not ended: it may stand, and no position covers it yet. Who asks before
// Grown misses no write that began before.
func (g *growth) Writing() bool { return g.writing.Load() > 0 }

// grow is update for what makes the session need more.
func (s *Session) grow(cluster string, f func(clusterState) clusterState) {
	s.update(cluster, f)
	s.grew()
}

func (g *growth) grew() {
	g.grown.Add(1)
	if f := g.onGrown.Load(); f != nil {
		(*f)()
	}
}
