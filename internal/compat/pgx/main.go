// Command pgx runs the test suite of pgx's stdlib package twice, on the bare
// driver and through the routed pool, and fails when a test does not give the
// same result in both.
//
// The suite comes from the module cache, in the version that go.mod names. It
// is copied to a temporary folder and edited there by patch.go; nothing of it
// is kept.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
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
		version, err := output(ctx, work, toolchain, "go", "env", "GOVERSION")
		if err != nil {
			return false, err
		}
		bareBin := filepath.Join(work, "bare-"+version+".test")
		if err := build(ctx, bareDir, toolchain, bareBin); err != nil {
			return false, err
		}
		want, err := runSuite(ctx, bareBin, bareDir, run, servers, variant{})
		if err != nil {
			return false, err
		}
		row(table, version, "bare", want, "")
		if len(want.results) == 0 || want.count("FAIL") > 0 || want.exit != nil {
			same = false
			report(os.Stderr, version, "bare", []string{"the bare suite did not pass"}, want, true)
			continue
		}
		routedBin := filepath.Join(work, "routed-"+version+".test")
		if err := build(ctx, routedDir, toolchain, routedBin); err != nil {
			return false, err
		}
		for _, v := range routedVariants {
			got, err := runSuite(ctx, routedBin, routedDir, run, servers, v)
			if err != nil {
				return false, err
			}
			diff := difference(want, got)
			if moved := got.onReplica != "0"; moved != v.session && run == "" {
				diff = append(diff, fmt.Sprintf("%s statements on the replica", got.onReplica))
			}
			verdict := "yes"
			if len(diff) > 0 {
				same, verdict = false, "NO"
				report(os.Stderr, version, v.name, diff, got, verbose)
			}
			row(table, version, v.name, got, verdict)
		}
	}
	return same, table.Flush()
}

// prepare copies pgx twice, and edits one copy.
func prepare(ctx context.Context, work string) (bareDir, routedDir string, err error) {
	pgxDir, err := output(ctx, "", "", "go", "list", "-m", "-f", "{{.Dir}}", pgxModule)
	if err != nil {
		return "", "", err
	}
	checkout, err := output(ctx, "", "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", "", err
	}
	if pgxDir == "" {
		return "", "", fmt.Errorf("%s is not in the module cache: run go mod download", pgxModule)
	}
	bareDir, routedDir = filepath.Join(work, "bare"), filepath.Join(work, "routed")
	for _, dir := range []string{bareDir, routedDir} {
		if err := copyTree(dir, pgxDir); err != nil {
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
	if _, err := output(ctx, routedDir, "", "go", "mod", "edit",
		"-require=github.com/readroute/readroute@v0.0.0",
		"-replace=github.com/readroute/readroute@v0.0.0="+checkout); err != nil {
		return "", "", err
	}
	return bareDir, routedDir, mergeSums(filepath.Join(routedDir, "go.sum"), filepath.Join(checkout, "go.sum"))
}

// copyTree is os.CopyFS with files that can be written: those of the module
// cache cannot.
func copyTree(dst, src string) error {
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		return err
	}
	return filepath.WalkDir(dst, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
}

// mergeSums adds the lines of one go.sum to another, so that no checksum has
// to be asked for.
func mergeSums(into, from string) error {
	var lines []string
	for _, name := range []string{into, from} {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(b)), "\n")...)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	return os.WriteFile(into, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// build compiles the suite in dir. Without paths in the binary the build cache
// serves the next run, which has another temporary folder.
func build(ctx context.Context, dir, toolchain, bin string) error {
	_, err := output(ctx, dir, toolchain, "go", "test", "-mod=mod", "-race", "-trimpath", "-c", "-o", bin, "./stdlib")
	return err
}

func output(ctx context.Context, dir, toolchain, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	if toolchain != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+toolchain, "GOWORK=off")
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// An outcome is what one run of the suite gave.
type outcome struct {
	results map[string]string // by test name: PASS, FAIL or SKIP
	exit    error             // of the process: a race or a panic fails no single test
	output  []byte
	// onReplica is how many statements left the primary; empty on the bare driver.
	onReplica string
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

var replicaLine = regexp.MustCompile(`^statements on the replica: (\d+)$`)

var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(`)

func runSuite(ctx context.Context, bin, dir, run string, servers *servers, v variant) (outcome, error) {
	if err := servers.reset(ctx); err != nil {
		return outcome{}, err
	}
	cmd := exec.CommandContext(ctx, bin, "-test.v", "-test.count=1", "-test.timeout=2m", "-test.run="+run)
	cmd.Dir = filepath.Join(dir, "stdlib")
	cmd.Env = append(os.Environ(), "PGX_TEST_DATABASE="+servers.primary)
	if v.replica {
		cmd.Env = append(cmd.Env, "COMPAT_REPLICA="+servers.replica)
	}
	if v.session {
		cmd.Env = append(cmd.Env, "COMPAT_SESSION=1")
	}
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
			o.onReplica = m[1]
		}
	}
	return o, lines.Err()
}

// difference lists, sorted, what is not the same in got as in want.
func difference(want, got outcome) []string {
	var diff []string
	for name, result := range want.results {
		if other := cmp.Or(got.results[name], "not run"); other != result {
			diff = append(diff, fmt.Sprintf("%s: %s, on the bare driver %s", name, other, result))
		}
	}
	for name, result := range got.results {
		if _, ok := want.results[name]; !ok {
			diff = append(diff, fmt.Sprintf("%s: %s, not run on the bare driver", name, result))
		}
	}
	slices.Sort(diff)
	if (got.exit == nil) != (want.exit == nil) {
		diff = append(diff, fmt.Sprintf("the test process: %v, on the bare driver %v", got.exit, want.exit))
	}
	return diff
}

func row(w io.Writer, version, name string, o outcome, verdict string) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n",
		version, name, o.count("PASS"), o.count("FAIL"), o.count("SKIP"), o.onReplica, verdict)
}

// report prints what differs and, unless all of it is wanted, the lines of the
// output that belong to a failure.
func report(w io.Writer, version, name string, diff []string, o outcome, whole bool) {
	const mostLines = 30
	if n := len(diff) - mostLines; n > 0 && !whole {
		// A process that ended early has not run the rest; its exit is the last line.
		diff = append(diff[:mostLines-1:mostLines-1], fmt.Sprintf("and %d more", n), diff[len(diff)-1])
	}
	fmt.Fprintf(w, "%s, %s:\n  %s\n", version, name, strings.Join(diff, "\n  "))
	text := o.output
	const mostBytes = 16 << 10
	if !whole && len(text) > mostBytes {
		text = failures(text, mostBytes)
	}
	fmt.Fprintf(w, "%s\n", text)
}

// failures keeps what a failing test printed, up to a bound.
func failures(text []byte, most int) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		passed := bytes.Contains(line, []byte("--- PASS")) || bytes.HasPrefix(line, []byte("=== "))
		if !passed && out.Len() < most {
			out.Write(line)
		}
	}
	return out.Bytes()
}
