package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/readroute/readroute"
)

// route is one place where reads went, and why.
type route struct {
	node   string
	reason readroute.Reason
}

// routes is where reads went. Its note method is a hook of readroute.
type routes struct {
	mu      sync.Mutex
	count   map[route]int
	reads   int
	replica int // of reads
	waits   []time.Duration
}

func newRoutes() *routes { return &routes{count: make(map[route]int)} }

// note hears where each statement went and why.
func (r *routes) note(_ context.Context, d readroute.Decision) {
	if d.Class != readroute.ClassRead {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[route{d.Node, d.Reason}]++
	r.reads++
	if d.Role == readroute.RoleReplica {
		r.replica++
	}
	if d.Waited > 0 {
		r.waits = append(r.waits, d.Waited)
	}
}

func heading(out io.Writer) {
	fmt.Fprintf(out, "%-14s %7s %7s %13s %17s\n", "", "saves", "reads", "stale reads", "off the primary")
}

// row prints what the users of a way saw. Without routes every read went to a replica.
func row(out io.Writer, w *way) {
	off := 100.0
	if w.routes != nil {
		off = percent(w.routes.replica, w.routes.reads)
	}
	fmt.Fprintf(out, "%-14s %7d %7d %13d %16.0f%%\n", w.name, w.seen.saves, w.seen.reads, w.seen.stale, off)
}

// details prints where reads went and why, and how long they waited.
func details(out io.Writer, r *routes) {
	fmt.Fprintf(out, "\nwhere the reads of readroute went, and why\n")
	byNode := func(a, b route) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(r.count[b], r.count[a]))
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.count), byNode) {
		fmt.Fprintf(out, "  %s  %-16s %6d %5.1f%%\n", key.node, key.reason, r.count[key], percent(r.count[key], r.reads))
	}
	slices.Sort(r.waits)
	fmt.Fprintf(out, "%d of %d reads waited: p50 %v, p99 %v, max %v\n", len(r.waits), r.reads,
		quantile(r.waits, 0.5), quantile(r.waits, 0.99), quantile(r.waits, 1))
}

// quantile returns the value below which the fraction q of the sorted durations lies.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(100 * time.Microsecond)
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }
