package monitor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
)

// waitFor is what a read does that needs lsn of the first timeline.
func (w *watched) waitFor(ctx context.Context, nodes uint64, lsn core.LSN, timeout time.Duration) error {
	return w.Wait(ctx, nodes, []core.Position{position(1, lsn)}, timeout)
}

// TestWaitManyCostOnePoll: 10,000 goroutines wait for one position. The replica is asked one question at a time, as often
// as if one waited; when they are cancelled nothing of them is left, or the bubble would not end.
func TestWaitManyCostOnePoll(t *testing.T) {
	polls := func(waiters int) (asked, most int) {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair()
			w := watch(t, a, b)
			time.Sleep(time.Second)
			b.Forget()
			ctx, cancel := context.WithCancel(t.Context())
			var cancelled atomic.Int32
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					if w.waitFor(ctx, 1<<1, 0x6000, time.Hour) == context.Canceled {
						cancelled.Add(1)
					}
				})
			}
			synctest.Wait()
			require.Equal(t, waiters, w.Waiting())
			time.Sleep(10 * time.Second)
			asked, most = len(b.Probes()), b.Most()
			cancel()
			wg.Wait()
			require.Equal(t, waiters, int(cancelled.Load()))
			require.Zero(t, w.Waiting())
			b.Forget()
			time.Sleep(10 * time.Second)
			require.InDelta(t, 20, len(b.Probes()), 4, "nobody waits any more")
		})
		return asked, most
	}
	one, _ := polls(1)
	many, most := polls(10_000)
	require.Equal(t, 1, most, "one poll at a time")
	require.InEpsilon(t, one, many, 0.1)
	// At first every millisecond, then in proportion to the time that has passed, then every 50 ms.
	require.InDelta(t, 8+8*3.9+9.6*20, many, 30)
}

// TestWaitManyAreServed: all of them go on when the replica has come so far, within a poll.
func TestWaitManyAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		var served atomic.Int32
		var wg sync.WaitGroup
		for i := range 10_000 {
			wg.Go(func() {
				if w.waitFor(t.Context(), 1<<1, 0x5001+core.LSN(i), time.Hour) == nil {
					served.Add(1)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		require.Zero(t, served.Load())
		b.Set(func(s *fakenode.State) { s.LSN = 0x5000 + 5000 })
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, int32(5000), served.Load(), "only those that can be served")
		require.Equal(t, 5000, w.Waiting())
		b.Set(func(s *fakenode.State) { s.LSN = 0x5000 + 10_000 })
		wg.Wait()
		require.Equal(t, int32(10_000), served.Load())
		require.Zero(t, w.Waiting())
	})
}

func TestWaitForTheNamedNodesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		c := fakenode.New("c", replicaAt(0x9000))
		w := watch(t, a, b, c)
		time.Sleep(time.Second)
		a.Forget()
		c.Forget()
		began := time.Now()
		require.ErrorIs(t, w.waitFor(t.Context(), 1<<1, 0x6000, 3*time.Second), context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Less(t, len(c.Probes()), 10, "nobody waits for c")
		require.Less(t, len(a.Probes()), 10, "nor for a")
		require.NoError(t, w.waitFor(t.Context(), 1<<1|1<<2, 0x6000, time.Second))
		require.Equal(t, 3*time.Second, time.Since(began), "c has it already")
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		require.NoError(t, w.waitFor(t.Context(), 1<<1, 0x5000, 0), "there already")
		require.ErrorIs(t, w.waitFor(t.Context(), 1<<1, 0x5001, 0), context.DeadlineExceeded)
		require.ErrorIs(t, w.waitFor(t.Context(), 1<<1, 0x5001, -time.Second), context.DeadlineExceeded)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.waitFor(ctx, 1<<1, 0x5001, time.Hour), context.DeadlineExceeded)
		require.ErrorIs(t, w.waitFor(ctx, 1<<1, 0x5001, time.Hour), context.DeadlineExceeded)
		require.Zero(t, w.Waiting())

		closed := make(chan error)
		go func() { closed <- w.waitFor(t.Context(), 1<<1, 0x5001, time.Hour) }()
		time.Sleep(time.Second)
		w.Close()
		require.ErrorIs(t, <-closed, monitor.ErrClosed)
	})
}

func TestWaitHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		m := monitor.Start(monitor.Config{
			Nodes:  []monitor.Node{a.Watch(), b.Watch()},
			Engine: fakenode.Engine, Interval: interval, ProbeTimeout: probeTimeout, MaxWaiters: 3, MaxLag: time.Minute,
		})
		defer m.Close()
		w := &watched{tb: t, Monitor: m}
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			go func() { _ = w.waitFor(ctx, 1<<1, 0x6000, time.Hour) }()
		}
		synctest.Wait()
		began := time.Now()
		require.Equal(t, monitor.ErrTooManyWaiters, w.waitFor(t.Context(), 1<<1, 0x6000, time.Hour))
		require.Zero(t, time.Since(began))
		cancel()
		synctest.Wait()
		require.ErrorIs(t, w.waitFor(t.Context(), 1<<1, 0x6000, time.Second), context.DeadlineExceeded)
	})
}

