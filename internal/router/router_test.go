package router_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/router"
)

func TestRouteReadsItsOwnWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		s, ctx := session(t.Context())
		d, took := r.read(ctx)
		r.wants(d, 1, core.ReasonCovered)
		require.Zero(t, took)
		require.Empty(t, d.Positions)

		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		r.wrote(s)
		go func() {
			time.Sleep(30 * time.Millisecond)
			r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		}()
		d, took = r.read(ctx)
		r.wants(d, 1, core.ReasonWaited)
		require.Equal(t, []core.Position{position(1, 0x6000)}, d.Positions)
		require.InDelta(t, 30*time.Millisecond, took, float64(7*time.Millisecond))
		require.Equal(t, took, d.Waited)
		require.False(t, d.FellBack || d.Slot)
		d, took = r.read(ctx)
		r.wants(d, 1, core.ReasonCovered)
		require.Zero(t, took)
		require.Zero(t, d.Waited)
	})
}

// TestRouteBudget: a read is never held up for longer than CaptureTimeout and the strategy's wait, whatever is slow.
func TestRouteBudget(t *testing.T) {
	slow := func(d time.Duration) func(*routed, *core.Session) {
		return func(r *routed, s *core.Session) {
			r.nodes[0].Set(func(s *fakenode.State) { s.LSN, s.Delay = 0x6000, d })
			r.wrote(s)
		}
	}
	for name, c := range map[string]struct {
		before func(*routed, *core.Session)
		reason core.Reason
		took   time.Duration
	}{
		"the primary does not answer the capture": {
			func(r *routed, s *core.Session) {
				r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
				r.wrote(s)
			}, core.ReasonCapturePending, captureTimeout,
		},
		"the capture is too slow":                          {slow(60 * time.Millisecond), core.ReasonCapturePending, captureTimeout},
		"the replica stays behind":                         {slow(0), core.ReasonWaitTimeout, waitTimeout},
		"the capture is slow and the replica stays behind": {slow(40 * time.Millisecond), core.ReasonWaitTimeout, waitTimeout},
		"writes of unknown outcome, one after the other": {
			func(r *routed, s *core.Session) {
				for i := range 10 {
					c := core.NewCapture(nil)
					s.Wrote(cluster, time.Now(), core.Start{System: fakenode.System, At: 1}, c, true, window)
					go func() {
						<-time.After(time.Duration(i+1) * 40 * time.Millisecond)
						c.Complete(core.CaptureResult{Position: position(1, 0x6000), Reported: 0x6000, Start: core.Start{System: fakenode.System, At: 1}})
					}()
				}
			}, core.ReasonCapturePending, 120 * time.Millisecond,
		},
		"a position from elsewhere, and a primary that is slow to judge": {
			func(r *routed, s *core.Session) {
				r.nodes[0].Set(func(s *fakenode.State) { s.Delay = time.Minute })
				s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{position(1, 0x6000)}}, window)
			}, core.ReasonCapturePending, captureTimeout,
		},
		"a position from elsewhere that stands": {
			func(r *routed, s *core.Session) {
				r.nodes[0].Set(func(s *fakenode.State) { s.LSN, s.Delay = 0x6000, 40*time.Millisecond })
				s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{position(1, 0x6000)}}, window)
			}, core.ReasonWaitTimeout, waitTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := route(t, nil, 100, newNodes(2)...)
				s, ctx := session(t.Context())
				c.before(r, s)
				d, took := r.read(ctx)
				r.wants(d, 0, c.reason)
				require.LessOrEqual(t, took, captureTimeout+waitTimeout)
				require.Equal(t, c.took, took)
				require.Equal(t, took, d.Waited)
				require.True(t, d.FellBack)
				require.Zero(t, r.Monitor.Waiting())
				time.Sleep(time.Second) // whatever else was begun ends
			})
		})
	}
}

// TestRouteBudgetIsOneForAllTries: a statement that is routed once more has what is left of its wait.
func TestRouteBudgetIsOneForAllTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for waited, wants := range map[time.Duration]time.Duration{
			0: waitTimeout, waitTimeout / 4: waitTimeout * 3 / 4, waitTimeout: 0, 2 * waitTimeout: 0,
		} {
			r := route(t, nil, 100, newNodes(2)...)
			r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
			s, ctx := session(t.Context())
			r.wrote(s)
			require.NoError(t, r.Captures.Join().Wait(t.Context()))
			d, took := r.read(ctx, func(r *router.Request) { r.Waited = waited })
			r.wants(d, 0, core.ReasonWaitTimeout)
			require.Equal(t, wants, took)
			require.Equal(t, waited+took, d.Waited)
		}
	})
}

