package suite

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Outcome is what one run of a suite gave.
type Outcome struct {
	Results   map[string]string // by test name: PASS, FAIL or SKIP
	Exit      error             // of the process: a race or a panic fails no single test
	Output    []byte
	OnReplica int // statements that left the primary
}

// Count returns how many tests had a result.
func (o Outcome) Count(result string) int {
	n := 0
	for _, r := range o.Results {
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

// Run runs a test binary in dir, with variables of the environment and flags
// beside those that it needs itself.
func Run(ctx context.Context, bin, dir string, env []string, flags ...string) (Outcome, error) {
	cmd := exec.CommandContext(ctx, bin, append([]string{"-test.v", "-test.count=1"}, flags...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return Outcome{}, fmt.Errorf("run the suite: %w", err)
	}
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("run the suite: %w", context.Cause(ctx))
	}
	return read(out, err)
}

// read finds the results in what a test binary printed.
func read(out []byte, exit error) (Outcome, error) {
	o := Outcome{Results: map[string]string{}, Exit: exit, Output: out}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := resultLine.FindStringSubmatch(lines.Text()); m != nil {
			o.Results[m[2]] = m[1]
		}
		if m := replicaLine.FindStringSubmatch(lines.Text()); m != nil {
			o.OnReplica, _ = strconv.Atoi(m[1])
		}
	}
	return o, lines.Err()
}

// Failures lists, sorted, what is wrong with a run on the bare driver, but for
// tests that are known to fail there.
func Failures(o Outcome, known map[string]string) []string {
	if len(o.Results) == 0 {
		return []string{"no test ran"}
	}
	var wrong []string
	for name, result := range o.Results {
		if result == "FAIL" && known[name] == "" {
			wrong = append(wrong, name+" fails on the bare driver")
		}
	}
	slices.Sort(wrong)
	return append(wrong, ends(o)...)
}

// ends says how the process ended when no test says it.
func ends(o Outcome) []string {
	if bytes.Contains(o.Output, []byte("WARNING: DATA RACE")) {
		return []string{"a data race"}
	}
	if o.Exit != nil && o.Count("FAIL") == 0 {
		return []string{fmt.Sprintf("the test process: %v", o.Exit)}
	}
	return nil
}

// Difference lists, sorted, what is not the same in got as on the bare driver,
// but for tests that are known to fail there and pass here.
func Difference(bare, got Outcome, known map[string]string) []string {
	var diff []string
	for name, result := range bare.Results {
		other := cmp.Or(got.Results[name], "not run")
		if isBetter := result == "FAIL" && other == "PASS" && known[name] != ""; other != result && !isBetter {
			diff = append(diff, fmt.Sprintf("%s: %s, on the bare driver %s", name, other, result))
		}
	}
	for name, result := range got.Results {
		if _, ok := bare.Results[name]; !ok {
			diff = append(diff, fmt.Sprintf("%s: %s, not run on the bare driver", name, result))
		}
	}
	slices.Sort(diff)
	return append(diff, ends(got)...)
}

// Report prints what differs and, unless the whole output is wanted, the lines
// of it that do not belong to a test that passed.
func Report(w io.Writer, name string, diff []string, o Outcome, whole bool) {
	const mostLines, mostBytes = 30, 16 << 10
	if n := len(diff) - mostLines; n > 0 && !whole {
		// A process that ended early has not run the rest; how it ended is the last line.
		diff = append(diff[:mostLines-1:mostLines-1], fmt.Sprintf("and %d more", n), diff[len(diff)-1])
	}
	fmt.Fprintf(w, "%s:\n  %s\n", name, strings.Join(diff, "\n  "))
	printed := 0
	for line := range bytes.Lines(o.Output) {
		passed := bytes.Contains(line, []byte("--- PASS")) || bytes.HasPrefix(line, []byte("=== "))
		if whole || !passed && printed < mostBytes {
			printed += len(line)
			_, _ = w.Write(line)
		}
	}
}
