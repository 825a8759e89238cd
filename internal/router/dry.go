package router

import "github.com/readroute/readroute/internal/core"

// dry says what comes of a wait that succeeds.
func (r *Router) dry(in *core.Input, d core.Decision, out *Decided) {
	out.Level, out.Reason, out.WouldWait = in.Level, d.Reason, true
	out.Role, out.Node = r.foresee(in, d, r.Monitor.Snapshot())
	if out.Role != core.RoleReplica || d.Action == core.WaitReplica {
		return
	}
	switch {
	case in.Node != core.AnyNode:
		out.Reason = core.ReasonContext
	case in.Class == core.ClassUnknown:
		out.Reason = core.ReasonHint
	default:
		out.Reason = core.ReasonCovered
	}
}

// foresee says where a statement goes once the wait of a decision has succeeded. A position of another system than the primary's is
// lost, whatever the primary will say of it.
func (r *Router) foresee(in *core.Input, d core.Decision, s *core.Snapshot) (core.Role, int) {
	primary := &s.Nodes[s.Primary].Sample.Position
	for _, p := range in.Need.Positions {
		if d.Action == core.AskPrimary && (p.System != primary.System || p.Kind != primary.Kind) {
			return core.RolePrimary, s.Primary
		}
	}
	return core.RoleReplica, r.pick(d.Nodes, s)
}
