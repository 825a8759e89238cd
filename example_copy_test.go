package readroute_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/readroute/readroute"
)

// What database/sql cannot do runs on a native connection to the primary, and the session sees it afterwards.
func ExampleDB_PrimaryRaw() {
	db := exampleDB("measurement", "id int PRIMARY KEY, value int")
	defer db.Close()
	ctx := readroute.WithSession(context.Background())

	err := db.PrimaryRaw(ctx, func(driverConn any) error {
		rows := [][]any{{1, 10}, {2, 20}, {3, 30}}
		_, err := driverConn.(*stdlib.Conn).Conn().CopyFrom(ctx,
			pgx.Identifier{"measurement"}, []string{"id", "value"}, pgx.CopyFromRows(rows))
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var sum int
	if err := db.QueryRowContext(ctx, "SELECT sum(value) FROM measurement").Scan(&sum); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sum)

	// Output: 60
}
