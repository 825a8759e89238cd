package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// ErrCommitUnknown is matched by the error of a write whose answer was lost: nobody can say whether it stands.
var ErrCommitUnknown = errors.New("readroute: the outcome of the write is unknown")

// Cluster is everything that virtual connections share. It must not be changed once a Conn exists.
type Cluster struct {
	Name       string
	Router     *router.Router
	Classifier *sqlclass.Classifier
	Engine     Engine
	Readers    []*Pool // by node
	Writers    []*Pool // by node
	Strategy   core.Strategy
	// Marking is of a cluster whose writes move its positions; nil in any other, and where nobody goes by positions.
	Marking Marking
	// CaptureTimeout is how long a read may wait for a position read on the primary.
	CaptureTimeout time.Duration
	// Refusal turns the router's error of a statement that no node may serve into the caller's. It may be nil.
	Refusal func(error) error
	// Process makes every write move Router.Process as well.
	Process bool
	// OnDiscard hears that a physical connection was closed at check-in because it carried session state or an open
	// transaction. It may be nil.
	OnDiscard func(node int, why string)
	// OnPooledState hears that a statement has left session state behind in a session that a pooler shares. token is what
	// did it. It may be nil.
	OnPooledState func(node int, token string)
	// Shutdown closes everything else; the connector calls it when the routed *sql.DB is closed.
	Shutdown func() error
}

// Connector makes virtual connections. It is what sql.OpenDB is given.
type Connector struct {
	Cluster *Cluster

	made atomic.Uint32
}

// Connect returns a virtual connection at once: there is no socket behind it yet.
func (c *Connector) Connect(context.Context) (driver.Conn, error) {
	v := &Conn{cluster: c.Cluster, router: c.Cluster.Router, number: c.made.Add(1), readerNode: -1, out: true}
	v.tells, v.counts = v.router.Tells(), v.router.Chooses()
	v.quickWrites = c.Cluster.Marking == nil && !c.Cluster.Strategy.Sticky && !c.Cluster.Process
	v.router.OpenTally(&v.covered, core.ReasonCovered)
	v.router.OpenTally(&v.written, core.ReasonWrite)
	v.grab = v.take
	return v, nil
}

// Driver returns the native driver of the first node.
func (c *Connector) Driver() driver.Driver { return c.Cluster.Writers[0].cfg.Connector.Driver() }

// Close is called by (*sql.DB).Close.
func (c *Connector) Close() error { return c.Cluster.Shutdown() }
