package monitor_test

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
)

// capturing is a monitor with captures; the probes of its first second are forgotten, and the captures' own link is open.
type capturing struct {
	*watched
	*monitor.Captures
	a, b *fakenode.Node
}

func startCaptures(t testing.TB) *capturing {
	t.Helper()
	a, b := pair()
	c := &capturing{watched: watch(t, a, b), a: a, b: b}
	c.Captures = monitor.StartCaptures(c.Monitor)
	t.Cleanup(c.Captures.Close)
	<-time.After(time.Second)
	require.NoError(t, c.Join().Wait(t.Context()))
	<-time.After(time.Second)
	a.Forget()
	return c
}

// writer is the start of the server that a fake node is.
func writer(at int64) core.Start { return core.Start{System: fakenode.System, At: at} }

// captures is how many of the questions in the last d, which were not forgotten, were captures: the monitor asks twice a second.
func (c *capturing) captures(d time.Duration) int {
	return len(c.a.Probes()) - int(d/interval)
}

// TestCaptureServesAllWhoJoined: N writes, one query.
func TestCaptureServesAllWhoJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.LSN, s.Delay = 0x6000, 10*time.Millisecond })
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				capture := c.Join()
				if err := capture.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				if r := capture.Result(); r.Position != position(1, 0x6000) || r.Reported != 0x6000 || r.Start != writer(1) {
					t.Errorf("%+v", r)
				}
			})
		}
		began := time.Now()
		wg.Wait()
		require.LessOrEqual(t, time.Since(began), 20*time.Millisecond, "at most two round trips")
		require.LessOrEqual(t, c.captures(0), 3)
	})
}

// TestCaptureBeginsAfterTheJoin: whoever joins while a capture is in flight gets the next one.
func TestCaptureBeginsAfterTheJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Delay = 100 * time.Millisecond })
		first := c.Join()
		require.Same(t, first, c.Join(), "nobody has begun")
		go func() { _ = first.Wait(t.Context()) }()
		time.Sleep(60 * time.Millisecond) // the server has looked
		c.a.Set(func(s *fakenode.State) { s.LSN = 0x6000 })
		wrote := time.Now()
		second := c.Join()
		require.NotSame(t, first, second)
		require.NoError(t, second.Wait(t.Context()))
		require.Equal(t, core.LSN(0x5000), first.Result().Position.LSN)
		require.Equal(t, core.LSN(0x6000), second.Result().Position.LSN)
		require.True(t, first.Result().At.Before(second.Result().At))
		require.LessOrEqual(t, time.Since(wrote), 200*time.Millisecond)
	})
}

// TestCaptureRate: captures that nobody waits for are few, and fewer while nobody looks at them. Each write has its own within that time.
func TestCaptureRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		writes := func(most time.Duration, look bool) {
			for range 10_000 {
				joined := time.Now()
				capture := c.Join()
				go func() {
					<-capture.Done()
					if d := time.Since(joined); d > most {
						t.Errorf("a capture took %s", d)
					}
				}()
				time.Sleep(time.Millisecond)
				if look {
					s := new(core.Session)
					s.Wrote("main", joined, writer(1), capture, false, time.Second)
					time.AfterFunc(100*time.Millisecond, func() { s.View("main", time.Now) })
				}
			}
		}
		writes(20*time.Millisecond, true)
		require.InDelta(t, 500, c.captures(10*time.Second), 15)

		time.Sleep(time.Second) // whoever looks has done so
		c.a.Forget()
		writes(80*time.Millisecond, false)
		require.InDelta(t, 8+8+(10_000-8*20-8*40)/80, c.captures(10*time.Second), 3)

		began := time.Now()
		require.NoError(t, c.Join().Wait(t.Context()), "a read has its capture at once")
		require.Less(t, time.Since(began), 20*time.Millisecond)
		c.a.Forget()
		writes(20*time.Millisecond, true)
		require.InDelta(t, 500, c.captures(10*time.Second), 15)
	})
}

// TestCaptureAtOnce: a capture that somebody waits for does not wait for its turn.
func TestCaptureAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		for range 100 {
			began := time.Now()
			require.NoError(t, c.Join().Wait(t.Context()))
			require.Zero(t, time.Since(began))
			time.Sleep(time.Millisecond)
		}
	})
}

// TestCaptureInFlightIsNotHurried: who waits for a capture that has begun makes no other one urgent.
func TestCaptureInFlightIsNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Delay = 4 * time.Millisecond })
		for range 200 {
			inFlight := c.Join()
			for inFlight == c.Join() {
				time.Sleep(time.Millisecond)
			}
			// Another write has joined the next one, and nobody waits for that.
			require.NoError(t, inFlight.Wait(t.Context()))
		}
		require.LessOrEqual(t, c.captures(0), 260, "at most 50 a second, in 4 seconds")
	})
}

