// Command sqlx runs sqlx's own test suite on the bare driver and through the
// routed pool, over lib/pq and over pgx, and fails when a test does not give
// the same result in both.
//
// The suite comes from the module cache, in the version that
// examples/tools/go.mod names. It is copied to a temporary folder and edited
// there by suite.go; nothing of it is kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/readroute/readroute/internal/compat/suite"
	"github.com/readroute/readroute/internal/dbtest"
)

// A variant is one way to open the pool of the suite.
type variant struct {
	name string
	// pool is what routed_test.go reads from COMPAT_POOL.
	pool string
	// leaves says that statements must leave the primary.
	leaves bool
}

const barePool = "bare"

// variants are compared with the first, the bare driver. Half of the suite
// gives no context to its statements; only a session of the whole process
// reaches those.
var variants = []variant{
	{name: "bare", pool: barePool},
	{name: "routed, primary only", pool: "primary"},
	{name: "routed, one replica, session", pool: "session", leaves: true},
	{name: "routed, one replica, process", pool: "process", leaves: true},
}

// drivers are the names under which database/sql knows them.
var drivers = []string{"postgres", "pgx"}

// better lists the tests that fail on a bare driver and pass through the routed
// pool, and why.
var better = map[string]map[string]string{"pgx": {
	"TestUsage":        cachedPlan,
	"TestUsageContext": cachedPlan,
}}

const cachedPlan = "a test before it has made the same table with other columns; pgx answers the first use of the statement that it keeps\n" +
	"    with \"cached plan must not change result type\" (0A000), and the routed pool runs such a read once more"

func main() {
	run := flag.String("run", "", "run only tests matching this")
	verbose := flag.Bool("v", false, "print the whole output of every run that differs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()

	same, err := compare(ctx, os.Stdout, *run, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat-sqlx:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// compare runs every variant with every driver and prints the table.
func compare(ctx context.Context, w io.Writer, run string, verbose bool) (same bool, err error) {
	work, err := os.MkdirTemp("", "compat-sqlx-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	dir, err := prepare(ctx, work)
	if err != nil {
		return false, err
	}
	bin := filepath.Join(work, "sqlx.test")
	if err := suite.Build(ctx, dir, "", ".", bin); err != nil {
		return false, err
	}
	cluster, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 1})
	if err != nil {
		return false, err
	}
	defer cluster.Close()

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "DRIVER\tPOOL\tPASSED\tFAILED\tSKIPPED\tON REPLICA\tSAME")
	same = true
	for _, driver := range drivers {
		var want suite.Outcome
		for _, v := range variants {
			got, err := runSuite(ctx, bin, dir, run, cluster, driver, v)
			if err != nil {
				return false, err
			}
			var diff []string
			if v.pool == barePool {
				want = got
				diff = suite.Failures(got, better[driver])
			} else {
				diff = suite.Difference(want, got, better[driver])
			}
			if left := got.OnReplica > 0; left != v.leaves && run == "" {
				diff = append(diff, fmt.Sprintf("%d statements on the replica", got.OnReplica))
			}
			verdict := "yes"
			if len(diff) > 0 {
				same, verdict = false, "NO"
				suite.Report(os.Stderr, driver+", "+v.name, diff, got, verbose)
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n",
				driver, v.name, got.Count("PASS"), got.Count("FAIL"), got.Count("SKIP"), got.OnReplica, verdict)
		}
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	for _, driver := range drivers {
		for _, name := range slices.Sorted(maps.Keys(better[driver])) {
			fmt.Fprintf(w, "%s may fail on the bare driver, %s: %s\n", name, driver, better[driver][name])
		}
	}
	return same, nil
}

func runSuite(
	ctx context.Context, bin, dir, run string, cluster *dbtest.PostgresCluster, driver string, v variant,
) (suite.Outcome, error) {
	// The suite drops what it makes, but for what a failure leaves behind.
	if err := cluster.Primary().Exec(ctx, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public AUTHORIZATION "+dbtest.AppUser); err != nil {
		return suite.Outcome{}, err
	}
	if err := cluster.WaitCaughtUp(ctx); err != nil {
		return suite.Outcome{}, err
	}
	return suite.Run(ctx, bin, dir, []string{
		"SQLX_MYSQL_DSN=skip", "SQLX_SQLITE_DSN=skip",
		"SQLX_POSTGRES_DSN=" + cluster.Primary().AppDSN(), "COMPAT_REPLICA=" + cluster.Standby(0).AppDSN(),
		"COMPAT_DRIVER=" + driver, "COMPAT_POOL=" + v.pool,
	}, "-test.timeout=2m", "-test.run="+run)
}
