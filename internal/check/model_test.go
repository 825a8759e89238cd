package check_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/readroute/readroute/internal/check"
)

// model makes histories that break no promise: a log in which every commit has its place, and readers that are shown a
// beginning of it which is long enough for what they were promised.
type model struct {
	rng      *rand.Rand
	now      time.Duration
	h        check.History
	log      []int // versions, in order
	keyOf    map[int]int
	acked    int // how much of the log was acknowledged
	ackedAt  []time.Duration
	sessions []*modelSession
	tokens   []modelToken
	must     map[int][]int // by read: what it may not leave out
	next     int
}

type modelSession struct {
	id    int
	wrote int  // how much of the log it has written, or was handed
	read  int  // how much it has read at a level that remembers
	open  int  // the operation that is under way; -1 when none is
	need  int  // of the read that is under way
	pair  pair // of the token that is under way
}

type pair struct{ wrote, read int }

type modelToken struct {
	op int
	pair
}

// newHistory makes one of about ops operations.
func newHistory(seed uint64, ops int) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, 9)), keyOf: map[int]int{}, must: map[int][]int{}}
	for i := range 1 + m.rng.IntN(5) {
		m.sessions = append(m.sessions, &modelSession{id: i + 1, open: -1})
	}
	for len(m.h.Ops) < ops {
		m.now += time.Duration(1 + m.rng.IntN(3))
		s := m.sessions[m.rng.IntN(len(m.sessions))]
		switch {
		case m.rng.IntN(60) == 0:
			m.failover()
		case s.open < 0:
			m.begin(s)
		default:
			m.end(s)
		}
	}
	for _, s := range m.sessions {
		if s.open >= 0 {
			m.now++
			m.end(s)
		}
	}
	return m
}

func (m *model) begin(s *modelSession) {
	o := check.Op{ID: len(m.h.Ops), Session: s.id, Begin: m.now, Asked: m.now, Key: m.rng.IntN(4), Limit: time.Hour, Statements: 1}
	switch n := m.rng.IntN(10); {
	case n < 3:
		o.Kind = check.Write
		m.next++
		o.Version = m.next
		o.Routes = []check.Route{{Node: "a", Reason: "write"}}
		m.keyOf[o.Version] = o.Key
	case n == 3:
		o.Kind, s.pair, o.Statements = check.Token, pair{s.wrote, s.read}, 0
	case n == 4 && len(m.tokens) > 0:
		o.Kind, o.Statements = check.Merge, 0
		o.From = m.tokens[m.rng.IntN(len(m.tokens))].op
	case n == 5:
		o.Kind, s.need, o.Statements = check.Fence, m.acked, 0
	default:
		m.ask(s, &o)
	}
	s.open = o.ID
	m.h.Ops = append(m.h.Ops, o)
}

// ask settles what a read has to be shown.
func (m *model) ask(s *modelSession, o *check.Op) {
	o.Kind, o.Level = check.Read, check.Level(m.rng.IntN(6))
	o.Routes = []check.Route{{Node: "b", Replica: m.rng.IntN(2) == 0, Reason: "covered"}}
	switch o.Level {
	case check.Eventual:
		s.need = 0
	case check.Bounded:
		o.Within = time.Duration(m.rng.IntN(40))
		s.need = 0
		for i, at := range m.ackedAt {
			if at < o.Asked-o.Within {
				s.need = i + 1
			}
		}
	case check.Session, check.Primary:
		s.need = s.wrote
	case check.Causal:
		s.need = max(s.wrote, s.read)
	case check.Global:
		s.need = max(s.wrote, s.read, m.acked)
	}
}

func (m *model) end(s *modelSession) {
	o := &m.h.Ops[s.open]
	o.End, o.Outcome = m.now, check.OK
	s.open = -1
	switch o.Kind {
	case check.Write:
		m.write(s, o)
	case check.Read:
		if len(m.h.Losses) > 0 {
			m.h.Reports = append(m.h.Reports, m.now)
		}
		shown := s.need + m.rng.IntN(len(m.log)-s.need+1)
		for i, v := range m.log[:shown] {
			if m.keyOf[v] != o.Key {
				continue
			}
			o.Saw = append(o.Saw, v)
			if i < s.need && m.owes(o, v) {
				m.must[o.ID] = append(m.must[o.ID], v)
			}
		}
		if o.Level == check.Causal || o.Level == check.Global {
			s.read = max(s.read, shown)
		}
	case check.Token:
		m.tokens = append(m.tokens, modelToken{o.ID, s.pair})
	case check.Merge:
		i := slices.IndexFunc(m.tokens, func(t modelToken) bool { return t.op == o.From })
		s.wrote, s.read = max(s.wrote, m.tokens[i].wrote), max(s.read, m.tokens[i].read)
	case check.Fence:
		s.wrote = max(s.wrote, s.need)
	case check.Other:
	}
}

// owes reports whether a version is one that a read may not leave out for sure: the beginning of the log that it must show
// may end with writes of others.
func (m *model) owes(o *check.Op, version int) bool {
	for i := range m.h.Ops {
		if w := &m.h.Ops[i]; w.Kind == check.Write && w.Version == version {
			all := o.Level == check.Global || o.Level == check.Bounded
			return w.Outcome == check.OK && (all || w.Session == o.Session && w.End < o.Asked)
		}
	}
	return false
}

// write commits, or does not, or perhaps.
func (m *model) write(s *modelSession, o *check.Op) {
	switch n := m.rng.IntN(12); {
	case n == 0:
		o.Outcome = check.Failed
		return
	case n == 1:
		o.Outcome = check.Unknown // and it never comes to stand
		return
	case n == 2:
		o.Outcome = check.Unknown
	}
	m.log = append(m.log, o.Version)
	m.h.Commits = append(m.h.Commits, check.Commit{Version: o.Version, At: m.now})
	m.h.Runs = append(m.h.Runs, check.Run{Op: o.ID, Node: "a", Primary: true, Wrote: true})
	for len(m.ackedAt) < len(m.log) {
		m.ackedAt = append(m.ackedAt, m.now)
	}
	s.wrote = len(m.log)
	m.acked = len(m.log)
}

// failover loses the end of the log. Each read says so from then on.
func (m *model) failover() {
	kept := len(m.log) - m.rng.IntN(min(3, len(m.log)+1))
	m.now++
	for _, v := range m.log[kept:] {
		m.h.Losses = append(m.h.Losses, check.Loss{Version: v, At: m.now})
	}
	m.log, m.ackedAt, m.acked = m.log[:kept:kept], m.ackedAt[:kept:kept], min(m.acked, kept)
	for _, s := range m.sessions {
		s.wrote, s.read, s.need = min(s.wrote, kept), min(s.read, kept), min(s.need, kept)
		s.pair = pair{min(s.pair.wrote, kept), min(s.pair.read, kept)}
	}
	for i := range m.tokens {
		m.tokens[i].wrote, m.tokens[i].read = min(m.tokens[i].wrote, kept), min(m.tokens[i].read, kept)
	}
	m.now++
}
