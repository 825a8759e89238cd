package monitor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
)

var errRefused = errors.New("connection refused")

func TestProbeCadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		w.wantsPrimary(0, true)
		a.Forget()
		b.Forget()
		time.Sleep(time.Minute)
		for _, n := range []*fakenode.Node{a, b} {
			probes := n.Probes()
			require.InDelta(t, 120, len(probes), 15)
			require.Empty(t, n.Dials(), "the connection is kept")
			require.Equal(t, 1, n.Open())
			for _, gap := range gaps(probes) {
				require.GreaterOrEqual(t, gap, interval*3/4)
				require.LessOrEqual(t, gap, interval*5/4+time.Millisecond)
			}
		}
		require.Equal(t, []monitor.EventKind{monitor.EventUp}, w.happened("a"))
	})
}

// TestDeadNodeIsLeftAlone is K4-11: a node that fails is asked about once a second, however many notice it.
func TestDeadNodeIsLeftAlone(t *testing.T) {
	for name, dead := range map[string]func(*fakenode.State){
		"refused":            func(s *fakenode.State) { s.DialErr = errRefused },
		"error":              func(s *fakenode.State) { s.Err = errRefused },
		"silent":             func(s *fakenode.State) { s.Frozen = true },
		"answers too slowly": func(s *fakenode.State) { s.Delay = 3 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair()
				w := watch(t, a, b)
				time.Sleep(time.Second)
				b.Set(dead)
				b.Cut()
				time.Sleep(5 * time.Second)
				b.Forget()
				for range 2000 {
					w.Failed(1, errRefused)
					time.Sleep(10 * time.Millisecond)
				}
				require.LessOrEqual(t, len(b.Dials()), 21)
				require.GreaterOrEqual(t, len(b.Dials()), 10)
				require.LessOrEqual(t, len(b.Probes()), 21)
				require.False(t, w.view(1).Healthy)
				require.Error(t, w.view(1).Err)
				require.Equal(t, []monitor.EventKind{monitor.EventUp, monitor.EventDown}, w.happened("b"), "reported once")

				b.Set(func(s *fakenode.State) { *s = replicaAt(0x5000) })
				time.Sleep(3 * time.Second)
				require.True(t, w.view(1).Healthy)
				require.Zero(t, w.view(1).Failures)
				require.Equal(t, []monitor.EventKind{monitor.EventUp}, w.happened("b"))
			})
		})
	}
}

// TestFrozenNodeIsLeftOut is K4-12: a probe has a deadline of its own.
func TestFrozenNodeIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		b.Set(func(s *fakenode.State) { s.Frozen = true })
		time.Sleep(interval*5/4 + probeTimeout + time.Millisecond)
		require.False(t, w.view(1).Healthy)
		require.Equal(t, 1, w.view(1).Failures)
		w.wantsPrimary(0, true)
		b.Set(func(s *fakenode.State) { s.Frozen = false })
		time.Sleep(2 * time.Second)
		require.True(t, w.view(1).Healthy)
	})
}

// TestStaleConnectionIsNoFailure: a connection that died since the last probe says nothing of the node.
func TestStaleConnectionIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		b.Cut()
		b.Forget()
		time.Sleep(2 * time.Second)
		require.Equal(t, []monitor.EventKind{monitor.EventUp}, w.happened("b"))
		require.Len(t, b.Dials(), 1)
		require.Equal(t, 1, b.Open())
	})
}

func TestPrimaryDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.DialErr, s.Err = errRefused, errRefused })
		w.Failed(0, errRefused)
		w.wantsPrimary(0, false)
		require.True(t, w.view(1).Healthy)

		// The lag that was seen last stands, for as long as it takes: reads that need nothing newer go on.
		time.Sleep(time.Hour)
		w.wantsPrimary(0, false)
		v := w.view(1)
		require.True(t, v.Healthy && v.LagKnown && !v.Stopped)
		require.Less(t, v.Lag, 2*time.Second)
		require.Zero(t, v.Behind)

		// A replica that had not come to where the primary was seen last still is where it was.
		b.Set(func(s *fakenode.State) { s.LSN = 0x5001 })
		time.Sleep(time.Second)
		require.Less(t, w.view(1).Lag, 2*time.Second)

		a.Set(func(s *fakenode.State) { s.DialErr, s.Err = nil, nil })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(0, true)
		require.Equal(t, []monitor.EventKind{monitor.EventUp, monitor.EventDown, monitor.EventUp}, w.happened("a"))
	})
}

func TestNoPrimaryWasEverSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		a.Set(func(s *fakenode.State) { s.DialErr = errRefused })
		w := watch(t, a, b)
		require.Equal(t, 0, w.Snapshot().Primary)
		time.Sleep(5 * time.Second)
		w.wantsPrimary(0, false)
		require.True(t, w.view(1).Healthy)
		require.False(t, w.view(1).LagKnown, "nobody knows where the primary is")
	})
}

func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.DialErr, s.Err = errRefused, errRefused })
		time.Sleep(2 * time.Second)
		b.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(1, true)
		require.Equal(t, []monitor.EventKind{monitor.EventUp, monitor.EventPrimaryChanged, monitor.EventRoleChanged}, w.happened("b"))

		// The old primary comes back as a replica of the new one.
		a.Set(func(s *fakenode.State) { *s = fakenode.State{Replica: true, Timeline: 2, LSN: 0x5000, Start: 9} })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(1, true)
		require.Equal(t, core.RoleReplica, w.view(0).Role)
		require.True(t, w.view(0).LagKnown)
		require.Equal(t, []monitor.EventKind{
			monitor.EventUp, monitor.EventDown, monitor.EventUp, monitor.EventRoleChanged, monitor.EventRestarted,
		}, w.happened("a"))
	})
}

// TestPrimaryStepsDown: nobody else claims it, so there is none, and the node that was it is a replica.
func TestPrimaryStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.Replica = true })
		time.Sleep(time.Second)
		w.wantsPrimary(0, false)
		require.Equal(t, core.RoleReplica, w.view(0).Role)
		require.True(t, w.view(0).Healthy)
	})
}

func TestTwoPrimaries(t *testing.T) {
	for name, c := range map[string]struct {
		timelines [2]uint32
		wins      int
	}{
		"the higher timeline wins":      {[2]uint32{1, 2}, 1},
		"the higher timeline stays":     {[2]uint32{2, 1}, 0},
		"a tie keeps the one that was":  {[2]uint32{1, 1}, 0},
		"a tie on a later one the same": {[2]uint32{3, 3}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair()
				a.Set(func(s *fakenode.State) { s.Timeline = c.timelines[0] })
				b.Set(func(s *fakenode.State) { s.Timeline = c.timelines[0] })
				w := watch(t, a, b)
				time.Sleep(time.Second)
				w.wantsPrimary(0, true)
				b.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, c.timelines[1] })
				time.Sleep(10 * time.Second)
				w.wantsPrimary(c.wins, true)
				reported := 0
				for _, k := range append(w.happened("a"), w.happened("b")...) {
					if k == monitor.EventTwoPrimaries {
						reported++
					}
				}
				require.Equal(t, 1, reported)
			})
		})
	}
}

// TestOldPrimaryIsNotElectedAgain: the primary of before a failover is still up, or comes back as it was. It does not get
// the writes because the new one is silent for a while.
func TestOldPrimaryIsNotElectedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		c := fakenode.New("c", replicaAt(0x5000))
		w := watch(t, a, b, c)
		time.Sleep(time.Second)
		b.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
		time.Sleep(time.Second)
		w.wantsPrimary(1, true)
		b.Set(func(s *fakenode.State) { s.Frozen = true })
		time.Sleep(10 * time.Second)
		w.wantsPrimary(1, false)
		require.Equal(t, core.RolePrimary, w.view(0).Role, "a still calls itself the primary")

		c.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 3 })
		time.Sleep(time.Second)
		w.wantsPrimary(2, true)
		b.Set(func(s *fakenode.State) { s.Frozen = false })
		time.Sleep(3 * time.Second)
		w.wantsPrimary(2, true)
	})
}

// TestPrimaryRestoredInPlace: the very node that is the primary may come back on another history. It is not believed at once, since
// its address may lead to the primary of before a failover.
func TestPrimaryRestoredInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		a.Set(func(s *fakenode.State) { s.Timeline = 5 })
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { *s = fakenode.State{LSN: 0x3000, Timeline: 4, Start: 2} })
		time.Sleep(20 * time.Second)
		w.wantsPrimary(0, false)
		require.False(t, w.Snapshot().Accepts(0, &w.Snapshot().Nodes[0].Sample), "no connection for writes is opened")
		time.Sleep(12 * time.Second)
		w.wantsPrimary(0, true)
		require.True(t, w.Snapshot().Accepts(0, &w.Snapshot().Nodes[0].Sample))
		require.Contains(t, w.happened("a"), monitor.EventRestarted)
		require.Equal(t, core.LSN(0x3000), w.view(0).Sample.Position.LSN)
	})
}

func TestStoppedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)

		// A receiver that restarts is away for a moment.
		b.Set(func(s *fakenode.State) { s.NoSource = true })
		time.Sleep(interval)
		b.Set(func(s *fakenode.State) { s.NoSource = false })
		time.Sleep(5 * time.Second)
		require.Equal(t, []monitor.EventKind{monitor.EventUp}, w.happened("b"))

		b.Set(func(s *fakenode.State) { s.NoSource = true })
		time.Sleep(3 * time.Second)
		require.True(t, w.view(1).Stopped)
		require.True(t, w.view(1).Healthy)
		require.Zero(t, w.view(1).Behind, "however small its lag looks")

		// Something feeds a replica that moves: an archive.
		b.Set(func(s *fakenode.State) { s.LSN++ })
		time.Sleep(time.Second)
		require.False(t, w.view(1).Stopped)
		time.Sleep(5 * time.Second)
		require.True(t, w.view(1).Stopped)
		b.Set(func(s *fakenode.State) { s.NoSource = false })
		time.Sleep(time.Second)
		require.Equal(t, []monitor.EventKind{
			monitor.EventStopped, monitor.EventResumed, monitor.EventStopped, monitor.EventResumed,
		}, w.happened("b"))

		// Without the primary there is nothing that could feed it.
		a.Set(func(s *fakenode.State) { s.Frozen = true })
		time.Sleep(5 * time.Second)
		b.Set(func(s *fakenode.State) { s.NoSource = true })
		time.Sleep(time.Minute)
		require.False(t, w.view(1).Stopped)
	})
}

// TestStoppedReplicaWhilePolled: somebody waits for the replica, so it is asked every millisecond. That does not make a
// receiver that restarts a replica that has stopped.
func TestStoppedReplicaWhilePolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		b.Set(func(s *fakenode.State) { s.NoSource = true })
		_ = w.Wait(t.Context(), 1<<1, []core.Position{position(1, 0x6000)}, 200*time.Millisecond)
		require.False(t, w.view(1).Stopped)
		require.Greater(t, len(b.Probes()), 10)
	})
}

func TestSharedEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		w.Shared(1)
		w.Shared(1)
		require.True(t, w.view(1).Shared)
		require.Equal(t, []monitor.EventKind{monitor.EventUp, monitor.EventSharedEndpoint}, w.happened("b"))
		time.Sleep(time.Second)
		require.True(t, w.view(1).Shared, "a probe does not forget it")
	})
}

// TestTwoPrimariesOfWhichOneSharesItsName: of two servers the one that is the primary stays it, whatever else has answered under its name.
func TestTwoPrimariesOfWhichOneSharesItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		w.Shared(1)
		a.Set(func(s *fakenode.State) { s.Frozen = true })
		b.Set(func(s *fakenode.State) { s.Replica, s.Start = false, 2 })
		time.Sleep(10 * time.Second)
		w.wantsPrimary(1, true)
		a.Set(func(s *fakenode.State) { s.Frozen = false })
		time.Sleep(10 * time.Second)
		w.wantsPrimary(1, true)
	})
}

// TestRunThatComesBack: no run of a server comes back, so there are several servers under the name. Behind a pooler each statement
// may have another one, and nothing is proven there.
func TestRunThatComesBack(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair()
			w := watchWith(t, func(c *monitor.Config) { c.Nodes[1].Pooled, c.Nodes[1].Shared = pooled, pooled }, a, b)
			time.Sleep(time.Second)
			b.Set(func(s *fakenode.State) { s.Start = 2 })
			time.Sleep(time.Second)
			require.Equal(t, pooled, w.view(1).Shared, "a restart")
			require.False(t, w.view(1).Blind)
			b.Set(func(s *fakenode.State) { s.Start = 1 })
			time.Sleep(time.Second)
			require.True(t, w.view(1).Shared)
			require.Equal(t, pooled, w.view(1).Blind)
			events := w.happened("b")
			require.Contains(t, events, monitor.EventSharedEndpoint)
			for range 5 {
				b.Set(func(s *fakenode.State) { s.Start = 3 - s.Start })
				time.Sleep(time.Second)
			}
			require.NotContains(t, w.happened("b"), monitor.EventSharedEndpoint, "it is told once")
		})
	}
}

