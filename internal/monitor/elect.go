package monitor

import (
	"time"

	"github.com/readroute/readroute/internal/core"
)

// former reports that a server which calls itself a primary is one of before a failover. m.mu is held.
func (m *Monitor) former(s *core.Sample) bool {
	return !s.Position.IsZero() && s.Position.System == m.history.system && s.Position.Timeline < m.history.timeline
}

// formerPatience is for how long the primary's own address has to lead to a server of an older timeline before it is believed
// that this is the primary now: it was made anew from an old backup. Before that it is the one of before a failover, at an
// address that has moved, or moves back.
const formerPatience = 30 * time.Second

// stillPrimaryLocked reports whether a server that calls itself a primary, at the primary's address, is taken for it.
func (m *Monitor) stillPrimaryLocked(s *core.Sample) bool {
	switch {
	case !m.former(s):
		m.formerSince = time.Time{}
		return true
	case m.formerSince.IsZero():
		m.formerSince = s.Began
	}
	return s.Began.Sub(m.formerSince) >= formerPatience
}

// electLocked finds the primary among the nodes that say that they are it. The higher timeline wins; the one that was
// the primary keeps a tie. A node on an older timeline than the last primary's is the primary of before a failover, and
// not elected again because the new one is silent.
func (m *Monitor) electLocked() []Event {
	best, claims := -1, 0
	if m.history.system == 0 && m.views[0].Role == core.RoleUnknown && m.views[0].Failures == 0 {
		return nil // the one that is configured as the primary says first which system this is
	}
	system := m.history.system
	if system == 0 {
		system = m.views[0].Sample.Position.System // also a replica says which one is meant
	}
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RolePrimary || !v.Healthy {
			continue
		}
		claims++
		switch p := v.Sample.Position; {
		case system != 0 && p.System != system && i != m.primary:
			// Another system's primary is none of this cluster. The primary itself may have been made anew.
		case best >= 0 && p.System != m.views[best].Sample.Position.System:
			// Nor is this one, next to the first in the order of the configuration.
		case m.former(&v.Sample):
		case best < 0, v.Sample.Position.Timeline > m.views[best].Sample.Position.Timeline:
			best = i
		case v.Sample.Position.Timeline == m.views[best].Sample.Position.Timeline && i == m.primary:
			best = i
		}
	}
	var events []Event
	if claims > 1 && best >= 0 && m.claims != claims {
		events = append(events, Event{Kind: EventTwoPrimaries, Node: m.views[best].Name})
	}
	m.claims = claims
	if best < 0 || best == m.primary {
		return events
	}
	m.primary, m.up = best, true
	m.rememberLocked(m.views[best].Sample)
	return append(events, Event{Kind: EventPrimaryChanged, Node: m.views[best].Name})
}
