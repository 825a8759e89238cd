package readroute_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// testTimeout bounds every test that talks to a server.
const testTimeout = 60 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

var tables atomic.Int64

// newTable makes an empty table of its own for a test and returns its name.
func newTable(t testing.TB, c *dbtest.PostgresCluster, columns string) string {
	t.Helper()
	name := fmt.Sprintf("t%d", tables.Add(1))
	require.NoError(t, c.Primary().Exec(testContext(t), fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	return name
}

// configFor returns a config over all nodes of c.
func configFor(c *dbtest.PostgresCluster) readroute.Config {
	config := readroute.Config{}
	for i, n := range c.Nodes() {
		node := readroute.Node{Name: n.Name(), Connector: readroute.Postgres(n.DSN())}
		if i == 0 {
			config.Primary = node
		} else {
			config.Replicas = append(config.Replicas, node)
		}
	}
	return config
}

// open opens a routed pool that is ready, and closes it with the test.
func open(t testing.TB, config readroute.Config) *readroute.DB {
	t.Helper()
	db, err := readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.WaitReady(testContext(t)))
	return db
}

// decisions records what a pool decides.
type decisions struct {
	c chan readroute.Decision
}

func record(config *readroute.Config) *decisions {
	d := &decisions{c: make(chan readroute.Decision, 100_000)}
	config.Hooks = readroute.JoinHooks(config.Hooks, readroute.Hooks{
		Decision: func(_ context.Context, got readroute.Decision) { d.c <- got },
	})
	return d
}

// take returns the decisions since the last call.
func (d *decisions) take() []readroute.Decision {
	var list []readroute.Decision
	for {
		select {
		case got := <-d.c:
			list = append(list, got)
		default:
			return list
		}
	}
}

// one returns the only decision since the last call.
func (d *decisions) one(t testing.TB) readroute.Decision {
	t.Helper()
	list := d.take()
	require.Len(t, list, 1)
	return list[0]
}
