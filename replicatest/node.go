package replicatest

import (
	"context"
	"database/sql"
	"time"

	"github.com/readroute/readroute/replicatest/internal/fleet"
)

// Node is one server of a [Cluster]. Its methods may be called from several goroutines. What they do differs between the engines only
// where it is said; each blocks until it is done, or ctx ends.
type Node struct {
	server fleet.Server
}

// Name is the node's name, which is also that in decisions and statistics.
func (n *Node) Name() string { return n.server.Name() }

// DB is a pool of this node past routing, to look at what it shows. It is the cluster's: do not close it.
func (n *Node) DB() *sql.DB { return n.server.DB() }

// Exec runs statements on this node, past routing. A replica refuses writes: see Diverge.
func (n *Node) Exec(ctx context.Context, statements ...string) error {
	return n.server.Exec(ctx, statements...)
}

// SetLag makes the replica show each transaction only when it is d old, those that are on their way included. 0 ends that. MySQL and
// MariaDB count in seconds: there d is rounded up, and a paused replica goes on.
func (n *Node) SetLag(ctx context.Context, d time.Duration) error { return n.server.SetLag(ctx, d) }

// Pause stops the replica's replay: when it returns, nothing more appears there until Resume. The replica goes on serving.
func (n *Node) Pause(ctx context.Context) error { return n.server.Pause(ctx) }

// Resume ends Pause.
func (n *Node) Resume(ctx context.Context) error { return n.server.Resume(ctx) }

// Stop stops the server. Its connections end, and none can be opened. What is committed there stays. A stopped server is not stopped
// again.
func (n *Node) Stop(ctx context.Context) error { return n.server.Stop(ctx) }

// Start ends Stop. A replica goes on from where it was. A server that runs goes on as it is.
func (n *Node) Start(ctx context.Context) error { return n.server.Start(ctx) }

// Promote makes the replica the primary, and the other replicas that run follow it. It takes in first what it has not shown yet, unless it is
// paused: then that is lost, except on PostgreSQL, which replays what it has received. To lose a write there, stop the replica first, write, stop
// the primary, start the replica and promote it.
//
// The former primary goes on as it is: if it runs, there are two. Restore makes it a replica. A replica that shows what the new
// primary does not cannot follow it, and needs Restore as well.
func (n *Node) Promote(ctx context.Context) error { return n.server.Promote(ctx) }

// Diverge gives the replica a history of its own: statements that nobody else runs. It stays a replica, and takes nothing more from the
// primary until Restore. On PostgreSQL, where nothing can be written to a standby, the error matches errors.ErrUnsupported.
func (n *Node) Diverge(ctx context.Context, statements ...string) error {
	return n.server.Diverge(ctx, statements...)
}

// Restore throws away what the server has and makes it a replica of the primary, with a copy of what that has. It runs afterwards, whether
// it did before or not, and replays. The primary itself cannot be restored.
func (n *Node) Restore(ctx context.Context) error { return n.server.Restore(ctx) }
