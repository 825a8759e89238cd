package readroute_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

var shared struct {
	once    sync.Once
	cluster *dbtest.PostgresCluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedCluster is a primary with two standbys, for tests that leave them as they have found them. Such tests do not
// run in parallel: they pause replay.
func sharedCluster(t testing.TB) *dbtest.PostgresCluster {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = dbtest.StartPostgres(context.Background(), dbtest.PostgresOptions{Standbys: 2})
	})
	require.NoError(t, shared.err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.cluster.Logs())
		}
	})
	return shared.cluster
}

// standbys are the nodes of c that were made as standbys.
func standbys(c *dbtest.PostgresCluster) []*dbtest.PostgresNode { return c.Nodes()[1:] }

// pauseReplay lets the standbys come to where the primary is and stops them there, until resumeReplay or the end of the
// test.
func pauseReplay(t testing.TB, c *dbtest.PostgresCluster) {
	t.Helper()
	t.Cleanup(func() { resumeReplay(t, c) })
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	for _, n := range standbys(c) {
		require.NoError(t, n.PauseReplay(testContext(t)))
	}
}

func resumeReplay(t testing.TB, c *dbtest.PostgresCluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for _, n := range standbys(c) {
		if n.IsRunning() {
			require.NoError(t, n.ResumeReplay(ctx))
		}
	}
}

// eventually polls, for what other processes do in their own time. It calls cond on the test's own goroutine.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		<-ticker.C
		require.True(t, time.Now().Before(deadline), "not in time: "+what)
	}
}

// sessionContext returns a context with a new session.
func sessionContext(t testing.TB) context.Context {
	t.Helper()
	return readroute.WithSession(testContext(t))
}

// count reads how many rows of table have the id, through the routed pool.
func count(t testing.TB, ctx context.Context, db *readroute.DB, table string, id int) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", id).Scan(&n))
	return n
}

// onPrimary runs a query on the primary, past the routed pool.
func onPrimary(t testing.TB, c *dbtest.PostgresCluster, sql string) string {
	t.Helper()
	value, err := c.Primary().QueryValue(testContext(t), sql)
	require.NoError(t, err)
	return value
}
