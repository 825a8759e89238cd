package monitor

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/readroute/readroute/internal/core"
)

const (
	historySize    = 512
	historySpacing = 25 * time.Millisecond
	// historyBytes bounds what the sets of GTIDs in it take, as long as there are historyLeast points.
	historyBytes = 1 << 20
	historyLeast = 16
)

// history remembers where the primary was when, so that a replica's lag in time can be told from its position alone.
// It holds points of one log only.
type history struct {
	system   uint64
	timeline uint32
	points   []point // in order of time and position
}

type point struct {
	began, ended time.Time
	inserted     core.Position // all that was committed at began is at or below it
	flushed      core.Position // a replica could have had it at ended
}

// add records a sample of the primary.
func (h *history) add(s core.Sample) {
	if s.Position.System != h.system || s.Position.Timeline != h.timeline {
		*h = history{system: s.Position.System, timeline: s.Position.Timeline}
	}
	p := point{began: s.Began, ended: s.Ended, inserted: s.Position, flushed: s.Position}
	p.flushed.LSN = min(s.Position.LSN, s.Flush)
	if n := len(h.points); n > 0 {
		last := &h.points[n-1]
		switch {
		case p.began.Before(last.began):
			return // an older answer that came late
		case !last.inserted.ReachedBy(&p.inserted):
			// The log has gone back, in a crash or to a backup. The points beyond are no part of it any more.
			h.points = h.points[:0]
		case p.inserted == last.inserted && p.flushed == last.flushed:
			// The primary stands still: what it had then is all that it has now.
			last.began = p.began
			return
		case n > 1 && p.ended.Sub(h.points[n-2].ended) < historySpacing:
			*last = p
			return
		}
	}
	for len(h.points) >= historyLimit(&p.inserted) {
		h.thin()
	}
	h.points = append(h.points, p)
}

// historyLimit is how many points like p there may be.
func historyLimit(p *core.Position) int {
	return min(historySize, max(historyLeast, historyBytes/(p.Size()+1)))
}

// thin drops the point without which the gap is the smallest for its age: what is long ago need not be known so exactly.
// So the points reach back as far as the history does, a few per cent of their age apart.
func (h *history) thin() {
	now := h.points[len(h.points)-1].ended
	drop, least := 1, math.Inf(1)
	for i := 1; i < len(h.points)-1; i++ {
		before := h.points[i-1].ended
		if gap := float64(h.points[i+1].ended.Sub(before)) / float64(now.Sub(before)); gap < least {
			drop, least = i, gap
		}
	}
	h.points = slices.Delete(h.points, drop, drop+1)
}

// newest returns the last point.
func (h *history) newest() (point, bool) {
	if len(h.points) == 0 {
		return point{}, false
	}
	return h.points[len(h.points)-1], true
}

// reached returns how many points, from the oldest on, a server at replay has reached by what of picks.
func (h *history) reached(replay *core.Position, of func(*point) *core.Position) int {
	return sort.Search(len(h.points), func(i int) bool { return !of(&h.points[i]).ReachedBy(replay) })
}

func inserted(p *point) *core.Position { return &p.inserted }
func flushed(p *point) *core.Position  { return &p.flushed }

// lag returns the upper and the lower bound of how old the state is that a replica showed at a moment between began
// and ended. known is false when the upper bound is not known: the replica is further back than memory goes.
func (h *history) lag(replay *core.Position, began, ended time.Time) (upper time.Duration, known bool, lower time.Duration) {
	if replay.IsZero() {
		return 0, false, 0
	}
	if n := h.reached(replay, inserted); n > 0 {
		upper, known = max(0, ended.Sub(h.points[n-1].began)), true
	}
	if n := h.reached(replay, flushed); n < len(h.points) {
		lower = max(0, began.Sub(h.points[n].ended))
	}
	return upper, known, lower
}

// passed returns how long, at least, the replica took to show the newest point that it has reached between two of its
// own samples. ok is false when it reached none.
func (h *history) passed(before, after *core.Position, beforeBegan time.Time) (delay time.Duration, ok bool) {
	n := h.reached(after, flushed)
	if n == 0 || h.points[n-1].flushed.ReachedBy(before) {
		return 0, false
	}
	return max(0, beforeBegan.Sub(h.points[n-1].ended)), true
}
