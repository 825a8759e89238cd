package monitor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
)

// TestEventsComeInOrder: a statement that finds a node down and the probe that finds it up again run on goroutines of
// their own. Whoever hears of both must not end with "down".
func TestEventsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		var events []monitor.EventKind
		var busy atomic.Bool
		config := monitor.Config{
			Engine: fakenode.Engine, Interval: interval, ProbeTimeout: probeTimeout, MaxWaiters: 1, MaxLag: time.Minute,
			Nodes: []monitor.Node{a.Watch(), b.Watch()},
			OnEvent: func(e monitor.Event) {
				require.False(t, busy.Swap(true), "one call at a time")
				defer busy.Store(false)
				if e.Kind == monitor.EventDown {
					time.Sleep(3 * interval) // the probe that follows is over long before
				}
				if e.Node == "b" {
					events = append(events, e.Kind)
				}
			},
		}
		m := monitor.Start(config)
		defer m.Close()
		time.Sleep(interval)
		synctest.Wait()
		m.Failed(1, errors.New("refused"))
		synctest.Wait()
		require.True(t, m.Snapshot().Nodes[1].Healthy)
		require.Equal(t, []monitor.EventKind{monitor.EventUp, monitor.EventDown, monitor.EventUp}, events)
	})
}

// TestAnswerOfBeforeAFailure: what a node said before it was seen to fail does not make it healthy, however late it is heard: a primary that
// was killed would be one of two once another node has been made the primary.
func TestAnswerOfBeforeAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		late := w.Snapshot().Nodes[0].Sample
		late.Began, late.Ended = time.Now(), time.Now()
		time.Sleep(10 * time.Millisecond)
		w.Failed(0, errRefused)
		w.Observe(0, late)
		require.False(t, w.Snapshot().Nodes[0].Healthy)
		time.Sleep(10 * time.Millisecond)
		require.True(t, w.Snapshot().Nodes[0].Healthy, "it is asked at once")

		a.Set(func(s *fakenode.State) { s.Err = errRefused })
		late.Began = time.Now()
		time.Sleep(interval * 2)
		require.False(t, w.Snapshot().Nodes[0].Healthy)
		w.Observe(0, late)
		require.False(t, w.Snapshot().Nodes[0].Healthy)
	})
}

// TestFailoverIsNotTwoPrimaries: the next primary is heard before it is seen that the last one has died, or was demoted in order.
func TestFailoverIsNotTwoPrimaries(t *testing.T) {
	for name, end := range map[string]func(*fakenode.State){
		"it died":        func(s *fakenode.State) { s.Err = errRefused },
		"it was demoted": func(s *fakenode.State) { s.Replica = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pair()
				w := watch(t, a, b)
				time.Sleep(time.Second + interval/2)
				a.Set(end)
				b.Set(func(s *fakenode.State) { s.Replica = false })
				next := w.view(1).Sample
				next.Role, next.Began, next.Ended = core.RolePrimary, time.Now(), time.Now()
				w.Observe(1, next)
				require.Equal(t, core.RolePrimary, w.view(0).Role, "the test's point")
				time.Sleep(10 * time.Second)
				w.wantsPrimary(1, true)
				require.NotContains(t, append(w.happened("a"), w.happened("b")...), monitor.EventTwoPrimaries)
			})
		})
	}
}
