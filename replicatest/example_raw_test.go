package replicatest_test

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/readroute/readroute"
)

// What only the native driver can do is done on its own connection to the primary. The session sees what it wrote, also while the
// replicas stand still.
func Example_primaryRaw() {
	c, db := exampleCluster()
	defer c.Close()
	report(c.Pause(context.Background()))
	ctx := readroute.WithSession(context.Background())
	report(db.PrimaryRaw(ctx, func(conn any) error {
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')", nil)
		return err
	}))
	var n int
	report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	fmt.Println(n)

	// Output: 1
}
