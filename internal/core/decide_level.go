package core

// decideBounded sends a read to a replica that is proven to show all that was committed Bound before now. The session does
// not matter.
func decideBounded(in *Input, s *Snapshot, eligible uint64, why Reason) Decision {
	switch {
	case eligible == 0:
		return fallBack(in, s, why)
	case in.Strategy.Sticky:
		return fallBack(in, s, ReasonIncomparable) // there are no positions to prove it by
	case in.Asked:
		return decidePosition(in, s, eligible)
	}
	var recent uint64
	since := in.Now.Add(-in.Level.Bound())
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if eligible&(1<<i) != 0 && !n.Shared && !n.Blind && !n.AsOf.Before(since) {
			recent |= 1 << i
		}
	}
	switch {
	case recent != 0:
		return Decision{Action: GoReplica, Nodes: nearest(s, recent), Reason: ReasonCovered}
	case in.NoCapture:
		return fallBack(in, s, ReasonLagging)
	}
	return Decision{Action: AskSince, Nodes: nearest(s, eligible), Reason: ReasonLagging, FellBack: true}
}

// floored reports whether what the session has read counts.
func (in *Input) floored() bool {
	return len(in.Need.Floors) > 0 && (in.Level == LevelCausal || in.Level == LevelGlobal)
}

// sameServer returns the replica that the session has read from, when it is the only one and still the same run of its server.
func sameServer(in *Input, s *Snapshot, eligible uint64) uint64 {
	if len(in.Need.Floors) != 1 {
		return 0
	}
	f := in.Need.Floors[0]
	if i := f.Place.Node; eligible&(1<<i) != 0 && s.Nodes[i].Sample.Start == f.Start {
		return 1 << i
	}
	return 0
}

// decideFloor keeps a session on the server that it has read from. Before it goes to another, what it has read there has to
// be a position.
func decideFloor(in *Input, s *Snapshot, eligible uint64) Decision {
	if same := sameServer(in, s, eligible); same != 0 {
		if d := decidePosition(in, s, same); d.Action == GoReplica {
			return d
		}
	}
	if in.NoCapture {
		return fallBack(in, s, ReasonCapturePending)
	}
	return Decision{Action: AskFloor, Nodes: nearest(s, eligible), Reason: ReasonCapturePending}
}
