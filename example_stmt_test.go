package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A prepared statement runs where each of its calls has to, and is prepared there when it first does.
func Example_prepared() {
	db := exampleDB("city", "id int PRIMARY KEY, name text")
	defer db.Close()
	ctx := readroute.WithSession(context.Background())

	insert, err := db.PrepareContext(ctx, "INSERT INTO city VALUES ($1, $2)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer insert.Close()
	byID, err := db.PrepareContext(ctx, "SELECT name FROM city WHERE id = $1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer byID.Close()

	for id, name := range []string{"Oslo", "Lima"} {
		if _, err := insert.ExecContext(ctx, id, name); err != nil {
			fmt.Println(err)
			return
		}
		var got string
		if err := byID.QueryRowContext(ctx, id).Scan(&got); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(got)
	}

	// Output:
	// Oslo
	// Lima
}
