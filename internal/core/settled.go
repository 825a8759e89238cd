package core

import (
	"sync/atomic"
	"time"
)

// Where the reads of a session may go is a pure function of the session's state and of a snapshot, as long as no clock is asked, and
// both are immutable. So the answer is kept with the state, for the next read that finds both as they were.

// settledBits is how many nodes a cluster may have for that: their mask shares a word with the number of the snapshot.
const settledBits = 8

// Settled is the nodes that may serve a read by one snapshot. The zero Settled has none. It is safe for concurrent use.
type Settled struct{ word atomic.Uint64 }

// Nodes returns the nodes by the snapshot of a number; 0 when they are not known.
func (m *Settled) Nodes(number uint64) uint64 {
	word := m.word.Load()
	if word>>settledBits != number {
		return 0
	}
	return word & (1<<settledBits - 1)
}

func (m *Settled) settle(s *Snapshot, nodes uint64) {
	if s.Number != 0 && len(s.Nodes) <= settledBits {
		m.word.Store(s.Number<<settledBits | nodes)
	}
}

// Settle keeps the nodes that may serve a read which needs n at [LevelSession], by s. clean is kept by the caller for all sessions
// without a state.
func (n *Need) Settle(s *Snapshot, nodes uint64, clean *Settled) {
	if n.state != nil {
		clean = &n.state.settled
	}
	clean.settle(s, nodes)
}

// IsClean reports that the session has no state: it has not written anything, and needs nothing.
func (s *Session) IsClean() bool { return s.state.Load() == nil }

// Settled returns what Settle has kept with the session's state by the snapshot of a number, and the positions that such a read needs. nodes
// is 0 when it has to be found out.
func (s *Session) Settled(cluster string, number uint64) (nodes uint64, positions []Position, capturedAt time.Time) {
	state := s.state.Load()
	if state == nil {
		return 0, nil, time.Time{}
	}
	if c := state.find(cluster); c != nil {
		positions, capturedAt = c.entry.Positions, c.captured
	}
	return state.settled.Nodes(number), positions, capturedAt
}
