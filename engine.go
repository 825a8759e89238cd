package readroute

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/readroute/readroute/internal/engine"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/sqlclass"
)

// classify makes what depends on the kind of the servers: the engine, and the classifier of their language. pgx speaks to
// PostgreSQL only. Of any other driver the first server that answers says what it is; until then a text is what the most
// careful of the possible languages makes of it.
func (db *DB) classify() error {
	options := sqlclass.Options{ReadFunctions: db.config.ReadFunctions}
	family := db.nodes[0].family()
	switch family {
	case familyPostgres:
		options.Dialect = sqlclass.PostgreSQL
		db.engine = engine.Known(postgres.Engine{})
	case familyMySQL:
		options.Among = []sqlclass.Dialect{sqlclass.MySQL, sqlclass.MariaDB}
	case familyUnknown:
		options.Among = []sqlclass.Dialect{sqlclass.PostgreSQL, sqlclass.MySQL, sqlclass.MariaDB}
		if db.config.Marker != nil {
			options.Among = append(options.Among, sqlclass.SQLite)
		}
	}
	var err error
	if db.classifier, err = sqlclass.New(options); err != nil {
		return err
	}
	if db.engine == nil {
		db.engine = engine.Find(func(e engine.Engine) { db.classifier.Settle(e.Dialect()) })
	}
	return db.mark(family)
}

// family is what a driver says of the servers that it speaks to.
type family uint8

const (
	familyUnknown family = iota
	familyPostgres
	familyMySQL
)

func (n *Node) family() family {
	switch n.Connector.(type) {
	case nil:
		return familyUnknown
	case *postgresConnector:
		return familyPostgres
	case *mysqlConnector:
		return familyMySQL
	}
	if _, ok := n.Connector.Driver().(*stdlib.Driver); ok {
		return familyPostgres
	}
	return familyUnknown
}

// dialer opens the monitor's own connections to a node, and asks on each what the server can and what its sessions are like.
func (db *DB) dialer(i int) monitor.Dialer {
	n := &db.nodes[i]
	var heard atomic.Bool // of its settings
	return func(ctx context.Context) (monitor.Link, error) {
		if i == 0 {
			defer db.askedOnce.Do(func() { close(db.asked) })
		} else if db.engine.Engine() == nil {
			db.waitForPrimary(ctx)
		}
		conn, err := n.Connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		wire := db.at(i).Wire(conn)
		link := wire.OwnLink()
		if n.Pooled {
			link = wire.Link()
		}
		// What cannot be asked is no reason to leave a node out: the probe that follows says whether it works.
		if !heard.Swap(true) {
			if row, err := db.engine.Settings(ctx, link); err == nil {
				db.onSettings(n, row)
			}
		}
		db.onCapabilities(i, db.engine.Capabilities(ctx, link))
		return link, nil
	}
}

// waitForPrimary lets the configured primary say first which kind of servers the cluster is made of, for half of the time
// that there is.
func (db *DB) waitForPrimary(ctx context.Context) {
	timer := time.NewTimer(db.config.ProbeTimeout / 2)
	defer timer.Stop()
	select {
	case <-db.asked:
	case <-timer.C:
	case <-ctx.Done():
	}
}
