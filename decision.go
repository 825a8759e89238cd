package readroute

import (
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Reason is why a statement went where it went. Every statement has exactly one. The list is frozen, because the texts
// end up in dashboards: a reason is never renamed, and only a new major version adds one.
type Reason uint8

// The reasons.
const (
	// ReasonNoSession: the context carries no session and no level, so the read has not said what staleness it can bear.
	ReasonNoSession = Reason(core.ReasonNoSession)
	// ReasonWrite: a write.
	ReasonWrite = Reason(core.ReasonWrite)
	// ReasonUnknown: the text is not known to be a read.
	ReasonUnknown = Reason(core.ReasonUnknown)
	// ReasonSessionState: the statement leaves or needs session state, or the checkout (a *sql.Conn) is on the primary.
	ReasonSessionState = Reason(core.ReasonSessionState)
	// ReasonTx: transaction control, or a statement inside a transaction.
	ReasonTx = Reason(core.ReasonTx)
	// ReasonHint: a comment in the text asked for it.
	ReasonHint = Reason(core.ReasonHint)
	// ReasonContext: the context named the node ([WithNode]).
	ReasonContext = Reason(core.ReasonContext)
	// ReasonLevel: the level alone decided ([LevelPrimary], [LevelEventual]).
	ReasonLevel = Reason(core.ReasonLevel)
	// ReasonSticky: inside the sticky window after the session's last write.
	ReasonSticky = Reason(core.ReasonSticky)
	// ReasonCapturePending: the position of the session's last write is not known yet.
	ReasonCapturePending = Reason(core.ReasonCapturePending)
	// ReasonNoReplica: there is no healthy replica.
	ReasonNoReplica = Reason(core.ReasonNoReplica)
	// ReasonLagging: no replica is near enough, and the read may not wait.
	ReasonLagging = Reason(core.ReasonLagging)
	// ReasonCovered: the replica shows all that the session needs.
	ReasonCovered = Reason(core.ReasonCovered)
	// ReasonWaited: the replica shows all that the session needs, after a wait.
	ReasonWaited = Reason(core.ReasonWaited)
	// ReasonWaitTimeout: the read waited for a replica in vain.
	ReasonWaitTimeout = Reason(core.ReasonWaitTimeout)
	// ReasonHopeless: no replica could have caught up in time, so the read did not wait.
	ReasonHopeless = Reason(core.ReasonHopeless)
	// ReasonProtected: too many reads fall back to the primary at once.
	ReasonProtected = Reason(core.ReasonProtected)
	// ReasonPositionLost: the primary does not have the session's position any more.
	ReasonPositionLost = Reason(core.ReasonPositionLost)
	// ReasonIncomparable: the session's position belongs to another history than the replicas'.
	ReasonIncomparable = Reason(core.ReasonIncomparable)
	// ReasonStale: the caller accepts a stale read rather than the primary ([FallbackStale]).
	ReasonStale = Reason(core.ReasonStale)
	// ReasonMode: the mode of the pool sends everything to the primary.
	ReasonMode = Reason(core.ReasonMode)
)

// String returns the reason as it stands in dashboards, as in "covered".
func (r Reason) String() string { return core.Reason(r).String() }

// Role is what a node was seen to be. Roles are observed, not configured.
type Role uint8

// The roles. The zero Role is unknown: the node has not answered yet.
const (
	RolePrimary = Role(core.RolePrimary)
	RoleReplica = Role(core.RoleReplica)
)

// String returns "primary", "replica" or "unknown".
func (r Role) String() string { return core.Role(r).String() }

// Class is what kind of statement a text is. The zero Class is "unknown", which is treated as a write.
type Class uint8

// The classes.
const (
	ClassRead         = Class(core.ClassRead)
	ClassWrite        = Class(core.ClassWrite)
	ClassSessionState = Class(core.ClassSessionState)
	ClassTxControl    = Class(core.ClassTxControl)
)

// String returns the class's name, as in "read".
func (c Class) String() string { return core.Class(c).String() }

// Retry is why a statement ran a second time. The zero Retry is "it did not".
type Retry uint8

// The causes.
const (
	// RetryConnection: the connection or the node failed.
	RetryConnection = Retry(core.RetryConnection)
	// RetryConflict: replay on the replica cancelled the read.
	RetryConflict = Retry(core.RetryConflict)
	// RetryRefused: the replica refused the statement as a write, or as something that it cannot do.
	RetryRefused = Retry(core.RetryRefused)
	// RetrySchema: the replica does not have the table, column or function yet.
	RetrySchema = Retry(core.RetrySchema)
	// RetryPlan: the statement was planned before its tables changed.
	RetryPlan = Retry(core.RetryPlan)
)

// String returns the cause, as in "conflict"; the zero Retry's is empty.
func (r Retry) String() string { return core.Retry(r).String() }

// Decision is where a statement went, and why.
type Decision struct {
	// Node is the node's name; empty when the statement ran nowhere (Err says why).
	Node string
	// Role is what the node was taken for.
	Role Role
	// Reason is why.
	Reason Reason
	// Class is what the text was taken for.
	Class Class
	// Level is the consistency that a read asked for; zero when nothing was asked.
	Level Level
	// Waited is how long the statement waited for a position.
	Waited time.Duration
	// Retry is why the statement ran a second time, or was sent past a node that did not answer; zero when the first
	// choice served it.
	Retry Retry
	// WouldWait is true in an answer of [DB.Explain] when the statement would have to wait first; Node and Reason are what
	// comes of it if the wait succeeds.
	WouldWait bool
	// Shadow is where the statement would have gone in ModeRoute; nil in every other mode than [ModeShadow].
	Shadow *Shadow
	// Err is why the statement ran nowhere.
	Err error
}
