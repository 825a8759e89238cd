package readroute_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestWaitReadyAsksEveryNode: one replica answers late, and the pool is not ready before it has.
func TestWaitReadyAsksEveryNode(t *testing.T) {
	c := sharedCluster(t)
	proxy, err := dbtest.NewProxy(c.Standby(1).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	proxy.SetDelay(50 * time.Millisecond)

	config := configFor(c)
	config.Replicas[1].Connector = readroute.Postgres(c.Standby(1).DSNVia(proxy))
	for _, n := range open(t, config).Nodes() {
		require.NotZero(t, n.Role, n.Name)
	}
}

// TestWaitReadyDoesNotWaitForADeadNode: that a node cannot be reached is an answer, and WaitReady says what is missing.
func TestWaitReadyDoesNotWaitForADeadNode(t *testing.T) {
	c := sharedCluster(t)
	proxy, err := dbtest.NewProxy(c.Standby(1).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	require.NoError(t, proxy.Refuse(true))

	config := configFor(c)
	config.Replicas[1].Connector = readroute.Postgres(c.Standby(1).DSNVia(proxy))
	nodes := open(t, config).Nodes()
	require.True(t, nodes[1].Healthy)
	require.Error(t, nodes[2].Err)

	config.Replicas = config.Replicas[1:]
	db, err := readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	err = db.WaitReady(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no replica answers")
}

// TestWaitReadyEndsWithTheDB: who waits for a primary that never comes is told when the DB is closed, as every later caller is.
func TestWaitReadyEndsWithTheDB(t *testing.T) {
	db, err := readroute.Open(readroute.Config{
		Primary: readroute.Node{Name: "a", Connector: readroute.Postgres("postgres://app@127.0.0.1:1/app")},
	})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- db.WaitReady(context.Background()) }()
	require.NoError(t, db.Close())
	closed := db.PingContext(testContext(t))
	require.Error(t, closed)
	require.Equal(t, closed, <-done)
	require.Equal(t, closed, db.WaitReady(context.Background()))
}
