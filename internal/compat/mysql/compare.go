package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/readroute/readroute/internal/compat/suite"
	"github.com/readroute/readroute/internal/dbtest"
)

// A variant is one way to open the pools of the suite.
type variant struct {
	name string
	// pool is what routed_test.go reads from COMPAT_POOL.
	pool string
	// leave is how many statements leave the primary at least.
	leave int
}

// routedVariants are compared with the bare driver. No statement of the suite
// has a session; one of the whole process lets its reads leave the primary.
var routedVariants = []variant{
	{name: "routed, primary only", pool: "primary"},
	{name: "routed, one replica", pool: "replica"},
	{name: "routed, one replica, process", pool: "process", leave: 400},
}

const (
	// leftOut is the test that dials an address outside this machine.
	leftOut = "TestConnectorReturnsTimeout"
	// fewest is how many tests, with those inside others, pass at least: without
	// a server, or with one that has too little, most leave themselves out.
	fewest = 400
)

// mayBeSkipped are tests that leave themselves out: inputs of a fuzz target
// that it has no use for.
var mayBeSkipped = regexp.MustCompile(`^FuzzFormatDSN/`)

// comparison is one run of the program.
type comparison struct {
	toolchains []string
	only       string // kind of server; empty means all
	pool       string // variant; empty means all
	run        string // tests; empty means all but leftOut
	verbose    bool

	work, bareDir, routedDir string
	table                    *tabwriter.Writer
}

// wanted are the variants that are asked for.
func (c *comparison) wanted() []variant {
	return slices.DeleteFunc(slices.Clone(routedVariants), func(v variant) bool { return c.pool != "" && c.pool != v.pool })
}

// binaries are the suite, compiled with one toolchain.
type binaries struct {
	version      string
	bare, routed string
	tests        []string // that it has
}

// compare runs every variant on every kind of server with every toolchain, and
// prints the table.
func (c *comparison) compare(ctx context.Context, w io.Writer) (same bool, err error) {
	on := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return c.only != "" && !strings.EqualFold(c.only, k.name) })
	if len(on) == 0 {
		return false, fmt.Errorf("there is no kind of server called %q", c.only)
	}
	if len(c.wanted()) == 0 {
		return false, fmt.Errorf("there is no pool called %q", c.pool)
	}
	if c.work, err = os.MkdirTemp("", "compat-mysql-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(c.work)
	if c.bareDir, c.routedDir, err = prepare(ctx, c.work); err != nil {
		return false, err
	}
	var built []binaries
	for _, toolchain := range c.toolchains {
		b, err := c.build(ctx, toolchain)
		if err != nil {
			return false, err
		}
		built = append(built, b)
	}
	c.table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(c.table, "SERVER\tGO\tPOOL\tPASSED\tFAILED\tSKIPPED\tON REPLICA\tTIME\tSAME")
	same = true
	for _, k := range on {
		ok, err := c.onKind(ctx, k, built)
		if err != nil {
			return false, err
		}
		same = same && ok
	}
	return same, c.table.Flush()
}

// build compiles both copies.
func (c *comparison) build(ctx context.Context, toolchain string) (b binaries, err error) {
	if b.version, err = suite.Output(ctx, c.work, toolchain, "go", "env", "GOVERSION"); err != nil {
		return b, err
	}
	b.bare = filepath.Join(c.work, "bare-"+b.version+".test")
	b.routed = filepath.Join(c.work, "routed-"+b.version+".test")
	for dir, bin := range map[string]string{c.bareDir: b.bare, c.routedDir: b.routed} {
		// A test looks for time zones, which not every machine has.
		if err := suite.Build(ctx, dir, toolchain, ".", bin, "-tags=timetzdata"); err != nil {
			return b, err
		}
	}
	list, err := suite.Output(ctx, c.bareDir, toolchain, b.bare, "-test.list=^(Test|Fuzz|Example)")
	b.tests = strings.Fields(list)
	return b, err
}

