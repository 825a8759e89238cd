package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/readroute/readroute"
)

// primaryName is what the test servers call the first primary.
const primaryName = "a"

func heading(out io.Writer, version int, each time.Duration) {
	fmt.Fprintf(out, "PostgreSQL %d: primary a, replica b %v late, replica c stopped for %v of %v\n", version, applyLag, each/3, each)
	fmt.Fprintf(out, "in each way %d processes behind a balancer, and %d browsers with %d tabs that save, follow the redirect and read,\n"+
		"each request to the next process; a read is stale when it shows less than its browser had saved\n\n", processes, browsers, tabs)
	fmt.Fprintf(out, "%-18s %7s %7s %13s %17s %18s %18s\n", "", "saves", "reads", "stale reads", "off the primary", "save p50, p99", "read p50, p99")
}

// row prints what the browsers of a way saw.
func row(out io.Writer, w *way) {
	s := w.seen
	off := 0
	for r, n := range s.from {
		if r.node != primaryName {
			off += n
		}
	}
	fmt.Fprintf(out, "%-18s %7d %7d %13d %16.0f%% %18s %18s\n", w.name, s.saves, s.reads, s.stale, percent(off, s.reads),
		pair(quantiles(s.saving)), pair(quantiles(s.reading)))
}

// details prints what the middleware costs, and where the reads went with it.
func details(out io.Writer, without, with *way) {
	added := func(without, with []time.Duration) string {
		a, b := quantiles(without), quantiles(with)
		return fmt.Sprintf("p50 %+.1fms, p99 %+.1fms", milliseconds(b[0]-a[0]), milliseconds(b[1]-a[1]))
	}
	fmt.Fprintf(out, "\nthe middleware, and the waits for replicas, add\n  to a save  %s\n  to a read  %s\n",
		added(without.seen.saving, with.seen.saving), added(without.seen.reading, with.seen.reading))
	fmt.Fprintf(out, "\nwhere the reads went with it, and why\n")
	from := with.seen.from
	byNode := func(a, b route) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(from[b], from[a])) }
	for _, r := range slices.SortedFunc(maps.Keys(from), byNode) {
		fmt.Fprintf(out, "  %s  %-16s %6d %5.1f%%\n", r.node, r.reason, from[r], percent(from[r], with.seen.reads))
	}
	if from[route{primaryName, readroute.ReasonSticky.String()}] > 0 {
		fmt.Fprintf(out, "sticky: the primary, or this machine, took longer than %v to say where a save is in the log, and so\n"+
			"its browser's reads stay on the primary for a while\n", readroute.DefaultCaptureTimeout)
	}
}

// quantiles returns the median and the 99th percentile.
func quantiles(d []time.Duration) [2]time.Duration {
	if len(d) == 0 {
		return [2]time.Duration{}
	}
	slices.Sort(d)
	return [2]time.Duration{d[len(d)/2], d[len(d)*99/100]}
}

func pair(d [2]time.Duration) string {
	return fmt.Sprintf("%.1fms, %.1fms", milliseconds(d[0]), milliseconds(d[1]))
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }
