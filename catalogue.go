package readroute

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/sqlclass"
)

const (
	// catalogueTimeout is how long one reading of the catalogue may take. It can wait for locks that a migration holds.
	catalogueTimeout = 30 * time.Second
	// catalogueRetry is when a reading that failed is tried again, unless the interval is shorter.
	catalogueRetry = 5 * time.Second
)

// catalogue keeps the classifier informed of what only the primary knows: the user's own functions, views, sequences, unlogged
// tables, operators and casts. One goroutine reads it; close ends it.
type catalogue struct {
	db       *DB
	interval time.Duration
	pool     *sql.DB // of one connection that is closed after each reading; it counts towards no limit of the node
	wake     chan struct{}
	tried    atomic.Bool // the first reading has ended, well or not
	cancel   context.CancelFunc
	ended    chan struct{}
}

// newCatalogue returns a catalogue that start makes read. It is nil when the configuration wants none, and where there is no
// replica that a statement could go to.
func newCatalogue(db *DB) *catalogue {
	if db.config.CatalogueInterval < 0 || len(db.config.Replicas) == 0 {
		return nil
	}
	return &catalogue{
		db: db, interval: db.config.CatalogueInterval, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// start begins to read. The monitor must be running.
func (c *catalogue) start() {
	if c == nil {
		return
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	c.pool = sql.OpenDB(primaryConnector{c.db})
	c.pool.SetMaxOpenConns(1)
	c.pool.SetMaxIdleConns(-1)
	go c.run(ctx)
}

// close ends the goroutine and waits for it, at most for the answer of a connector that does not honour its context.
func (c *catalogue) close() error {
	if c == nil {
		return nil
	}
	c.cancel()
	<-c.ended
	return c.pool.Close()
}

// run reads the catalogue when there is a primary, when there is another one, and every interval.
func (c *catalogue) run(ctx context.Context) {
	defer close(c.ended)
	timer := time.NewTimer(c.interval)
	defer timer.Stop()
	for {
		timer.Reset(c.read(ctx))
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// read reads the catalogue once, if there is a primary, and returns when to do so again.
func (c *catalogue) read(ctx context.Context) time.Duration {
	snapshot := c.db.monitor.Snapshot()
	if !snapshot.PrimaryUp {
		return c.interval // its coming up is an event
	}
	rows, err := c.rows(ctx)
	switch {
	case ctx.Err() != nil:
		return c.interval
	case err != nil:
		c.tried.Store(true)
		c.db.event(Event{
			Kind: EventCatalogueFailed, Node: c.db.nodes[snapshot.Primary].Name, Role: RolePrimary,
			Err: fmt.Errorf("readroute: read the catalogue: %w", err),
		})
		return min(c.interval, catalogueRetry)
	}
	c.db.classifier.SetCatalogue(rows)
	c.tried.Store(true)
	return c.interval
}

func (c *catalogue) rows(ctx context.Context) ([]sqlclass.CatalogueRow, error) {
	ctx, cancel := context.WithTimeout(ctx, catalogueTimeout)
	defer cancel()
	query := ""
	switch c.db.engine.Engine().Dialect() { // a primary is up, so it is known
	case sqlclass.PostgreSQL:
		query = sqlclass.PostgresCatalogueQuery
	case sqlclass.MySQL, sqlclass.MariaDB:
		query = sqlclass.MySQLCatalogueQuery
	default:
		return nil, nil // its own functions are harmless or not known
	}
	rows, err := c.pool.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []sqlclass.CatalogueRow
	for rows.Next() {
		var r sqlclass.CatalogueRow
		if err := rows.Scan(&r.Kind, &r.Schema, &r.Name, &r.Text); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// onNode hears of a node's transition, on the monitor's goroutine. Another primary may know of what this one did not.
func (c *catalogue) onNode(e monitor.Event) {
	up := e.Kind == monitor.EventUp || e.Kind == monitor.EventRoleChanged
	if c == nil || e.Kind != monitor.EventPrimaryChanged && !(up && e.Role == core.RolePrimary) {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// pending reports that a first reading is still to come.
func (c *catalogue) pending() bool { return c != nil && !c.tried.Load() }
