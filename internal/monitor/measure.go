package monitor

import (
	"sort"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// takeLocked takes in a sample of node i.
func (m *Monitor) takeLocked(i int, s core.Sample) {
	v := &m.views[i]
	prev := v.Sample
	s = m.judgeLocked(i, s)
	v.Healthy, v.Err, v.Failures = true, nil, 0
	v.Role, v.Sample = s.Role, s
	v.Writable = s.Role == core.RoleReplica && s.Claim != nil && prev.Claim != nil && m.allAskedLocked(i) // the next answer of another may change it
	if prev.Start != s.Start || !prev.Position.ReachedBy(&s.Position) {
		// Another run of the server, or a crash that did not end it: what was known of it is of the past.
		v.Confirmed, v.ConfirmedTimeline = core.Position{}, 0
		v.Rate, v.Delay, v.AsOf = 0, 0, time.Time{}
		m.nodes[i].anchor = s
	} else if prev.Role == core.RoleReplica && prev.Position.Timeline != 0 && s.Position.Timeline == 0 {
		// Its receiver has ended, and with it the word for the timeline. What was exact stays proven.
		v.Confirmed, v.ConfirmedTimeline, v.ConfirmedBegan = prev.Position, prev.Position.Timeline, prev.Began
	}
	m.baseLocked(s)
	if m.nodes[i].cameBack(prev.Start, s.Start) {
		// No run of a server comes back: there are several.
		if !v.Shared || m.cfg.Nodes[i].Pooled && !v.Blind {
			m.events = append(m.events, Event{Kind: EventSharedEndpoint, Node: v.Name})
		}
		v.Shared, v.Blind = true, v.Blind || m.cfg.Nodes[i].Pooled
	}
	v.Foreign = m.history.system != 0 && s.Position.System != m.history.system
	v.Former = false
	if s.Role == core.RolePrimary {
		v.Stopped, v.Lag, v.LagKnown, v.Missing, v.Behind, v.Late = false, 0, true, 0, 0, false
		if i == m.primary {
			// Its address may lead to the primary of before a failover by now.
			v.Former = m.formerLocked(i)
			if m.up = !v.Former; m.up {
				m.reign.take(&s)
				m.rememberLocked(s)
			}
		}
		return
	}
	m.reign.follows(&s)
	if i == m.primary {
		m.up = false
	}
	m.measureLocked(i, prev)
}

// measureLocked works out how far behind replica i is.
func (m *Monitor) measureLocked(i int, prev core.Sample) {
	v := &m.views[i]
	s := v.Sample
	if m.history.system != s.Position.System {
		v.Lag, v.LagKnown, v.Missing, v.Behind = 0, false, 0, 0
		v.Stopped = m.nodes[i].stopped(v, prev, m.up)
		return
	}
	newest, ok := m.history.newest()
	ended := s.Ended
	if !m.up && ok {
		// What the primary has done since it went silent is not known: the replica is held to what was seen of it last.
		ended = newest.began
	}
	v.Lag, v.LagKnown, v.Behind = m.history.lag(&s.Position, s.Began, ended)
	v.Late = m.late(v)
	v.Missing = 0
	if ok {
		v.Missing = newest.inserted.Missing(&s.Position)
	}
	if prev.Start == s.Start {
		if d, ok := m.history.passed(&prev.Position, &s.Position, prev.Began); ok {
			v.Delay = d
		}
	}
	m.dateLocked(v)
	m.nodes[i].rate(v)
	v.Stopped = m.nodes[i].stopped(v, prev, m.up)
}

// late says whether a replica is beyond MaxLag, or was and has not come to nine tenths of it: one that hovers about the limit
// does not come and go with every probe.
func (m *Monitor) late(v *core.NodeView) bool {
	limit := m.cfg.MaxLag
	if limit < 0 || !v.LagKnown {
		return false
	}
	return v.Lag > limit || v.Late && v.Lag > limit-limit/10
}

// dateLocked works out up to when a replica is proven to show everything. What one run of a server shows only grows.
func (m *Monitor) dateLocked(v *core.NodeView) {
	proof, _ := v.Proof()
	newest, ok := m.history.newest()
	if !ok || !proof.SameHistory(newest.inserted) {
		return
	}
	if proof.Kind == core.KindMariaDB && !m.logged.Contains(proof.Domains()) {
		return // it may be on a line of writes of its own, where numbers mean other transactions
	}
	if n := m.history.reached(&proof, inserted); n > 0 && m.history.points[n-1].began.After(v.AsOf) {
		v.AsOf = m.history.points[n-1].began
	}
}

// Since returns what the primary had at some moment after since, the earliest that is known, and when that had been read.
// ok is false when nothing is known of it.
func (m *Monitor) Since(since time.Time) (p core.Position, at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	points := m.history.points
	i := sort.Search(len(points), func(i int) bool { return !points[i].began.Before(since) })
	if i == len(points) {
		return core.Position{}, time.Time{}, false
	}
	return points[i].inserted, points[i].ended, true
}

// rememberLocked takes in a sample of the primary. Replicas are measured against it: the first one of a log is the
// first moment at which they can be.
func (m *Monitor) rememberLocked(s core.Sample) {
	if s.Position.IsZero() {
		return
	}
	first := s.Position.System != m.history.system || s.Position.Timeline != m.history.timeline
	m.history.add(s)
	m.logged = s.History
	m.confirmLocked(s)
	for i := range m.views {
		if v := &m.views[i]; v.Role == core.RoleReplica {
			m.dateLocked(v)
		}
	}
	if !first {
		return
	}
	for i, n := range m.nodes {
		if i != m.primary {
			n.kick()
		}
	}
}

// confirmLocked lets a sample of the primary vouch for the replicas' samples that are older than it.
func (m *Monitor) confirmLocked(primary core.Sample) {
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RoleReplica || v.Sample.Position.Timeline != 0 || v.Sample.TimelineFloor != primary.Position.Timeline ||
			v.Sample.Position.System != primary.Position.System || !primary.Began.After(v.Sample.Ended) {
			continue
		}
		v.Confirmed, v.ConfirmedTimeline, v.ConfirmedBegan = v.Sample.Position, primary.Position.Timeline, v.Sample.Began
	}
}
