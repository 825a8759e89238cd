package router

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// protect takes a slot for a read that falls back to the primary, waiting for what is left of its budget.
func (r *Router) protect(ctx context.Context, in *core.Input, out *Decided) {
	if r.fallback == nil {
		return
	}
	select {
	case r.fallback <- struct{}{}:
		out.Slot = true
		return
	default:
	}
	began := time.Now()
	timer := time.NewTimer(in.Budget)
	defer timer.Stop()
	select {
	case r.fallback <- struct{}{}:
		out.Slot = true
	case <-timer.C:
		out.Node, out.Reason, out.Err = -1, core.ReasonProtected, ErrProtected
		if r.closed.Load() {
			out.Err = ErrClosed
		}
	case <-ctx.Done():
		out.Node, out.Err = -1, ctx.Err()
	}
	out.Waited += time.Since(began)
}

// Release gives a fallback slot back.
func (r *Router) Release() { <-r.fallback }

// afterLoss is what becomes of the one read that finds out that its session's position is lost: no replica serves it.
func afterLoss(in *core.Input, s *core.Snapshot, d core.Decision) core.Decision {
	switch {
	case d.Action == core.Refuse:
		return d
	case in.Fallback == core.FallbackError && d.Action != core.GoPrimary:
		return core.Decision{Action: core.Refuse, Reason: core.ReasonPositionLost}
	}
	return core.Decision{Action: core.GoPrimary, Reason: core.ReasonPositionLost, FellBack: in.MayUseReplica(s)}
}

// NotCaughtUpError says how far the nearest replica was from what a read needed.
type NotCaughtUpError struct {
	Node     string // the nearest replica; "" when there is none
	Behind   uint64 // bytes of log; transactions when GTIDs
	GTIDs    bool   // the cluster's positions count transactions
	Lag      time.Duration
	LagKnown bool
	// Expected is how long it is expected to take, if anything can be said.
	Expected      time.Duration
	ExpectedKnown bool
	Reason        core.Reason
}

// Error describes it.
func (e *NotCaughtUpError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("%v (%s)", ErrNotCaughtUp, e.Reason)
	}
	lag := "unknown"
	if e.LagKnown {
		lag = e.Lag.String()
	}
	unit := "bytes"
	if e.GTIDs {
		unit = "transactions"
	}
	return fmt.Sprintf("%v (%s): replica %q is %d %s behind it, lag %s", ErrNotCaughtUp, e.Reason, e.Node, e.Behind, unit, lag)
}

// Is matches ErrNotCaughtUp, and ErrPositionLost where that is why.
func (e *NotCaughtUpError) Is(target error) bool {
	return target == ErrNotCaughtUp || target == ErrPositionLost && e.Reason == core.ReasonPositionLost
}

// refusal explains why no node may serve the read.
func (r *Router) refusal(in *core.Input, d core.Decision) error {
	if d.Reason == core.ReasonNoReplica {
		return ErrNoReplica
	}
	e := &NotCaughtUpError{Reason: d.Reason}
	if d.Reason == core.ReasonPositionLost {
		return e // no replica will ever have it
	}
	s := r.Monitor.Snapshot()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !in.MayServe(i, n) {
			continue
		}
		expected, known, behind := n.Expected(in, s)
		if e.Node == "" || behind < e.Behind {
			e.Node, e.Behind, e.Lag, e.LagKnown, e.Expected, e.ExpectedKnown = n.Name, behind, n.Lag, n.LagKnown, expected, known
			e.GTIDs = n.Sample.Position.Kind > core.KindPostgres
		}
	}
	return e
}
