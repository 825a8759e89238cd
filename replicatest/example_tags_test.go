package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A replica that is kept for reports: nothing else is read there, and reports load no other.
func Example_tags() {
	c, db := exampleCluster(func(config *readroute.Config) {
		config.Replicas[1].Tags = []string{"reports"}
		config.Hooks.Decision = func(_ context.Context, d readroute.Decision) {
			fmt.Println("a read on", d.Node)
		}
	})
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	for range 2 {
		report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)))
	}
	heavy := readroute.WithTags(readroute.WithLevel(ctx, readroute.LevelEventual), "reports")
	report(db.QueryRowContext(heavy, "SELECT count(*) FROM t").Scan(new(int)))

	// Output:
	// a read on b
	// a read on b
	// a read on c
}
