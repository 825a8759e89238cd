package readroute_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/readroute/readroute"
)

// A region that is far from the primary reads a hot flag from its replica and, for as long as that has not caught up with the
// user's own write, from a key-value store: never from the primary.
func ExampleNotCaughtUpError() {
	db := exampleDB("flag", "name text PRIMARY KEY, enabled boolean")
	defer db.Close()
	ctx := readroute.WithSession(context.Background())
	store := map[string]bool{} // every write goes there as well, for some minutes

	cluster := exampleCluster()
	for i := range 2 {
		if err := cluster.Standby(i).PauseReplay(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO flag VALUES ('beta', true)"); err != nil {
		fmt.Println(err)
		return
	}
	store["beta"] = true

	flag := func() (enabled bool, from string, err error) {
		ctx := readroute.WithWait(readroute.WithFallback(ctx, readroute.FallbackError), 0)
		err = db.QueryRowContext(ctx, "SELECT enabled FROM flag WHERE name = $1", "beta").Scan(&enabled)
		var behind *readroute.NotCaughtUpError
		if errors.As(err, &behind) || errors.Is(err, readroute.ErrNoReplica) {
			return store["beta"], "the store", nil
		}
		return enabled, "a replica", err
	}
	fmt.Println(flag())

	for i := range 2 {
		if err := cluster.Standby(i).ResumeReplay(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := cluster.WaitCaughtUp(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for from := "the store"; from == "the store"; {
		_, from, _ = flag() // until the library has noticed
	}
	fmt.Println(flag())

	// Output:
	// true the store <nil>
	// true a replica <nil>
}
