package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// How much of the reading has left the primary, and what holds the rest there.
func Example_statistics() {
	c, db := exampleCluster()
	defer c.Close()
	read := func(ctx context.Context, times int) {
		for range times {
			report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)))
		}
	}
	read(readroute.WithSession(context.Background()), 9)
	read(context.Background(), 3) // who has forgotten the session?

	var off uint64
	for _, n := range db.RouteStats().Nodes {
		if n.Name == "a" {
			fmt.Println("on the primary:", n.Reasons[readroute.ReasonNoSession], readroute.ReasonNoSession)
		} else {
			off += n.Total()
		}
	}
	fmt.Println("off the primary:", off)
	for _, n := range db.Nodes() {
		fmt.Println(n.Name, n.Role)
	}

	// Output:
	// on the primary: 3 no_session
	// off the primary: 9
	// a primary
	// b replica
	// c replica
}
