package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/readroute/readroute"
)

const (
	think        = 20 * time.Millisecond // mean time between two reads of a user
	readsPerSave = 10
)

// views is what one user, or all of them, have seen.
type views struct {
	saves, reads, stale int
}

// watch lets the users of all ways look and save for a while, at the same time: nothing happens to one that does not happen to the others. Replica
// c stops for the middle third of it.
func watch(ctx context.Context, c *cluster, ways []*way) error {
	late, stopping := c.Replica(0), c.Replica(1)
	if err := late.SetLag(ctx, c.lag); err != nil {
		return err
	}
	end := time.Now().Add(c.length)
	var mu sync.Mutex
	var failed error // the first that happens
	var all sync.WaitGroup
	for _, w := range ways {
		for id := 1; id <= users; id++ {
			all.Go(func() {
				seen, err := use(ctx, c, w, id, end)
				mu.Lock()
				defer mu.Unlock()
				if failed == nil && err != nil {
					failed = fmt.Errorf("%s: %w", w.name, err)
				}
				w.seen.saves += seen.saves
				w.seen.reads += seen.reads
				w.seen.stale += seen.stale
			})
		}
	}
	sleep(ctx, c.length/3)
	paused := stopping.Pause(ctx)
	sleep(ctx, c.length/3)
	resumed := stopping.Resume(ctx)
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(failed, paused, resumed)
}

// use is one user, who looks at a form and saves it now and then; users with an even id only look.
func use(ctx context.Context, c *cluster, w *way, id int, end time.Time) (views, error) {
	var seen views
	ctx = readroute.WithSession(ctx) // this is all that the user's code does for readroute
	saved := 0
	for time.Now().Before(end) && ctx.Err() == nil {
		if id%2 == 1 && rand.N(readsPerSave) == 0 {
			saved++
			if _, err := w.db.ExecContext(ctx, c.save, saved, id, w.number); err != nil {
				return seen, err
			}
			seen.saves++
		}
		var revision int
		if err := w.db.QueryRowContext(ctx, c.look, id, w.number).Scan(&revision); err != nil {
			return seen, err
		}
		seen.reads++
		if revision < saved {
			seen.stale++
		}
		sleep(ctx, rand.N(2*think))
	}
	return seen, ctx.Err()
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
