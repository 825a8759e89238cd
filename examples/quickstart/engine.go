package main

import (
	"context"
	"time"

	"github.com/readroute/readroute/replicatest"
	"github.com/readroute/readroute/replicatest/mariadb"
	"github.com/readroute/readroute/replicatest/mysql"
	"github.com/readroute/readroute/replicatest/postgres"
)

// engine is one kind of servers.
type engine struct {
	start    func(context.Context, replicatest.Options) (*replicatest.Cluster, error)
	save     string
	look     string
	lag      time.Duration // how late replica b always is
	length   time.Duration // how long the ways of reading are watched
	deadline time.Duration // for everything
}

var engines = map[string]engine{
	"sqlite": {
		start: func(_ context.Context, options replicatest.Options) (*replicatest.Cluster, error) {
			return replicatest.New(options)
		},
		save: "UPDATE form SET revision = ? WHERE user_id = ? AND way = ?",
		look: "SELECT revision FROM form WHERE user_id = ? AND way = ?",
		lag:  150 * time.Millisecond, length: 900 * time.Millisecond, deadline: 10 * time.Second,
	},
	"postgres": {
		start: postgres.New,
		save:  "UPDATE form SET revision = $1 WHERE user_id = $2 AND way = $3",
		look:  "SELECT revision FROM form WHERE user_id = $1 AND way = $2",
		lag:   150 * time.Millisecond, length: 2400 * time.Millisecond, deadline: 18 * time.Second,
	},
	"mysql":   mysqlEngine(mysql.New),
	"mariadb": mysqlEngine(mariadb.New),
}

func mysqlEngine(start func(context.Context, replicatest.Options) (*replicatest.Cluster, error)) engine {
	return engine{
		start:  start,
		save:   "UPDATE form SET revision = ? WHERE user_id = ? AND way = ?",
		look:   "SELECT revision FROM form WHERE user_id = ? AND way = ?",
		lag:    time.Second, // the servers count in seconds
		length: 2400 * time.Millisecond, deadline: 18 * time.Second,
	}
}

// cluster is a primary and two replicas, and how they are spoken to.
type cluster struct {
	*replicatest.Cluster
	engine
}