// TestServersOfAnotherSystem: neither takes the writes nor serves a read, whatever its timeline and whoever answers first.
func TestServersOfAnotherSystem(t *testing.T) {
	for name, timeline := range map[string]uint32{"tie": 1, "higher timeline": 7} {
		for _, first := range []string{"the primary answers first", "the other one answers first"} {
			t.Run(name+", "+first, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b := pair()
					foreign := fakenode.New("foreign", fakenode.State{System: 99, Timeline: timeline, LSN: 0x5000})
					standby := fakenode.New("standby", replicaAt(0x5000))
					standby.Set(func(s *fakenode.State) { s.System = 99 })
					if first == "the other one answers first" {
						a.Set(func(s *fakenode.State) { s.Delay = 300 * time.Millisecond })
					} else {
						foreign.Set(func(s *fakenode.State) { s.Delay = 300 * time.Millisecond })
					}
					w := watch(t, a, b, foreign, standby)
					for range 20 {
						time.Sleep(200 * time.Millisecond)
						require.Zero(t, w.Snapshot().Primary)
					}
					w.wantsPrimary(0, true)
					require.False(t, w.view(1).Foreign)
					require.True(t, w.view(2).Foreign)
					require.True(t, w.view(3).Foreign)
				})
			})
		}
	}
}

// TestServersOfAnotherSystemBeforeAnyPrimary: the node that is configured as the primary is a replica now, and says all the same
// which system is meant.
func TestServersOfAnotherSystemBeforeAnyPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fakenode.New("a", replicaAt(0x5000))
		foreign := fakenode.New("foreign", fakenode.State{System: 99, Timeline: 7, LSN: 0x5000})
		b := fakenode.New("b", fakenode.State{LSN: 0x5000})
		w := watch(t, a, foreign, b)
		time.Sleep(5 * time.Second)
		w.wantsPrimary(2, true)
		require.True(t, w.view(1).Foreign)
		require.False(t, w.view(0).Foreign)
	})
}

// TestPrimaryMadeAnew: the primary's own name leads to a new system. There is nothing else that could be meant.
func TestPrimaryMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.System, s.Start = 99, 2 })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(0, true)
		require.True(t, w.view(1).Foreign, "the replica is of the old one")
		b.Set(func(s *fakenode.State) { s.System, s.Start = 99, 2 })
		time.Sleep(2 * time.Second)
		require.False(t, w.view(1).Foreign)
	})
}

// TestOlderSampleIsLeftOut: a capture and a probe overtake each other.
func TestOlderSampleIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		old := w.view(0).Sample
		time.Sleep(time.Second)
		now := w.view(0).Sample
		require.True(t, now.Began.After(old.Began))
		old.Position.LSN, old.Role = 0x1000, core.RoleReplica
		w.Observe(0, old)
		require.Equal(t, now, w.view(0).Sample)
		w.wantsPrimary(0, true)
	})
}

// TestConfirmation: a replica that does not tell its timeline proves a position once the primary has been seen after it,
// and only while it cannot be on an older timeline.
func TestConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		b.Set(func(s *fakenode.State) { s.Hidden = true })
		w := watch(t, a, b)
		time.Sleep(2 * time.Second)
		v := w.view(1)
		p, began := v.Proof()
		require.Equal(t, position(1, 0x5000), p)
		require.True(t, began.Before(w.view(0).Sample.Began))

		// The replica was left behind on timeline 1, ahead of where timeline 2 began: see the servers' own test.
		a.Set(func(s *fakenode.State) { s.Timeline, s.LSN, s.Start = 2, 0x4000, 2 })
		time.Sleep(5 * time.Second)
		v = w.view(1)
		p, _ = v.Proof()
		require.NotEqual(t, core.Covered, position(2, 0x4000).CoveredBy(p))

		// It follows, and its control file says so.
		b.Set(func(s *fakenode.State) { s.Floor, s.LSN, s.Start = 2, 0x4000, 3 })
		time.Sleep(2 * time.Second)
		v = w.view(1)
		p, _ = v.Proof()
		require.Equal(t, position(2, 0x4000), p)

		// Another start: what was confirmed is of the past.
		a.Set(func(s *fakenode.State) { s.Frozen = true })
		time.Sleep(3 * time.Second)
		b.Set(func(s *fakenode.State) { s.Start = 4 })
		time.Sleep(time.Second)
		v = w.view(1)
		p, _ = v.Proof()
		require.Equal(t, core.Incomparable, position(2, 0x4000).CoveredBy(p))
	})
}