// TestRouteBudgetOfTheContext: the caller's deadline and WithWait come before the strategy's wait.
func TestRouteBudgetOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		s, ctx := session(t.Context(), position(1, 0x6000))
		require.NoError(t, r.Captures.Join().Wait(t.Context()))

		short, cancel := context.WithCancel(ctx)
		time.AfterFunc(20*time.Millisecond, cancel)
		d, took := r.read(short)
		require.ErrorIs(t, d.Err, context.Canceled)
		require.Equal(t, -1, d.Node)
		require.Equal(t, core.ReasonWaited, d.Reason)
		require.Equal(t, 20*time.Millisecond, took)

		for wait, reason := range map[time.Duration]core.Reason{
			0: core.ReasonLagging, 30 * time.Millisecond: core.ReasonWaitTimeout, 300 * time.Millisecond: core.ReasonWaitTimeout,
		} {
			r.nodes[0].Set(func(s *fakenode.State) { s.LSN++ })
			s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{position(1, 0x6000)}}, window)
			d, took = r.read(core.NewContext(t.Context(), &core.Options{Session: s, HasWait: true, Wait: wait}))
			if d.Reason == core.ReasonHopeless {
				continue // it has stood still for longer than that
			}
			r.wants(d, 0, reason)
			require.Equal(t, wait, took)
		}

		// A read that may not wait does not wait for a capture either, and is where it is because of what its session has just written.
		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
		r.wrote(s)
		d, took = r.read(core.NewContext(t.Context(), &core.Options{Session: s, HasWait: true}))
		r.wants(d, 0, core.ReasonCapturePending)
		require.Zero(t, took)
		require.False(t, d.FellBack)
	})
}

// TestRouteLeavesTimeToFallBack: a read whose context ends before the wait could does not spend all of it waiting.
func TestRouteLeavesTimeToFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		for _, left := range []time.Duration{10 * time.Millisecond, waitTimeout / 2, waitTimeout, waitTimeout + waitTimeout/2} {
			r.nodes[0].Set(func(s *fakenode.State) { s.LSN += 0x6000 })
			s, ctx := session(t.Context())
			r.wrote(s)
			require.NoError(t, r.Captures.Join().Wait(t.Context()))
			ctx, cancel := context.WithTimeout(ctx, left)
			d, took := r.read(ctx)
			require.NoError(t, d.Err)
			require.Equal(t, core.RolePrimary, d.Role)
			require.NoError(t, ctx.Err(), "there is time for the primary")
			require.LessOrEqual(t, took, left/2)
			cancel()
		}
	})
}

// TestRouteWakesAtTheFlushedPosition: an open transaction's log keeps the captured position out of every replica's reach.
// A read that waits goes on when the replica has all that is flushed.
func TestRouteWakesAtTheFlushedPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.Strategy.Wait = 10 * time.Second }, 100, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN, s.Flush = 0x6000, 0x5800 })
		s, ctx := session(t.Context())
		r.wrote(s)
		time.Sleep(3 * time.Second) // three times wal_writer_delay, the margin, and a probe
		go func() {
			time.Sleep(100 * time.Millisecond)
			r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x5800 })
		}()
		d, took := r.read(core.NewContext(ctx, &core.Options{Session: s, HasWait: true, Wait: 10 * time.Second}))
		r.wants(d, 1, core.ReasonWaited)
		require.Less(t, took, 200*time.Millisecond)
	})
}

