package replicatest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/readroute/readroute"
)

// How fresh a read must be is said by its context: here while the replicas stand still.
func Example_levels() {
	c, db := exampleCluster()
	defer c.Close()
	if err := c.Pause(context.Background()); err != nil {
		fmt.Println(err)
	}
	ctx := readroute.WithSession(context.Background())
	if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')"); err != nil {
		fmt.Println(err)
	}
	for _, l := range []readroute.Level{
		readroute.LevelSession, readroute.LevelGlobal, readroute.LevelPrimary, readroute.LevelBounded(time.Hour), readroute.LevelEventual,
	} {
		var n int
		if err := db.QueryRowContext(readroute.WithLevel(ctx, l), "SELECT count(*) FROM t").Scan(&n); err != nil {
			fmt.Println(err)
		}
		fmt.Println(l, n)
	}

	// A read that must not load the primary fails instead.
	strict := readroute.WithFallback(readroute.WithWait(ctx, time.Millisecond), readroute.FallbackError)
	err := db.QueryRowContext(strict, "SELECT count(*) FROM t").Scan(new(int))
	var late *readroute.NotCaughtUpError
	fmt.Println(errors.Is(err, readroute.ErrNotCaughtUp), errors.As(err, &late) && late.BehindTransactions == 1)

	// Output:
	// session 1
	// global 1
	// primary 1
	// bounded 1h0m0s 0
	// eventual 0
	// true true
}
