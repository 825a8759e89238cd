package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A prepared statement is prepared once, and runs each time where its session's read may run.
func Example_prepared() {
	c, db := exampleCluster(tellReads)
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	stmt, err := db.PrepareContext(ctx, "SELECT count(*) FROM t WHERE id <= ?")
	report(err)
	defer stmt.Close()
	look := func() {
		var n int
		report(stmt.QueryRowContext(ctx, 10).Scan(&n))
		fmt.Println(n)
	}
	look()
	report(c.Pause(ctx))
	_, err = db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')")
	report(err)
	look()

	// Output:
	// a read on the replica
	// 0
	// a read on the primary
	// 1
}
