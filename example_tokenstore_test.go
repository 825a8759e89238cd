package readroute_test

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute"
)

// A client that keeps no cookie and sends no header is known by its API key. What it has written is kept for that key, and
// forgotten once every replica shows it.
func ExampleCodec_Load() {
	db := exampleDB("measurement", "id int PRIMARY KEY")
	defer db.Close()
	codec := exampleCodec()
	store := readroute.NewMemoryTokenStore(5 * time.Minute) // or a Redis: examples/tokenstore

	request := func(apiKey string, handle func(ctx context.Context) error) error {
		ctx, err := codec.Load(context.Background(), store, apiKey, db)
		if err != nil {
			fmt.Println(err) // the context is good all the same: it reads from the primary
		}
		if err := handle(ctx); err != nil {
			return err
		}
		return codec.Save(ctx, store, apiKey) // before the client is answered
	}

	err := request("key-1", func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "INSERT INTO measurement VALUES (7)")
		return err
	})
	fmt.Println(err)
	err = request("key-1", func(ctx context.Context) error {
		var id int
		err := db.QueryRowContext(ctx, "SELECT id FROM measurement").Scan(&id)
		fmt.Println(id)
		return err
	})
	fmt.Println(err)

	// Output:
	// <nil>
	// 7
	// <nil>
}
