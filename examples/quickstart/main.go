// Quickstart shows a stale read happen without readroute and not happen with it: on a primary and two replicas, one of which is
// always late while the other stops for a while.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -engine postgres
//	go run ./examples/quickstart -engine mysql
//	go run ./examples/quickstart -engine mariadb
//
// The first one needs nothing but Go: its servers are databases of SQLite in the process. The others start servers of their own, and need
// the programs of these (initdb and postgres; mysqld; mariadbd), and no server that runs. Each ends by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

const (
	users     = 32                     // of each way of reading
	waitLimit = 100 * time.Millisecond // how long a read may wait for a replica
	tooShort  = 50 * time.Millisecond  // a sticky window that is shorter than the lag
	longest   = 2 * time.Second        // one that is longer than any lag of this run
)

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(engines)), ", ")
	name := flag.String("engine", "sqlite", "the kind of servers: "+names)
	flag.Parse()
	e, ok := engines[*name]
	if !ok {
		fmt.Fprintf(os.Stderr, "quickstart: there is no engine %q: want one of %s\n", *name, names)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, e)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run makes the cluster, lets the users read in four ways, and prints what they saw.
func run(ctx context.Context, out io.Writer, e engine) (err error) {
	ctx, cancel := context.WithTimeout(ctx, e.deadline)
	defer cancel()
	servers, err := e.start(ctx, replicatest.Options{Schema: schema()})
	if err != nil {
		return err // it says what to install when there is no server
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	c := &cluster{servers, e}
	fmt.Fprintf(out, "%s %s: primary a, replica b %v late, replica c stopped for %v of %v\n",
		c.Engine(), c.Version(), e.lag, e.length/3, e.length)
	fmt.Fprintf(out, "%d users of each look at a form of theirs, half of them save it now and then; a read is stale when it\n"+
		"shows less than its own user has saved\n\n", users)

	var ways []*way
	defer func() {
		for _, w := range ways {
			err = errors.Join(err, w.close())
		}
	}()
	for _, choice := range []struct {
		name string
		open opener
	}{
		{"round robin", openRoundRobin},
		{fmt.Sprintf("sticky %v", tooShort), routed(readroute.Sticky(tooShort))},
		{fmt.Sprintf("sticky %v", longest), routed(readroute.Sticky(longest))},
		{"readroute", routed(readroute.PositionWait(waitLimit))},
	} {
		w, err := choice.open(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", choice.name, err)
		}
		w.name, w.number = choice.name, len(ways)
		ways = append(ways, w)
	}
	if err := watch(ctx, c, ways); err != nil {
		return err
	}
	heading(out)
	for _, w := range ways {
		row(out, w)
	}
	last := ways[len(ways)-1]
	details(out, last.routes)
	if last.seen.stale > 0 {
		return fmt.Errorf("%d stale reads through readroute: that must not be", last.seen.stale)
	}
	return nil
}

// schema makes a form for every user and way of reading.
func schema() []string {
	var rows []string
	for way := range 4 {
		for i := range users {
			rows = append(rows, fmt.Sprintf("(%d, %d, 0)", i+1, way))
		}
	}
	return []string{
		"CREATE TABLE form (user_id int, way int, revision int NOT NULL, PRIMARY KEY (user_id, way))",
		"INSERT INTO form VALUES " + strings.Join(rows, ", "),
	}
}
