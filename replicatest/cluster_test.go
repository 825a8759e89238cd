package replicatest_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

const testTimeout = 60 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func sessionContext(t testing.TB) context.Context {
	t.Helper()
	return readroute.WithSession(testContext(t))
}

// eventually polls for what happens in its own time.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		<-ticker.C
		require.True(t, time.Now().Before(deadline), "not in time: "+what)
	}
}

// record notes the decisions of a pool.
func record(list *decisions) func(*readroute.Config) {
	return func(config *readroute.Config) {
		config.Hooks = readroute.JoinHooks(config.Hooks, readroute.Hooks{Decision: list.add})
	}
}

type decisions struct {
	mu   sync.Mutex
	list []readroute.Decision
}

func (d *decisions) add(_ context.Context, got readroute.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, got)
}

func (d *decisions) take() []readroute.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.list
	d.list = nil
	return list
}

func (d *decisions) last(t testing.TB) readroute.Decision {
	t.Helper()
	list := d.take()
	require.NotEmpty(t, list)
	return list[len(list)-1]
}

func TestNewIsRoutedOver(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Schema: []string{"CREATE TABLE form (id INTEGER PRIMARY KEY, text TEXT)"}})
	var seen decisions
	db := c.OpenT(t, record(&seen))
	ctx := sessionContext(t)
	require.Equal(t, "SQLite", db.RouteStats().Engine)
	require.False(t, db.RouteStats().Sticky)
	require.Equal(t, "SQLite", c.Engine())
	require.Regexp(t, `^3\.`, c.Version())
	require.Len(t, c.Nodes(), 3)

	result, err := db.ExecContext(ctx, "INSERT INTO form (text) VALUES (?)", "one")
	require.NoError(t, err)
	id, err := result.LastInsertId()
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	require.NoError(t, db.QueryRowContext(ctx, "INSERT INTO form (text) VALUES ($1) RETURNING id", "two").Scan(&id))
	require.EqualValues(t, 2, id)
	require.NoError(t, c.Pause(ctx))
	_, err = db.ExecContext(ctx, "UPDATE form SET text = :text WHERE id = 1", sql.Named("text", "three"))
	require.NoError(t, err)
	seen.take()
	var text string
	require.NoError(t, db.QueryRowContext(ctx, "SELECT text FROM form WHERE id = 1").Scan(&text))
	require.Equal(t, "three", text)
	require.Equal(t, "a", seen.last(t).Node)
	require.NoError(t, c.Resume(ctx))
	eventually(t, "a replica serves the session", func() bool {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT text FROM form WHERE id = 1").Scan(&text))
		require.Equal(t, "three", text)
		return seen.last(t).Role == readroute.RoleReplica
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Replicas: -1})
	require.Len(t, c.Nodes(), 1)
	db := c.OpenT(t)
	require.NoError(t, db.PingContext(testContext(t)))
	_, err := replicatest.New(replicatest.Options{Replicas: 17})
	require.Error(t, err)
	_, err = replicatest.New(replicatest.Options{Schema: []string{"nonsense"}})
	require.ErrorContains(t, err, "nonsense")
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.Error(t, db.PingContext(context.Background()), "it is closed with its cluster")
}

// TestParallelClustersDoNotMeet: each has its own data, lag and faults.
func TestParallelClustersDoNotMeet(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := replicatest.NewT(t, replicatest.Options{Schema: []string{"CREATE TABLE t (n INTEGER)"}})
			db := c.OpenT(t)
			if i%2 == 0 {
				require.NoError(t, c.Pause(testContext(t)))
			}
			ctx := sessionContext(t)
			for n := range 10 {
				_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (?)", i)
				require.NoError(t, err)
				var count, sum int
				require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*), sum(n) FROM t").Scan(&count, &sum))
				require.Equal(t, n+1, count)
				require.Equal(t, i*count, sum)
			}
		})
	}
}
