package readroute_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A read says how fresh it has to be by its context.
func ExampleWithLevel() {
	db := exampleDB("article", "id int PRIMARY KEY")
	defer db.Close()

	none := context.Background()
	session := readroute.WithSession(none)
	for _, ctx := range []context.Context{
		none,    // has not said what staleness it can bear
		session, // has written nothing: every replica will do
		readroute.WithLevel(none, readroute.LevelEventual),
		readroute.WithLevel(session, readroute.LevelPrimary),
	} {
		d, err := db.Explain(ctx, "SELECT id FROM article")
		fmt.Println(d.Level, d.Role, d.Reason, err)
	}

	// Output:
	// unset primary no_session <nil>
	// session replica covered <nil>
	// eventual replica level <nil>
	// primary primary level <nil>
}
