package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A cache that is filled from a lagging replica after an invalidation keeps the old value for its whole life. A fill reads at
// LevelGlobal: from a replica that shows everything that was committed before.
func ExampleDB_MayCache() {
	db := exampleDB("profile", "id int PRIMARY KEY, name text")
	defer db.Close()
	cache := map[int]string{}
	fill := func(ctx context.Context, id int) error {
		var name string
		if err := db.QueryRowContext(ctx, "SELECT name FROM profile WHERE id = $1", id).Scan(&name); err != nil {
			return err
		}
		if db.MayCache(ctx) {
			cache[id] = name
		}
		return nil
	}

	user := readroute.WithSession(context.Background())
	if _, err := db.ExecContext(user, "INSERT INTO profile VALUES (1, 'Ada')"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fill(user, 1), cache) // it sees its own write, and not all that others have written

	fmt.Println(fill(readroute.WithLevel(user, readroute.LevelGlobal), 1), cache)

	// Output:
	// <nil> map[]
	// <nil> map[1:Ada]
}
