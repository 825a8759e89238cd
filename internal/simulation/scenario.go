package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/readroute/readroute"
)

// Scenario is one run of the simulation. The same scenario is the same run.
type Scenario struct {
	Seed   uint64
	Engine Engine
	Ops    int // how many operations
	Users  int // how many sessions at a time
	Pools  int // processes, each with a routed pool of its own
	Nodes  int // servers
	Layout Layout
	Calm   Fault // faults that are left out
}

// Layout is how addresses lead to servers.
type Layout uint8

// The layouts.
const (
	Direct Layout = iota // an address a server
	Moving               // an address that follows the primary, and one each for all servers that are not it
	Shared               // an address that follows the primary, and one for all replicas together
	Pooled               // an address a server, behind a pooler in transaction mode (PostgreSQL)
)

var layoutNames = []string{"direct", "moving", "shared", "pooled"}

// String is the layout's name.
func (l Layout) String() string { return layoutNames[l] }

// NewScenario draws a scenario from a seed.
func NewScenario(seed uint64, ops int) Scenario {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := Scenario{
		Seed: seed, Ops: ops, Engine: Postgres, Users: 4 + rng.IntN(12), Pools: 1 + rng.IntN(3), Nodes: 3 + rng.IntN(3),
	}
	switch rng.IntN(5) {
	case 0:
		s.Engine = MySQL
	case 1:
		s.Engine = MariaDB
	}
	switch rng.IntN(8) {
	case 0, 1:
		s.Layout = Moving
	case 2:
		s.Layout = Shared
	case 3:
		if s.Engine == Postgres {
			s.Layout = Pooled
		}
	}
	for f := Fault(1); f < allFaults; f <<= 1 {
		if rng.IntN(4) == 0 {
			s.Calm |= f // with fewer at a time, each is met more often, and in other company
		}
	}
	if s.Pools > 1 || s.Layout != Direct {
		// A process that cannot know of the new primary yet reads from the former one, whatever its sessions bring along; and an
		// address that moves while the former primary takes writes leaves connections to both.
		s.Calm |= Splits
	}
	if s.Layout == Pooled {
		// A pooler that was seen to lead elsewhere serves no fresh read any more, and a crash that the pooler hides between two
		// round trips is not guarded against: both by design.
		s.Calm |= Moves | Strangers | Crashes
	}
	return s
}

// settings are the choices of a routed pool.
func settings(rng *rand.Rand) readroute.Config {
	pick := func(list ...time.Duration) time.Duration { return list[rng.IntN(len(list))] }
	config := readroute.Config{
		Strategy:          readroute.PositionWait(pick(0, 20*time.Millisecond, 100*time.Millisecond, time.Second)),
		MaxLag:            pick(0, time.Second, 5*time.Second),
		CaptureTimeout:    pick(0, 10*time.Millisecond, 200*time.Millisecond),
		ProbeInterval:     pick(0, 100*time.Millisecond, 250*time.Millisecond),
		ProbeTimeout:      pick(0, 200*time.Millisecond, 500*time.Millisecond),
		StickyWindow:      time.Minute,
		CatalogueInterval: -1,
	}
	if rng.IntN(4) == 0 {
		config.FallbackLimit = 1 + rng.IntN(3)
	}
	if rng.IntN(5) == 0 {
		config.WithoutSession = readroute.WithoutSessionProcess
	}
	if rng.IntN(3) == 0 {
		config.StickyWindow = pick(20*time.Millisecond, 200*time.Millisecond) // replicas are late for longer
	}
	return config
}

// Fault is a set of kinds of faults.
type Fault uint32

// The kinds of faults.
const (
	Pauses     Fault = 1 << iota // a replica replays nothing for a while
	Lags                         // a replica is late
	Freezes                      // a server answers nothing
	Kills                        // a server ends and comes back
	Crashes                      // a server's sessions end, and it goes back a little, in the same run
	Cuts                         // connections break
	Slowness                     // messages take long
	Holes                        // messages do not arrive
	Losses                       // questions and answers are lost, with their connections
	Promotions                   // another server becomes the primary
	Splits                       // the former primary goes on, or comes back as one
	Diverged                     // a server that has what the primary lacks is a replica
	Moves                        // an address leads to another server
	Rebuilds                     // a replica is made anew from an old backup
	Strangers                    // an address leads to a server of another system
	Cascades                     // a replica has another for its source
	Conflicts                    // a replica cannot serve a read
	Async                        // commits are acknowledged before they are flushed
	Pages                        // records end where pages do
	Hidden                       // users may not see a standby's timeline
	Unseen                       // commits are in the log before reads on the primary show them
	allFaults

	Everything = allFaults - 1 // all of them
)

var faultNames = []string{
	"pauses", "lags", "freezes", "kills", "crashes", "cuts", "slowness", "holes", "losses", "promotions", "splits", "diverged",
	"moves", "rebuilds", "strangers", "cascades", "conflicts", "async", "pages", "hidden", "unseen",
}
