package replicatest_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/readroute/readroute"
)

// A transaction that only reads, and says so, leaves the primary as a read does; any other runs there.
func Example_transactions() {
	c, db := exampleCluster(func(config *readroute.Config) {
		config.Hooks.Decision = func(_ context.Context, d readroute.Decision) { fmt.Println(" on the", d.Role) }
	})
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	for _, readOnly := range []bool{true, false} {
		fmt.Println("read-only:", readOnly)
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: readOnly})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)); err != nil {
			fmt.Println(err)
		}
		if err := tx.Commit(); err != nil {
			fmt.Println(err)
		}
	}

	// Output:
	// read-only: true
	//  on the replica
	//  on the replica
	// read-only: false
	//  on the primary
	//  on the primary
}