// TestRouteProtectsThePrimary: the reads that no replica can serve come to the primary a few at a time, and the others
// are told in bounded time.
func TestRouteProtectsThePrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, readers = 5, 1000
		r := route(t, func(c *router.Config) { c.FallbackLimit = limit }, 100, newNodes(1)...)
		r.nodes[1].Set(func(s *fakenode.State) { s.Err = errRefused })
		time.Sleep(2 * time.Second)
		_, ctx := session(t.Context(), position(1, 0x5000))
		var mu sync.Mutex
		var slots, protected int
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				d, took := r.read(ctx)
				mu.Lock()
				defer mu.Unlock()
				if d.Slot {
					slots++
				}
				if errors.Is(d.Err, router.ErrProtected) {
					protected++
					if d.Node != -1 || d.Reason != core.ReasonProtected || took != waitTimeout || d.Slot {
						t.Errorf("%+v after %s", d, took)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, limit, slots)
		require.Equal(t, readers-limit, protected)

		// Writes, and reads that belong on the primary, need no slot.
		for _, class := range []core.Class{core.ClassWrite, core.ClassTxControl, core.ClassUnknown, core.ClassSessionState} {
			d, took := r.read(ctx, func(req *router.Request) { req.Class = class })
			require.NoError(t, d.Err)
			require.False(t, d.Slot)
			require.Zero(t, took)
		}
		d, _ := r.read(ctx, func(req *router.Request) { req.Slot = true })
		r.wants(d, 0, core.ReasonNoReplica)
		require.False(t, d.Slot, "the caller has one")

		// A slot that comes back is the next one's.
		go func() {
			time.Sleep(40 * time.Millisecond)
			r.Release()
		}()
		d, took := r.read(ctx)
		r.wants(d, 0, core.ReasonNoReplica)
		require.True(t, d.Slot && d.FellBack)
		require.Equal(t, 40*time.Millisecond, took)
		require.Equal(t, took, d.Waited)

		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		d, _ = r.read(short)
		require.ErrorIs(t, d.Err, context.DeadlineExceeded)
		require.False(t, d.Slot)

		for range limit {
			r.Release()
		}
		d, took = r.read(ctx)
		require.True(t, d.Slot)
		require.Zero(t, took)
	})
}

// TestRouteProtectsThePrimaryFromSessionsThatWrite: that a session has just written is no way around the limit, whether there is no
// replica or the primary is too slow to tell its position.
func TestRouteProtectsThePrimaryFromSessionsThatWrite(t *testing.T) {
	const limit, readers = 5, 200
	noReplica := func(r *routed) {
		r.nodes[1].Set(func(s *fakenode.State) { s.Err = errRefused })
		<-time.After(2 * time.Second)
	}
	slow := func(r *routed) { r.nodes[0].Set(func(s *fakenode.State) { s.Delay = 400 * time.Millisecond }) }
	plain := func(r *routed, s *core.Session) *core.Options { return &core.Options{Session: s} }
	for name, c := range map[string]struct {
		before  func(*routed)
		options func(*routed, *core.Session) *core.Options
		reason  core.Reason
		took    time.Duration
		err     error // with FallbackError
	}{
		"no replica":                         {noReplica, plain, core.ReasonNoReplica, 0, router.ErrNoReplica},
		"the primary is too slow to capture": {slow, plain, core.ReasonCapturePending, captureTimeout, router.ErrNotCaughtUp},
		"the primary is too slow for LevelGlobal": {slow, func(*routed, *core.Session) *core.Options {
			return &core.Options{Level: core.LevelGlobal}
		}, core.ReasonCapturePending, captureTimeout, router.ErrNotCaughtUp},
		"the replica that was read is too slow to say what it showed": {
			func(r *routed) { r.nodes[1].Set(func(s *fakenode.State) { s.Delay = 400 * time.Millisecond }) },
			func(r *routed, _ *core.Session) *core.Options {
				s, _ := session(context.Background(), position(1, 0x5001)) // which the replica does not show
				s.Saw(cluster, r.Place(1), r.Monitor.Snapshot().Nodes[1].Sample.Start, false, time.Now())
				return &core.Options{Session: s, Level: core.LevelCausal}
			}, core.ReasonCapturePending, captureTimeout, router.ErrNotCaughtUp,
		},
		"the replica that was read has restarted": {
			func(r *routed) {
				r.nodes[1].Set(func(s *fakenode.State) { s.Start = 2 })
				<-time.After(time.Second)
			},
			func(r *routed, _ *core.Session) *core.Options {
				s, _ := session(context.Background())
				s.Saw(cluster, r.Place(1), core.Start{System: fakenode.System, At: 1}, false, time.Now())
				return &core.Options{Session: s, Level: core.LevelCausal}
			}, core.ReasonSticky, 0, router.ErrNotCaughtUp,
		},
		"a position that the primary does not have": {
			func(*routed) {},
			func(*routed, *core.Session) *core.Options {
				s, _ := session(context.Background(), position(1, 0x9000))
				return &core.Options{Session: s}
			}, core.ReasonPositionLost, 0, nil,
		},
		"a read that may not wait, and a position that is late": {slow, func(_ *routed, s *core.Session) *core.Options {
			<-time.After(2 * captureTimeout)
			return &core.Options{Session: s, HasWait: true}
		}, core.ReasonCapturePending, 0, router.ErrNotCaughtUp},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := route(t, func(c *router.Config) { c.FallbackLimit = limit }, 2*readers, newNodes(1)...)
				c.before(r)
				r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
				var mu sync.Mutex
				var slots, protected int
				var wg sync.WaitGroup
				write := func() *core.Session {
					s, _ := session(t.Context())
					r.wrote(s)
					return s
				}
				for range readers {
					s := write()
					wg.Go(func() {
						ctx := core.NewContext(t.Context(), c.options(r, s))
						d, took := r.read(ctx)
						mu.Lock()
						defer mu.Unlock()
						switch {
						case d.Slot:
							slots++
							if d.Node != 0 || d.Reason != c.reason || took < c.took || took > c.took+5*time.Millisecond || d.Err != nil {
								t.Errorf("%+v after %s", d, took)
							}
						case errors.Is(d.Err, router.ErrProtected):
							protected++
							if took > waitTimeout {
								t.Errorf("%+v after %s", d, took)
							}
						default:
							t.Errorf("%+v", d)
						}
					})
				}
				wg.Wait()
				require.Equal(t, limit, slots)
				require.Equal(t, readers-limit, protected)

				o := c.options(r, write())
				o.Fallback = core.FallbackError
				d, _ := r.read(core.NewContext(t.Context(), o))
				if c.err != nil {
					require.ErrorIs(t, d.Err, c.err)
				}
				<-time.After(time.Second)
			})
		})
	}
}

// TestRouteRefusesNoReadAfterAWriteInHealth: the limit is for what replicas should have served. In a healthy cluster no read right after
// a write needs a slot, whether it waits until the position is known or may not.
func TestRouteRefusesNoReadAfterAWriteInHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.FallbackLimit = 1 }, 1000, newNodes(1)...)
		for _, n := range r.nodes {
			n.Set(func(s *fakenode.State) { s.Delay = 5 * time.Millisecond })
		}
		<-time.After(time.Second)
		for _, wait := range []time.Duration{waitTimeout, 0} {
			var wg sync.WaitGroup
			for range 500 {
				s, _ := session(t.Context())
				r.wrote(s)
				wg.Go(func() {
					d, _ := r.read(core.NewContext(t.Context(), &core.Options{Session: s, HasWait: true, Wait: wait}))
					if d.Err != nil || d.Slot || d.FellBack {
						t.Errorf("wait %s: %+v", wait, d)
					}
				})
			}
			wg.Wait()
			<-time.After(time.Second)
		}
	})
}

// TestRouteLimitsNothingThatNoReplicaMayServe: the limit is for replicas that are down, and not for reads that the tags of the
// nodes keep from every replica.
func TestRouteLimitsNothingThatNoReplicaMayServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) {
			c.FallbackLimit, c.Tags = 1, [][]string{nil, {"reports"}, {"reports", "search"}}
		}, 100, newNodes(2)...)
		slots := func(o *core.Options) (taken int) {
			o.Session = new(core.Session)
			for range 20 {
				d, took := r.read(core.NewContext(t.Context(), o))
				r.wants(d, r.Monitor.Snapshot().Primary, core.ReasonNoReplica)
				require.Zero(t, took)
				if d.Slot {
					taken++
					r.Release()
				}
			}
			return taken
		}
		require.Zero(t, slots(&core.Options{}))
		require.Zero(t, slots(&core.Options{Tags: []string{"search"}, Node: "b"}), "it has not the tag")
		for _, n := range r.nodes[1:] {
			n.Set(func(s *fakenode.State) { s.Err = errRefused })
		}
		<-time.After(2 * time.Second)
		require.Zero(t, slots(&core.Options{}))
		for _, o := range []core.Options{{Tags: []string{"reports"}}, {Tags: []string{"search"}}, {Node: "b"}} {
			require.Equal(t, 20, slots(&o), "%+v: it is down", o)
		}

		// After a failover the former primary, which has no tag, would serve such reads.
		r.nodes[0].Set(func(s *fakenode.State) { s.Err, s.DialErr = errRefused, errRefused })
		r.nodes[1].Set(func(s *fakenode.State) { s.Err, s.Replica, s.Timeline = nil, false, 2 })
		<-time.After(5 * time.Second)
		require.Equal(t, 1, r.Monitor.Snapshot().Primary)
		require.Equal(t, 20, slots(&core.Options{}))
	})
}

