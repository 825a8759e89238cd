package router

import (
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Request is one statement to be routed.
type Request struct {
	Class   core.Class
	Hint    core.Hint
	Held    core.Held
	Replica int    // node of the replica connection that the caller holds, or core.AnyNode
	Exclude uint64 // nodes that have failed this statement
	Retry   core.Retry
	// Dry routes without waiting: the first decision is the answer.
	Dry bool
	// Slot is true when the caller has a fallback slot already.
	Slot bool
	// Waited is what this statement has waited before: all its waits share one budget.
	Waited time.Duration
}

// Decided is where a statement goes.
type Decided struct {
	Node     int // -1: nowhere, Err says why
	Role     core.Role
	Reason   core.Reason
	Class    core.Class
	Level    core.Level
	Waited   time.Duration // in all, with what the request had waited before
	Retry    core.Retry
	FellBack bool
	Slot     bool // a fallback slot was taken: the caller gives it back with Release
	// Positions is what the node must show; it is empty when any state will do.
	Positions  []core.Position
	CapturedAt time.Time
	// Floor is what the node must not have lost since the session read it there; nil when nothing is.
	Floor *core.Floor
	// Covering is what the node was found to cover them by; nil when they need not be covered, or were not found to be.
	Covering  *core.Snapshot
	WouldWait bool    // of a dry run: it would have to wait first
	Shadow    *Shadow // in ModeShadow
	Err       error
}
