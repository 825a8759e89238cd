// Quickstart shows a stale read happen without readroute and not happen with it, on a real PostgreSQL cluster that it
// starts for itself: a primary and two replicas, one of which is always late while the other stops for a while.
//
//	go run ./examples/quickstart
//
// It needs PostgreSQL's programs (initdb, postgres), no running server, and ends by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

const (
	users     = 48
	each      = 2400 * time.Millisecond // how long each way of reading is watched
	applyLag  = 150 * time.Millisecond  // how late replica b always is
	waitLimit = 100 * time.Millisecond  // how long a read may wait for a replica
	tooShort  = 50 * time.Millisecond   // a sticky window that is shorter than the lag
	longest   = 2 * time.Second         // one that is longer than any lag of this run
	timeLimit = 18 * time.Second        // for everything
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, each)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts the cluster, lets the users read in four ways, and prints what they saw.
func run(ctx context.Context, out io.Writer, each time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	cluster, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 2})
	if err != nil {
		return err // it says what to install when there is no PostgreSQL
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := prepare(ctx, cluster); err != nil {
		return err
	}
	fmt.Fprintf(out, "PostgreSQL %d: primary a, replica b %v late, replica c stopped for %v of each run of %v\n",
		cluster.Version(), applyLag, each/3, each)
	fmt.Fprintf(out, "%d users look at a form of theirs, half of them save it now and then; a read is stale when it shows\n"+
		"less than its own user has saved\n\n", users)

	heading(out)
	var seen views
	var last *routes
	for _, choice := range []struct {
		name string
		open opener
	}{
		{"round robin", openRoundRobin},
		{fmt.Sprintf("sticky %v", tooShort), routed(readroute.Sticky(tooShort))},
		{fmt.Sprintf("sticky %v", longest), routed(readroute.Sticky(longest))},
		{"readroute", routed(readroute.PositionWait(waitLimit))},
	} {
		w, err := choice.open(ctx, cluster)
		if err != nil {
			return fmt.Errorf("%s: %w", choice.name, err)
		}
		seen, err = watch(ctx, cluster, w.db, each)
		if err = errors.Join(err, w.close()); err != nil {
			return fmt.Errorf("%s: %w", choice.name, err)
		}
		row(out, choice.name, seen, w.routes)
		last = w.routes
	}
	details(out, last)
	if seen.stale > 0 {
		return fmt.Errorf("%d stale reads through readroute: that must not be", seen.stale)
	}
	return nil
}

// prepare makes a form for every user, and replica b late.
func prepare(ctx context.Context, cluster *dbtest.PostgresCluster) error {
	err := cluster.Primary().Exec(ctx,
		"CREATE TABLE form (user_id int PRIMARY KEY, revision int NOT NULL)",
		fmt.Sprintf("INSERT INTO form SELECT n, 0 FROM generate_series(1, %d) n", users),
		"GRANT pg_monitor TO app", // not needed, but it shortens waits: see docs/operating.md
	)
	if err != nil {
		return err
	}
	return cluster.Standby(0).SetApplyDelay(ctx, applyLag)
}
