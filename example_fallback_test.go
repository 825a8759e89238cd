package readroute_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/readroute/readroute"
)

// A read that must never load the primary asks for an error instead, and may then take a stale answer on purpose.
func ExampleWithFallback() {
	db := exampleDB("report", "id int PRIMARY KEY")
	defer db.Close()
	ctx := readroute.WithSession(context.Background())

	cluster := exampleCluster()
	for i := range 2 { // both replicas stop where they are
		if err := cluster.Standby(i).PauseReplay(ctx); err != nil {
			fmt.Println(err)
			return
		}
		defer cluster.Standby(i).ResumeReplay(ctx) //nolint:errcheck // the next one would say so
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO report VALUES (1)"); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := readroute.SessionFrom(ctx).Token(ctx); err != nil { // the position of the write is known now
		fmt.Println(err)
		return
	}

	ctx = readroute.WithWait(ctx, 0) // do not wait for a replica
	var n int
	err := db.QueryRowContext(readroute.WithFallback(ctx, readroute.FallbackError), "SELECT count(*) FROM report").Scan(&n)
	var behind *readroute.NotCaughtUpError
	fmt.Println(errors.Is(err, readroute.ErrNotCaughtUp), errors.As(err, &behind) && behind.BehindBytes > 0)

	err = db.QueryRowContext(readroute.WithFallback(ctx, readroute.FallbackStale), "SELECT count(*) FROM report").Scan(&n)
	fmt.Println(n, "row on a replica", err)

	err = db.QueryRowContext(ctx, "SELECT count(*) FROM report").Scan(&n) // FallbackPrimary, the default
	fmt.Println(n, "row on the primary", err)

	// Output:
	// true true
	// 0 row on a replica <nil>
	// 1 row on the primary <nil>
}