// TestCaptureBacksOff: the primary is down; writes cannot have happened, and the attempts are few.
func TestCaptureBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.DialErr = errRefused })
		c.a.Cut()
		capture := c.Join()
		for range 3000 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			require.ErrorIs(t, capture.Wait(ctx), context.DeadlineExceeded)
			require.Same(t, c.Join(), c.Join())
			cancel()
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, len(c.a.Dials()), 2*60+20, "about one a second each of the monitor's and the captures'")
		c.a.Set(func(s *fakenode.State) { s.DialErr = nil })
		back := time.Now()
		require.NoError(t, capture.Wait(t.Context()))
		require.LessOrEqual(t, time.Since(back), 1300*time.Millisecond)
		require.Equal(t, core.LSN(0x5000), capture.Result().Position.LSN)
	})
}

// TestCaptureSurvivesAStaleConnection: the link died since the last capture.
func TestCaptureSurvivesAStaleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Cut()
		began := time.Now()
		require.NoError(t, c.Join().Wait(t.Context()))
		require.LessOrEqual(t, time.Since(began), 20*time.Millisecond)
	})
}

// TestCaptureOfADemotedServer: the position of a server that is no primary any more says nothing. The capture waits for
// the new primary's, which names another start: the session knows by it.
func TestCaptureOfADemotedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Replica = true })
		capture := c.Join()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, capture.Wait(ctx), context.DeadlineExceeded)
		require.Nil(t, capture.Result())
		c.b.Set(func(s *fakenode.State) { s.Replica, s.Timeline, s.Start = false, 2, 5 })
		require.NoError(t, capture.Wait(t.Context()))
		require.Equal(t, writer(5), capture.Result().Start)
		require.Equal(t, position(2, 0x5000), capture.Result().Position)
	})
}

// TestCaptureIsASample: what a capture reads is news for the monitor.
func TestCaptureIsASample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.LSN = 0x7777 })
		require.NoError(t, c.Join().Wait(t.Context()))
		require.Equal(t, core.LSN(0x7777), c.view(0).Sample.Position.LSN)
	})
}

func TestCaptureWhenGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Backends = map[uint32]int64{10: 1, 11: 1} })
		capture, ok := c.JoinWhenGone(monitor.Backend{PID: 10, Start: 1}, writer(1))
		require.True(t, ok)
		other, ok := c.JoinWhenGone(monitor.Backend{PID: 11, Start: 2}, writer(1))
		require.True(t, ok)
		time.Sleep(500 * time.Millisecond)
		require.Nil(t, capture.Result(), "it may still commit")
		require.NotNil(t, other.Result(), "that process id is another session's by now")
		require.NoError(t, c.Join().Wait(t.Context()), "others need not wait for it")

		// It commits, and goes.
		c.a.Set(func(s *fakenode.State) { s.LSN = 0x8000 })
		time.Sleep(100 * time.Millisecond)
		require.Nil(t, capture.Result())
		c.a.Set(func(s *fakenode.State) { delete(s.Backends, 10) })
		time.Sleep(50 * time.Millisecond)
		require.NotNil(t, capture.Result())
		require.Equal(t, core.LSN(0x8000), capture.Result().Position.LSN)
		require.Zero(t, c.a.Endings())
		c.a.Forget()
		time.Sleep(time.Minute)
		require.Less(t, len(c.a.Probes()), 150, "nothing is looked for any more")
	})
}

// TestCaptureEndsAnUnknownWrite: a session that does not go is ended after its patience, then captured.
func TestCaptureEndsAnUnknownWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Backends = map[uint32]int64{10: 1} })
		began := time.Now()
		capture, ok := c.JoinWhenGone(monitor.Backend{PID: 10, Start: 1}, writer(1))
		require.True(t, ok)
		<-capture.Done()
		require.NoError(t, capture.Result().Err)
		require.Equal(t, 1, c.a.Endings())
		require.GreaterOrEqual(t, time.Since(began), time.Second)
		require.Less(t, time.Since(began), 1200*time.Millisecond)
	})
}

// TestCaptureAfterARestart: the run of the server that the write was on is over, and its sessions with it.
func TestCaptureAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Backends = map[uint32]int64{10: 1} })
		capture, ok := c.JoinWhenGone(monitor.Backend{PID: 10, Start: 1}, writer(1))
		require.True(t, ok)
		c.a.Set(func(s *fakenode.State) { s.Start = 2 })
		time.Sleep(100 * time.Millisecond)
		c.Kick(0)
		<-capture.Done()
		require.Equal(t, writer(2), capture.Result().Start, "not the writer's: its session reads from the primary")
		require.Zero(t, c.a.Endings())
	})
}

