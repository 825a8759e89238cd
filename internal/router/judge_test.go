package router_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/router"
)

// TestRouteJudgesPositions: a token says more than this process knows of the primary. The primary is asked once; what it
// has lost is reported once and reset, and no read waits for a position that cannot come.
func TestRouteJudgesPositions(t *testing.T) {
	other := position(1, 0x1000)
	other.System = 8
	for name, c := range map[string]struct {
		position core.Position
		change   func(*routed)
		first    core.Reason
		node     int
		verdicts []core.Verdict
		after    core.Position
	}{
		"from the future (K5-16)": {
			position: position(1, ^core.LSN(0)), first: core.ReasonPositionLost, verdicts: []core.Verdict{core.VerdictLost}, after: position(1, 0x5000),
		},
		"of another system": {position: other, first: core.ReasonPositionLost, verdicts: []core.Verdict{core.VerdictLost}, after: position(1, 0x5000)},
		"the primary was restored from a backup (K4-26)": {
			position: position(1, 0x5000), change: func(r *routed) {
				r.nodes[0].Set(func(s *fakenode.State) { s.LSN, s.Start = 0x4000, 2 })
				r.nodes[1].Set(func(s *fakenode.State) { s.LSN, s.Start = 0x4000, 2 })
				<-time.After(2 * time.Second)
			},
			first: core.ReasonPositionLost, verdicts: []core.Verdict{core.VerdictLost}, after: position(1, 0x4000),
		},
		"beyond all of the new timeline (K5-22)": {
			position: position(1, 0x5001), change: failover,
			first: core.ReasonPositionLost, node: 1, verdicts: []core.Verdict{core.VerdictLost}, after: position(2, 0x5000),
		},
		"of the timeline before (K5-22)": {
			position: position(1, 0x4000), change: failover,
			first: core.ReasonCovered, node: 2, verdicts: []core.Verdict{core.VerdictReplaced}, after: position(2, 0x5000),
		},
		"written elsewhere a moment ago": {
			position: position(1, 0x5010), change: func(r *routed) {
				r.nodes[0].Set(func(s *fakenode.State) { s.LSN = 0x5010 })
				r.nodes[1].Set(func(s *fakenode.State) { s.LSN = 0x5010 })
			},
			first: core.ReasonWaited, node: 1, after: position(1, 0x5010),
		},
		"of a timeline that has not been heard of": {position: position(2, 0x100), first: core.ReasonIncomparable, after: position(2, 0x100)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := newNodes(2)
				nodes[2].Set(func(s *fakenode.State) { s.Err = errRefused })
				r := route(t, nil, 100, nodes...)
				if c.change != nil {
					c.change(r)
				}
				s, ctx := session(t.Context(), c.position)
				d, took := r.read(ctx)
				r.wants(d, c.node, c.first)
				require.Less(t, took, captureTimeout)
				require.Equal(t, c.verdicts, r.verdicts())
				need, _ := s.View(cluster, time.Now)
				require.Equal(t, []core.Position{c.after}, need.Positions)
				require.Nil(t, need.Pending)

				// It is over: the next read is like any other.
				time.Sleep(3 * time.Second)
				d, took = r.read(ctx)
				require.Zero(t, took)
				require.NoError(t, d.Err)
				require.Equal(t, c.verdicts, r.verdicts())
				if c.first != core.ReasonIncomparable {
					require.Equal(t, core.ReasonCovered.String(), d.Reason.String())
				}
			})
		})
	}
}

// failover makes b the primary of timeline 2, and c, which was down, its replica.
func failover(r *routed) {
	r.nodes[0].Set(func(s *fakenode.State) { s.Err, s.DialErr = errRefused, errRefused })
	r.nodes[1].Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
	r.nodes[2].Set(func(s *fakenode.State) { s.Err, s.Timeline, s.Start = nil, 2, 3 })
	<-time.After(5 * time.Second)
}