// TestWaitEndsWhenRolesChange: whoever waits looks again when a node fails, comes back or changes its role.
func TestWaitEndsWhenRolesChange(t *testing.T) {
	for name, change := range map[string]func(w *watched, a, b *fakenode.Node){
		"a node failed":      func(w *watched, _, _ *fakenode.Node) { w.Failed(1, errRefused) },
		"the primary failed": func(_ *watched, a, _ *fakenode.Node) { a.Set(func(s *fakenode.State) { s.Err = errRefused }) },
		"a promotion": func(_ *watched, _, b *fakenode.Node) {
			b.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair()
				w := watch(t, a, b)
				time.Sleep(time.Second)
				done := make(chan error, 1)
				go func() { done <- w.waitFor(t.Context(), 1<<1, 0x6000, time.Hour) }()
				time.Sleep(time.Second)
				change(w, a, b)
				time.Sleep(time.Second)
				require.NoError(t, <-done)
				require.Zero(t, w.Waiting())
			})
		})
	}
}

// TestWaitForHiddenTimeline: a replica that does not tell its timeline has the position; the primary is asked at once
// whether it still is what it was, and as often as that takes and no more.
func TestWaitForHiddenTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		b.Set(func(s *fakenode.State) { s.Hidden = true })
		w := watch(t, a, b)
		time.Sleep(2 * time.Second)
		for i := range 20 {
			lsn := 0x6000 + core.LSN(i)
			a.Set(func(s *fakenode.State) { s.LSN = lsn })
			go func() {
				time.Sleep(10 * time.Millisecond)
				b.Set(func(s *fakenode.State) { s.LSN = lsn })
			}()
			a.Forget()
			began := time.Now()
			require.NoError(t, w.waitFor(t.Context(), 1<<1, lsn, time.Second))
			require.Less(t, time.Since(began), 15*time.Millisecond)
			require.LessOrEqual(t, len(a.Probes()), 4)
			v := w.view(1)
			p, _ := v.Proof()
			require.Equal(t, core.Covered, position(1, lsn).CoveredBy(p), "whoever is woken is served")
		}
	})
}

// TestWaitLeavesThePrimaryAlone: somebody waits for one replica. That another one, of a hidden timeline, has the position
// or that the one waited for cannot prove it is no reason to ask the primary a thousand times a second.
func TestWaitLeavesThePrimaryAlone(t *testing.T) {
	for name, c := range map[string]struct {
		replicas [2]fakenode.State
		timeline uint32
	}{
		"another one has it": {[2]fakenode.State{
			{Replica: true, LSN: 0x5000},
			{Replica: true, LSN: 0x5500, Hidden: true},
		}, 1},
		"left behind on an older timeline": {[2]fakenode.State{
			{Replica: true, LSN: 0x5500, Hidden: true, Floor: 1},
			{Replica: true, LSN: 0x5000},
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := fakenode.New("a", fakenode.State{LSN: 0x5500, Timeline: c.timeline})
				w := watch(t, a, fakenode.New("b", c.replicas[0]), fakenode.New("c", c.replicas[1]))
				time.Sleep(2 * time.Second)
				a.Forget()
				began := time.Now()
				require.Error(t, w.Wait(t.Context(), 1<<1, []core.Position{position(c.timeline, 0x5400)}, 2*time.Second))
				require.Equal(t, 2*time.Second, time.Since(began))
				require.LessOrEqual(t, len(a.Probes()), 7)
			})
		})
	}
}

// TestWaitPollsInProportion: who waits for a replica that takes long asks it seldom.
func TestWaitPollsInProportion(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		most int
	}{{10 * time.Millisecond, 14}, {100 * time.Millisecond, 40}, {time.Second, 70}, {10 * time.Second, 290}} {
		t.Run(fmt.Sprint(c.wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair()
				w := watch(t, a, b)
				time.Sleep(time.Second)
				b.Forget()
				require.Error(t, w.waitFor(t.Context(), 1<<1, 0x6000, c.wait))
				require.LessOrEqual(t, len(b.Probes()), c.most)
				require.Greater(t, len(b.Probes()), c.most/3)
				for _, gap := range gaps(b.Probes()) {
					require.LessOrEqual(t, gap, 63*time.Millisecond)
				}
			})
		})
	}
}

// TestWaitConcurrently lets waiters come, go and be served at once, for the race detector.
func TestWaitConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		c := fakenode.New("c", replicaAt(0x5000))
		w := watch(t, a, b, c)
		time.Sleep(time.Second)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for j := range 200 {
					lsn := 0x5000 + core.LSN(j*16+i)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Millisecond)
					_ = w.waitFor(ctx, uint64(1+i%3)<<1, lsn, time.Duration(j)*time.Millisecond)
					cancel()
					if j%50 == i {
						w.Failed(1+i%2, errRefused)
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 100 {
				time.Sleep(3 * time.Millisecond)
				b.Set(func(s *fakenode.State) { s.LSN = 0x5000 + core.LSN(i*8) })
				c.Set(func(s *fakenode.State) { s.LSN = 0x5000 + core.LSN(i*9) })
			}
		})
		wg.Wait()
		require.Zero(t, w.Waiting())
	})
}
