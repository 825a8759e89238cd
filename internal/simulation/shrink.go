package simulation

// Shrink returns a scenario that still fails and has less of everything: operations, users, processes, servers and faults.
// fails runs one; it is called about as often as there are kinds of faults, a few times over.
func Shrink(s Scenario, fails func(Scenario) bool) Scenario {
	for changed := true; changed; {
		changed = false
		for _, smaller := range s.smaller() {
			if fails(smaller) {
				s, changed = smaller, true
				break
			}
		}
	}
	return s
}

// smaller are the scenarios that have less of one thing each, those first that promise most.
func (s Scenario) smaller() []Scenario {
	var list []Scenario
	with := func(change func(s *Scenario)) {
		t := s
		change(&t)
		list = append(list, t)
	}
	for _, percent := range []int{50, 80, 95} {
		if ops := s.Ops * percent / 100; ops >= 10 && ops < s.Ops {
			with(func(s *Scenario) { s.Ops = ops })
		}
	}
	if s.Pools > 1 {
		with(func(s *Scenario) { s.Pools = 1 })
	}
	if s.Layout != Direct {
		with(func(s *Scenario) { s.Layout = Direct })
	}
	if s.Nodes > 2 {
		with(func(s *Scenario) { s.Nodes-- })
	}
	if s.Users > 1 {
		with(func(s *Scenario) { s.Users /= 2 })
		with(func(s *Scenario) { s.Users-- })
	}
	for f := Fault(1); f < allFaults; f <<= 1 {
		if s.Calm&f == 0 {
			with(func(s *Scenario) { s.Calm |= f })
		}
	}
	return list
}
