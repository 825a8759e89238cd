package vconn

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/fakedb"
	"github.com/readroute/readroute/internal/postgres"
)

// parkingPool is a pool over a driver without a server.
func parkingPool(change func(*PoolConfig)) (*Pool, *fakedb.NullConnector) {
	null := fakedb.Null()
	engine := postgres.Engine{}
	null.Answer = func(query string) ([]string, bool, error) {
		if query == engine.ProbeSQL() {
			return []string{"true", "7", "2000", "0/1000100", "", "1", "1", "8192", "16777216", "200000", "0/1000100"}, true, nil
		}
		return nil, false, nil
	}
	cfg := PoolConfig{Name: "b", Connector: null, Engine: engine, MaxIdleConns: 4}
	if change != nil {
		change(&cfg)
	}
	return NewPool(cfg), null
}

// parkedIn returns a parked connection, or nil.
func parkedIn(p *Pool) *physical {
	for i := range p.parked {
		if c := p.parked[i].Load(); c != nil {
			return c
		}
	}
	return nil
}

// together takes n connections at once and gives them back.
func together(t *testing.T, p *Pool, n int) {
	t.Helper()
	out := make([]held, n)
	for i := range out {
		require.NoError(t, get(t.Context(), p, &out[i], uint32(i)))
	}
	for i := range out {
		if !p.park(&out[i], uint32(i)) {
			require.NoError(t, out[i].sc.Close())
		}
	}
}

// get takes a connection, as a Conn does.
func get(ctx context.Context, p *Pool, h *held, home uint32) error {
	if p.takeParked(ctx, h, home) {
		return nil
	}
	sc, err := p.conn(&getting{Context: ctx}, h, home)
	if err != nil || sc == nil {
		return err
	}
	return sc.Raw(func(dc any) error { *h = held{sc: sc, p: dc.(*physical)}; return nil })
}

// checkout takes a connection and gives it back.
func checkout(ctx context.Context, p *Pool) error {
	var h held
	if err := get(ctx, p, &h, 1); err != nil {
		return err
	}
	if !p.park(&h, 1) {
		return h.sc.Close()
	}
	return nil
}

func TestParkedConnectionIsUsedAgain(t *testing.T) {
	p, _ := parkingPool(nil)
	for range 5 {
		require.NoError(t, checkout(t.Context(), p))
		require.NotNil(t, parkedIn(p))
		s := p.Stats()
		require.Equal(t, []int{1, 0, 1}, []int{s.OpenConnections, s.InUse, s.Idle})
	}
	first := parkedIn(p)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, checkout(ended, p), context.Canceled)
	require.Same(t, first, parkedIn(p))

	p.Drop()
	require.Nil(t, parkedIn(p), "it is of another role")
	require.Zero(t, p.Stats().OpenConnections)
	require.NoError(t, checkout(t.Context(), p))
	require.NotSame(t, first, parkedIn(p))
	p.Silence()
	require.Error(t, checkout(t.Context(), p), "a server that is silent is not asked, and not dialled")
	require.Nil(t, parkedIn(p))
	p.Answer()
	require.NoError(t, p.Close())
	require.Nil(t, parkedIn(p))
	require.Zero(t, p.Stats().OpenConnections)
	require.Error(t, checkout(t.Context(), p))
}

// TestParkedConnectionIsAnIdleOne: the limit on idle connections holds for it as well, and a pool that is at rest for a while
// has as many as before.
func TestParkedConnectionIsAnIdleOne(t *testing.T) {
	for _, limit := range []int{1, 2, 5, 40, maxParked + 6} {
		synctest.Test(t, func(t *testing.T) {
			p, _ := parkingPool(func(c *PoolConfig) { c.MaxIdleConns, c.ConnMaxIdleTime = limit, time.Hour })
			require.NoError(t, checkout(t.Context(), p))
			for range 2 {
				together(t, p, limit+9)
				require.Equal(t, limit, p.Stats().Idle)
				require.Equal(t, limit, p.Stats().OpenConnections)
				time.Sleep(time.Minute)
				require.NoError(t, checkout(t.Context(), p))
				require.Equal(t, limit, p.Stats().OpenConnections)
			}
			require.NoError(t, p.Close())
			require.Zero(t, p.Stats().OpenConnections)
		})
	}
}

