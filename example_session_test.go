package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// One session a request: it sees what it has written, on a replica.
func ExampleWithSession() {
	config := exampleConfig("account", "id int PRIMARY KEY, name text")
	config.Hooks.Decision = func(_ context.Context, d readroute.Decision) { fmt.Println(d.Class, "on the", d.Role) }
	db := exampleOpen(config)
	defer db.Close()

	ctx := readroute.WithSession(context.Background()) // in a service: the context of the request

	if _, err := db.ExecContext(ctx, "INSERT INTO account VALUES (1, 'Ada')"); err != nil {
		fmt.Println(err)
		return
	}
	var name string
	if err := db.QueryRowContext(ctx, "SELECT name FROM account WHERE id = $1", 1).Scan(&name); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name)

	// Output:
	// write on the primary
	// read on the replica
	// Ada
}

// A session is a value of its own: a server that keeps state of its users keeps theirs, and puts it into the context of
// each request.
func ExampleContextWithSession() {
	db := exampleDB("profile", "id int PRIMARY KEY, name text")
	defer db.Close()

	users := map[string]*readroute.Session{"ada": readroute.NewSession()}
	request := func(user string) context.Context {
		return readroute.ContextWithSession(context.Background(), users[user])
	}

	if _, err := db.ExecContext(request("ada"), "INSERT INTO profile VALUES (1, 'Ada')"); err != nil {
		fmt.Println(err)
		return
	}
	var name string // another request of the same user
	if err := db.QueryRowContext(request("ada"), "SELECT name FROM profile WHERE id = 1").Scan(&name); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name)

	// Output: Ada
}
