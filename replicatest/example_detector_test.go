package replicatest_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// printer stands for the *testing.T of a test.
type printer struct{}

func (printer) Helper() {}

func (printer) Errorf(format string, args ...any) {
	first, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	_, first, _ = strings.Cut(first, ": ") // without the file and line
	fmt.Println(first)
}

// Two requests of one user: the second one was not given the token of the first, and shows the form as it was. The replicas are paused, so
// that it happens each time.
func ExampleRequireNoStaleReads() {
	c, db := exampleCluster()
	defer c.Close()
	check := replicatest.RequireNoStaleReads(printer{}, db) // in a test: RequireNoStaleReads(t, db), and nothing more
	if err := c.Pause(context.Background()); err != nil {
		fmt.Println(err)
	}

	save := readroute.WithSession(context.Background())
	if _, err := db.ExecContext(save, "INSERT INTO t VALUES (1, 'saved')"); err != nil {
		fmt.Println(err)
	}
	show := func(ctx context.Context) {
		var n int
		if err := db.QueryRowContext(readroute.WithNode(ctx, "b"), "SELECT count(*) FROM t").Scan(&n); err != nil {
			fmt.Println(err)
		}
	}
	show(readroute.WithSession(context.Background()))
	check()

	show(replicatest.AllowStale(readroute.WithSession(context.Background()))) // a list that may be a little old
	check()

	// Output: a stale read from replica b: SELECT count(*) FROM t
}
