package readroute_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/readroute/readroute"
)

// A transaction runs on one node: the primary, or where a read would go when it is read-only. The commit leaves the
// position that later reads of the session are held to.
func Example_transaction() {
	config := exampleConfig("transfer", "id int PRIMARY KEY, amount int")
	config.Hooks.Decision = func(_ context.Context, d readroute.Decision) { fmt.Println(d.Class, d.Role) }
	db := exampleOpen(config)
	defer db.Close()
	ctx := readroute.WithSession(context.Background())

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO transfer VALUES (1, 100)"); err != nil {
		fmt.Println(err)
	}
	if err := tx.Commit(); err != nil {
		fmt.Println(err)
		return
	}

	tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tx.Rollback() //nolint:errcheck // it has only read
	var amount int
	if err := tx.QueryRowContext(ctx, "SELECT amount FROM transfer WHERE id = 1").Scan(&amount); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(amount)

	// Output:
	// tx_control primary
	// write primary
	// read replica
	// read replica
	// 100
}
