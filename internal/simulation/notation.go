package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// String is how a scenario is written. [ParseScenario] reads it.
func (s Scenario) String() string {
	return fmt.Sprintf("seed=%d engine=%s nodes=%d layout=%s pools=%d users=%d ops=%d calm=%s",
		s.Seed, s.Engine, s.Nodes, s.Layout, s.Pools, s.Users, s.Ops, s.Calm)
}

// ParseScenario reads what [Scenario.String] has written. All of it must be there.
func ParseScenario(text string) (Scenario, error) {
	var s Scenario
	number := func(to *int) func(string) error {
		return func(v string) (err error) {
			if *to, err = strconv.Atoi(v); err == nil && *to < 1 {
				err = fmt.Errorf("%d is too few", *to)
			}
			return err
		}
	}
	keys := []struct {
		name string
		set  func(string) error
	}{
		{"seed", func(v string) (err error) { s.Seed, err = strconv.ParseUint(v, 10, 64); return err }},
		{"engine", func(v string) (err error) { s.Engine, err = named[Engine](engineNames, v); return err }},
		{"nodes", number(&s.Nodes)},
		{"layout", func(v string) (err error) { s.Layout, err = named[Layout](layoutNames, v); return err }},
		{"pools", number(&s.Pools)},
		{"users", number(&s.Users)},
		{"ops", number(&s.Ops)},
		{"calm", func(v string) (err error) { s.Calm, err = parseFault(v); return err }},
	}
	fields := strings.Fields(text)
	if len(fields) != len(keys) {
		return Scenario{}, fmt.Errorf("simulation: %q is not a scenario: it has %d parts, not %d", text, len(fields), len(keys))
	}
	for i, k := range keys {
		name, value, _ := strings.Cut(fields[i], "=")
		if name != k.name {
			return Scenario{}, fmt.Errorf("simulation: %q is not a scenario: %q stands where %s= is expected", text, fields[i], k.name)
		}
		if err := k.set(value); err != nil {
			return Scenario{}, fmt.Errorf("simulation: %q is not a scenario: %s: %w", text, k.name, err)
		}
	}
	return s, nil
}

// named is the value that has a name.
func named[T ~uint8](names []string, name string) (T, error) {
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
	}
	return T(i), nil
}

// String names the faults.
func (f Fault) String() string {
	var names []string
	for i, n := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if names == nil {
		return nothingCalm
	}
	return strings.Join(names, ",")
}

const nothingCalm = "nothing"

func parseFault(text string) (Fault, error) {
	if text == nothingCalm {
		return 0, nil
	}
	var f Fault
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(faultNames, name)
		if i < 0 {
			return 0, fmt.Errorf("%q is none of %s", name, strings.Join(faultNames, ", "))
		}
		f |= 1 << i
	}
	return f, nil
}
