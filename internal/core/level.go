package core

import "time"

// Level is the consistency that a read asks for. The zero Level is "not said".
type Level int64

// The levels.
const (
	LevelUnset    Level = 0
	LevelEventual Level = -1 // any replica within MaxLag
	LevelSession  Level = -2 // everything that the session has written
	LevelPrimary  Level = -3 // the primary
)

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
	}
	return "invalid"
}

// Valid reports whether l is one of the levels.
func (l Level) Valid() bool { return l <= 0 && l >= LevelPrimary }

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
