package router

import (
	"math/bits"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// AsUsual reports that nothing but its session says where a read goes.
func (r *Router) AsUsual(o *core.Options) bool {
	return o != nil && o.Session != nil && o.Plain() && r.bySession && r.control.Load() == uint64(ModeRoute)<<32|everything
}

// CleanNodes returns the nodes that may serve a read AsUsual of a session that needs nothing; 0 when Route has to find out.
func (r *Router) CleanNodes() uint64 { return r.clean.Nodes(r.Monitor.Number()) }

// Quick is Route for a read without a hint, of a checkout that holds nothing, when the answer is known from a read before: a replica
// covers its session at LevelSession. node is -1 when Route has to find out. s is what the replica was found to cover positions by; it is nil
// when there are none.
func (r *Router) Quick(o *core.Options) (node int, s *core.Snapshot, positions []core.Position, capturedAt time.Time) {
	if !r.AsUsual(o) {
		return -1, nil, nil, time.Time{}
	}
	var nodes uint64
	number := r.Monitor.Number()
	if o.Session.IsClean() {
		nodes = r.clean.Nodes(number)
	} else {
		nodes, positions, capturedAt = o.Session.Settled(r.cluster, number)
	}
	switch {
	case nodes == 0:
		return -1, nil, nil, time.Time{}
	case nodes&(nodes-1) == 0 && len(positions) == 0:
		return bits.TrailingZeros64(nodes), nil, nil, time.Time{}
	}
	if s = r.Monitor.Snapshot(); s.Number != number {
		return -1, nil, nil, time.Time{}
	}
	return r.pick(nodes, s), s, positions, capturedAt
}

// QuickWrite is Route for a write of a checkout that holds nothing. node is -1 when Route has to find out.
func (r *Router) QuickWrite(o *core.Options) (node int) {
	if o != nil && !o.Plain() || r.Mode() == ModeShadow {
		return -1
	}
	if at := r.primary.Load(); at>>primaryBits == r.Monitor.Number() {
		return int(at & (1<<primaryBits - 1))
	}
	s := r.Monitor.Snapshot()
	if s.Primary >= 0 && s.Primary < 1<<primaryBits {
		r.primary.Store(s.Number<<primaryBits | uint64(s.Primary))
	}
	return s.Primary
}

// primaryBits is for a node beside the number of a snapshot.
const primaryBits = 8

// Covered is what Route says where Quick has an answer.
func Covered(node int, s *core.Snapshot, positions []core.Position, capturedAt time.Time) Decided {
	return Decided{
		Node: node, Role: core.RoleReplica, Reason: core.ReasonCovered, Class: core.ClassRead, Level: core.LevelSession,
		Positions: positions, CapturedAt: capturedAt, Covering: s,
	}
}

// Written is what Route says where QuickWrite has an answer.
func Written(node int) Decided {
	return Decided{Node: node, Role: core.RolePrimary, Reason: core.ReasonWrite, Class: core.ClassWrite}
}

// keep keeps where a read may go by s, for the next one of its session that asks for no more.
func (r *Router) keep(o *core.Options, req *Request, in *core.Input, nodes uint64, s *core.Snapshot) {
	plain := Request{Class: core.ClassRead, Replica: core.AnyNode}
	if *req == plain && o != nil && o.Plain() && r.bySession && in.Now.IsZero() {
		in.Need.Settle(s, nodes, &r.clean)
	}
}
