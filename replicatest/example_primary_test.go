package replicatest_test

import (
	"context"

	"github.com/readroute/readroute"
)

// Three ways to the primary: a level for one read, a hint in a text, and a pool that is not routed, for migrations and the like.
func Example_primaryOnly() {
	c, db := exampleCluster(tellReads)
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)))
	report(db.QueryRowContext(readroute.WithLevel(ctx, readroute.LevelPrimary), "SELECT count(*) FROM t").Scan(new(int)))
	report(db.QueryRowContext(ctx, "/* route:primary */ SELECT count(*) FROM t").Scan(new(int)))

	// What is written past the routed pool leaves its sessions nothing to wait for: tell one that something was.
	_, err := db.PrimaryDB().ExecContext(ctx, "CREATE TABLE other (id INTEGER PRIMARY KEY)")
	report(err)
	readroute.SessionFrom(ctx).Merge(readroute.PrimaryFor(readroute.DefaultStickyWindow))
	report(db.QueryRowContext(ctx, "SELECT count(*) FROM other").Scan(new(int)))

	// Output:
	// a read on the replica
	// a read on the primary
	// a read on the primary
	// a read on the primary
}
