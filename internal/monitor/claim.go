package monitor

import (
	"slices"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// claim is what is remembered of a server that accepts writes while it replicates: the primary of a pair that feed one another, one
// that collects from elsewhere, one that was promoted while its replication went on, or a replica that nobody has made read-only. The last
// of them must never be the primary.
type claim struct {
	asked core.Sample // the newest, as the server said it
	// opened is when it was seen to accept writes first, after it was seen not to on the same run of the server: somebody
	// has promoted it. Zero when it was not.
	opened time.Time
	// follower: it accepted writes while a server did that feeds it and is not fed by it. It stays a replica until it is made read-only
	// or its replication stops, whatever becomes of the other.
	follower bool
	// pulled is what it replicated from when it became the primary by being opened.
	pulled []uint64
}

// take takes in the newest sample.
func (c *claim) take(s *core.Sample) {
	before := &c.asked
	switch {
	case before.Start.System != s.Start.System:
		*c = claim{}
	case !s.Writable() || before.Start != s.Start:
		c.opened = time.Time{}
	case !before.Writable():
		c.opened = s.Began
	}
	if s.Claim == nil {
		c.follower, c.pulled = false, nil
	}
	c.asked = *s
}

// judgeLocked remembers what node i's server has said, and returns it as that of the role that it counts in.
func (m *Monitor) judgeLocked(i int, s core.Sample) core.Sample {
	c := &m.nodes[i].claim
	c.take(&s)
	if s.Claim == nil {
		return s
	}
	if !m.countsLocked(i) {
		c.pulled = nil
		return s
	}
	if m.views[i].Role != core.RolePrimary && !c.opened.IsZero() {
		m.upstreamLocked(i, func(source uint64, _ int) { c.pulled = append(c.pulled, source) })
	}
	return s.AsPrimary()
}

// rejudgeLocked asks those once more whose claim is judged differently by what was seen of another node.
func (m *Monitor) rejudgeLocked(seen int) {
	for i, n := range m.nodes {
		if i != seen && n.claim.asked.Claim != nil && m.countsLocked(i) != (m.views[i].Role == core.RolePrimary) {
			n.kick()
		}
	}
}

// countsLocked reports that node i, which has a claim, may be the primary: nothing that feeds it can be. It never is when it has
// been seen to follow a primary.
func (m *Monitor) countsLocked(i int) bool {
	c := &m.nodes[i].claim
	if c.follower {
		return false
	}
	// The configuration, or an election, speaks for the one that is taken for the primary, and who opened it for another.
	current, opened := i == m.primary, !c.opened.IsZero()
	counts := true
	m.upstreamLocked(i, func(source uint64, j int) {
		if j < 0 {
			counts = counts && ((current || opened) && m.allAskedLocked(i) || m.headsLocked(i))
			return
		}
		switch feeder := &m.nodes[j].claim.asked; {
		case !feeder.Writable(), m.feedsLocked(i, j):
		case current && (slices.Contains(c.pulled, source) || m.ofBeforeLocked(&m.views[j].Sample)):
			// What it was promoted over has come back, or never knew of that.
		case opened && feeder.Began.Before(c.opened):
			counts = counts && !m.views[j].Healthy // when it is, its next answer tells
		default:
			c.follower, counts = true, false
		}
	})
	return counts
}

// returnsLocked reports that the one that is taken for the primary will be it with its next answer, for which it has been asked.
func (m *Monitor) returnsLocked() bool {
	v := &m.views[m.primary]
	return v.Healthy && v.Role == core.RoleReplica && m.nodes[m.primary].claim.asked.Claim != nil && m.countsLocked(m.primary)
}

// allAskedLocked reports that every node but i has answered, or failed to, so that one that is not known yet is no node of ours.
func (m *Monitor) allAskedLocked(i int) bool {
	for j := range m.views {
		if v := &m.views[j]; j != i && v.Role == core.RoleUnknown && v.Failures == 0 {
			return false
		}
	}
	return true
}

// headsLocked reports that all other nodes replicate from node i, so that what feeds it is none of them.
func (m *Monitor) headsLocked(i int) bool {
	for j := range m.nodes {
		if j != i && !m.feedsLocked(i, j) {
			return false
		}
	}
	return true
}

// upstreamLocked calls visit for all that node i replicates from, and for what these are set to replicate from, and so on. A server
// that no node is known to be is -1.
func (m *Monitor) upstreamLocked(i int, visit func(source uint64, node int)) {
	seen := make([]bool, len(m.nodes))
	seen[i] = true
	var walk func(of int)
	walk = func(of int) {
		for _, source := range m.nodes[of].claim.asked.Sources {
			if of == i && !source.Active {
				continue
			}
			known := false
			for j, n := range m.nodes {
				if source.Self == 0 || n.claim.asked.Self != source.Self {
					continue
				}
				known = true
				if !seen[j] {
					seen[j] = true
					visit(source.Self, j)
					walk(j)
				}
			}
			if !known {
				visit(source.Self, -1)
			}
		}
	}
	walk(i)
}

// feedsLocked reports that node to replicates from node from, through others or not. What is stopped does not.
func (m *Monitor) feedsLocked(from, to int) bool {
	seen := make([]bool, len(m.nodes))
	var reaches func(j int) bool
	reaches = func(j int) bool {
		seen[j] = true
		for _, source := range m.nodes[j].claim.asked.Sources {
			if !source.Active || source.Self == 0 {
				continue
			}
			for k, n := range m.nodes {
				if n.claim.asked.Self == source.Self && (k == from || !seen[k] && reaches(k)) {
					return true
				}
			}
		}
		return false
	}
	return reaches(to)
}
