package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A worker takes a job that was written in a transaction, where no token could exist yet, and that may not have come to
// the replicas. After Fence it sees all that was committed before.
func ExampleDB_Fence() {
	db := exampleDB("job", "id int PRIMARY KEY, payload text")
	defer db.Close()

	// Somebody writes, past the routed pool.
	ctx := context.Background()
	if _, err := db.PrimaryDB().ExecContext(ctx, "INSERT INTO job VALUES (7, 'send the invoice')"); err != nil {
		fmt.Println(err)
		return
	}

	ctx = readroute.WithSession(ctx)
	if err := db.Fence(ctx); err != nil {
		fmt.Println(err) // the session reads from the primary for a while
	}
	var payload string
	if err := db.QueryRowContext(ctx, "SELECT payload FROM job WHERE id = 7").Scan(&payload); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(payload)

	// Output: send the invoice
}
