package main

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute"
)

// database is as much of a *sql.DB as the users need. *readroute.DB has it, because it embeds a *sql.DB.
type database interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// way is one way to spread reads over a cluster.
type way struct {
	name   string
	number int // its users' forms have it
	db     database
	close  func() error
	routes *routes // nil when nobody says where the reads go
	seen   views
}

type opener func(context.Context, *cluster) (*way, error)

// routed opens a readroute pool with the given strategy.
func routed(strategy readroute.Strategy) opener {
	return func(ctx context.Context, c *cluster) (*way, error) {
		seen := newRoutes()
		db, err := c.Open(ctx, func(config *readroute.Config) {
			config.Strategy = strategy
			config.ProbeTimeout = 5 * time.Second // nothing falls silent here but a busy machine
			config.Hooks.Decision = seen.note
		})
		if err != nil {
			return nil, err
		}
		return &way{db: db, close: db.Close, routes: seen}, nil
	}
}

// roundRobin is what people write first: writes go to the primary, reads to one replica after the other.
type roundRobin struct {
	primary  *sql.DB
	replicas []*sql.DB
	next     atomic.Uint64
}

func openRoundRobin(_ context.Context, c *cluster) (*way, error) {
	r := &roundRobin{}
	for _, n := range c.Nodes() {
		r.replicas = append(r.replicas, n.DB())
	}
	r.primary, r.replicas = r.replicas[0], r.replicas[1:]
	return &way{db: r, close: func() error { return nil }}, nil
}

func (r *roundRobin) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.primary.ExecContext(ctx, query, args...)
}

func (r *roundRobin) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	n := r.next.Add(1) % uint64(len(r.replicas))
	return r.replicas[n].QueryRowContext(ctx, query, args...)
}
