package router

import (
	"math"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Mode says what is done with decisions.
type Mode uint8

// The modes.
const (
	ModeRoute   Mode = iota // statements go where the decision says
	ModePrimary             // everything goes to the primary
	ModeShadow              // everything goes to the primary, and every decision says where it would have gone
)

// everything is the share of reads that may go to replicas when none is held back.
const everything = math.MaxUint32

// control is the mode and the share of reads in one word, so that a statement sees both as of one moment.
type control uint64

func newControl(m Mode, share uint32) control { return control(m)<<32 | control(share) }

func (c control) mode() Mode    { return Mode(c >> 32) }
func (c control) share() uint32 { return uint32(c) }

// holdsBack draws whether a read stays on the primary because of the mode or the share.
func (c control) holdsBack() bool {
	switch {
	case c.mode() != ModeRoute:
		return true
	case c.share() == everything:
		return false
	}
	return uint32(core.Chance()) >= c.share()
}

// SetMode changes the mode. A statement that is routed after SetMode has returned follows it.
func (r *Router) SetMode(m Mode) {
	r.change(func(c control) control { return newControl(m, c.share()) })
}

// SetShare changes which part of the reads may go to replicas, from 0 to 1.
func (r *Router) SetShare(share float64) {
	r.change(func(c control) control { return newControl(c.mode(), uint32(math.Round(share*everything))) })
}

func (r *Router) change(f func(control) control) {
	for {
		old := r.control.Load()
		if r.control.CompareAndSwap(old, uint64(f(control(old)))) {
			return
		}
	}
}

// Mode returns the mode.
func (r *Router) Mode() Mode { return control(r.control.Load()).mode() }

// Share returns which part of the reads may go to replicas.
func (r *Router) Share() float64 {
	return float64(control(r.control.Load()).share()) / everything
}

// Shadow is where a statement would have gone in ModeRoute, as far as that can be told without a wait.
type Shadow struct {
	Node      int // -1: nowhere
	Role      core.Role
	Reason    core.Reason
	WouldWait bool
	// Stale: at that moment the node did not show all that the session needs, or nobody can say that it did.
	Stale bool
}

// shadow says where the statement would have gone.
func (r *Router) shadow(session *core.Session, in core.Input) *Shadow {
	in.PrimaryAll = false
	if in.Held == core.HeldPrimary {
		in.Held = core.HeldNothing // it is held because of the mode
	}
	if session != nil {
		session.ViewTo(r.cfg.Cluster, now, &in.Need)
	}
	d, s := r.decide(&in)
	out := &Shadow{Node: -1, Reason: d.Reason}
	switch d.Action {
	case core.GoReplica, core.WaitReplica, core.WaitCapture, core.AskPrimary, core.AskFloor, core.AskSince, core.AskNow, core.AskUnproven:
		out.Role, out.Node = r.foresee(&in, d, s)
		out.WouldWait = d.Action != core.GoReplica
		if out.Role == core.RolePrimary {
			break
		}
		replay, _ := s.Nodes[out.Node].Proof()
		moment := time.Now()
		out.Stale = in.Need.Until.After(moment) ||
			(in.Strategy.Sticky || in.Need.Unplaced()) && in.Need.Sticky(moment, in.Strategy.Window) ||
			in.Need.Pending != nil || in.Need.Open ||
			s.Covers(replay, in.Need.Positions, in.Need.CapturedAt) != core.Covered
	case core.Refuse:
	case core.GoPrimary:
		out.Role, out.Node = core.RolePrimary, r.Monitor.Snapshot().Primary
	}
	return out
}
