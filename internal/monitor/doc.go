// Package monitor watches the nodes of a cluster and publishes what it sees as immutable snapshots.
//
// One goroutine a node asks for identity, role and position in one statement, on a connection of its own. One more
// goroutine reads positions on the primary for writes (Captures). Whoever waits for a replica waits here, without a
// pooled connection: all waiters of a replica share its poll.
//
// The package does not import database/sql. A Dialer opens its connections.
package monitor
