package core

import "time"

// Level is the consistency that a read asks for. The zero Level is "not said"; a positive one is a bound, in nanoseconds: all
// that was committed so long before.
type Level int64

// The levels.
const (
	LevelUnset    Level = 0
	LevelEventual Level = -1 // any replica within MaxLag
	LevelSession  Level = -2 // everything that the session has written
	LevelPrimary  Level = -3 // the primary
	LevelCausal   Level = -4 // everything that the session has written or seen
	LevelGlobal   Level = -5 // everything that was committed before the read, by anyone
)

// Bound returns how old what a read sees may be; 0 when the level is no bound.
func (l Level) Bound() time.Duration { return max(0, time.Duration(l)) }

// needsSession reports whether the level means something only within a session.
func (l Level) needsSession() bool { return l == LevelUnset || l == LevelSession || l == LevelCausal }

// String names the level.
func (l Level) String() string {
	switch l {
	case LevelUnset:
		return "unset"
	case LevelEventual:
		return "eventual"
	case LevelSession:
		return "session"
	case LevelPrimary:
		return "primary"
	case LevelCausal:
		return "causal"
	case LevelGlobal:
		return "global"
	}
	if l > 0 {
		return "bounded " + time.Duration(l).String()
	}
	return "invalid"
}

// Valid reports whether l is one of the levels.
func (l Level) Valid() bool { return l >= LevelGlobal }

// Fallback says what happens to a read that no replica can serve in time.
type Fallback uint8

// The fallbacks. The zero value is "not said".
const (
	FallbackUnset Fallback = iota
	FallbackPrimary
	FallbackError
	FallbackStale
)

// String names the fallback.
func (f Fallback) String() string {
	switch f {
	case FallbackUnset:
		return "unset"
	case FallbackPrimary:
		return "primary"
	case FallbackError:
		return "error"
	case FallbackStale:
		return "stale"
	}
	return "invalid"
}

// Strategy is how a session's writes are made visible to its reads. Sticky false is the position wait.
type Strategy struct {
	Sticky bool
	Window time.Duration // of the sticky window, and of a write whose position cannot be known
	Wait   time.Duration // longest wait for a replica; 0 checks only
}

// Role is what a node was seen to be.
type Role uint8

// The roles.
const (
	RoleUnknown Role = iota
	RolePrimary
	RoleReplica
)

// String names the role.
func (r Role) String() string {
	switch r {
	case RolePrimary:
		return "primary"
	case RoleReplica:
		return "replica"
	}
	return "unknown"
}
