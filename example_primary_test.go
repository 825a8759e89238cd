package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// An order is placed past the pool, by another system. The reads that follow must not be older: nobody knows its position, so
// they go to the primary for a while.
func ExamplePrimaryFor() {
	db := exampleDB("placed", "id int PRIMARY KEY")
	defer db.Close()
	ctx := readroute.WithSession(context.Background())
	readroute.SessionFrom(ctx).Merge(readroute.PrimaryFor(readroute.DefaultStickyWindow))
	d, err := db.Explain(ctx, "SELECT id FROM placed")
	fmt.Println(d.Role, d.Reason, err)

	// Output: primary sticky <nil>
}
