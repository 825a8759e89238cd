package router_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/router"
)

func atLevel(ctx context.Context, l core.Level) context.Context {
	o := core.Options{}
	if p := core.FromContext(ctx); p != nil {
		o = *p
	}
	o.Level = l
	return core.NewContext(ctx, &o)
}

// TestLevelGlobalSharesPositionReads: however many reads there are at a time, one position read is in flight on the primary, and
// half of them are served within one and a half round trips.
func TestLevelGlobalSharesPositionReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		r := route(t, nil, 10_000, newNodes(2)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.Delay = trip })
		<-time.After(time.Second)
		r.nodes[0].Forget()
		var mu sync.Mutex
		var took []time.Duration
		var all sync.WaitGroup
		began := time.Now()
		for i := range 1000 {
			all.Go(func() {
				<-time.After(time.Duration(i) * 100 * time.Microsecond) // over ten round trips
				d, waited := r.read(atLevel(t.Context(), core.LevelGlobal))
				if d.Err != nil || d.Role != core.RoleReplica || d.Reason != core.ReasonCovered {
					t.Errorf("%+v", d)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, waited)
			})
		}
		all.Wait()
		slices.Sort(took)
		require.LessOrEqual(t, took[len(took)/2], trip*3/2)
		require.LessOrEqual(t, took[len(took)-1], 2*trip+time.Millisecond)
		reads := len(r.nodes[0].Probes())
		require.LessOrEqual(t, reads, int(time.Since(began)/trip)+2, "one after the other, and the monitor's own")
		require.LessOrEqual(t, r.nodes[0].Most(), 2, "one of them, and the monitor's own")
	})
}

// TestLevelGlobalWithoutThePrimary: what nobody can tell goes to the primary, or is an error.
func TestLevelGlobalWithoutThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
		d, took := r.read(atLevel(t.Context(), core.LevelGlobal))
		r.wants(d, 0, core.ReasonCapturePending)
		require.Equal(t, captureTimeout, took)
		ctx := core.NewContext(t.Context(), &core.Options{Level: core.LevelGlobal, Fallback: core.FallbackError})
		d, _ = r.read(ctx)
		require.ErrorIs(t, d.Err, router.ErrNotCaughtUp)
	})
}

// TestLevelBoundedByTheClock: a replica serves for as long as it is proven to show what is asked for, and the primary is asked
// when nothing is known that is new enough.
func TestLevelBoundedByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		bounded := func(d time.Duration) context.Context { return atLevel(t.Context(), core.Level(d)) }
		for range 20 {
			d, took := r.read(bounded(2 * time.Second))
			r.wants(d, 1, core.ReasonCovered)
			require.Zero(t, took)
			<-time.After(77 * time.Millisecond)
		}
		r.nodes[0].Forget()
		for range 20 {
			d, _ := r.read(bounded(time.Millisecond))
			r.wants(d, 1, core.ReasonCovered)
			<-time.After(50 * time.Millisecond)
		}
		require.GreaterOrEqual(t, len(r.nodes[0].Probes()), 15)

		// The replica stands still while the primary goes on.
		for i := range 40 {
			r.nodes[0].Set(func(s *fakenode.State) { s.LSN += 0x100 })
			d, _ := r.read(bounded(time.Second))
			if i > 20 {
				require.Equal(t, core.RolePrimary, d.Role, "%d: %+v", i, d)
			}
			<-time.After(100 * time.Millisecond)
		}
		// It says the same after the primary is gone, for as long as that is true.
		r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x5000 + 40*0x100 })
		<-time.After(time.Second)
		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
		d, _ := r.read(bounded(3 * time.Second))
		r.wants(d, 1, core.ReasonCovered)
		<-time.After(4 * time.Second)
		d, _ = r.read(bounded(3 * time.Second))
		require.Equal(t, core.RolePrimary, d.Role, "nothing is known of the last seconds: %+v", d)
	})
}

// TestLevelCausalMovesWhenItMust: a session stays on the server that it has read from; when that is not to be had, what it has
// read there is asked first.
func TestLevelCausalMovesWhenItMust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(2)...)
		s, ctx := session(t.Context())
		ctx = atLevel(ctx, core.LevelCausal)
		saw := func(node int) {
			s.Saw(cluster, r.Place(node), r.Monitor.Snapshot().Nodes[node].Sample.Start, node == 0, time.Now())
		}
		r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		saw(1)
		for range 10 {
			d, took := r.read(ctx)
			r.wants(d, 1, core.ReasonCovered)
			require.Zero(t, took)
			require.Equal(t, core.Start{System: fakenode.System, At: 1}, d.Floor.Start)
			saw(1)
		}
		elsewhere := func() router.Decided {
			d, _ := r.read(ctx, func(req *router.Request) { req.Exclude = 1 << 1 })
			return d
		}
		d := elsewhere()
		require.Equal(t, core.RolePrimary, d.Role, "c does not show what b has shown: %+v", d)
		r.nodes[2].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		<-time.After(time.Second)
		r.wants(elsewhere(), 2, core.ReasonCovered)
	})
}

// TestLevelCausalWaitsForCommitsOnThePrimary: a read that moves to the primary waits until it shows what a replica has shown. One
// that goes on is waited for once, is announced each time, and keeps the primary busy with a few questions only.
func TestLevelCausalWaitsForCommitsOnThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := 0
		r := route(t, func(c *router.Config) { c.OnAhead = func() { ahead++ } }, 100, newNodes(1)...)
		committing := func(transactions string) {
			r.nodes[0].Set(func(s *fakenode.State) { s.Committing = transactions })
		}
		read := func() time.Duration {
			s, ctx := session(t.Context())
			s.Saw(cluster, r.Place(1), r.Monitor.Snapshot().Nodes[1].Sample.Start, false, time.Now())
			d, took := r.read(atLevel(ctx, core.LevelCausal), func(req *router.Request) { req.Exclude = 1 << 1 })
			require.NoError(t, d.Err)
			require.Equal(t, core.RolePrimary, d.Role)
			return took
		}
		require.Zero(t, read())
		require.Zero(t, ahead)

		committing("7")
		time.AfterFunc(3*time.Millisecond, func() { committing("") })
		took := read()
		require.GreaterOrEqual(t, took, 3*time.Millisecond)
		require.Less(t, took, 6*time.Millisecond)
		require.Zero(t, ahead)

		committing("7,8")
		time.AfterFunc(time.Millisecond, func() { committing("8,9") })
		r.nodes[0].Forget()
		took = read()
		require.Equal(t, 1, ahead)
		require.GreaterOrEqual(t, took, 10*time.Millisecond)
		require.Less(t, took, 15*time.Millisecond)
		require.Less(t, len(r.nodes[0].Probes()), 15)
		for again := range 3 {
			require.Zero(t, read(), "8 and 9 are known to go on")
			require.Equal(t, 2+again, ahead)
		}
		committing("")
		require.Zero(t, read())
		require.Equal(t, 4, ahead)
	})
}
