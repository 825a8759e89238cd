package replicatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest/internal/fleet"
)

// Cluster is a primary with its replicas. Its methods may be called from several goroutines.
type Cluster struct {
	servers fleet.Servers
	nodes   []*Node

	mu    sync.Mutex
	pools []*readroute.DB // guarded by mu: opened by Open
}

// New makes a cluster of SQLite databases in this process. It takes some milliseconds, and needs nothing but a folder for
// temporary files. The caller closes it.
//
// A replica is the primary page by page, some time later: whatever a transaction has done arrives, whole and in order. Positions are
// those of a marker table ([readroute.Marker]), which New makes. Statements are SQLite's, for which parameters can be written as ?, $1, :name and @name.
// Connections to a replica refuse writes. Transactions that may write take turns, from BEGIN on, unless they are read-only.
// PRAGMA journal_mode and wal_checkpoint are refused: the log belongs to replication. A transaction that no replica has yet is held in memory.
func New(options Options) (*Cluster, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	servers, err := newEmbedded(options.Count())
	if err != nil {
		return nil, fmt.Errorf("replicatest: %w", err)
	}
	return Over(context.Background(), servers, options)
}

// Over makes a cluster over servers that run, which it closes when that fails. It is for the packages below this one.
func Over(ctx context.Context, servers fleet.Servers, options Options) (*Cluster, error) {
	c := &Cluster{servers: servers}
	for _, s := range servers.All() {
		c.nodes = append(c.nodes, &Node{s})
	}
	if err := c.Exec(ctx, options.Schema...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Engine is the kind of the servers: "SQLite", "PostgreSQL", "MySQL" or "MariaDB".
func (c *Cluster) Engine() string { return c.servers.Engine() }

// Version is the servers' version, such as 15 or 10.11.19.
func (c *Cluster) Version() string { return c.servers.Version() }

// Primary returns the node that was made as the primary or, later, the one that was promoted last.
func (c *Cluster) Primary() *Node {
	name := c.servers.Primary().Name()
	for _, n := range c.nodes {
		if n.Name() == name {
			return n
		}
	}
	return nil
}

// Replica returns the i-th node, from 0, that was made as a replica, whatever has become of it. It panics when there are not
// that many.
func (c *Cluster) Replica(i int) *Node { return c.nodes[i+1] }

// Nodes returns all nodes, the first primary at the front. They are named a, b, c and so on. The caller must not change the slice.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Config returns a configuration over all nodes.
func (c *Cluster) Config() readroute.Config {
	var config readroute.Config
	for i, s := range c.servers.All() {
		node := readroute.Node{Name: s.Name(), Connector: s.Connector()}
		if i == 0 {
			config.Primary = node
		} else {
			config.Replicas = append(config.Replicas, node)
		}
	}
	c.servers.Configure(&config)
	return config
}

// Open opens a routed pool over all nodes, with Config as edit has changed it, and waits until it is ready or ctx ends. Closing the cluster closes
// the pool as well. [RequireNoStaleReads] knows it.
func (c *Cluster) Open(ctx context.Context, edit ...func(config *readroute.Config)) (*readroute.DB, error) {
	config := c.Config()
	for _, f := range edit {
		f(&config)
	}
	d := newDetector(c.servers)
	config.Hooks = readroute.JoinHooks(config.Hooks, readroute.Hooks{Decision: d.decided})
	db, err := readroute.Open(config)
	if err != nil {
		return nil, err
	}
	if err := db.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	detectors.Store(db, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools = append(c.pools, db)
	return db, nil
}

// Exec runs statements on the primary, past every routed pool, and waits until the replicas that run show what they have done, or ctx ends. A
// replica that is paused does not.
func (c *Cluster) Exec(ctx context.Context, statements ...string) error {
	if len(statements) == 0 {
		return nil
	}
	if err := c.Primary().Exec(ctx, statements...); err != nil {
		return fmt.Errorf("replicatest: %w", err)
	}
	return c.WaitCaughtUp(ctx)
}

// WaitCaughtUp waits until every replica that runs shows all that the primary has committed by now, or ctx ends. The error says who
// does not.
func (c *Cluster) WaitCaughtUp(ctx context.Context) error {
	if err := c.servers.WaitCaughtUp(ctx); err != nil {
		return fmt.Errorf("replicatest: %w", err)
	}
	return nil
}

// SetLag is [Node.SetLag] of all replicas.
func (c *Cluster) SetLag(ctx context.Context, d time.Duration) error {
	return c.replicas(func(n *Node) error { return n.SetLag(ctx, d) })
}

// Pause is [Node.Pause] of all replicas.
func (c *Cluster) Pause(ctx context.Context) error {
	return c.replicas(func(n *Node) error { return n.Pause(ctx) })
}

// Resume is [Node.Resume] of all replicas.
func (c *Cluster) Resume(ctx context.Context) error {
	return c.replicas(func(n *Node) error { return n.Resume(ctx) })
}

// replicas calls f with every node but the primary.
func (c *Cluster) replicas(f func(*Node) error) error {
	primary := c.Primary()
	var errs []error
	for _, n := range c.nodes {
		if n != primary {
			errs = append(errs, f(n))
		}
	}
	return errors.Join(errs...)
}

// Close closes every pool that Open has opened and ends the servers. Nothing of them is left. It may be called more than once.
func (c *Cluster) Close() error {
	c.mu.Lock()
	pools := c.pools
	c.pools = nil
	c.mu.Unlock()
	var errs []error
	for _, db := range pools {
		detectors.Delete(db)
		errs = append(errs, db.Close())
	}
	return errors.Join(append(errs, c.servers.Close())...)
}
