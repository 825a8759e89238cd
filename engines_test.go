package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// server is a node of either kind of cluster.
type server interface {
	Name() string
	PauseReplay(context.Context) error
	SetApplyDelay(context.Context, time.Duration) error
	ResumeReplay(context.Context) error
	Exec(ctx context.Context, sql ...string) error
	AppDSN() string
}

// engineCluster is a primary with two replicas of one engine, for tests that leave it as they have found it.
type engineCluster struct {
	name   string
	nodes  []server // the primary first
	config func() readroute.Config
	caught func(context.Context) error
	driver string
}

// onEachEngine runs a test on PostgreSQL, MariaDB and, where it can be had, MySQL.
func onEachEngine(t *testing.T, test func(t *testing.T, c *engineCluster)) {
	t.Helper()
	t.Run("PostgreSQL", func(t *testing.T) { test(t, sharedEngine(t)) })
	onBoth(t, func(t *testing.T, m *dbtest.MySQLCluster) {
		c := &engineCluster{name: "MySQL", driver: "mysql", caught: m.WaitCaughtUp, config: func() readroute.Config { return gtidConfig(m) }}
		for _, n := range m.Nodes() {
			c.nodes = append(c.nodes, n)
		}
		test(t, c)
	})
}

// sharedEngine is the shared cluster of PostgreSQL.
func sharedEngine(t *testing.T) *engineCluster {
	t.Helper()
	p := sharedCluster(t)
	c := &engineCluster{name: "PostgreSQL", driver: "pgx", caught: p.WaitCaughtUp, config: func() readroute.Config { return configFor(p) }}
	for _, n := range p.Nodes() {
		c.nodes = append(c.nodes, n)
	}
	return c
}

// sql puts the engine's own places for arguments into a text that has ? for them.
func (c *engineCluster) sql(text string) string {
	if c.driver == "mysql" {
		return text
	}
	for i := 1; strings.Contains(text, "?"); i++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", i), 1)
	}
	return text
}

// table makes an empty table of its own for a test and returns its name.
func (c *engineCluster) table(t testing.TB, columns string) string {
	t.Helper()
	ctx := testContext(t)
	name := fmt.Sprintf("t%d", tables.Add(1))
	require.NoError(t, c.nodes[0].Exec(ctx, fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)))
	require.NoError(t, c.caught(ctx))
	return name
}

// bare is a plain pool of a node, past the routed one.
func (c *engineCluster) bare(t testing.TB, node int) *sql.DB {
	t.Helper()
	db, err := sql.Open(c.driver, c.nodes[node].AppDSN())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// pause keeps replica i (1 or 2) where it is, until the end of the test or the call of resume. It is fed, and so may serve.
func (c *engineCluster) pause(t testing.TB, i int) (resume func()) {
	t.Helper()
	hold, release := c.nodes[i].PauseReplay, c.nodes[i].ResumeReplay
	if c.driver != "pgx" { // with its applier stopped it would soon be out
		hold = func(ctx context.Context) error { return c.nodes[i].SetApplyDelay(ctx, time.Hour) }
		release = func(ctx context.Context) error { return c.nodes[i].SetApplyDelay(ctx, 0) }
	}
	require.NoError(t, hold(testContext(t)))
	resumed := false
	resume = func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if !resumed {
			resumed = true
			require.NoError(t, release(ctx))
		}
	}
	t.Cleanup(resume)
	return resume
}

func fmtInt(n int) string { return fmt.Sprint(n) }
