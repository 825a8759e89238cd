package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// What one process has written, another one that is given the token sees. A worker that was given none, for a job that was written inside
// the transaction, fences.
func Example_token() {
	c, db := exampleCluster()
	defer c.Close()
	other, err := c.Open(context.Background()) // another process over the same servers
	if err != nil {
		fmt.Println(err)
	}
	if err := c.Pause(context.Background()); err != nil {
		fmt.Println(err)
	}

	ctx := readroute.WithSession(context.Background())
	if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')"); err != nil {
		fmt.Println(err)
	}
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	if err != nil {
		fmt.Println(err)
	}
	text := token.String() // in a header, a cookie, a message

	token, err = readroute.ParseToken(text)
	if err != nil {
		fmt.Println(err)
	}
	count := func(ctx context.Context) (n int) {
		if err := other.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n); err != nil {
			fmt.Println(err)
		}
		return n
	}
	fmt.Println("without it:", count(readroute.WithSession(context.Background())))
	fmt.Println("with it:", count(readroute.ContextWithSession(context.Background(), readroute.NewSession(token))))

	fenced := readroute.WithSession(context.Background())
	if err := other.Fence(fenced); err != nil {
		fmt.Println(err)
	}
	fmt.Println("after a fence:", count(fenced))

	// Output:
	// without it: 0
	// with it: 1
	// after a fence: 1
}