// TestRouteForgedTokens is K5-16: a thousand requests a second bring a token from the future, each a session of its own.
// None waits, none is left, and the primary answers as many questions as captures may be.
func TestRouteForgedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.Delay = 5 * time.Millisecond })
		time.Sleep(time.Second)
		r.nodes[0].Forget()
		var wg sync.WaitGroup
		var mu sync.Mutex
		lost := 0
		for range 5000 {
			wg.Go(func() {
				_, ctx := session(t.Context(), position(1, ^core.LSN(0)))
				d, took := r.read(ctx)
				mu.Lock()
				defer mu.Unlock()
				if d.Reason == core.ReasonPositionLost && d.Node == 0 && took <= 11*time.Millisecond {
					lost++
				}
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		require.Equal(t, 5000, lost)
		require.LessOrEqual(t, len(r.nodes[0].Probes()), 5000/5+50)
	})
}

// TestRouteLostIsToldOnce: the reads of one session go on side by side while its position is judged.
func TestRouteLostIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		r.nodes[0].Set(func(s *fakenode.State) { s.Delay = 5 * time.Millisecond })
		_, ctx := session(t.Context(), position(1, 0x9000))
		reasons := make(chan core.Reason, 50)
		for range 50 {
			go func() {
				d, took := r.read(ctx)
				if took > captureTimeout {
					t.Errorf("took %s", took)
				}
				reasons <- d.Reason
			}()
		}
		lost := 0
		for range 50 {
			switch reason := <-reasons; reason {
			case core.ReasonPositionLost:
				lost++
			case core.ReasonCovered, core.ReasonWaited, core.ReasonCapturePending:
			default:
				t.Errorf("%s", reason)
			}
		}
		require.Equal(t, []core.Verdict{core.VerdictLost}, r.verdicts())
		require.Equal(t, 1, lost)
	})
}

// TestALossDoesNotLoadThePrimary: a read that must not come to the primary does not because its session's position is lost. The next
// one asks for what the primary has.
func TestALossDoesNotLoadThePrimary(t *testing.T) {
	for fallback, action := range map[core.Fallback]core.Action{
		core.FallbackError: core.Refuse, core.FallbackPrimary: core.GoPrimary, core.FallbackStale: core.GoPrimary,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := route(t, func(c *router.Config) { c.Fallback = fallback }, 100, newNodes(1)...)
			_, ctx := session(t.Context(), position(1, 0x9000))
			d, _ := r.read(ctx)
			require.Equal(t, core.ReasonPositionLost, d.Reason)
			if action == core.Refuse {
				require.ErrorIs(t, d.Err, router.ErrNotCaughtUp)
				require.ErrorIs(t, d.Err, router.ErrPositionLost)
				require.Equal(t, -1, d.Node)
			} else {
				r.wants(d, 0, core.ReasonPositionLost)
			}
			require.Equal(t, []core.Verdict{core.VerdictLost}, r.verdicts())
			d, _ = r.read(ctx)
			r.wants(d, 1, core.ReasonCovered)
		})
	}
}

// TestEveryVerdictIsTold: also when it is a token that is made of the session, and no read, that takes in what the capture has found.
func TestEveryVerdictIsTold(t *testing.T) {
	take := func(s *core.Session) error {
		_, err := s.Token(context.Background(), time.Now, window)
		return err
	}
	t.Run("another server answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := route(t, nil, 100, newNodes(1)...)
			s, ctx := session(t.Context())
			s.Wrote(cluster, time.Now(), core.Start{System: fakenode.System, At: 9}, r.Captures.Join(), false, window)
			require.NoError(t, take(s))
			require.Equal(t, []core.Verdict{core.VerdictForeign}, r.verdicts())
			r.read(ctx)
			require.NoError(t, take(s))
			require.Len(t, r.verdicts(), 1, "once")
		})
	})
	t.Run("the position is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := route(t, nil, 100, newNodes(1)...)
			r.nodes[0].Set(func(s *fakenode.State) { s.Delay = 2 * captureTimeout })
			s, ctx := session(t.Context(), position(1, 0x9000))
			d, _ := r.read(ctx)
			r.wants(d, 0, core.ReasonCapturePending)
			require.Empty(t, r.verdicts())
			require.NoError(t, take(s))
			require.Equal(t, []core.Verdict{core.VerdictLost}, r.verdicts())
		})
	})
}
