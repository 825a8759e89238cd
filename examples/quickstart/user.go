package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/readroute/readroute"
)

const (
	think        = 20 * time.Millisecond // mean time between two reads of a user
	readsPerSave = 15
)

// views is what one user, or all of them, have seen.
type views struct {
	saves, reads, stale int
}

// watch lets the users use db for a while. Replica c stops for the middle third of it.
func watch(ctx context.Context, c *cluster, db database) (views, error) {
	var total views
	late, stopping := c.Replica(0), c.Replica(1)
	if err := errors.Join(late.SetLag(ctx, 0), c.Exec(ctx, "UPDATE form SET revision = 0"), late.SetLag(ctx, c.lag)); err != nil {
		return total, err
	}
	end := time.Now().Add(c.each)
	var mu sync.Mutex
	var failed error // the first that happens
	var all sync.WaitGroup
	for id := 1; id <= users; id++ {
		all.Go(func() {
			seen, err := use(ctx, c, db, id, end)
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
			}
			total.saves += seen.saves
			total.reads += seen.reads
			total.stale += seen.stale
		})
	}
	sleep(ctx, c.each/3)
	paused := stopping.Pause(ctx)
	sleep(ctx, c.each/3)
	resumed := stopping.Resume(ctx)
	all.Wait()
	if ctx.Err() != nil {
		return total, ctx.Err()
	}
	return total, errors.Join(failed, paused, resumed)
}

// use is one user, who looks at a form and saves it now and then; users with an even id only look.
func use(ctx context.Context, c *cluster, db database, id int, end time.Time) (views, error) {
	var seen views
	ctx = readroute.WithSession(ctx) // this is all that the user's code does for readroute
	saved := 0
	for time.Now().Before(end) && ctx.Err() == nil {
		if id%2 == 1 && rand.N(readsPerSave) == 0 {
			saved++
			if _, err := db.ExecContext(ctx, c.save, saved, id); err != nil {
				return seen, err
			}
			seen.saves++
		}
		var revision int
		if err := db.QueryRowContext(ctx, c.look, id).Scan(&revision); err != nil {
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
