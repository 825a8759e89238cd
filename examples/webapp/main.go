// Webapp shows a user who saves in one process of a service and reads in another, on a real cluster that it starts for
// itself: a primary and two replicas, one of which is always late while the other stops for a while. The processes are
// behind a balancer that sends every request to the next one. The service runs twice at the same time, with
// readroute's middleware and without it.
//
//	go run ./examples/webapp
//
// It needs PostgreSQL's programs (initdb and postgres), no running server, and ends by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/readroute/readroute/internal/dbtest"
)

const (
	each      = 9 * time.Second        // how long the browsers are watched
	applyLag  = 150 * time.Millisecond // how late replica b always is
	timeLimit = 19 * time.Second       // for everything
)

func main() {
	var err error
	if len(os.Args) == 2 && os.Args[1] == serveCommand {
		err = serve(os.Stdin, os.Stdout)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		ctx, cancel := context.WithTimeout(ctx, timeLimit)
		err = run(ctx, os.Stdout, each)
		cancel()
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts the cluster, and on it the service in both ways, lets browsers use it, and prints what they saw.
func run(ctx context.Context, out io.Writer, each time.Duration) (err error) {
	c, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 2})
	if err != nil {
		return err // it says what to install when there is no server
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	without, with := &way{name: "without middleware"}, &way{name: "with middleware", middleware: true}
	ways := []*way{without, with}
	if err := prepare(ctx, c, len(ways)*browsers); err != nil {
		return err
	}
	for i, w := range ways {
		defer func() { err = errors.Join(err, w.close(ctx)) }()
		if err := w.open(ctx, c, i*browsers); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	heading(out, c.Version(), each)
	if err := watch(ctx, c, ways, each); err != nil {
		return err
	}
	for _, w := range ways {
		row(out, w)
	}
	details(out, without, with)
	if with.seen.stale > 0 {
		return fmt.Errorf("%d stale reads with the middleware: that must not be", with.seen.stale)
	}
	return nil
}

// prepare makes a draft for every tab of every user, and makes one replica late.
func prepare(ctx context.Context, c *dbtest.PostgresCluster, users int) error {
	err := c.Primary().Exec(ctx,
		"GRANT pg_monitor TO "+dbtest.AppUser, // not needed, but it shortens waits: see docs/operating.md
		"CREATE TABLE draft (user_id int, tab int, revision int NOT NULL, PRIMARY KEY (user_id, tab))",
		fmt.Sprintf("INSERT INTO draft SELECT u, t, 0 FROM generate_series(1, %d) u, generate_series(1, %d) t", users, tabs))
	return errors.Join(err, c.WaitCaughtUp(ctx), c.Standby(0).SetApplyDelay(ctx, applyLag))
}
