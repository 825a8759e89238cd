package readroute

import (
	"fmt"

	"github.com/readroute/readroute/internal/router"
)

// Mode says what a [DB] does with its decisions. The zero Mode is ModeRoute.
type Mode uint8

// The modes.
const (
	// ModeRoute: statements go where the decision says. It is the mode of a new DB.
	ModeRoute = Mode(router.ModeRoute)
	// ModePrimary: everything goes to the primary; reads that might have gone elsewhere with the reason "mode".
	ModePrimary = Mode(router.ModePrimary)
	// ModeShadow: as ModePrimary, and each [Decision] says in Shadow where the statement would have gone, and whether it
	// would have been stale there. It adds no wait and no question to any server.
	ModeShadow = Mode(router.ModeShadow)
)

// String returns "route", "primary" or "shadow".
func (m Mode) String() string {
	switch m {
	case ModeRoute:
		return "route"
	case ModePrimary:
		return "primary"
	case ModeShadow:
		return "shadow"
	}
	return "invalid"
}

// Shadow is where a statement would have gone in ModeRoute, judged by what was known when it went to the primary.
type Shadow struct {
	// Node is the node's name; empty when the statement would have run nowhere.
	Node string
	// Role is what the node was taken for.
	Role Role
	// Reason is why.
	Reason Reason
	// WouldWait is true when it would have had to wait first; Node is then the first choice.
	WouldWait bool
	// Stale is true when the node did not show, at that moment, everything that the session had written, or nobody could
	// say that it did: the read would have had to wait, or would have been a stale one under LevelEventual.
	Stale bool
}

// SetMode changes the mode at once, for every statement that begins after it has returned. Statements that are under way
// end where they are, and a read-only transaction on a replica stays there to its end. Sessions keep what they have
// written, so a later return to ModeRoute is as safe as if there had been no other mode. It is safe for concurrent use
// and waits for nothing. An unknown mode is an error and changes nothing.
func (db *DB) SetMode(m Mode) error {
	if m > ModeShadow {
		return fmt.Errorf("readroute: SetMode: mode %d is not known", m)
	}
	db.router.SetMode(router.Mode(m))
	return nil
}

// SetReadShare lets only a part of the reads go to replicas, drawn for each read: a canary. 1, the share of a new DB, is
// all of them, 0 none; the others go to the primary with the reason "mode". It follows the rules of [DB.SetMode], and
// matters in ModeRoute only. A share that is not from 0 to 1 is an error and changes nothing.
func (db *DB) SetReadShare(share float64) error {
	if !(share >= 0 && share <= 1) { // also when it is not a number
		return fmt.Errorf("readroute: SetReadShare: %v is not from 0 to 1", share)
	}
	db.router.SetShare(share)
	return nil
}

func (db *DB) shadow(s *router.Shadow) *Shadow {
	if s == nil {
		return nil
	}
	out := &Shadow{Role: Role(s.Role), Reason: Reason(s.Reason), WouldWait: s.WouldWait, Stale: s.Stale}
	if s.Node >= 0 {
		out.Node = db.nodes[s.Node].Name
	}
	return out
}
