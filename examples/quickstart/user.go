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
func watch(ctx context.Context, c *cluster, db database, each time.Duration) (views, error) {
	var total views
	if err := c.nodes[0].Exec(ctx, "UPDATE form SET revision = 0"); err != nil {
		return total, err
	}
	late := c.nodes[1]
	if err := errors.Join(late.SetApplyDelay(ctx, 0), c.caught(ctx), late.SetApplyDelay(ctx, c.applyLag)); err != nil {
		return total, err
	}
	end := time.Now().Add(each)
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
	sleep(ctx, each/3)
	paused := c.nodes[2].PauseReplay(ctx)
	sleep(ctx, each/3)
	resumed := c.nodes[2].ResumeReplay(ctx)
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
