package replicatest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// A primary with two replicas that are late, in this process, and a routed pool over them: a session reads what it has written,
// and a pool that sends reads to a replica without more ado does not show it.
func ExampleNew() {
	ctx := context.Background()
	c, err := replicatest.New(replicatest.Options{Schema: []string{"CREATE TABLE form (id INTEGER PRIMARY KEY, text TEXT)"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	db, err := c.Open(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.SetLag(ctx, time.Minute); err != nil {
		fmt.Println(err)
		return
	}

	ctx = readroute.WithSession(ctx) // in a service: the context of the request
	if _, err := db.ExecContext(ctx, "INSERT INTO form VALUES (1, 'saved')"); err != nil {
		fmt.Println(err)
		return
	}
	const look = "SELECT coalesce(max(text), 'as it was before') FROM form"
	var text string
	if err := c.Replica(0).DB().QueryRowContext(ctx, look).Scan(&text); err != nil {
		fmt.Println(err)
	}
	fmt.Println("a replica:", text)
	if err := db.QueryRowContext(ctx, look).Scan(&text); err != nil {
		fmt.Println(err)
	}
	fmt.Println("readroute:", text)

	// Output:
	// a replica: as it was before
	// readroute: saved
}
