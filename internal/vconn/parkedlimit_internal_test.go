package vconn

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestParkedConnectionGoesToWhoWaits: with a limit on open connections, one that is given back goes to somebody who waits for it,
// whichever of the two comes first.
func TestParkedConnectionGoesToWhoWaits(t *testing.T) {
	limited := func(c *PoolConfig) { c.MaxOpenConns = 2 }
	t.Run("waits before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := parkingPool(limited)
			var a, b held
			require.NoError(t, get(t.Context(), p, &a, 0))
			require.NoError(t, get(t.Context(), p, &b, 1))
			got := make(chan error, 1)
			go func() {
				var h held
				got <- get(t.Context(), p, &h, 2)
				require.NoError(t, h.sc.Close())
			}()
			synctest.Wait()
			require.Empty(t, got)
			require.False(t, p.park(&a, 0))
			require.NoError(t, a.sc.Close())
			require.NoError(t, <-got)
			synctest.Wait()
			require.True(t, p.park(&b, 1), "nobody waits now")
			require.LessOrEqual(t, p.Stats().OpenConnections, 2)
			require.NoError(t, p.Close())
			require.Zero(t, p.dialled.Load())
		})
	})
	t.Run("waits in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := parkingPool(limited)
			var a, b held
			require.NoError(t, get(t.Context(), p, &a, 0))
			require.NoError(t, get(t.Context(), p, &b, 1))
			got := make(chan error, 1)
			a.p.validator = atIsValid(sync.OnceFunc(func() {
				go func() {
					var h held
					got <- get(t.Context(), p, &h, 2)
					require.NoError(t, h.sc.Close())
				}()
				synctest.Wait()
				require.Empty(t, got)
			}))
			began := time.Now()
			require.True(t, p.park(&a, 0))
			require.NoError(t, <-got)
			require.Zero(t, time.Since(began))
			require.NoError(t, b.sc.Close())
			require.NoError(t, p.Close())
		})
	})
	t.Run("is about to wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := parkingPool(limited)
			var a, b, h held
			require.NoError(t, get(t.Context(), p, &a, 0))
			require.NoError(t, get(t.Context(), p, &b, 1))
			require.False(t, p.takeParked(t.Context(), &h, 2))
			require.True(t, p.park(&a, 0))
			began := time.Now()
			sc, err := p.conn(&getting{Context: t.Context()}, &h, 2)
			require.NoError(t, err)
			require.Nil(t, sc)
			require.True(t, h.attached())
			require.Zero(t, time.Since(began))
			require.NoError(t, h.sc.Close())
			require.NoError(t, b.sc.Close())
			require.NoError(t, p.Close())
		})
	})
	t.Run("was overlooked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _ := parkingPool(limited)
			var a, b held
			require.NoError(t, get(t.Context(), p, &a, 0))
			require.NoError(t, get(t.Context(), p, &b, 1))
			got := make(chan error, 1)
			go func() {
				var h held
				got <- get(t.Context(), p, &h, 2)
				require.NoError(t, h.sc.Close())
			}()
			synctest.Wait()
			p.dialled.Add(-1) // another is being opened, and has not said so yet
			require.True(t, p.park(&a, 0))
			p.dialled.Add(1)
			began := time.Now()
			require.NoError(t, <-got)
			require.LessOrEqual(t, time.Since(began), parkedTick)
			require.NoError(t, b.sc.Close())
			require.NoError(t, p.Close())
		})
	})
}

// TestParkedConnectionsAreEnoughForAll: many more users than connections, and none is left waiting.
func TestParkedConnectionsAreEnoughForAll(t *testing.T) {
	p, _ := parkingPool(func(c *PoolConfig) { c.MaxOpenConns = 3 })
	var users sync.WaitGroup
	for i := range 40 {
		users.Go(func() {
			for range 300 {
				var h held
				if err := get(t.Context(), p, &h, uint32(i)); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				if !p.park(&h, uint32(i)) {
					if err := h.sc.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	users.Wait()
	require.LessOrEqual(t, p.Stats().OpenConnections, 3)
	require.NoError(t, p.Close())
	require.Zero(t, p.dialled.Load())
}