// TestRouteWaitsOnceForAll: what a read has waited for a replica it does not wait again for a slot.
func TestRouteWaitsOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.FallbackLimit = 1 }, 100, newNodes(1)...)
		_, eventual := session(t.Context())
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		require.NoError(t, r.Captures.Join().Wait(t.Context()))
		_, ctx := session(t.Context(), position(1, 0x6000))
		first, _ := r.read(ctx)
		require.True(t, first.Slot)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x7000 })
		require.NoError(t, r.Captures.Join().Wait(t.Context()))
		_, ctx = session(t.Context(), position(1, 0x7000))
		d, took := r.read(ctx)
		require.ErrorIs(t, d.Err, router.ErrProtected)
		require.Equal(t, waitTimeout, took)
		d, _ = r.read(eventual)
		r.wants(d, 1, core.ReasonCovered)
	})
}

// TestRoutePicks draws by weight, and of two the less loaded for its weight.
func TestRoutePicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(3)...) // weights: b 1, c 3, d 3
		_, ctx := session(t.Context())
		draw := func() (counts [4]int) {
			for range 7000 {
				d, _ := r.read(ctx)
				counts[d.Node]++
			}
			return counts
		}
		idle := draw()
		require.Zero(t, idle[0])
		require.InDelta(t, 1000, idle[1], 150)
		require.InDelta(t, 3000, idle[2], 250)
		require.InDelta(t, 3000, idle[3], 250)

		for range 30 {
			r.Begin(3)
		}
		require.Equal(t, int64(30), r.InFlight(3))
		loaded := draw()
		require.InDelta(t, 7000.0*9/49, loaded[3], 150, "only when both draws are the loaded one")
		for range 10 {
			r.Begin(1)
		}
		even := draw() // b 10 of weight 1, d 30 of weight 3: both as loaded
		require.Greater(t, even[2], 4500)
		require.InDelta(t, float64(even[1])*3, even[3], 600)
		for range 30 {
			r.End(3)
		}
		for range 10 {
			r.End(1)
		}
		require.Zero(t, r.InFlight(1)+r.InFlight(3))
	})
}

func TestRouteFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		s, ctx := session(t.Context())
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 }) // somebody else's write
		require.NoError(t, r.Fence(t.Context(), s))
		d, _ := r.read(ctx)
		r.wants(d, 0, core.ReasonWaitTimeout)
		r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		time.Sleep(time.Second)
		d, _ = r.read(ctx)
		r.wants(d, 1, core.ReasonCovered)

		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := r.Fence(short, s)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `"main"`)
		d, _ = r.read(ctx)
		r.wants(d, 0, core.ReasonCapturePending)
	})
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.Strategy = core.Strategy{Sticky: true, Window: window} }, 100, newNodes(1)...)
		s := new(core.Session)
		ctx := core.NewContext(t.Context(), &core.Options{Session: s})
		d, _ := r.read(ctx)
		r.wants(d, 1, core.ReasonCovered)
		require.NoError(t, r.Fence(t.Context(), s))
		d, _ = r.read(ctx)
		r.wants(d, 0, core.ReasonSticky)
		time.Sleep(window)
		d, _ = r.read(ctx)
		r.wants(d, 1, core.ReasonCovered)
	})
}

