// Command pgx runs the test suite of pgx's stdlib package twice, on the bare
// driver and through the routed pool, and fails when a test does not give the
// same result in both.
//
// The suite comes from the module cache, in the version that go.mod names. It
// is copied to a temporary folder and edited there by patch.go; nothing of it
// is kept.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/readroute/readroute/internal/compat/suite"
)

const pgxModule = "github.com/jackc/pgx/v5"

//go:embed routed_test.go.txt
var routedTest []byte

// A variant is one way to open the pools of the suite.
type variant struct {
	name    string
	replica bool
	session bool
}

// routedVariants are compared with the bare driver. Without a session every
// statement goes to the primary; with one, reads leave it.
var routedVariants = []variant{
	{name: "routed, primary only"},
	{name: "routed, one replica", replica: true},
	{name: "routed, one replica, session", replica: true, session: true},
}

func main() {
	toolchains := flag.String("go", "local,go1.27.3", "toolchains to run the suite with (GOTOOLCHAIN), comma separated")
	run := flag.String("run", "", "run only tests matching this")
	verbose := flag.Bool("v", false, "print the whole output of every run that differs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()

	same, err := compare(ctx, strings.Split(*toolchains, ","), *run, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat-pgx:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// compare runs every variant with every toolchain and prints the table.
func compare(ctx context.Context, toolchains []string, run string, verbose bool) (same bool, err error) {
	work, err := os.MkdirTemp("", "compat-pgx-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	bareDir, routedDir, err := prepare(ctx, work)
	if err != nil {
		return false, err
	}
	servers, err := startServers(ctx)
	if err != nil {
		return false, err
	}
	defer servers.Close()

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GO\tPOOL\tPASSED\tFAILED\tSKIPPED\tON REPLICA\tSAME")
	same = true
	for _, toolchain := range toolchains {
		version, err := suite.Output(ctx, work, toolchain, "go", "env", "GOVERSION")
		if err != nil {
			return false, err
		}
		bareBin := filepath.Join(work, "bare-"+version+".test")
		if err := suite.Build(ctx, bareDir, toolchain, "./stdlib", bareBin); err != nil {
			return false, err
		}
		want, err := runSuite(ctx, bareBin, bareDir, run, servers, variant{})
		if err != nil {
			return false, err
		}
		row(table, version, "bare", want, "")
		if wrong := suite.Failures(want, nil); len(wrong) > 0 {
			same = false
			suite.Report(os.Stderr, version+", bare", wrong, want, true)
			continue
		}
		routedBin := filepath.Join(work, "routed-"+version+".test")
		if err := suite.Build(ctx, routedDir, toolchain, "./stdlib", routedBin); err != nil {
			return false, err
		}
		for _, v := range routedVariants {
			got, err := runSuite(ctx, routedBin, routedDir, run, servers, v)
			if err != nil {
				return false, err
			}
			diff := suite.Difference(want, got, nil)
			if moved := got.OnReplica > 0; moved != v.session && run == "" {
				diff = append(diff, fmt.Sprintf("%d statements on the replica", got.OnReplica))
			}
			verdict := "yes"
			if len(diff) > 0 {
				same, verdict = false, "NO"
				suite.Report(os.Stderr, version+", "+v.name, diff, got, verbose)
			}
			row(table, version, v.name, got, verdict)
		}
	}
	return same, table.Flush()
}

// prepare copies pgx twice, and edits one copy.
func prepare(ctx context.Context, work string) (bareDir, routedDir string, err error) {
	checkout, version, err := suite.Checkout(ctx)
	if err != nil {
		return "", "", err
	}
	pgxDir, err := suite.Source(ctx, checkout, pgxModule)
	if err != nil {
		return "", "", err
	}
	bareDir, routedDir = filepath.Join(work, "bare"), filepath.Join(work, "routed")
	for _, dir := range []string{bareDir, routedDir} {
		if err := suite.CopyTree(dir, pgxDir); err != nil {
			return "", "", fmt.Errorf("copy pgx: %w", err)
		}
	}
	stdlibDir := filepath.Join(routedDir, "stdlib")
	if err := patchSuite(stdlibDir); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(filepath.Join(stdlibDir, "routed_test.go"), routedTest, 0o600); err != nil {
		return "", "", err
	}
	return bareDir, routedDir, suite.RequireRouted(ctx, routedDir, checkout, version)
}

func runSuite(ctx context.Context, bin, dir, run string, servers *servers, v variant) (suite.Outcome, error) {
	if err := servers.reset(ctx); err != nil {
		return suite.Outcome{}, err
	}
	env := []string{"PGX_TEST_DATABASE=" + servers.primary}
	if v.replica {
		env = append(env, "COMPAT_REPLICA="+servers.replica)
	}
	if v.session {
		env = append(env, "COMPAT_SESSION=1")
	}
	return suite.Run(ctx, bin, filepath.Join(dir, "stdlib"), env, "-test.timeout=2m", "-test.run="+run)
}

func row(w io.Writer, version, name string, o suite.Outcome, verdict string) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n",
		version, name, o.Count("PASS"), o.Count("FAIL"), o.Count("SKIP"), o.OnReplica, verdict)
}
