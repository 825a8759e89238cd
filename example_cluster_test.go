package readroute_test

import (
	"context"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// exampleCluster is a private primary with two standbys, called a, b and c. It is started once, and closed with the
// tests.
func exampleCluster() *dbtest.PostgresCluster {
	shared.once.Do(func() {
		shared.cluster, shared.err = dbtest.StartPostgres(context.Background(), dbtest.PostgresOptions{Standbys: 2})
	})
	if shared.err != nil {
		panic(shared.err)
	}
	return shared.cluster
}

// exampleConfig is a Config over exampleCluster, on which an empty table has been made.
func exampleConfig(table, columns string) readroute.Config {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	c := exampleCluster()
	err := c.Primary().Exec(ctx, "DROP TABLE IF EXISTS "+table, "CREATE TABLE "+table+" ("+columns+")")
	if err == nil {
		err = c.WaitCaughtUp(ctx)
	}
	if err != nil {
		panic(err)
	}
	config := configFor(c)
	// Patient, so that the output is the same on a slow machine.
	config.Strategy = readroute.PositionWait(10 * time.Second)
	config.CaptureTimeout = 10 * time.Second
	return config
}

// exampleDB is a routed pool over exampleCluster, on which an empty table has been made.
func exampleDB(table, columns string) *readroute.DB {
	return exampleOpen(exampleConfig(table, columns))
}

func exampleOpen(config readroute.Config) *readroute.DB {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	db, err := readroute.Open(config)
	if err == nil {
		err = db.WaitReady(ctx)
	}
	if err != nil {
		panic(err)
	}
	return db
}
