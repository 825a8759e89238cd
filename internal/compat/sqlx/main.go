// Command sqlx runs sqlx's own test suite on the bare driver and through the
// routed pool, over lib/pq and over pgx, and fails when a test does not give
// the same result in both.
//
// The suite comes from the module cache, in the version that
// examples/tools/go.mod names. It is copied to a temporary folder and edited
// there by suite.go; nothing of it is kept.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

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
	// Without paths in the binary the build cache serves the next run, which has another temporary folder.
	if _, err := output(ctx, dir, "go", "test", "-mod=mod", "-race", "-trimpath", "-c", "-o", bin, "."); err != nil {
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
		var want outcome
		for _, v := range variants {
			got, err := runSuite(ctx, bin, dir, run, cluster, driver, v)
			if err != nil {
				return false, err
			}
			var diff []string
			if v.pool == barePool {
				want = got
				diff = failures(got, better[driver])
			} else {
				diff = difference(want, got, better[driver])
			}
			if left := got.onReplica > 0; left != v.leaves && run == "" {
				diff = append(diff, fmt.Sprintf("%d statements on the replica", got.onReplica))
			}
			verdict := "yes"
			if len(diff) > 0 {
				same, verdict = false, "NO"
				report(os.Stderr, driver+", "+v.name, diff, got, verbose)
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n",
				driver, v.name, got.count("PASS"), got.count("FAIL"), got.count("SKIP"), got.onReplica, verdict)
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

// An outcome is what one run of the suite gave.
type outcome struct {
	results   map[string]string // by test name: PASS, FAIL or SKIP
	exit      error             // of the process: a race or a panic fails no single test
	output    []byte
	onReplica int // statements that left the primary
}

func (o outcome) count(result string) int {
	n := 0
	for _, r := range o.results {
		if r == result {
			n++
		}
	}
	return n
}

var (
	replicaLine = regexp.MustCompile(`^statements on the replica: (\d+)$`)
	resultLine  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)
)

func runSuite(
	ctx context.Context, bin, dir, run string, cluster *dbtest.PostgresCluster, driver string, v variant,
) (outcome, error) {
	// The suite drops what it makes, but for what a failure leaves behind.
	if err := cluster.Primary().Exec(ctx, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public AUTHORIZATION "+dbtest.AppUser); err != nil {
		return outcome{}, err
	}
	if err := cluster.WaitCaughtUp(ctx); err != nil {
		return outcome{}, err
	}
	cmd := exec.CommandContext(ctx, bin, "-test.v", "-test.count=1", "-test.timeout=2m", "-test.run="+run)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SQLX_MYSQL_DSN=skip", "SQLX_SQLITE_DSN=skip",
		"SQLX_POSTGRES_DSN="+cluster.Primary().AppDSN(), "COMPAT_REPLICA="+cluster.Standby(0).AppDSN(),
		"COMPAT_DRIVER="+driver, "COMPAT_POOL="+v.pool)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return outcome{}, fmt.Errorf("run the suite: %w", err)
	}
	o := outcome{results: map[string]string{}, exit: err, output: out}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := resultLine.FindStringSubmatch(lines.Text()); m != nil {
			o.results[m[2]] = m[1]
		}
		if m := replicaLine.FindStringSubmatch(lines.Text()); m != nil {
			o.onReplica, _ = strconv.Atoi(m[1])
		}
	}
	return o, lines.Err()
}

// failures lists, sorted, what is wrong with the run on the bare driver.
func failures(o outcome, known map[string]string) []string {
	if len(o.results) == 0 {
		return []string{"no test ran"}
	}
	var wrong []string
	for name, result := range o.results {
		if result == "FAIL" && known[name] == "" {
			wrong = append(wrong, name+" fails on the bare driver")
		}
	}
	slices.Sort(wrong)
	return append(wrong, ends(o)...)
}

// ends says how the process ended when no test says it.
func ends(o outcome) []string {
	if bytes.Contains(o.output, []byte("WARNING: DATA RACE")) {
		return []string{"a data race"}
	}
	if o.exit != nil && o.count("FAIL") == 0 {
		return []string{fmt.Sprintf("the test process: %v", o.exit)}
	}
	return nil
}

// difference lists, sorted, what is not the same in got as on the bare driver,
// but for known failures there.
func difference(bare, got outcome, known map[string]string) []string {
	var diff []string
	for name, result := range bare.results {
		other := cmp.Or(got.results[name], "not run")
		if isBetter := result == "FAIL" && other == "PASS" && known[name] != ""; other != result && !isBetter {
			diff = append(diff, fmt.Sprintf("%s: %s, on the bare driver %s", name, other, result))
		}
	}
	for name, result := range got.results {
		if _, ok := bare.results[name]; !ok {
			diff = append(diff, fmt.Sprintf("%s: %s, not run on the bare driver", name, result))
		}
	}
	slices.Sort(diff)
	return append(diff, ends(got)...)
}

// report prints what differs and, unless all of it is wanted, what was printed
// by tests that did not pass.
func report(w io.Writer, name string, diff []string, o outcome, whole bool) {
	fmt.Fprintf(w, "%s:\n  %s\n", name, strings.Join(diff, "\n  "))
	const most = 16 << 10
	printed := 0
	for line := range bytes.Lines(o.output) {
		passed := bytes.Contains(line, []byte("--- PASS")) || bytes.HasPrefix(line, []byte("=== "))
		if whole || !passed && printed < most {
			printed += len(line)
			_, _ = w.Write(line)
		}
	}
}
