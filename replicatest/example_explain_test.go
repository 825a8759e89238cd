package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// Where statements would go, and why; the kill switch; and what it says afterwards.
func Example_killSwitch() {
	c, db := exampleCluster()
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	explain := func(query string) {
		d, err := db.Explain(ctx, query)
		fmt.Printf("%s: %v, %v %v\n", query, d.Role, d.Reason, err)
	}
	explain("SELECT count(*) FROM t")
	explain("UPDATE t SET text = ''")
	explain("SELECT my_own_function(id) FROM t")
	explain("/* route:primary */ SELECT 1")
	explain("PRAGMA foreign_keys = ON")
	db.SetMode(readroute.ModePrimary)
	explain("SELECT count(*) FROM t")
	db.SetMode(readroute.ModeRoute)
	explain("SELECT count(*) FROM t")

	// Output:
	// SELECT count(*) FROM t: replica, covered <nil>
	// UPDATE t SET text = '': primary, write <nil>
	// SELECT my_own_function(id) FROM t: primary, unknown <nil>
	// /* route:primary */ SELECT 1: primary, hint <nil>
	// PRAGMA foreign_keys = ON: primary, session_state <nil>
	// SELECT count(*) FROM t: primary, mode <nil>
	// SELECT count(*) FROM t: replica, covered <nil>
}
