package core

// fallBack says what happens to a read that no replica can serve.
func fallBack(in *Input, s *Snapshot, why Reason) Decision {
	switch in.Fallback {
	case FallbackError:
		return Decision{Action: Refuse, Reason: why}
	case FallbackStale:
		in := *in
		in.MaxLag = -1
		if mask, _ := eligible(&in, s); mask != 0 {
			return Decision{Action: GoReplica, Nodes: nearest(s, mask), Reason: ReasonStale}
		}
	case FallbackUnset, FallbackPrimary:
	}
	if in.NoPrimary {
		return Decision{Action: Refuse, Reason: why}
	}
	return Decision{Action: GoPrimary, Reason: why, FellBack: in.MayUseReplica(s)}
}

// MayUseReplica reports that the read is not kept from every replica by tags, or by a node that it names: with all nodes well, one
// would serve it.
func (in *Input) MayUseReplica(s *Snapshot) bool {
	for i := range s.Nodes {
		if i != s.Primary && in.Barred&(1<<i) == 0 && (in.Node == AnyNode || in.Node == i) {
			return true
		}
	}
	return false
}

// stay says what happens to a read that belongs on the primary because of what its session wrote, as it would with every replica
// up and near. It is no load that the replicas should have taken.
func stay(in *Input, s *Snapshot, why Reason) Decision {
	d := fallBack(in, s, why)
	d.FellBack = false
	return d
}
