package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A webhook says that another service has written: whatever it was, the session sees it after a fence.
func Example_fence() {
	c, db := exampleCluster()
	defer c.Close()
	billing, err := c.Open(context.Background()) // the other service
	report(err)
	report(c.Pause(context.Background()))
	_, err = billing.ExecContext(context.Background(), "INSERT INTO t VALUES (1, 'paid')")
	report(err)

	ctx := readroute.WithSession(context.Background())
	look := func(when string) {
		var text string
		report(db.QueryRowContext(ctx, "SELECT coalesce(max(text), 'open') FROM t").Scan(&text))
		fmt.Println(when, text)
	}
	look("before the fence:")
	report(db.Fence(ctx))
	look("after it:")

	// Output:
	// before the fence: open
	// after it: paid
}