// TestCaptureWhileANameLeadsToSeveral: another server has answered under the name. That the run of the write is over is wrong then, which
// the next capture shows: the write may yet come.
func TestCaptureWhileANameLeadsToSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Start = 2 })
		c.Kick(0)
		time.Sleep(100 * time.Millisecond)
		c.a.Set(func(s *fakenode.State) { s.Start, s.Backends = 1, map[uint32]int64{10: 1} })
		capture, ok := c.JoinWhenGone(monitor.Backend{PID: 10, Start: 1}, writer(1))
		require.True(t, ok)
		time.Sleep(300 * time.Millisecond)
		require.Nil(t, capture.Result())
		c.a.Set(func(s *fakenode.State) { s.Backends = nil })
		<-capture.Done()
		require.NoError(t, capture.Result().Err)
		require.Equal(t, writer(1), capture.Result().Start)
		require.Zero(t, c.a.Endings())
	})
}

// TestCaptureOfTheUnknowable: a server session that cannot be looked for keeps nobody else waiting, and is given up.
func TestCaptureOfTheUnknowable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		denied := errors.New("permission denied")
		c.a.Set(func(s *fakenode.State) { s.BackendErr = denied })
		var captures []*core.Capture
		for i := range 3 {
			capture, ok := c.JoinWhenGone(monitor.Backend{PID: uint32(10 + i), Start: 1}, writer(1))
			require.True(t, ok)
			captures = append(captures, capture)
		}
		began := time.Now()
		require.NoError(t, c.Join().Wait(t.Context()))
		for _, capture := range captures {
			require.ErrorIs(t, capture.Wait(t.Context()), denied)
		}
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

func TestCaptureWhenGoneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		for name, ok := range map[string]func() bool{
			"no server session": func() bool { _, ok := c.JoinWhenGone(monitor.Backend{}, writer(1)); return ok },
			"no server":         func() bool { _, ok := c.JoinWhenGone(monitor.Backend{PID: 1, Start: 1}, core.Start{}); return ok },
		} {
			require.False(t, ok(), name)
		}
		c.a.Set(func(s *fakenode.State) { s.Frozen = true })
		taken := 0
		for range 1100 {
			synctest.Wait() // some are being looked for
			if _, ok := c.JoinWhenGone(monitor.Backend{PID: 1, Start: 1}, writer(1)); ok {
				taken++
			}
		}
		require.Equal(t, 1000, taken)
	})
}

// TestCaptureGoesOnBesideManyUnknowns: hundreds of sessions that do not go do not make captures slow.
func TestCaptureGoesOnBesideManyUnknowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) {
			s.Delay, s.Backends = time.Millisecond, map[uint32]int64{}
			for i := range 300 {
				s.Backends[uint32(i+1)] = 1
			}
		})
		var captures []*core.Capture
		for i := range 300 {
			capture, ok := c.JoinWhenGone(monitor.Backend{PID: uint32(i + 1), Start: 1}, writer(1))
			require.True(t, ok)
			captures = append(captures, capture)
		}
		began := time.Now()
		for range 100 {
			began := time.Now()
			require.NoError(t, c.Join().Wait(t.Context()))
			require.LessOrEqual(t, time.Since(began), 40*time.Millisecond)
		}
		for _, capture := range captures {
			<-capture.Done()
			require.NoError(t, capture.Result().Err)
		}
		require.Less(t, time.Since(began), 10*time.Second)
		require.Equal(t, 300, c.a.Endings())
	})
}

func TestCapturesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		c.a.Set(func(s *fakenode.State) { s.Backends, s.Delay = map[uint32]int64{10: 1}, time.Minute })
		inFlight := c.Join()
		errs := make(chan error, 3)
		go func() { errs <- inFlight.Wait(t.Context()) }()
		time.Sleep(10 * time.Millisecond)
		next := c.Join()
		require.NotSame(t, inFlight, next)
		unknown, ok := c.JoinWhenGone(monitor.Backend{PID: 10, Start: 1}, writer(1))
		require.True(t, ok)
		go func() { errs <- next.Wait(t.Context()) }()
		go func() { errs <- unknown.Wait(t.Context()) }()
		time.Sleep(10 * time.Millisecond)

		closing := time.Now()
		c.Captures.Close()
		c.Captures.Close()
		require.Zero(t, time.Since(closing))
		for range 3 {
			require.ErrorIs(t, <-errs, monitor.ErrClosed)
		}
		require.ErrorIs(t, c.Join().Wait(t.Context()), monitor.ErrClosed)
		_, ok = c.JoinWhenGone(monitor.Backend{PID: 10, Start: 1}, writer(1))
		require.False(t, ok)
		c.a.Set(func(s *fakenode.State) { s.Delay = 0 })
		time.Sleep(time.Minute)
		require.Equal(t, 1, c.a.Open(), "the monitor's own")
	})
}

// TestCapturesCloseConcurrently: whoever joins while captures close is told, and nobody waits for ever.
func TestCapturesCloseConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCaptures(t)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					if errors.Is(c.Join().Wait(t.Context()), monitor.ErrClosed) {
						return
					}
					if capture, ok := c.JoinWhenGone(monitor.Backend{PID: 1, Start: 1}, writer(1)); ok {
						_ = capture.Wait(t.Context())
					}
					time.Sleep(time.Microsecond)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		c.Captures.Close()
		wg.Wait()
	})
}