// onKind compares on one kind of server.
func (c *comparison) onKind(ctx context.Context, k kind, built []binaries) (same bool, err error) {
	servers, err := startServers(ctx, k)
	if errors.Is(err, dbtest.ErrNoServer) && k.mayBeMissing() {
		fmt.Fprintf(c.table, "%s\t\tnot installed, NOT TESTED\n", k.name)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer servers.Close()
	same = true
	for _, b := range built {
		ok, err := c.variants(ctx, servers, b)
		if err != nil {
			return false, err
		}
		same = same && ok
	}
	return same, nil
}

// variants runs the bare suite and, if that went as it should, compares the
// others with it.
func (c *comparison) variants(ctx context.Context, servers *servers, b binaries) (same bool, err error) {
	title := servers.name + "\t" + b.version + "\t"
	bare, err := c.runSuite(ctx, b.bare, c.bareDir, servers, variant{})
	if err != nil {
		return false, err
	}
	wrong := suite.Failures(bare.Outcome, nil)
	if c.run == "" {
		wrong = append(wrong, missing(bare.Outcome, b.tests)...)
	}
	c.row(title+"bare", bare, wrong)
	if len(wrong) > 0 {
		return false, nil
	}
	same = true
	for _, v := range c.wanted() {
		got, err := c.runSuite(ctx, b.routed, c.routedDir, servers, v)
		if err != nil {
			return false, err
		}
		diff := suite.Difference(bare.Outcome, got.Outcome, nil)
		if n := got.OnReplica; c.run == "" && (n < v.leave || v.leave == 0 && n > 0) {
			diff = append(diff, fmt.Sprintf("%d statements on the replica", n))
		}
		c.row(title+v.name, got, diff)
		same = same && len(diff) == 0
	}
	return same, nil
}

// missing lists what a whole run on the bare driver has too little of.
func missing(o suite.Outcome, tests []string) []string {
	var wrong []string
	for _, name := range tests {
		if _, ran := o.Results[name]; !ran && name != leftOut {
			wrong = append(wrong, name+" was not run")
		}
	}
	for name, result := range o.Results {
		if result == "SKIP" && !mayBeSkipped.MatchString(name) {
			wrong = append(wrong, name+" leaves itself out on the bare driver")
		}
	}
	slices.Sort(wrong)
	if n := o.Count("PASS"); n < fewest {
		wrong = append(wrong, fmt.Sprintf("only %d tests have passed, of at least %d", n, fewest))
	}
	return wrong
}

// timed is an outcome and how long it took.
type timed struct {
	suite.Outcome
	took time.Duration
}

// runSuite runs one variant.
func (c *comparison) runSuite(ctx context.Context, bin, dir string, servers *servers, v variant) (timed, error) {
	if err := servers.reset(ctx); err != nil {
		return timed{}, err
	}
	start := time.Now()
	o, err := suite.Run(ctx, bin, dir, []string{
		"MYSQL_TEST_USER=" + dbtest.AdminUser, "MYSQL_TEST_PASS=", "MYSQL_TEST_PROT=tcp", "MYSQL_TEST_ADDR=" + servers.primary,
		"MYSQL_TEST_DBNAME=" + suiteDatabase, "MYSQL_TEST_CONCURRENT=1",
		"COMPAT_POOL=" + v.pool, "COMPAT_REPLICA=" + servers.replica,
	}, "-test.timeout=5m", "-test.run="+c.run, "-test.skip=^"+leftOut+"$")
	return timed{o, time.Since(start)}, err
}

// row prints a line of the table, and what is wrong.
func (c *comparison) row(title string, o timed, wrong []string) {
	verdict := "yes"
	if len(wrong) > 0 {
		verdict = "NO"
		suite.Report(os.Stderr, strings.ReplaceAll(title, "\t", ", "), wrong, o.Outcome, c.verbose)
	}
	fmt.Fprintf(c.table, "%s\t%d\t%d\t%d\t%d\t%.0fs\t%s\n",
		title, o.Count("PASS"), o.Count("FAIL"), o.Count("SKIP"), o.OnReplica, o.took.Seconds(), verdict)
}
