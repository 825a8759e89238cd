package main

import (
	"errors"
	"fmt"
	"strings"
)

// guard is something in the source that keeps a promise, and what notices when it is off.
type guard struct {
	name string // what it sees to, as a sentence
	file string
	old  string // is in the file exactly once, within one function
	new  string // takes its place

	pkg  string // of the test: a folder
	test string // its name, without what is below a slash
	// rule is, of a run of the simulation, the checker's rule that is found broken within ops operations.
	rule string
	ops  int
}

// Within how many operations the simulation is to miss a guard. Most that are to be missed soon are missed within a tenth of it,
// in a second or two; the others need a rare coincidence, and some of them minutes.
const (
	soon = 500_000
	late = 5_000_000
)

// quick reports that it takes seconds, and no servers, to see that a guard is missed.
func (g *guard) quick() bool { return g.ops != late && g.pkg != "." && g.pkg != "internal/vconn" }

// simulated are the guards that the simulation misses.
func simulated(rule string, ops int, g guard) guard {
	g.pkg, g.test, g.rule, g.ops = "internal/simulation", "TestSimulation", rule, ops
	return g
}

// noticedBy names the test, and the rule.
func (g *guard) noticedBy() string {
	if g.rule != "" {
		return g.test + ", " + g.rule
	}
	return g.test
}

// mutate returns the file's text without the guard.
func (g *guard) mutate(text string) (string, error) {
	if n := strings.Count(text, g.old); n != 1 {
		return "", fmt.Errorf("%q is in %s %d times, not once", g.old, g.file, n)
	}
	if g.old == g.new {
		return "", errors.New("it changes nothing")
	}
	return strings.Replace(text, g.old, g.new, 1), nil
}
