// Package core holds what routing is about, without any connection or pool: positions, tokens, sessions, node samples
// and the decision where a statement goes.
//
// Nothing here does I/O, starts a goroutine or reads a clock. Decide is a pure function over an immutable Snapshot.
// The package does not import database/sql, so the same core can serve another driver surface.
package core
