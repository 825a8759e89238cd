package monitor

import (
	"time"

	"github.com/readroute/readroute/internal/core"
)

// reign is what a primary with GTIDs has written since it became one: of before a failover is who has nothing of it. Until it has
// written it is the last primary's that counts.
type reign struct {
	server core.Start
	since  time.Time
	before core.Position // its own transactions when it was seen first
	began  core.Position // the first of them that were seen after that
	next   accession
	// replicas are when servers were seen as replicas last, and ended when they ceased to be the primary.
	replicas, ended map[uint64]time.Time
}

// accession is how a primary was seen first.
type accession struct {
	server core.Start
	at     time.Time
	own    core.Position
	wrote  bool
}

// replicasKept bounds how many servers are remembered; addresses may lead to new ones again and again.
const replicasKept = 256

// follows takes in a sample of a replica.
func (r *reign) follows(s *core.Sample) { remember(&r.replicas, s.Start.System, s.Began) }

func remember(m *map[uint64]time.Time, system uint64, at time.Time) {
	if *m == nil || len(*m) >= replicasKept {
		*m = make(map[uint64]time.Time)
	}
	(*m)[system] = at
}

// take takes in a sample of the primary. One that was a replica meanwhile begins anew: others have what it wrote before.
func (r *reign) take(s *core.Sample) {
	n := &r.next
	switch {
	case s.Start.System != n.server.System, r.replicas[n.server.System].After(n.at):
		remember(&r.ended, n.server.System, s.Began)
		delete(r.ended, s.Start.System)
		*n = accession{server: s.Start, at: s.Began, own: s.Own}
	case !n.wrote && (s.Own.GTIDs() != n.own.GTIDs() || s.Own.Domains() != n.own.Domains()):
		n.wrote = true
		r.server, r.since, r.before, r.began = n.server, n.at, n.own, s.Own
	}
}

// formerPatience is for how long a server of before a failover has to be the only one that calls itself the primary before it is
// believed: it was made anew from an old backup, or what the last primary wrote is lost. Before that it is an address that
// has moved, or a machine that has come back.
const formerPatience = 30 * time.Second

// formerLocked reports that node i, which calls itself a primary, is one of before a failover.
func (m *Monitor) formerLocked(i int) bool {
	n, s := m.nodes[i], &m.views[i].Sample
	if !m.ofBeforeLocked(s) {
		n.formerSince = time.Time{}
		return false
	}
	if i != m.primary && (m.up || s.Position.Kind == core.KindPostgres) {
		n.formerSince = time.Time{}
		return true // the primary answers, or a timeline says for certain that it has ended
	}
	if n.formerSince.IsZero() {
		n.formerSince = s.Began
	}
	return s.Began.Sub(n.formerSince) < formerPatience
}

// ofBeforeLocked reports that a primary's sample is on a timeline that has ended or, where there are no timelines, of a server
// that has nothing of what the last primary has written, and was not seen as a replica since.
func (m *Monitor) ofBeforeLocked(s *core.Sample) bool {
	kind := s.Position.Kind
	if kind == core.KindNone {
		kind = m.reign.began.Kind // a server that has written nothing, and replicated nothing, has no GTID
	}
	switch kind {
	case core.KindNone:
		return false
	case core.KindMySQL, core.KindMariaDB:
		return m.formerReignLocked(s)
	}
	return s.Position.System == m.history.system && s.Position.Timeline < m.history.timeline
}

// formerReignLocked is ofBeforeLocked without timelines. A primary whose writes nobody has seen may have some all the same while
// captures wait that no sample has answered: its predecessor is one of before then.
func (m *Monitor) formerReignLocked(s *core.Sample) bool {
	r, system := &m.reign, s.Start.System
	if system == r.next.server.System {
		return false
	}
	if ended, was := r.ended[system]; was && !r.next.wrote && m.awaited.Load() > 0 && !r.replicas[system].After(ended) {
		return true
	}
	return system != r.server.System && !r.began.IsZero() && !r.replicas[system].After(r.since) && !s.HasAny(r.began, r.before)
}

// electLocked finds the primary among the nodes that say that they are it. The higher timeline wins; the one that was
// the primary keeps a tie. A node on an older timeline than the last primary's is the primary of before a failover, and
// not elected again because the new one is silent.
func (m *Monitor) electLocked() []Event {
	best := -1
	if m.history.system == 0 && m.views[0].Role == core.RoleUnknown && m.views[0].Failures == 0 {
		return nil // the one that is configured as the primary says first which system this is
	}
	system := m.history.system
	if system == 0 {
		system = m.views[0].Sample.Position.System // also a replica says which one is meant
	}
	meant := system
	if v := &m.views[m.primary]; v.Role == core.RoleReplica && v.Healthy && !v.Sample.Position.IsZero() {
		meant = v.Sample.Position.System // the name of the primary says which system is meant as long as nobody is the primary of its own
	}
	tied := core.Start{}
	for i := range m.views {
		v := &m.views[i]
		if v.Role != core.RolePrimary || !v.Healthy || v.Sample.Claim != nil && !m.countsLocked(i) {
			m.nodes[i].claimed = time.Time{}
			continue
		}
		if m.nodes[i].claimed.IsZero() {
			m.nodes[i].claimed = v.Sample.Ended
		}
		switch p := v.Sample.Position; {
		case system != 0 && p.System != system && p.System != meant && i != m.primary:
			// Another system's primary is none of this cluster. The primary itself may have been made anew.
		case best >= 0 && p.System != m.views[best].Sample.Position.System:
			if p.System == system && i != m.primary && !m.formerLocked(i) {
				best = i
			}
			// Else it is none either, next to the first in the order of the configuration.
		case m.formerLocked(i):
		case best < 0, v.Sample.Position.Timeline > m.views[best].Sample.Position.Timeline:
			best = i
		case v.Sample.Position.Timeline != m.views[best].Sample.Position.Timeline:
		case v.Sample.Start == m.views[best].Sample.Start:
			// One server under two names. What answers under a name of several servers is the primary now, and another one to the next
			// who dials. Nor may a name lead any more to where it led when it was dialled: both are.
			if tied = v.Sample.Start; tied != m.tied {
				m.Redial(i)
				m.Redial(best)
			}
			if m.views[best].Shared && !v.Shared || i == m.primary && v.Shared == m.views[best].Shared {
				best = i
			}
		case i == m.primary:
			best = i
		}
	}
	m.tied = tied
	var events []Event
	claims := m.claimsLocked(best)
	if claims > 1 && best >= 0 && m.claims != claims {
		events = append(events, Event{Kind: EventTwoPrimaries, Node: m.views[best].Name})
	}
	m.claims = claims
	if best < 0 || best == m.primary || m.returnsLocked() {
		return events
	}
	m.primary, m.up = best, true
	m.reign.take(&m.views[best].Sample)
	m.rememberLocked(m.views[best].Sample)
	return append(events, Event{Kind: EventPrimaryChanged, Node: m.views[best].Name})
}

// claimsLocked is how many nodes call themselves primary beside best, and with it. Of two each must have been asked after the other had said
// so: in a failover the next one may be heard before it is seen that the last one has died, or was demoted.
func (m *Monitor) claimsLocked(best int) int {
	claims := 0
	for i, n := range m.nodes {
		if best < 0 || n.claimed.IsZero() {
			continue
		}
		if i == best || !m.views[i].Sample.Began.Before(m.nodes[best].claimed) && !m.views[best].Sample.Began.Before(n.claimed) {
			claims++
		}
	}
	return claims
}
