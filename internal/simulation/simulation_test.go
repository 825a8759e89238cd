package simulation_test

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/check"
	"github.com/readroute/readroute/internal/simulation"
)

var (
	opsFlag      = flag.Int("simulation.ops", 0, "how many operations to run in all; 0: what fits into a test")
	eachFlag     = flag.Int("simulation.each", 2000, "how many operations a scenario has")
	fromFlag     = flag.Uint64("simulation.from", 1, "the seed to begin with")
	failuresFlag = flag.Int("simulation.failures", 1, "how many scenarios may fail before the test ends")
	replayFlag   = flag.String("simulation.replay", "", "run this scenario, as a failure prints it, and no other")
	huntFlag     = flag.String("simulation.hunt", "", "run until this rule of the checker is broken, and say no more than that")
	shrinkFlag   = flag.Bool("simulation.shrink", false, "look for a smaller one than that of -simulation.replay")
)

// TestMain keeps the bubbles on one processor. On several, Go 1.26 lets two threads run timers of one bubble with one race
// context, and the race detector crashes now and then. Here it is also what makes a scenario repeat itself; so is that no
// garbage is collected in the middle of one, which changes who runs next.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	m.Run()
}

func run(t *testing.T, s simulation.Scenario) *simulation.Result {
	t.Helper()
	var r *simulation.Result
	synctest.Test(t, func(*testing.T) { r = simulation.Run(s) })
	runtime.GC()
	return r
}

// TestSimulation runs as many operations as it is asked for, in scenarios each of its own seed; make sim asks for millions, which
// take minutes without -race. One that fails is run again, made smaller and shown.
func TestSimulation(t *testing.T) {
	if *replayFlag != "" {
		s, err := simulation.ParseScenario(*replayFlag)
		require.NoError(t, err)
		if r := run(t, s); *shrinkFlag && r.Failed() {
			shrunk(t, r)
		} else {
			show(t, r)
		}
		return
	}
	budget := *opsFlag
	switch {
	case budget > 0:
	case testing.Short():
		budget = 10_000
	default:
		budget = 60_000
	}
	began, said := time.Now(), time.Now()
	var tally simulation.Tally
	seed := *fromFlag
	for ; tally.Ops < budget && tally.Broken < *failuresFlag; seed++ {
		r := run(t, simulation.NewScenario(seed, *eachFlag))
		tally.Add(r)
		switch {
		case *huntFlag != "":
			tally.Broken = 0
			if breaks(r, *huntFlag) {
				t.Fatalf("%s is broken: -simulation.replay '%s'", *huntFlag, r.Scenario)
			}
		case r.Failed():
			shrunk(t, r)
		}
		if time.Since(said) > progress {
			said = time.Now()
			t.Logf("seed %d: %d operations, %d violations, %s", seed, tally.Ops, tally.Violations, time.Since(began).Round(time.Second))
		}
	}
	t.Logf("seeds %d to %d, in %s: %s", *fromFlag, seed-1, time.Since(began).Round(time.Millisecond), &tally)
	if tally.Broken == 0 {
		require.GreaterOrEqual(t, tally.Ops, budget)
		require.NotZero(t, tally.Faults.Total())
		require.True(t, tally.Replicas > tally.Reads/4 || budget < 10_000, "so few reads on replicas prove little")
	}
}

// breaks reports that a scenario has broken a rule; "error" is that it did not end as it should.
func breaks(r *simulation.Result, rule string) bool {
	if rule == "error" {
		return r.Err != nil
	}
	return slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Rule.String() == rule })
}

// progress is how often a long run says how far it is.
const progress = 10 * time.Second

// shrunk reports a failure: whether it fails again, and the smallest scenario that fails in the same way, with how to run it.
func shrunk(t *testing.T, r *simulation.Result) {
	t.Helper()
	kind := r.Kind()
	again := "fails again when it is replayed"
	if run(t, r.Scenario).Kind() != kind {
		again = "does not fail when it is replayed: the machine was busy, or something is not simulated"
	}
	t.Logf("%s fails: %s; it %s", r.Scenario, kind, again)
	least := r
	simulation.Shrink(r.Scenario, func(s simulation.Scenario) bool {
		again := run(t, s)
		if again.Kind() != kind {
			return false
		}
		least = again
		return true
	})
	show(t, least)
}

