package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// The statistics say how much of the reading has left the primary, and what holds the rest there.
func ExampleDB_RouteStats() {
	db := exampleDB("page", "id int PRIMARY KEY")
	defer db.Close()

	read := func(ctx context.Context, times int) {
		for range times {
			var n int
			if err := db.QueryRowContext(ctx, "SELECT count(*) FROM page").Scan(&n); err != nil {
				fmt.Println(err)
			}
		}
	}
	read(readroute.WithSession(context.Background()), 9)
	read(context.Background(), 3) // no session: the primary

	var all, primary uint64
	for _, n := range db.RouteStats().Nodes {
		all += n.Total()
		if n.Name == "a" {
			primary = n.Total()
			fmt.Println("on the primary:", n.Reasons[readroute.ReasonNoSession], readroute.ReasonNoSession)
		}
	}
	fmt.Printf("%d of %d off the primary\n", all-primary, all)

	// Output:
	// on the primary: 3 no_session
	// 9 of 12 off the primary
}
