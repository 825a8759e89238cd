package replicatest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// A database of any kind whose replicas do not say how far they are: a marker table does. Here the servers are those of a cluster,
// with a table of our own.
func Example_marker() {
	ctx := context.Background()
	c, err := replicatest.New(replicatest.Options{Replicas: 1, Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY)"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	nodes := c.Config()

	marker := readroute.Marker{Table: "progress", Writer: "billing"}
	if err := readroute.CreateMarker(ctx, c.Primary().DB(), marker); err != nil { // with the migrations
		fmt.Println(err)
	}
	if err := c.WaitCaughtUp(ctx); err != nil {
		fmt.Println(err)
	}
	db, err := readroute.Open(readroute.Config{Primary: nodes.Primary, Replicas: nodes.Replicas, Marker: &marker})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if err := db.WaitReady(ctx); err != nil {
		fmt.Println(err)
	}

	ctx = readroute.WithSession(ctx)
	for id := range 3 {
		if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (?)", id); err != nil {
			fmt.Println(err)
		}
	}
	var rows, moved int
	var owner string
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&rows); err != nil {
		fmt.Println(err)
	}
	if err := c.Primary().DB().QueryRowContext(ctx, "SELECT owner, seq FROM progress WHERE owner = 'billing'").Scan(&owner, &moved); err != nil {
		fmt.Println(err)
	}
	fmt.Println(rows, "rows,", owner, "has moved its row", moved, "times")

	// Now and then: rows of processes that have written nothing for longer than tokens live.
	gone, err := readroute.PruneMarker(ctx, c.Primary().DB(), marker, 24*time.Hour)
	fmt.Println(gone, "rows of processes that are gone", err)

	// Output:
	// 3 rows, billing has moved its row 3 times
	// 0 rows of processes that are gone <nil>
}
