package core

import "time"

// covers holds a replica to all that the session needs.
func covers(in *Input, s *Snapshot, n *NodeView) Coverage {
	if n.Blind && len(in.Need.Positions) > 0 {
		return Incomparable
	}
	if n.Sample.Position.Timeline == 0 {
		replay, _ := n.Proof()
		return s.covers(&replay, in.Need.Positions, in.Need.CapturedAt)
	}
	return s.covers(&n.Sample.Position, in.Need.Positions, in.Need.CapturedAt)
}

// Covers compares everything that is required, captured at capturedAt, with a replay position.
func (s *Snapshot) Covers(replay Position, required []Position, capturedAt time.Time) Coverage {
	return s.covers(&replay, required, capturedAt)
}

func (s *Snapshot) covers(replay *Position, required []Position, capturedAt time.Time) Coverage {
	result := Covered
	for i := range required {
		p := &required[i]
		if p.Kind != KindPostgres {
			switch p.coveredBy(replay, s.history()) {
			case Incomparable:
				if !p.sameHistory(replay) || !s.onItsWay(p, replay) {
					return Incomparable
				}
				result = NotCovered
			case NotCovered:
				result = NotCovered
			case Covered:
			}
			continue
		}
		if !p.sameHistory(replay) {
			return Incomparable
		}
		if replay.LSN < p.LSN && s.Effective(*p, capturedAt).LSN > replay.LSN {
			result = NotCovered
		}
	}
	return result
}

// onItsWay reports that p cannot be compared with what a replica has only because that has nothing yet of a server or a domain in
// it: the primary, as it was seen last, has all of p, and the replica is on no other line of writes.
func (s *Snapshot) onItsWay(p, replay *Position) bool {
	if p.Kind == KindMySQL && s.Primary >= 0 && s.Primary < len(s.Nodes) {
		n := &s.Nodes[s.Primary].Sample
		return n.Role == RolePrimary && n.Position.GTIDs().Contains(p.GTIDs())
	}
	history := s.history()
	return p.Kind == KindMariaDB && !history.IsZero() && history.Contains(p.Domains()) && history.Contains(replay.Domains())
}

// history is what the primary has logged, as far as it is known.
func (s *Snapshot) history() MariaDBGTID {
	if s.Primary < 0 || s.Primary >= len(s.Nodes) {
		return MariaDBGTID{}
	}
	if n := &s.Nodes[s.Primary].Sample; n.Role == RolePrimary {
		return n.History
	}
	return MariaDBGTID{} // its name leads elsewhere by now
}

// doubtful reports a position that the primary, asked now, may say is lost: of another system, of a timeline
// that has ended, or ahead of all that is known of the primary. A position of a newer timeline than any known node's is
// not doubtful: this process is late.
func doubtful(in *Input, s *Snapshot) bool {
	if in.NoCapture || !s.PrimaryUp || s.Primary < 0 || s.Primary >= len(s.Nodes) {
		return false
	}
	known := &s.Nodes[s.Primary].Sample
	if known.Role != RolePrimary || known.Position.IsZero() {
		return false
	}
	for _, p := range in.Need.Positions {
		switch {
		case p.System != known.Position.System || p.Kind != known.Position.Kind:
			return true
		case p.Kind == KindMarker && !known.Began.After(in.Need.CapturedAt) && !in.Need.CapturedAt.IsZero():
			// What is known is of the time before the write, whose position nobody has had to ask for.
		case p.Kind == KindMarker && !in.Need.CapturedAt.IsZero():
			if !known.Position.Markers().Contains(p.Markers()) {
				return true
			}
		case p.Kind != KindPostgres:
			if missing(&p, &known.Position, known.History) {
				return true
			}
		case p.Timeline < known.Position.Timeline,
			p.Timeline == known.Position.Timeline && p.LSN > known.Reported:
			return true
		}
	}
	return false
}
