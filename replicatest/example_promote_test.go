package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A failover that loses what a replica did not have yet: the session that wrote it hears of it, and writes go to the new primary.
func ExampleNode_Promote() {
	events := make(chan readroute.EventKind, 100)
	c, db := exampleCluster(func(config *readroute.Config) {
		config.Hooks.Event = func(e readroute.Event) {
			if e.Kind == readroute.EventPositionLost || e.Kind == readroute.EventPrimaryChanged {
				events <- e.Kind
			}
		}
	})
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	try := func(err error) {
		if err != nil {
			fmt.Println(err)
		}
	}
	try(c.Pause(ctx))
	_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'never replicated')")
	try(err)

	try(c.Primary().Stop(ctx))
	try(c.Replica(0).Promote(ctx))
	try(c.Replica(1).Resume(ctx))

	fmt.Println(<-events)
	var n int
	for n = 1; n == 1 || len(events) == 0; { // reads need a replica that could serve, before the loss is looked into
		try(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	}
	fmt.Println(<-events, n)
	_, err = db.ExecContext(ctx, "INSERT INTO t VALUES (2, 'on the new primary')")
	try(err)
	try(db.QueryRowContext(ctx, "SELECT max(id) FROM t").Scan(&n))
	fmt.Println(n)

	// Output:
	// primary_changed
	// position_lost 0
	// 2
}
