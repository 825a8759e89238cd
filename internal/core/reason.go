package core

// Reason is why a statement went where it went. The list is frozen: the texts end up in dashboards.
type Reason uint8

// The reasons.
const (
	ReasonNone           Reason = iota
	ReasonNoSession             // no session in the context: the read has not said what staleness it can bear
	ReasonWrite                 // a write
	ReasonUnknown               // not known to be a read
	ReasonSessionState          // leaves or needs session state, or the checkout has some
	ReasonTx                    // transaction control, or inside a transaction
	ReasonHint                  // a comment in the text
	ReasonContext               // the context named a node
	ReasonLevel                 // the consistency level alone decided
	ReasonSticky                // inside the sticky window after a write
	ReasonCapturePending        // the position of the session's last write is not known yet
	ReasonNoReplica             // there is no healthy replica
	ReasonLagging               // no replica is near enough, and the read may not wait
	ReasonCovered               // the replica shows all that the session needs
	ReasonWaited                // the same, after a wait
	ReasonWaitTimeout           // waited for a replica in vain
	ReasonHopeless              // no replica could have caught up in time
	ReasonProtected             // too many reads fall back to the primary at once
	ReasonPositionLost          // the primary has lost the session's position
	ReasonIncomparable          // the position belongs to another history than the replicas'
	ReasonStale                 // the caller accepts a stale read rather than the primary
	ReasonMode                  // the mode of the pool

	NumReasons = iota
)

var reasonTexts = [NumReasons]string{
	"none", "no_session", "write", "unknown", "session_state", "tx", "hint", "context", "level", "sticky",
	"capture_pending", "no_replica", "lagging", "covered", "waited", "wait_timeout", "hopeless", "protected",
	"position_lost", "incomparable", "stale", "mode",
}

// String returns the reason as it stands in dashboards.
func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r]
	}
	return "invalid"
}
