package replicatest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute"
)

// A client that keeps neither cookie nor header, while the replicas stand still: what it has written is kept for its key, and its next
// request sees it.
func Example_tokenStore() {
	c, db := exampleCluster()
	defer c.Close()
	report(c.Pause(context.Background()))
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: []byte("a secret of at least thirty-two bytes")}}})
	report(err)
	store := readroute.NewMemoryTokenStore(5 * time.Minute)

	request := func(key string, handle func(ctx context.Context)) {
		ctx, err := codec.Load(context.Background(), store, key, db)
		report(err)
		handle(ctx)
		report(codec.Save(ctx, store, key)) // before the client is answered
	}
	request("key-1", func(ctx context.Context) {
		_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')")
		report(err)
	})
	count := func(ctx context.Context) {
		var n int
		report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
		fmt.Println(n)
	}
	request("key-1", count)
	request("key-2", count) // it has written nothing

	// Output:
	// 1
	// 0
}
