package monitor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
)

// bytesPerMilli is how much the primary of these tests writes.
const bytesPerMilli = 100

// writing makes a write at every tick for as long as the test runs, and b replay it lag later.
func writing(t *testing.T, a, b *fakenode.Node, tick time.Duration, lag func(age time.Duration) time.Duration) {
	began := time.Now()
	ticker := time.NewTicker(tick)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	log := func(at time.Duration) core.LSN { return 0x100000 + core.LSN(max(0, at.Milliseconds())*bytesPerMilli) }
	step := func() {
		age := time.Since(began)
		a.Set(func(s *fakenode.State) { s.LSN = log(age) })
		b.Set(func(s *fakenode.State) { s.LSN = log(age - lag(age)) })
	}
	step()
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				step()
			case <-done:
				return
			}
		}
	}()
}

// TestLagBounds: what is said of a replica's lag contains the truth, and is not much wider than the probes are apart.
func TestLagBounds(t *testing.T) {
	for _, lag := range []time.Duration{0, 3 * time.Millisecond, 50 * time.Millisecond, 700 * time.Millisecond, 20 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair()
				a.Set(func(s *fakenode.State) { s.Delay = 4 * time.Millisecond })
				b.Set(func(s *fakenode.State) { s.Delay = 4 * time.Millisecond })
				writing(t, a, b, time.Millisecond, func(time.Duration) time.Duration { return lag })
				w := watch(t, a, b)
				time.Sleep(lag + 5*time.Second)
				for range 500 {
					time.Sleep(37 * time.Millisecond)
					v := w.view(1)
					require.True(t, v.LagKnown)
					require.GreaterOrEqual(t, v.Lag, lag-2*time.Millisecond, "an upper bound")
					require.LessOrEqual(t, v.Lag, lag+interval*5/4*2+20*time.Millisecond)
					require.LessOrEqual(t, v.Behind, lag+2*time.Millisecond, "a lower bound")
					if lag > 2*interval {
						require.GreaterOrEqual(t, v.Behind, lag-interval*5/4*2)
					}
					require.InDelta(t, lag.Milliseconds()*bytesPerMilli, v.Missing, 1400*bytesPerMilli)
				}
			})
		})
	}
}

// TestIdlePrimaryIsNotLag: nothing was written, so nothing is missing.
func TestIdlePrimaryIsNotLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Hour)
		for range 100 {
			time.Sleep(77 * time.Millisecond)
			v := w.view(1)
			require.True(t, v.LagKnown)
			require.Less(t, v.Lag, 2*interval)
			require.Zero(t, v.Behind)
			require.Zero(t, v.Missing)
		}
		// One write that is not replayed is.
		a.Set(func(s *fakenode.State) { s.LSN++ })
		time.Sleep(10 * time.Second)
		v := w.view(1)
		require.InDelta(t, 10*time.Second, v.Lag, float64(3*interval))
		require.InDelta(t, 10*time.Second, v.Behind, float64(3*interval))
		require.Equal(t, uint64(1), v.Missing)
	})
}

// TestUnflushedLogIsNotLag: a replica cannot have what the primary has not flushed.
func TestUnflushedLogIsNotLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.LSN, s.Flush = 0x6000, 0x5000 })
		time.Sleep(10 * time.Second)
		require.Zero(t, w.view(1).Behind)
	})
}

// TestLagIsRememberedLong: a replica that stopped replaying an hour ago has a lag of an hour, to a few per cent, though
// the memory for it is small.
func TestLagIsRememberedLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		writing(t, a, b, 200*time.Millisecond, func(age time.Duration) time.Duration { return max(0, age-time.Minute) })
		w := watch(t, a, b)
		time.Sleep(61 * time.Minute)
		v := w.view(1)
		require.True(t, v.LagKnown)
		require.GreaterOrEqual(t, v.Lag, time.Hour-time.Second)
		require.InDelta(t, time.Hour, v.Lag, float64(3*time.Minute))
		require.LessOrEqual(t, v.Behind, time.Hour+time.Second)
		require.InDelta(t, time.Hour, v.Behind, float64(3*time.Minute))
	})
}

// TestLagAfterTheLogWentBack: the primary lost its unflushed end in a crash, or came back from a backup. What was beyond
// is no measure for the replicas.
func TestLagAfterTheLogWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.LSN, s.Start = 0x4000, 2 })
		b.Set(func(s *fakenode.State) { s.LSN, s.Start = 0x4000, 2 })
		time.Sleep(time.Minute)
		v := w.view(1)
		require.Zero(t, v.Behind)
		require.Less(t, v.Lag, 2*interval)
		a.Set(func(s *fakenode.State) { s.LSN = 0x4001 })
		b.Set(func(s *fakenode.State) { s.LSN = 0x4001 })
		time.Sleep(2 * time.Second)
		require.Zero(t, w.view(1).Behind)
	})
}

// TestLagOfAnotherSystem: a replica of something else has no lag here.
func TestLagOfAnotherSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		b.Set(func(s *fakenode.State) { s.System = 8 })
		w := watch(t, a, b)
		time.Sleep(5 * time.Second)
		require.True(t, w.view(1).Healthy)
		require.False(t, w.view(1).LagKnown)
	})
}

// TestEstimates: how fast a replica replays, and how long it takes to show a write, is learned from what it does.
func TestEstimates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		// Ten minutes of backlog, replayed at three times the speed of writing.
		writing(t, a, b, 50*time.Millisecond, func(age time.Duration) time.Duration {
			if age < 10*time.Minute {
				return age
			}
			return max(0, 10*time.Minute-(age-10*time.Minute)*2)
		})
		w := watch(t, a, b)
		time.Sleep(9 * time.Minute)
		require.Zero(t, w.view(1).Rate, "it stands still")
		time.Sleep(3 * time.Minute)
		require.InEpsilon(t, 3*1000*bytesPerMilli, w.view(1).Rate, 0.2)
		require.InDelta(t, 6*time.Minute, w.view(1).Behind, float64(25*time.Second))
		time.Sleep(10 * time.Minute)
		require.Zero(t, w.view(1).Behind)
	})
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		writing(t, a, b, 50*time.Millisecond, func(time.Duration) time.Duration { return 3 * time.Second })
		w := watch(t, a, b)
		time.Sleep(time.Minute)
		require.InDelta(t, 3*time.Second, w.view(1).Delay, float64(3*interval))
		require.LessOrEqual(t, w.view(1).Delay, 3*time.Second, "at least so long")
		require.InEpsilon(t, 1000*bytesPerMilli, w.view(1).Rate, 0.2)
	})
}

// TestLagThatHovers: a replica that has been beyond the limit comes back when it is well below it, and not with every probe.
func TestLagThatHovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		a, b := pair()
		lag := func(age time.Duration) time.Duration {
			switch {
			case age < 20*time.Second:
				return limit - 3*time.Second
			case age < 60*time.Second: // about the limit: above it and below in turn
				return limit - 500*time.Millisecond + time.Duration(age/(2*time.Second)%2)*time.Second
			}
			return limit - 3*time.Second
		}
		writing(t, a, b, 10*time.Millisecond, lag)
		w := watchWith(t, func(c *monitor.Config) { c.MaxLag = limit }, a, b)
		changes, late := 0, false
		for range 2000 {
			time.Sleep(50 * time.Millisecond)
			if v := w.view(1); v.Late != late {
				late = v.Late
				changes++
			}
		}
		require.False(t, late)
		require.Equal(t, 2, changes, "out once, and back once")
	})
}
