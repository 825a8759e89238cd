package main

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// server is a node of a cluster, as far as the quick start needs it.
type server interface {
	Name() string
	AppDSN() string
	Exec(ctx context.Context, sql ...string) error
	SetApplyDelay(ctx context.Context, d time.Duration) error
	PauseReplay(ctx context.Context) error
	ResumeReplay(ctx context.Context) error
}

// cluster is a primary and two replicas, and how they are spoken to.
type cluster struct {
	engine
	version string
	nodes   []server // the primary first
	caught  func(context.Context) error
	close   func() error
}

// engine is one kind of servers.
type engine struct {
	name      string
	start     func(context.Context, engine) (*cluster, error)
	driver    string                            // of the naive split
	connector func(dsn string) driver.Connector // of readroute
	save      string
	look      string
	applyLag  time.Duration // how late replica b always is
	also      []string      // what the primary runs besides
}

var engines = map[string]engine{
	"postgres": {
		name: "PostgreSQL", start: startPostgres, driver: "pgx", connector: readroute.Postgres,
		save:     "UPDATE form SET revision = $1 WHERE user_id = $2",
		look:     "SELECT revision FROM form WHERE user_id = $1",
		applyLag: 150 * time.Millisecond,
		also:     []string{"GRANT pg_monitor TO app"}, // not needed, but it shortens waits: see docs/operating.md
	},
	"mysql":   mysqlEngine("MySQL", dbtest.StartMySQL),
	"mariadb": mysqlEngine("MariaDB", dbtest.StartMariaDB),
}

func mysqlEngine(name string, start func(context.Context, dbtest.MySQLOptions) (*dbtest.MySQLCluster, error)) engine {
	return engine{
		name: name, driver: "mysql", connector: readroute.MySQL,
		start: func(ctx context.Context, e engine) (*cluster, error) {
			c, err := start(ctx, dbtest.MySQLOptions{Replicas: 2})
			if err != nil {
				return nil, err
			}
			out := &cluster{engine: e, version: c.Version(), caught: c.WaitCaughtUp, close: c.Close}
			for _, n := range c.Nodes() {
				out.nodes = append(out.nodes, n)
			}
			return out, nil
		},
		save:     "UPDATE form SET revision = ? WHERE user_id = ?",
		look:     "SELECT revision FROM form WHERE user_id = ?",
		applyLag: time.Second, // the servers count in seconds
	}
}

func startPostgres(ctx context.Context, e engine) (*cluster, error) {
	c, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 2})
	if err != nil {
		return nil, err
	}
	out := &cluster{engine: e, version: fmt.Sprint(c.Version()), caught: c.WaitCaughtUp, close: c.Close}
	for _, n := range c.Nodes() {
		out.nodes = append(out.nodes, n)
	}
	return out, nil
}