// violationsShown is how many are worth reading.
const violationsShown = 3

// show fails the test if a scenario has, and says how.
func show(t *testing.T, r *simulation.Result) {
	t.Helper()
	if !r.Failed() {
		return
	}
	var b strings.Builder
	for i, v := range r.Violations {
		if i == violationsShown {
			break
		}
		b.WriteString(r.History.Describe(v) + "\n")
	}
	if r.History != nil {
		b.WriteString(r.Trace())
	}
	t.Errorf("%d violations, error %v; run it again:\n  go test ./internal/simulation -run TestSimulation -simulation.replay '%s'\n%s",
		len(r.Violations), r.Err, r.Scenario, b.String())
}

// The same scenario is the same run, to the nanosecond. Where the machine is so busy that the runtime takes the processor from
// a goroutine, one is not; so one of a few must be.
func TestScenarioRepeatsItself(t *testing.T) {
	if raceEnabled() {
		t.Skip("the race detector lets goroutines run in an order of its own")
	}
	for seed := range uint64(30) {
		s := simulation.NewScenario(seed, 500)
		require.True(t, repeats(t, s), "%s", s)
	}
}

// repeats reports that of a few runs of a scenario two are the same.
func repeats(t *testing.T, s simulation.Scenario) bool {
	t.Helper()
	var before [][]check.Op
	for range 4 {
		ops := run(t, s).History.Ops
		if slices.ContainsFunc(before, func(other []check.Op) bool { return reflect.DeepEqual(ops, other) }) {
			return true
		}
		before = append(before, ops)
	}
	return false
}

// raceEnabled reports that this test runs with -race.
func raceEnabled() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestScenarioIsReadAsItIsWritten(t *testing.T) {
	for seed := range uint64(200) {
		s := simulation.NewScenario(seed, 1+int(seed))
		read, err := simulation.ParseScenario(s.String())
		require.NoError(t, err)
		require.Equal(t, s, read)
	}
	for _, text := range []string{
		"", "seed=1", "seed=1 engine=MySQL nodes=0 layout=direct pools=1 users=1 ops=1 calm=nothing",
		"seed=1 engine=Oracle nodes=3 layout=direct pools=1 users=1 ops=1 calm=nothing",
		"seed=1 engine=MySQL nodes=3 layout=direct pools=1 users=1 ops=1 calm=weather",
		"engine=MySQL seed=1 nodes=3 layout=direct pools=1 users=1 ops=1 calm=nothing",
	} {
		_, err := simulation.ParseScenario(text)
		require.Errorf(t, err, "%q", text)
	}
}

func TestShrinkKeepsWhatFails(t *testing.T) {
	s := simulation.NewScenario(7, 3000)
	s.Pools, s.Nodes, s.Users, s.Layout, s.Calm = 3, 5, 12, simulation.Shared, 0
	least := simulation.Shrink(s, func(s simulation.Scenario) bool {
		return s.Users >= 3 && s.Ops > 700 && s.Calm&(simulation.Kills|simulation.Cuts) == 0
	})
	require.Equal(t, 3, least.Users)
	require.Equal(t, 1, least.Pools)
	require.Equal(t, 2, least.Nodes)
	require.Equal(t, simulation.Direct, least.Layout)
	require.Less(t, least.Ops, 800)
	require.Greater(t, least.Ops, 700)
	require.Equal(t, simulation.Everything&^(simulation.Kills|simulation.Cuts), least.Calm)
}

// TestCIRunsAMillion: what make test runs is at least a million operations.
func TestCIRunsAMillion(t *testing.T) {
	script, err := os.ReadFile("../../scripts/test.sh")
	require.NoError(t, err)
	calls := regexp.MustCompile(`(?m)^\tmake .*sim N=([0-9]+) \|\| failed=1$`).FindAllStringSubmatch(string(script), -1)
	require.Len(t, calls, 1)
	n, err := strconv.Atoi(calls[0][1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 1_000_000)
	require.Equal(t, 2, strings.Count(string(script), "simulation"), "it is defined, and called once")
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.Contains(t, string(makefile), "'^TestSimulation$$' ./internal/simulation -simulation.ops $(N)\n")
}
