package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A cache that is filled from a late replica after an invalidation would keep the old value for its whole life. A fill reads at
// LevelGlobal, and asks whether what it has read may be kept.
func Example_cacheFill() {
	c, db := exampleCluster()
	defer c.Close()
	cache := map[int]string{}
	fill := func(ctx context.Context, id int) {
		var text string
		report(db.QueryRowContext(ctx, "SELECT text FROM t WHERE id = ?", id).Scan(&text))
		if db.MayCache(ctx) {
			cache[id] = text
		}
	}
	_, err := db.ExecContext(context.Background(), "INSERT INTO t VALUES (1, 'old')")
	report(err)
	report(c.WaitCaughtUp(context.Background()))
	report(c.Pause(context.Background()))
	_, err = db.ExecContext(context.Background(), "UPDATE t SET text = 'new' WHERE id = 1")
	report(err)
	delete(cache, 1)

	somebody := readroute.WithSession(context.Background())
	fill(somebody, 1)
	fmt.Println("at the session level:", cache)
	fill(readroute.WithLevel(somebody, readroute.LevelGlobal), 1)
	fmt.Println("at LevelGlobal:", cache)

	// Output:
	// at the session level: map[]
	// at LevelGlobal: map[1:new]
}
