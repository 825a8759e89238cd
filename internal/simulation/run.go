package simulation

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/check"
)

// Result is what came of a scenario.
type Result struct {
	Scenario   Scenario
	History    *check.History
	Violations []check.Violation
	Faults     Faults
	Took       time.Duration // of simulated time
	Err        error         // what else was wrong: something was left over, or never worked again

	trace []note
}

// Failed reports whether anything was wrong.
func (r *Result) Failed() bool { return r.Err != nil || len(r.Violations) > 0 }

// Kind says in a word or two what was wrong; it is empty when nothing was.
func (r *Result) Kind() string {
	switch {
	case len(r.Violations) > 0:
		return r.Violations[0].Rule.String()
	case r.Err != nil:
		return "error"
	}
	return ""
}

// traced is how much of a trace comes before the first violation.
const traced = 6 * time.Second

// Trace is what happened to the servers and was noticed by the pools before the first violation, or at the end when there is
// none, a line each.
func (r *Result) Trace() string {
	from, to := r.Took-traced, r.Took
	if len(r.Violations) > 0 && r.Violations[0].Op >= 0 {
		o := r.History.Ops[r.Violations[0].Op]
		from, to = o.Begin-traced, max(o.Begin, o.End)
	}
	var b strings.Builder
	for _, n := range r.trace {
		if n.at >= from && n.at <= to {
			fmt.Fprintf(&b, "  %s %s\n", n.at, n.text)
		}
	}
	return b.String()
}

// connectorFor is what a pool is given to reach an endpoint.
func connectorFor(n *network) driver.Connector {
	c := &Connector{net: n}
	if n.c.engine != Postgres {
		return struct{ driver.Connector }{c} // it has no read-only form
	}
	return c
}

// Run runs a scenario. It must be called in a bubble of testing/synctest, whose time it uses.
func Run(s Scenario) *Result {
	seedChance(s.Seed)
	rng := rand.New(rand.NewPCG(s.Seed, 4))
	rec := check.NewRecorder()
	c := newCluster(s.Engine, rec, s.Seed, s.Nodes)
	w := newWorld(c, s.Layout)
	on := func(f Fault, p float64) float64 {
		if s.Calm&f != 0 {
			return 0
		}
		return p
	}
	c.async, c.fill, c.unflush, c.conflicts, c.unseen = on(Async, 0.3), on(Pages, 0.1), on(Async, 0.1), on(Conflicts, 0.01), on(Unseen, 0.3)
	// Between two primaries, a standby that does not tell its timeline may be of either: by design, that is not guarded against.
	c.tells = rng.IntN(2) == 0 || s.Calm&Hidden != 0 || s.Calm&Splits == 0

	r := &Result{Scenario: s}
	load := &Workload{Record: rec, Engine: s.Engine, Ops: int64(s.Ops), Pace: 500 * time.Millisecond, Grace: 20 * time.Millisecond}
	for i := range s.Pools {
		config := settings(rng)
		nodes := w.nodes(rng.Uint64())
		config.Primary, config.Replicas = nodes[0], nodes[1:]
		config.Hooks = readroute.JoinHooks(Hooks(rec), readroute.Hooks{Event: func(e readroute.Event) {
			c.tell("pool %d: %s %s %s %v %s", i, e.Kind, e.Node, e.Role, e.Err, e.Why)
		}})
		db, err := readroute.Open(config)
		if err != nil {
			r.Err = err
			return r
		}
		load.Pools = append(load.Pools, db)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, db := range load.Pools {
		if err := db.WaitReady(ctx); err != nil {
			r.Err = err
			return r
		}
	}
	f := &storm{w: w, c: c, rng: rand.New(rand.NewPCG(s.Seed, 5)), calm: s.Calm}
	raging, calm := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { f.run(raging) })
	load.Run(ctx, s.Users, s.Seed)
	calm()
	wg.Wait()
	r.Err = errors.Join(r.recovers(ctx, f, load), r.leaves(c, load))
	r.Took, r.Faults, r.trace = rec.Now(), f.done, c.trace
	r.History = rec.History()
	r.Violations = r.History.Verify()
	return r
}

// recovers ends all faults and waits until every pool has its reads served by replicas again.
func (r *Result) recovers(ctx context.Context, f *storm, load *Workload) error {
	timer := time.NewTimer(10 * time.Second) // what was to be undone later has been
	<-timer.C
	f.heal()
	timer.Reset(5 * time.Second)
	<-timer.C
	var errs []error
	for i, db := range load.Pools {
		errs = append(errs, served(ctx, fmt.Sprintf("pool %d", i), db, load.texts, timer))
	}
	f.do(func() {}) // it writes down the end of a split
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\n%s", err, f.w)
	}
	return nil
}

// recovery is how long a pool may take, once nothing is wrong any more. A former primary whose log tells nothing is not believed to
// be a replica for half a minute.
const recovery = 45 * time.Second

// served lets a session write once, and read until a replica serves it.
func served(ctx context.Context, name string, db *readroute.DB, t texts, timer *time.Timer) error {
	began := time.Now()
	ctx = readroute.WithFallback(readroute.WithWait(readroute.WithSession(ctx), time.Second), readroute.FallbackError)
	var last error
	for wrote := false; time.Since(began) < recovery; {
		if !wrote {
			_, last = db.ExecContext(ctx, t.insert, -1, int(time.Since(began)))
			wrote = last == nil
		}
		if wrote {
			if _, last = values(db.QueryContext(ctx, t.read, -1)); last == nil {
				return nil
			}
		}
		timer.Reset(100 * time.Millisecond)
		<-timer.C
	}
	text := ""
	for _, n := range db.Nodes() {
		text += fmt.Sprintf("\n  %+v", n)
	}
	return fmt.Errorf("%s has no read served by a replica %s after all faults have ended: %w%s", name, recovery, last, text)
}

// leaves closes the pools, and finds out whether anything is left of them.
func (r *Result) leaves(c *cluster, load *Workload) error {
	var errs []error
	for _, db := range load.Pools {
		if err := db.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	timer := time.NewTimer(time.Second)
	<-timer.C
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open != 0 {
		errs = append(errs, fmt.Errorf("%d connections are left open", c.open))
	}
	return errors.Join(errs...)
}
