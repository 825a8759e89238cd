package readroute_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var benchCheck = flag.Bool("bench-check", false, "compare the cost of a routed read with testdata/bench.txt; not with -race")

const (
	benchFile = "testdata/bench.txt"
	// benchSlower is how much the ratio may be above the one in benchFile. 15 % slower is to fail every time, so the bound
	// is lower by what the measurement itself varies, and higher than what another layout of the same code makes of it.
	benchSlower = 1.10
	benchPairs  = 1000 // of turns, a round
	benchTurn   = 50   // statements
	// benchRounds are made at least.
	benchRounds = 20
	// benchGivesUp is when a machine that has much else to do has had its chances.
	benchGivesUp = time.Minute
)

// benchCost is what a routed read costs beside a bare one.
type benchCost struct {
	ratio  float64 // of the times
	allocs int     // more than the bare pool's
}

const benchFormat = "ratio %.3f\nallocs %d\n"

func readBenchFile(t *testing.T) (cost benchCost, madeBy string) {
	t.Helper()
	var values strings.Builder
	for line := range strings.Lines(string(readFile(t, benchFile))) {
		if comment, ok := strings.CutPrefix(line, "# by "); ok {
			madeBy = strings.TrimSpace(comment)
		}
		if !strings.HasPrefix(line, "#") {
			values.WriteString(line)
		}
	}
	_, err := fmt.Sscanf(values.String(), "ratio %f\nallocs %d", &cost.ratio, &cost.allocs)
	require.NoError(t, err, benchFile)
	return cost, madeBy
}

func writeBenchFile(t *testing.T, cost benchCost, madeBy string) {
	t.Helper()
	text := "# What a routed read of a covered session costs beside a bare one, on the null driver: the ratio of the times, and the\n" +
		"# allocations more. `make bench-check` fails when a change makes the ratio 15 % higher or adds an allocation.\n" +
		"# Where that is meant, renew this file, with as little else running as can be (a minute):\n" +
		"#     go test -run '^TestBenchCheck$' -v . -bench-check -update\n" +
		"# by " + madeBy + "\n" + fmt.Sprintf(benchFormat, cost.ratio, cost.allocs)
	require.NoError(t, os.WriteFile(benchFile, []byte(text), 0o644))
}

// quietest is what a turn of a pool takes in the quietest rounds.
type quietest struct {
	turns  []time.Duration // of this round
	rounds []time.Duration // sorted
}

func (q *quietest) turn(t *testing.T, p pool) {
	begin := time.Now()
	for range benchTurn {
		if err := p.read(); err != nil {
			t.Fatal(err)
		}
	}
	q.turns = append(q.turns, time.Since(begin))
}

// round ends a round. The fastest turns of all would be luck, not the code.
func (q *quietest) round() {
	slices.Sort(q.turns)
	q.rounds = append(q.rounds, q.turns[len(q.turns)/50])
	slices.Sort(q.rounds)
	q.turns = q.turns[:0]
}

// settled reports that more than one round was quiet.
func (q *quietest) settled() bool {
	return len(q.rounds) > 2 && float64(q.rounds[2]) < 1.03*float64(q.rounds[0])
}

// TestBenchCheck holds the time of a routed read, as a multiple of a bare one's, and its allocations. Other programs,
// interrupts and a slower clock only add, so what a pool takes in its quietest round comes down to what the code itself
// takes, and the rounds go on until the ratio is within the bound, or time is up. Turns of both pools alternate, so that
// the speed that the machine has for a while is the same for both.
func TestBenchCheck(t *testing.T) {
	if !*benchCheck {
		t.Skip("make bench-check runs it: without -race, and alone")
	}
	want, by := benchCost{}, ""
	if !*update {
		want, by = readBenchFile(t)
	}
	pools := nullPools(t)
	var bare, routed quietest
	var got benchCost
	within := func() bool { return !*update && bare.settled() && got.ratio <= want.ratio*benchSlower }
	for began := time.Now(); len(bare.rounds) < benchRounds || time.Since(began) < benchGivesUp && !within(); {
		for i := range benchPairs {
			if i%2 == 0 {
				bare.turn(t, pools["bare"])
			}
			routed.turn(t, pools["routed"])
			if i%2 == 1 {
				bare.turn(t, pools["bare"])
			}
		}
		bare.round()
		routed.round()
		got.ratio = float64(routed.rounds[0]) / float64(bare.rounds[0])
	}
	got.allocs = benchAllocs(t, pools["routed"]) - benchAllocs(t, pools["bare"])
	madeBy := fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	t.Logf("a routed read takes %.3f times as long as a bare one and allocates %d times more (%s, %d rounds)",
		got.ratio, got.allocs, madeBy, len(bare.rounds))
	if *update {
		writeBenchFile(t, got, madeBy)
		return
	}
	t.Logf("%s, by %s: %.3f times, %d more", benchFile, by, want.ratio, want.allocs)
	require.LessOrEqual(t, got.ratio, want.ratio*benchSlower, "the routed read is slower; %s says how to accept it", benchFile)
	require.LessOrEqual(t, got.allocs, want.allocs, "the routed read allocates more; %s says how to accept it", benchFile)
}

// benchAllocs counts a read's allocations. Those of goroutines that work beside it are less than one a read.
func benchAllocs(t *testing.T, p pool) int {
	allocs := func() int {
		return int(testing.AllocsPerRun(1000, func() {
			if err := p.read(); err != nil {
				t.Error(err)
			}
		}))
	}
	return min(allocs(), allocs(), allocs())
}
