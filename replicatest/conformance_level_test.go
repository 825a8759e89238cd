package replicatest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// levels: a global read sees all that was acknowledged before it, a bounded one what was so long before, an eventual one goes to any
// replica, and none needs the primary as long as one replica goes on.
func (e *engine) levels(t *testing.T) {
	table := e.table(t)
	var seen decisions
	db := e.open(t, &seen)
	require.NoError(t, e.cluster.Replica(1).Pause(testContext(t)))
	defer func() { require.NoError(t, e.cluster.Replica(1).Resume(testContext(t))) }()
	a, stop := e.writes(t, table)
	seen.take()
	global := readroute.WithLevel(testContext(t), readroute.LevelGlobal)
	for range 60 {
		began := time.Now()
		require.GreaterOrEqual(t, newest(t, global, db, table), a.before(began), "a commit that was acknowledged is missing")
	}
	where := served(seen.take())
	require.Greater(t, where["b"], 15, "they need not go to the primary: %v", where)
	require.Zero(t, where["c"], "it stands still")
	for i := range 60 {
		bound := []time.Duration{30 * time.Millisecond, 300 * time.Millisecond}[i%2]
		began := time.Now()
		got := newest(t, readroute.WithLevel(testContext(t), readroute.LevelBounded(bound)), db, table)
		require.GreaterOrEqual(t, got, a.before(began.Add(-bound)), "older than %v", bound)
	}
	stop()
	seen.take()
	for range 20 {
		newest(t, readroute.WithLevel(testContext(t), readroute.LevelEventual), db, table)
		newest(t, readroute.WithLevel(testContext(t), readroute.LevelPrimary), db, table)
	}
	where = served(seen.take())
	require.Equal(t, 20, where["a"], "%v", where)
}

func served(list []readroute.Decision) map[string]int {
	nodes := make(map[string]int)
	for _, d := range list {
		nodes[d.Node]++
	}
	return nodes
}

// causal: reads of a session never go back, whichever nodes serve them, and in whichever process. A replica shows a commit before the
// primary does; a read on a primary that still does not after a wait, as on a busy machine, is announced.
func (e *engine) causal(t *testing.T) {
	table := e.table(t)
	var behind atomic.Bool
	db := e.open(t, nil, func(config *readroute.Config) {
		config.Hooks.Event = func(event readroute.Event) {
			if event.Kind == readroute.EventReadAhead {
				behind.Store(true)
			}
		}
	})
	other := e.open(t, nil)
	require.NoError(t, e.cluster.Replica(1).Pause(testContext(t)))
	resume := sync.OnceFunc(func() { require.NoError(t, e.cluster.Replica(1).Resume(testContext(t))) })
	defer resume()
	_, stop := e.writes(t, table)
	defer stop()
	ctx := readroute.WithLevel(sessionContext(t), readroute.LevelCausal)
	last := 0
	for i := range 90 {
		if i == 45 {
			resume()
		}
		behind.Store(false)
		got := newest(t, readroute.WithNode(ctx, e.cluster.Nodes()[i%3].Name()), db, table)
		if i%3 != 0 || !behind.Load() {
			require.GreaterOrEqual(t, got, last, "read %d goes back in time", i)
		}
		last = max(last, got)
		if i%9 == 0 && got == last {
			token, err := readroute.SessionFrom(ctx).Token(testContext(t))
			require.NoError(t, err)
			elsewhere := readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
			require.GreaterOrEqual(t, newest(t, elsewhere, other, table), last, "in another process")
		}
	}
}
