package router

import (
	"sync"
	"sync/atomic"

	"github.com/readroute/readroute/internal/core"
)

// Tally counts the decisions of one caller for one reason where the caller finds the counter at hand. The caller has it opened, and closed
// in the end. It is for one goroutine at a time, beside those who read what it has counted.
type Tally struct {
	n      atomic.Uint64
	node   int32 // guarded by tallies.mu, but for its caller
	reason core.Reason
}

// Node returns the node that Add counts for; -1 at first.
func (t *Tally) Node() int { return int(t.node) }

// Add counts one decision.
func (t *Tally) Add() { t.n.Add(1) }

// tallies are those that are open.
type tallies struct {
	mu   sync.Mutex
	open map[*Tally]struct{} // guarded by mu
	past uint64              // guarded by mu: how much of what was counted is among the router's counts
}

// OpenTally begins to count for a reason, which is that of a covered read or a write.
func (r *Router) OpenTally(t *Tally, reason core.Reason) {
	t.node, t.reason = -1, reason
	r.tallies.mu.Lock()
	defer r.tallies.mu.Unlock()
	if r.tallies.open == nil {
		r.tallies.open = make(map[*Tally]struct{})
	}
	r.tallies.open[t] = struct{}{}
}

// MoveTally counts for another node from now on.
func (r *Router) MoveTally(t *Tally, node int) {
	r.tallies.mu.Lock()
	defer r.tallies.mu.Unlock()
	r.take(t)
	t.node = int32(node)
}

// CloseTally ends what OpenTally began; what was counted stays.
func (r *Router) CloseTally(t *Tally) {
	r.tallies.mu.Lock()
	defer r.tallies.mu.Unlock()
	r.take(t)
	delete(r.tallies.open, t)
}

// take moves what t has counted to the router's counts. tallies.mu is held.
func (r *Router) take(t *Tally) {
	if n := t.n.Swap(0); n > 0 {
		r.counts[int(t.node+1)*core.NumReasons+int(t.reason)].Add(n)
		r.tallies.past += n
	}
}

// Count returns how many statements went to node i, or nowhere with -1, for a reason.
func (r *Router) Count(i int, reason core.Reason) (n uint64) {
	r.tallies.mu.Lock() // nothing is moved meanwhile
	defer r.tallies.mu.Unlock()
	for at := (i+1)*core.NumReasons + int(reason); at < len(r.counts); at += r.stripe {
		n += r.counts[at].Load()
	}
	if reason != core.ReasonCovered && reason != core.ReasonWrite {
		return n // nobody has a tally of it
	}
	for t := range r.tallies.open {
		if t.Node() == i && t.reason == reason {
			n += t.n.Load()
		}
	}
	return n
}

// Tallied returns how many decisions were counted in tallies.
func (r *Router) Tallied() uint64 {
	r.tallies.mu.Lock()
	defer r.tallies.mu.Unlock()
	n := r.tallies.past
	for t := range r.tallies.open {
		n += t.n.Load()
	}
	return n
}
