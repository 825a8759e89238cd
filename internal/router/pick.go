package router

import (
	"math/bits"
	"sync/atomic"

	"github.com/readroute/readroute/internal/core"
)

// pick chooses one of nodes by the power of two choices: of two random ones the less loaded for its weight.
func (r *Router) pick(nodes uint64, s *core.Snapshot) int {
	if nodes&(nodes-1) == 0 {
		return bits.TrailingZeros64(nodes)
	}
	a := nth(nodes, s, core.Chance())
	b := nth(nodes, s, core.Chance())
	if r.load(b, s) < r.load(a, s) {
		return b
	}
	return a
}

func (r *Router) load(i int, s *core.Snapshot) float64 {
	return float64(r.inflight[i].Load()) / float64(max(1, s.Nodes[i].Weight))
}

// nth draws a node of the mask in proportion to its weight.
func nth(nodes uint64, s *core.Snapshot, random uint64) int {
	var total uint64
	last := 0
	for i := range s.Nodes {
		if nodes&(1<<i) != 0 {
			total += uint64(max(1, s.Nodes[i].Weight))
			last = i
		}
	}
	at := random % max(1, total)
	for i := range s.Nodes {
		if nodes&(1<<i) == 0 {
			continue
		}
		w := uint64(max(1, s.Nodes[i].Weight))
		if at < w {
			return i
		}
		at -= w
	}
	return last
}

// load counts what runs on a node. Nodes do not share cache lines.
type load struct {
	atomic.Int64
	_ [56]byte
}

// Chooses reports whether there may be replicas to choose from, so that Begin and End are to be called.
func (r *Router) Chooses() bool { return len(r.inflight) > 2 }

// Begin counts what runs on a node.
func (r *Router) Begin(node int) { r.inflight[node].Add(1) }

// End is called once for each Begin.
func (r *Router) End(node int) { r.inflight[node].Add(-1) }

// InFlight returns how many checkouts hold a connection to node i, as far as they are counted.
func (r *Router) InFlight(i int) int64 { return r.inflight[i].Load() }