// TestConfirmationNeedsALaterSample: a sample of the primary that began before the replica's was over may be of before a
// promotion that the replica has seen.
func TestConfirmationNeedsALaterSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		b.Set(func(s *fakenode.State) { s.Hidden = true })
		w := watch(t, a, b)
		time.Sleep(2 * time.Second)
		b.Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		for w.view(1).Sample.Position.LSN != 0x6000 {
			time.Sleep(time.Millisecond)
		}
		proven := func(began time.Time) core.LSN {
			s := w.view(0).Sample
			s.Began, s.Ended = began, time.Now()
			w.Observe(0, s)
			v := w.view(1)
			p, _ := v.Proof()
			return p.LSN
		}
		ended := w.view(1).Sample.Ended
		require.Equal(t, core.LSN(0x5000), proven(ended))
		require.Equal(t, core.LSN(0x6000), proven(ended.Add(1)))
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.Delay = 700 * time.Millisecond })
		b.Set(func(s *fakenode.State) { s.LSN, s.Delay = 0x6000, 700*time.Millisecond })
		for w.view(1).Sample.Position.LSN != 0x6000 {
			time.Sleep(time.Millisecond) // the next probe is in flight soon
		}
		b.Set(func(s *fakenode.State) { s.LSN = 0x7000 })
		time.Sleep(interval + 200*time.Millisecond)
		before := w.Snapshot()
		w.happened("a")
		w.happened("b")
		closing := time.Now()
		w.Close()
		require.Zero(t, time.Since(closing), "a probe in flight is cancelled")
		w.Close()

		w.Failed(0, errRefused)
		w.Shared(1)
		w.Kick(1)
		s := before.Nodes[0].Sample
		s.Began = time.Now()
		w.Observe(0, s)
		time.Sleep(time.Minute)
		require.Same(t, before, w.Snapshot(), "nothing is published after Close")
		require.Empty(t, w.happened("a"))
		require.Empty(t, w.happened("b"))
		require.Zero(t, a.Open()+b.Open())
		require.ErrorIs(t, w.Wait(t.Context(), 1<<1, []core.Position{position(1, 0x9000)}, time.Hour), monitor.ErrClosed)
		require.Zero(t, w.Waiting())
	})
}

func TestCloseWhileDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		a.Set(func(s *fakenode.State) { s.Frozen = true })
		b.Set(func(s *fakenode.State) { s.Frozen = true })
		w := watch(t, a, b)
		time.Sleep(100 * time.Millisecond)
		closing := time.Now()
		w.Close()
		require.Zero(t, time.Since(closing))
	})
}

// TestFailedDialsDoNotTakeOutEveryReplica: the first refused dial takes a replica out at once; when half of them are out
// already, it takes a probe that fails.
func TestFailedDialsDoNotTakeOutEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []*fakenode.Node{fakenode.New("a", fakenode.State{LSN: 0x5000})}
		for _, name := range []string{"b", "c", "d"} {
			nodes = append(nodes, fakenode.New(name, fakenode.State{LSN: 0x5000, Replica: true, Delay: 20 * time.Millisecond}))
		}
		w := watch(t, nodes...)
		time.Sleep(2 * time.Second)
		nodes[1].Set(func(s *fakenode.State) { s.Err = errRefused })
		w.Failed(1, errRefused)
		require.False(t, w.view(1).Healthy)
		time.Sleep(time.Second)
		w.Failed(2, errRefused)
		require.False(t, w.view(2).Healthy, "one of three was out")
		w.Failed(3, errRefused)
		require.True(t, w.view(3).Healthy, "two of three are out")
		time.Sleep(time.Second)
		require.True(t, w.view(2).Healthy, "the probe says that it is well")
		require.True(t, w.view(3).Healthy)
		nodes[2].Set(func(s *fakenode.State) { s.Err = errRefused })
		nodes[3].Set(func(s *fakenode.State) { s.Err = errRefused })
		w.Failed(2, errRefused)
		w.Failed(3, errRefused)
		time.Sleep(time.Second)
		require.False(t, w.view(2).Healthy || w.view(3).Healthy, "what does not answer a probe is out, however many are")
	})
}
