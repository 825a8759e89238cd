package readroute_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/readroute/readroute"
)

// What a session has written travels to another process as a text: in a cookie, a header or a message.
func ExampleSession_Token() {
	config := exampleConfig("invoice", "id int PRIMARY KEY, total int")
	writer, reader := exampleOpen(config), exampleOpen(config) // two processes
	defer writer.Close()
	defer reader.Close()

	ctx := readroute.WithSession(context.Background())
	if _, err := writer.ExecContext(ctx, "INSERT INTO invoice VALUES (1, 42)"); err != nil {
		fmt.Println(err)
		return
	}
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	if err != nil {
		fmt.Println(err) // the token is safe all the same: it asks for the primary for a while
	}
	text := token.String()

	// In the other process:
	received, err := readroute.ParseToken(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx = readroute.ContextWithSession(context.Background(), readroute.NewSession(received))
	var total int
	if err := reader.QueryRowContext(ctx, "SELECT total FROM invoice WHERE id = 1").Scan(&total); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(total, len(text) <= 64)

	// Output: 42 true
}

// A text that is no token means "written just now": the primary is always right.
func ExampleParseToken() {
	ctx := context.Background()
	token, err := readroute.ParseToken("AQEEbWFpbg")
	if errors.Is(err, readroute.ErrBadToken) {
		ctx = readroute.WithLevel(ctx, readroute.LevelPrimary)
	}
	ctx = readroute.ContextWithSession(ctx, readroute.NewSession(token))

	db := exampleDB("delivery", "id int PRIMARY KEY")
	defer db.Close()
	d, err := db.Explain(ctx, "SELECT id FROM delivery")
	fmt.Println(d.Role, d.Reason, err)

	// Output: primary level <nil>
}
