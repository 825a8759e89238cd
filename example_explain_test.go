package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// Explain says where a statement would go, and runs nothing.
func ExampleDB_Explain() {
	db := exampleDB("stock", "id int PRIMARY KEY, n int")
	defer db.Close()
	ctx := readroute.WithSession(context.Background())

	for _, query := range []string{
		"SELECT n FROM stock WHERE id = 1",
		"SELECT n FROM stock WHERE id = 1 FOR UPDATE",
		"UPDATE stock SET n = n - 1 WHERE id = 1",
		"SET search_path = app",
		"SELECT restock(1)",
	} {
		d, err := db.Explain(ctx, query)
		fmt.Printf("%-45s %-8s %-14s %v\n", query, d.Role, d.Reason, err)
	}

	// Output:
	// SELECT n FROM stock WHERE id = 1              replica  covered        <nil>
	// SELECT n FROM stock WHERE id = 1 FOR UPDATE   primary  write          <nil>
	// UPDATE stock SET n = n - 1 WHERE id = 1       primary  write          <nil>
	// SET search_path = app                         primary  session_state  <nil>
	// SELECT restock(1)                             primary  unknown        <nil>
}
