package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/readroute/readroute/internal/dbtest"
)

// route is a node that pages were read from, and why.
type route struct{ node, reason string }

// views is what one tab, or all of a way, have seen.
type views struct {
	saves, reads, stale int
	from                map[route]int   // reads by where they went
	saving, reading     []time.Duration // how long requests took
}

func (v *views) add(more views) {
	v.saves += more.saves
	v.reads += more.reads
	v.stale += more.stale
	v.saving = append(v.saving, more.saving...)
	v.reading = append(v.reading, more.reading...)
	if v.from == nil {
		v.from = make(map[route]int)
	}
	for r, n := range more.from {
		v.from[r] += n
	}
}

// watch lets all browsers of all ways use the service at the same time. Replica c stops for the middle third of it.
func watch(ctx context.Context, c *dbtest.PostgresCluster, ways []*way, each time.Duration) error {
	end := time.Now().Add(each)
	var mu sync.Mutex
	var failed error // the first that happens
	var all sync.WaitGroup
	for _, w := range ways {
		for _, b := range w.browsers {
			for i := range tabs {
				all.Go(func() {
					t := b.open(i)
					err := t.use(ctx, end)
					mu.Lock()
					defer mu.Unlock()
					if failed == nil {
						failed = err
					}
					w.seen.add(t.seen)
				})
			}
		}
	}
	stops := c.Standby(1)
	sleep(ctx, each/3)
	paused := stops.PauseReplay(ctx)
	sleep(ctx, each/3)
	resumed := stops.ResumeReplay(ctx)
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(failed, paused, resumed)
}