// TestParkedConnectionAges: one that rests for ConnMaxIdleTime is closed, and one that has reached ConnMaxLifetime, be it in use
// all the time; and both are counted as database/sql counts them.
func TestParkedConnectionAges(t *testing.T) {
	const rest, life = time.Minute, time.Hour
	pool := func(t *testing.T, change func(*PoolConfig)) *Pool {
		p, _ := parkingPool(change)
		require.NoError(t, checkout(t.Context(), p))
		<-time.After(rest) // whatever the clock of the pool shows then
		return p
	}
	t.Run("idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool(t, func(c *PoolConfig) { c.ConnMaxIdleTime = rest })
			defer p.Close()
			for range 3 {
				time.Sleep(2 * rest)
				synctest.Wait()
				require.Zero(t, p.Stats().OpenConnections)
				require.NoError(t, checkout(t.Context(), p))
				first := parkedIn(p)
				for range 4 {
					time.Sleep(rest - 2*parkedTick)
					require.NoError(t, checkout(t.Context(), p))
					require.Same(t, first, parkedIn(p), "it was in use meanwhile")
				}
			}
			time.Sleep(rest + 2*parkedTick)
			synctest.Wait()
			require.Equal(t, int64(4), p.Stats().MaxIdleTimeClosed)
		})
	})
	t.Run("at rest and old", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool(t, func(c *PoolConfig) { c.ConnMaxLifetime = life })
			defer p.Close()
			time.Sleep(life - rest - 2*parkedTick)
			require.Equal(t, 1, p.Stats().OpenConnections)
			time.Sleep(4 * parkedTick)
			synctest.Wait()
			require.Zero(t, p.Stats().OpenConnections)
			require.Equal(t, int64(1), p.Stats().MaxLifetimeClosed)
		})
	})
	t.Run("in use and old", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool(t, func(c *PoolConfig) { c.ConnMaxLifetime = life })
			defer p.Close()
			first := parkedIn(p)
			var h held
			for range 59 {
				require.True(t, p.takeParked(t.Context(), &h, 1))
				require.Same(t, first, h.p)
				time.Sleep(rest) // no tick finds it parked
				if !p.park(&h, 1) {
					require.NoError(t, h.sc.Close())
					break
				}
			}
			require.Nil(t, parkedIn(p))
			require.Zero(t, p.Stats().OpenConnections)
		})
	})
	t.Run("without limits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool(t, nil)
			defer p.Close()
			first := parkedIn(p)
			time.Sleep(1000 * life)
			require.NoError(t, checkout(t.Context(), p))
			require.Same(t, first, parkedIn(p))
		})
	})
}

// TestParkedConnectionIsFoundFromAnywhere: those that look for one elsewhere first find it all the same, and do not open another.
func TestParkedConnectionIsFoundFromAnywhere(t *testing.T) {
	p, _ := parkingPool(nil)
	defer p.Close()
	require.NoError(t, checkout(t.Context(), p))
	for home := range uint32(9) {
		var h held
		require.True(t, p.takeParked(t.Context(), &h, home))
		require.False(t, p.takeParked(t.Context(), new(held), home))
		require.True(t, p.park(&h, ^home))
	}
	require.Equal(t, 1, p.Stats().OpenConnections)
}

// TestParkedNowhereWhereItCouldBeSeen: a limit on connections, and a short life or rest, hold exactly.
func TestParkedNowhereWhereItCouldBeSeen(t *testing.T) {
	for name, change := range map[string]func(*PoolConfig){
		"limit":    func(c *PoolConfig) { c.MaxOpenConns = 1 },
		"one idle": func(c *PoolConfig) { c.MaxOpenConns, c.MaxIdleConns = 9, 1 },
		"no idle":  func(c *PoolConfig) { c.MaxIdleConns = 0 },
		"lifetime": func(c *PoolConfig) { c.ConnMaxLifetime = time.Second },
		"idle":     func(c *PoolConfig) { c.ConnMaxIdleTime = time.Second },
	} {
		p, _ := parkingPool(change)
		require.NoError(t, checkout(t.Context(), p), name)
		require.Nil(t, parkedIn(p), name)
		require.NoError(t, p.Close())
	}
}

// TestParkedConnectionsAreNotLost: whatever parks, takes, drops and closes at once, in the end nothing is open.
func TestParkedConnectionsAreNotLost(t *testing.T) {
	for range 50 {
		p, _ := parkingPool(nil)
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for checkout(context.Background(), p) == nil {
				}
			})
		}
		for range 20 {
			p.Drop()
		}
		require.NoError(t, p.Close())
		users.Wait()
		require.Nil(t, parkedIn(p))
		require.Zero(t, p.db.Stats().OpenConnections)
		p.mu.Lock()
		require.Empty(t, p.open)
		p.mu.Unlock()
	}
}

// atIsValid is a driver.Validator that does something in between.
type atIsValid func()

func (f atIsValid) IsValid() bool { f(); return true }

// TestParkedTooLate: the pool is closed, or the node changes its role, while a connection is being parked.
func TestParkedTooLate(t *testing.T) {
	for name, happen := range map[string]func(*Pool){
		"closed":  func(p *Pool) { _ = p.Close() },
		"dropped": (*Pool).Drop,
	} {
		p, _ := parkingPool(nil)
		require.NoError(t, checkout(t.Context(), p))
		once := sync.OnceFunc(func() { happen(p) })
		parkedIn(p).validator = atIsValid(once)
		require.NoError(t, checkout(t.Context(), p), name)
		require.Nil(t, parkedIn(p), name)
		require.Zero(t, p.db.Stats().OpenConnections, name)
		require.NoError(t, p.Close())
	}
}
