// Package fleet is what a kind of servers does for package replicatest.
package fleet

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/readroute/readroute"
)

// Server is one server. What its methods promise is said at replicatest.Node.
type Server interface {
	Name() string
	// Connector opens connections for a routed pool.
	Connector() driver.Connector
	// DB is a pool of the server past routing, which is not closed by whoever is given it.
	DB() *sql.DB
	Exec(ctx context.Context, statements ...string) error
	SetLag(ctx context.Context, d time.Duration) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	Stop(ctx context.Context) error
	Start(ctx context.Context) error
	Promote(ctx context.Context) error
	Diverge(ctx context.Context, statements ...string) error
	Restore(ctx context.Context) error
}

// Servers are a primary with its replicas.
type Servers interface {
	// Engine is their kind, Version which one of it.
	Engine() string
	Version() string
	// All returns them in the order of their names, the first primary at the front.
	All() []Server
	Primary() Server
	// Configure adds to a configuration what they need.
	Configure(config *readroute.Config)
	WaitCaughtUp(ctx context.Context) error
	Close() error
}

// Stale is a read that was stale.
type Stale struct {
	Node, Query string
	Behind      uint64
}

// Comparing are servers that compare what a replica hands out with what the primary would.
type Comparing interface {
	// Watch has told called for each read that differs, on the goroutine of whoever reads; nil ends it.
	Watch(told func(ctx context.Context, s Stale))
}

// Positioned are servers that tell how far they are.
type Positioned interface {
	// Position is what the primary has written by now.
	Position(ctx context.Context) (string, error)
	// Shows reports whether a server shows all up to a position.
	Shows(ctx context.Context, server, position string) (bool, error)
}
