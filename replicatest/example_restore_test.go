package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A replica that somebody has written to shows what nobody else does, until it is made anew.
func ExampleNode_Diverge() {
	c, db := exampleCluster()
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	b := c.Replica(0)
	report(b.Diverge(ctx, "INSERT INTO t VALUES (666, 'written past replication')"))
	look := func() {
		var here, there int
		report(b.DB().QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&here))
		report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&there))
		fmt.Println("replica b:", here, "a session that has just written:", there)
	}
	_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
	report(err)
	look()
	report(b.Restore(ctx))
	look()

	// Output:
	// replica b: 1 a session that has just written: 2
	// replica b: 2 a session that has just written: 2
}

// A replica that is down, and comes back: reads go on elsewhere meanwhile.
func ExampleNode_Stop() {
	c, db := exampleCluster()
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	b := c.Replica(0)
	report(b.Stop(ctx))
	for id := range 3 {
		_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (?, 'written while it is down')", id)
		report(err)
		var n int
		report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
		fmt.Println(n)
	}
	report(b.Start(ctx))
	report(c.WaitCaughtUp(ctx))
	var n int
	report(b.DB().QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	fmt.Println("it has", n)

	// Output:
	// 1
	// 2
	// 3
	// it has 3
}