// TestFenceHasABound: a fence waits for the primary no longer than a read does. It holds its session all the same: until the position is
// known its reads are on the primary, for however long that takes, and a replica that is late serves none of them afterwards.
func TestFenceHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		s, ctx := session(t.Context())
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN, s.Frozen = 0x6000, true }) // with somebody else's write
		for range 3 * 16 {
			began := time.Now()
			require.NoError(t, r.Fence(t.Context(), s))
			require.Equal(t, captureTimeout, time.Since(began))
		}
		time.Sleep(2 * window)
		d, took := r.read(ctx)
		r.wants(d, 0, core.ReasonCapturePending)
		require.Equal(t, captureTimeout, took)
		_, err := s.Token(timeout(t, time.Second), time.Now, window)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = false })
		time.Sleep(3 * time.Second)
		d, _ = r.read(ctx)
		require.Equal(t, core.RolePrimary, d.Role, "%+v", d)
		need, _ := s.View(cluster, time.Now)
		require.Equal(t, []core.Position{position(1, 0x6000)}, need.Positions)
		require.Nil(t, need.Pending)
		require.True(t, need.LastWrite.Before(time.Now().Add(-window)), "a fence is no write")
		r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		time.Sleep(time.Second)
		d, _ = r.read(ctx)
		r.wants(d, 1, core.ReasonCovered)

		r.Captures.Close()
		require.ErrorIs(t, r.Fence(t.Context(), s), monitor.ErrClosed)
	})
}

func timeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestRouteDry: a dry run asks nobody, waits for nothing, and takes no slot.
func TestRouteDry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.FallbackLimit = 1 }, 100, newNodes(1)...)
		s, ctx := session(t.Context())
		free := func(ctx context.Context, node int, reason core.Reason, wouldWait bool) {
			t.Helper()
			synctest.Wait()
			r.nodes[0].Forget()
			d, took := r.read(ctx, dry)
			r.wants(d, node, reason)
			require.Equal(t, wouldWait, d.WouldWait)
			require.Zero(t, took)
			require.False(t, d.Slot)
			require.Zero(t, r.Monitor.Waiting())
			synctest.Wait()
			require.Empty(t, r.nodes[0].Probes())
		}
		free(ctx, 1, core.ReasonCovered, false)
		_, elsewhere := session(t.Context(), position(1, 0x9000))
		free(elsewhere, 1, core.ReasonCovered, true) // once the primary has said that it has that
		stranger := position(1, 0x1000)
		stranger.System = 8
		_, lost := session(t.Context(), stranger)
		free(lost, 0, core.ReasonIncomparable, true)
		time.Sleep(3 * time.Second)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		require.NoError(t, r.Captures.Join().Wait(t.Context()))
		_, behind := session(t.Context(), position(1, 0x6000))
		free(behind, 1, core.ReasonWaited, true)
		time.Sleep(3 * time.Second)
		free(behind, 0, core.ReasonHopeless, false)
		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
		r.wrote(s)
		free(ctx, 1, core.ReasonCovered, true) // once the position is known
		free(core.NewContext(t.Context(), &core.Options{Session: s, Node: "b"}), 1, core.ReasonContext, true)
		free(core.NewContext(t.Context(), &core.Options{Session: s, HasWait: true}), 0, core.ReasonCapturePending, false)
		r.nodes[1].Set(func(s *fakenode.State) { s.Err = errRefused })
		time.Sleep(2 * time.Second)
		free(ctx, 0, core.ReasonNoReplica, false)
	})
}

// TestRouteMaxWaiters: past the limit reads fall back at once.
func TestRouteMaxWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 3, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		require.NoError(t, r.Captures.Join().Wait(t.Context()))
		_, ctx := session(t.Context(), position(1, 0x6000))
		var mu sync.Mutex
		reasons := map[core.Reason]int{}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				d, took := r.read(ctx)
				mu.Lock()
				defer mu.Unlock()
				reasons[d.Reason]++
				if d.Reason == core.ReasonLagging && took != 0 || d.Node != 0 {
					t.Errorf("%+v after %s", d, took)
				}
			})
		}
		wg.Wait()
		require.Equal(t, map[core.Reason]int{core.ReasonWaitTimeout: 3, core.ReasonLagging: 97}, reasons)
	})
}

func TestRouteRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.Fallback = core.FallbackError }, 100, newNodes(2)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		r.nodes[2].Set(func(s *fakenode.State) { s.LSN = 0x5F00 })
		require.NoError(t, r.Captures.Join().Wait(t.Context()))
		s, ctx := session(t.Context(), position(1, 0x6000))
		d, took := r.read(ctx)
		require.Equal(t, waitTimeout, took)
		require.ErrorIs(t, d.Err, router.ErrNotCaughtUp)
		require.NotErrorIs(t, d.Err, router.ErrNoReplica)
		var detail *router.NotCaughtUpError
		require.ErrorAs(t, d.Err, &detail)
		require.Equal(t, "c", detail.Node)
		require.Equal(t, uint64(0x100), detail.Behind)
		require.Equal(t, core.ReasonWaitTimeout, detail.Reason)
		require.Equal(t, -1, d.Node)

		d, _ = r.read(core.NewContext(t.Context(), &core.Options{Session: s, Fallback: core.FallbackStale}))
		require.Equal(t, core.ReasonStale, d.Reason)
		require.Equal(t, core.RoleReplica, d.Role)
		require.Empty(t, d.Positions, "nothing is to be checked on the connection")
		d, _ = r.read(core.NewContext(t.Context(), &core.Options{Session: s, Fallback: core.FallbackPrimary}))
		require.NoError(t, d.Err)
		require.Equal(t, 0, d.Node)

		d, _ = r.read(ctx, func(req *router.Request) { req.Exclude = ^uint64(0) })
		require.Equal(t, router.ErrNoReplica, d.Err)
		d, _ = r.read(core.NewContext(t.Context(), &core.Options{Session: s, Node: "nobody"}))
		require.Equal(t, router.ErrUnknownNode, d.Err)
		require.Equal(t, -1, d.Node)
		require.Equal(t, core.ReasonContext, d.Reason)
	})
}

// TestRouteRefusesOfTheRightNode: what a refusal says is of the nearest of the replicas that might have served the read.
func TestRouteRefusesOfTheRightNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.Fallback = core.FallbackError }, 100, newNodes(4)...)
		for i, lsn := range []core.LSN{0x6000, 0x5D00, 0x5E00, 0x5F00, 0x7000} {
			r.nodes[i].Set(func(s *fakenode.State) { s.LSN = lsn })
		}
		r.nodes[4].Set(func(s *fakenode.State) { s.System = 8 })
		<-time.After(time.Second)
		s, _ := session(t.Context(), position(1, 0x6000))
		refused := func(o core.Options, change ...func(*router.Request)) string {
			if o.Level == core.LevelUnset {
				o.Session = s
			}
			d, _ := r.read(core.NewContext(t.Context(), &o), change...)
			var detail *router.NotCaughtUpError
			require.ErrorAs(t, d.Err, &detail)
			return detail.Node
		}
		require.Equal(t, "d", refused(core.Options{}))
		require.Equal(t, "b", refused(core.Options{Node: "b"}))
		require.Equal(t, "c", refused(core.Options{}, func(req *router.Request) { req.Replica = 2 }))
		require.Equal(t, "c", refused(core.Options{}, func(req *router.Request) { req.Exclude = 1 << 3 }))
		require.Equal(t, "b", refused(core.Options{Level: 1, Node: "b"}))
	})
}

// TestRouteExpectsAWait: a refusal estimates the wait also while it is not known what the primary had when the bound begins.
func TestRouteExpectsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, func(c *router.Config) { c.Fallback = core.FallbackError }, 100, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x15000 })
		for range 20 { // 0x2000 a second
			r.nodes[1].Set(func(s *fakenode.State) { s.LSN += 0x333 })
			<-time.After(100 * time.Millisecond)
		}
		r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
		for _, level := range []core.Level{1, core.LevelGlobal} {
			d, _ := r.read(core.NewContext(t.Context(), &core.Options{Level: level}))
			var detail *router.NotCaughtUpError
			require.ErrorAs(t, d.Err, &detail)
			require.InDelta(t, 0x10000-20*0x333, detail.Behind, 0x1800)
			require.True(t, detail.ExpectedKnown)
			require.InDelta(t, 6*time.Second, detail.Expected, float64(3*time.Second))
		}
	})
}

