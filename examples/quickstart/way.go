package main

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"

	"github.com/readroute/readroute"
)

// database is as much of a *sql.DB as the users need. *readroute.DB has it, because it embeds a *sql.DB.
type database interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// way is one way to spread reads over a cluster.
type way struct {
	db     database
	close  func() error
	routes *routes // nil when nobody says where the reads go
}

type opener func(context.Context, *cluster) (*way, error)

// routed opens a readroute pool with the given strategy.
func routed(strategy readroute.Strategy) opener {
	return func(ctx context.Context, c *cluster) (*way, error) {
		seen := newRoutes()
		config := readroute.Config{
			Primary:  c.node(0),
			Replicas: []readroute.Node{c.node(1), c.node(2)},
			Strategy: strategy,
			Hooks:    readroute.Hooks{Decision: seen.note},
		}
		db, err := readroute.Open(config)
		if err != nil {
			return nil, err
		}
		if err := db.WaitReady(ctx); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &way{db: db, close: db.Close, routes: seen}, nil
	}
}

func (c *cluster) node(i int) readroute.Node {
	n := c.nodes[i]
	return readroute.Node{Name: n.Name(), Connector: c.connector(n.AppDSN())}
}

// roundRobin is what people write first: writes go to the primary, reads to one replica after the other.
type roundRobin struct {
	primary  *sql.DB
	replicas []*sql.DB
	next     atomic.Uint64
}

func openRoundRobin(_ context.Context, c *cluster) (*way, error) {
	var pools []*sql.DB
	for _, n := range c.nodes {
		pool, err := sql.Open(c.driver, n.AppDSN())
		if err != nil {
			return nil, err
		}
		pool.SetMaxIdleConns(readroute.DefaultMaxIdleConns)
		pools = append(pools, pool)
	}
	closeAll := func() error {
		var errs []error
		for _, pool := range pools {
			errs = append(errs, pool.Close())
		}
		return errors.Join(errs...)
	}
	return &way{db: &roundRobin{primary: pools[0], replicas: pools[1:]}, close: closeAll}, nil
}

func (r *roundRobin) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.primary.ExecContext(ctx, query, args...)
}

func (r *roundRobin) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	n := r.next.Add(1) % uint64(len(r.replicas))
	return r.replicas[n].QueryRowContext(ctx, query, args...)
}
