package readroute_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/readroute/readroute"
)

// The library does not log. SlogHooks does, seldom: one line a minute for one thing on one node.
func ExampleSlogHooks() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	config := exampleConfig("setting", "id int PRIMARY KEY")
	config.Hooks = readroute.SlogHooks(logger)
	db := exampleOpen(config)
	defer db.Close()

	// A connection that carries session state is not handed to the next caller.
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := conn.ExecContext(ctx, "SET statement_timeout = '5s'"); err != nil {
		fmt.Println(err)
	}
	if err := conn.Close(); err != nil {
		fmt.Println(err)
	}

	// Output:
	// level=WARN msg="readroute: state_discarded" event=state_discarded node=a skipped=0 why="session state"
}