// TestRouteEndsWithClose: whatever a read waits for, Close ends it with the one error that says so, and with no fallback.
func TestRouteEndsWithClose(t *testing.T) {
	for name, before := range map[string]func(*routed) *core.Options{
		"a replica": func(r *routed) *core.Options {
			s, _ := session(context.Background(), position(1, 0x5800))
			return &core.Options{Session: s}
		},
		"a capture": func(r *routed) *core.Options {
			r.nodes[0].Set(func(s *fakenode.State) { s.Frozen = true })
			s, _ := session(context.Background())
			r.wrote(s)
			return &core.Options{Session: s}
		},
		"a slot": func(r *routed) *core.Options {
			r.nodes[1].Set(func(s *fakenode.State) { s.Err = errRefused })
			<-time.After(2 * time.Second)
			d, _ := r.read(core.NewContext(context.Background(), &core.Options{Session: new(core.Session)}))
			require.True(r.tb, d.Slot)
			return &core.Options{Session: new(core.Session)}
		},
	} {
		for _, fallback := range []core.Fallback{core.FallbackPrimary, core.FallbackError} {
			synctest.Test(t, func(t *testing.T) {
				r := route(t, func(c *router.Config) { c.FallbackLimit = 1 }, 100, newNodes(1)...)
				r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
				require.NoError(t, r.Captures.Join().Wait(t.Context()))
				o := before(r)
				if o.Fallback = fallback; name == "a slot" {
					o.Fallback = core.FallbackPrimary
				}
				time.AfterFunc(10*time.Millisecond, func() {
					r.Close()
					r.Captures.Close()
					r.Monitor.Close()
				})
				d, _ := r.read(core.NewContext(t.Context(), o))
				require.Equal(t, router.ErrClosed, d.Err, "%s: %+v", name, d)
				require.Equal(t, -1, d.Node)
			})
		}
	}
}

// TestRouteWithoutSession: what a read gets that has said nothing is the configuration's word.
func TestRouteWithoutSession(t *testing.T) {
	for without, want := range map[router.WithoutSession]struct {
		node   int
		reason core.Reason
	}{
		router.WithoutSessionPrimary:  {0, core.ReasonNoSession},
		router.WithoutSessionEventual: {1, core.ReasonLevel},
		router.WithoutSessionProcess:  {1, core.ReasonCovered},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := route(t, func(c *router.Config) { c.WithoutSession = without }, 100, newNodes(1)...)
			d, _ := r.read(t.Context())
			r.wants(d, want.node, want.reason)
			d, _ = r.read(core.NewContext(t.Context(), &core.Options{Level: core.LevelPrimary}))
			r.wants(d, 0, core.ReasonLevel)
			d, _ = r.read(core.NewContext(t.Context(), &core.Options{Level: core.LevelEventual}))
			r.wants(d, 1, core.ReasonLevel)
			d, _ = r.read(core.NewContext(t.Context(), &core.Options{Level: core.LevelSession}))
			r.wants(d, 0, core.ReasonNoSession)

			r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x6000 })
			r.wrote(&r.Process)
			d, _ = r.read(t.Context())
			if without == router.WithoutSessionProcess {
				r.wants(d, 0, core.ReasonWaitTimeout)
			} else {
				r.wants(d, want.node, want.reason)
			}
			_, ctx := session(t.Context())
			d, _ = r.read(ctx)
			r.wants(d, 1, core.ReasonCovered)
		})
	}
}

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []router.Decided
		r := route(t, func(c *router.Config) {
			c.OnDecision = func(_ context.Context, d *router.Decided) { heard = append(heard, *d) }
		}, 100, newNodes(1)...)
		_, ctx := session(t.Context())
		d, _ := r.read(ctx)
		require.Empty(t, heard, "the caller says when a decision stands")
		r.Report(ctx, &d, 0)
		r.Report(ctx, &router.Decided{Node: -1, Reason: core.ReasonProtected}, 0)
		require.Len(t, heard, 2)
		require.Equal(t, uint64(1), r.Count(1, core.ReasonCovered))
		require.Equal(t, uint64(1), r.Count(-1, core.ReasonProtected))
		require.Zero(t, r.Count(0, core.ReasonCovered))
	})
}

func TestRouteAllocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(2)...)
		_, ctx := session(t.Context(), position(1, 0x5000))
		req := router.Request{Class: core.ClassRead, Replica: core.AnyNode}
		var d router.Decided
		require.Zero(t, testing.AllocsPerRun(100, func() { r.Route(ctx, &req, &d) }))
		r.wants(d, d.Node, core.ReasonCovered)
	})
}
