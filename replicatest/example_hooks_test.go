package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// Each statement has one decision, with its reason, and what happens to the servers is an event.
func Example_hooks() {
	down := make(chan string, 10)
	c, db := exampleCluster(func(config *readroute.Config) {
		config.Hooks.Decision = func(_ context.Context, d readroute.Decision) { fmt.Println(d.Class, "on the", d.Role) } // and d.Reason, d.Node, d.Waited
		config.Hooks.Event = func(e readroute.Event) {
			if e.Kind == readroute.EventDown {
				down <- e.Node
			}
		}
	})
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)))
	_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')")
	report(err)

	report(c.Replica(1).Stop(ctx))
	fmt.Println("down:", <-down)
	report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)))

	// Output:
	// read on the replica
	// write on the primary
	// down: c
	// read on the replica
}
