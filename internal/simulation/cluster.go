package simulation

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/readroute/readroute/internal/check"
)

// Engine is which servers a cluster is made of.
type Engine uint8

// The engines.
const (
	Postgres Engine = iota
	MySQL
	MariaDB
)

var engineNames = []string{"PostgreSQL", "MySQL", "MariaDB"}

// String is the engine's name.
func (e Engine) String() string { return engineNames[e] }

// cluster is a simulated replicated database. It takes no time but that of the clock that it is asked by, and does nothing
// by itself: where a replica is, is worked out when somebody looks.
type cluster struct {
	engine Engine
	rec    *check.Recorder

	mu        sync.Mutex
	rng       *rand.Rand // guarded by mu
	system    uint64
	servers   []*server
	truth     *server // the primary that counts
	timelines uint32
	lastID    int // of a server
	keys      map[int][]entry
	commits   []entry
	lost      map[int]bool
	lastStart time.Time
	split     time.Time // since when another server than truth takes writes; zero when none does

	async   float64 // how many commits are acknowledged before they are flushed
	fill    float64 // how many records end where a page does
	unflush float64 // how many commits have the records of an open transaction beside them
	// conflicts is how many reads a replica ends, or cannot serve.
	conflicts float64
	// unseen is how many commits are in the log before reads on the primary show them.
	unseen float64
	// unseenFor, of a [Stage], is for how long all of them are.
	unseenFor time.Duration
	late      time.Duration // of a [Stage]: how late the next write arrives, whose connection is cut; 0 when nothing of the kind happens
	tells     bool          // users may see a standby's timeline
	// unguarded is how many reads a replica has served in a session that would take writes where the server does.
	unguarded int
	texts     texts
	open      int // connections of clients
	trace     []note
}

// newCluster makes a primary and replicas of it.
func newCluster(engine Engine, rec *check.Recorder, seed uint64, servers int) *cluster {
	c := &cluster{
		engine: engine, rec: rec, rng: rand.New(rand.NewPCG(seed, 1)), timelines: 1, keys: map[int][]entry{}, lost: map[int]bool{},
		texts: textsOf(engine), tells: true,
	}
	c.lastID = 100 // those of the first servers, and of the alien, are below
	c.system = 7_000_000_000_000_000_000 + c.rng.Uint64N(1_000_000_000)
	log := &branch{timeline: 1, start: 3*segmentSize - 40_000}
	now := time.Now()
	for i := range servers {
		s := newServer(c, i+1, string(rune('a'+i)))
		s.at = place{log, 0}
		if i == 0 {
			s.primary, s.neverReplica, c.truth = true, true, s
			s.insert(record{at: now, flushed: now}, 100) // replicas have replayed something
		} else {
			s.source, s.fenced = c.truth, true
		}
		s.received = place{log, 0}
		c.servers = append(c.servers, s)
	}
	return c
}

// startTime is a time that no other server was started at, in the measure of the engine: MySQL and MariaDB tell seconds, and do
// not start as often as the simulation would have it.
func (c *cluster) startTime() time.Time {
	t, unit := time.Now(), time.Microsecond
	if c.engine != Postgres {
		unit = time.Second
	}
	if next := c.lastStart.Add(unit); t.Before(next) {
		t = next
	}
	c.lastStart = t
	return t
}

// between draws a duration.
func (c *cluster) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

func (c *cluster) chance(p float64) bool { return c.rng.Float64() < p }

// settle brings every server to where it is now, before something changes what they do.
func (c *cluster) settle(now time.Time) {
	for _, s := range c.servers {
		s.advance(now)
	}
}

// insert appends a record to a primary's log.
func (s *server) insert(r record, size int) {
	s.at.b.append(r, size, s.c.chance(s.c.fill))
	s.at.n++
}

// commit commits writes on a primary, and says how long it takes until that may be acknowledged.
func (c *cluster) commit(s *server, writes []write) time.Duration {
	now := time.Now()
	r := record{by: s, at: now, flushed: now, seen: now, said: now, writes: writes}
	if c.chance(c.unseen) && c.engine != MariaDB { // of which nobody can find out what it is committing
		r.seen = now.Add(c.between(0, 3*time.Millisecond))
		r.said = r.seen
	}
	if c.unseenFor > 0 {
		r.seen = now.Add(c.unseenFor)
		r.said = r.seen
	}
	if c.engine == MySQL {
		r.said = r.seen.Add(c.between(0, time.Millisecond))
	}
	noise := func() {
		if c.engine == Postgres && c.chance(c.unflush) {
			s.insert(record{by: s, at: now, flushed: now.Add(c.between(0, time.Second))}, 50+c.rng.IntN(500))
		}
	}
	noise()
	if c.engine == Postgres && c.chance(c.async) {
		r.flushed = now.Add(c.between(0, flushDelay))
	}
	if c.engine != Postgres {
		r.gtid = gtid{s.id, s.nextNumber()}
	}
	s.insert(r, 40+c.rng.IntN(300))
	index := s.at.n - 1
	noise()
	for _, w := range writes {
		e := entry{w, s.at.b, index}
		c.keys[w.key] = append(c.keys[w.key], e)
		if w.op < 0 {
			continue // of nobody's history
		}
		c.commits = append(c.commits, e)
		c.rec.Truth(func(h *check.History) {
			h.Commits = append(h.Commits, check.Commit{Version: w.version, At: c.rec.Since(r.seen)})
		})
		if s != c.truth {
			c.loseOne(w.version, now, false)
		}
	}
	return r.said.Sub(now)
}

// flushDelay is after how long an asynchronous commit is flushed for certain: 3 x wal_writer_delay.
const flushDelay = 600 * time.Millisecond

// lose writes down what the primary that counts does not have. That cannot be noticed when the log that had it goes on under
// the same name.
func (c *cluster) lose(now time.Time) {
	for _, e := range c.commits {
		if !c.lost[e.version] && !(place{e.b, e.index + 1}).within(c.truth.at) {
			c.loseOne(e.version, now, c.engine == Postgres && e.b.timeline == c.truth.at.b.timeline)
		}
	}
}

func (c *cluster) loseOne(version int, now time.Time, silent bool) {
	c.lost[version] = true
	c.rec.Truth(func(h *check.History) {
		h.Losses = append(h.Losses, check.Loss{Version: version, At: c.rec.Since(now), Silent: silent})
	})
}

// watchSplit writes down since when, and until when, two servers take writes.
func (c *cluster) watchSplit() {
	now, two := time.Now(), false
	for _, s := range c.servers {
		two = two || s != c.truth && s.primary && s.running && s.system == c.system
	}
	switch {
	case two && c.split.IsZero():
		c.split = now
	case !two && !c.split.IsZero():
		from := c.split
		c.split = time.Time{}
		c.rec.Truth(func(h *check.History) {
			h.Split = append(h.Split, check.Span{From: c.rec.Since(from), To: c.rec.Since(now)})
		})
	}
}
