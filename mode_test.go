package readroute_test

import (
	"context"
	"database/sql"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func TestModeNames(t *testing.T) {
	for mode, name := range map[readroute.Mode]string{
		readroute.ModeRoute: "route", readroute.ModePrimary: "primary", readroute.ModeShadow: "shadow", 99: "invalid",
	} {
		require.Equal(t, name, mode.String())
	}
}

func TestModeRefusesWhatItDoesNotKnow(t *testing.T) {
	db := open(t, configFor(sharedCluster(t)))
	require.NoError(t, db.SetMode(readroute.ModeShadow))
	require.NoError(t, db.SetReadShare(0.5))
	require.Error(t, db.SetMode(99))
	for _, share := range []float64{-0.01, 1.01, math.NaN(), math.Inf(1)} {
		require.Error(t, db.SetReadShare(share))
	}
	s := db.RouteStats()
	require.Equal(t, readroute.ModeShadow, s.Mode)
	require.InDelta(t, 0.5, s.ReadShare, 1e-9)
	require.NoError(t, db.SetReadShare(1))
	require.Equal(t, 1.0, db.RouteStats().ReadShare)
	require.NoError(t, db.SetReadShare(0))
	require.Zero(t, db.RouteStats().ReadShare)
}

// TestModeDrill is what somebody on call does: from routing to all-primary under load, and back. Nothing fails, and no
// statement that begins after the call runs on a replica.
func TestModeDrill(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int PRIMARY KEY, n int")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" SELECT i, 0 FROM generate_series(0, 15) i"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	type ended struct{ began int64 } // which call was the last one when the statement began
	var calls atomic.Int64           // odd: everything to the primary
	var onReplica, wrong atomic.Int64
	key := ended{}
	config := configFor(c)
	config.Hooks.Decision = func(ctx context.Context, d readroute.Decision) {
		began, ok := ctx.Value(key).(int64)
		switch {
		case !ok || d.Role != readroute.RoleReplica:
		case began%2 == 1 && calls.Load() == began:
			wrong.Add(1) // it began and was decided between the call and the next
		default:
			onReplica.Add(1)
		}
	}
	db := open(t, config)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			session := readroute.NewSession()
			stmt, err := db.PrepareContext(testContext(t), "SELECT n FROM "+table+" WHERE id = $1")
			if err != nil {
				t.Error(err)
				return
			}
			defer stmt.Close()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx := context.WithValue(readroute.ContextWithSession(context.Background(), session), key, calls.Load())
				var n int
				var err error
				switch i % 4 {
				case 0:
					_, err = db.ExecContext(ctx, "UPDATE "+table+" SET n = n + 1 WHERE id = $1", id)
				case 1:
					err = db.QueryRowContext(ctx, "SELECT n FROM "+table+" WHERE id = $1", id).Scan(&n)
				case 2:
					err = stmt.QueryRowContext(ctx, id).Scan(&n)
				case 3:
					var tx *sql.Tx
					if tx, err = db.BeginTx(ctx, readOnly); err == nil {
						err = tx.QueryRowContext(ctx, "SELECT n FROM "+table+" WHERE id = $1", id).Scan(&n)
						_ = tx.Rollback()
					}
				}
				if err != nil {
					t.Errorf("statement %d: %v", i%4, err)
					return
				}
				if i%4 != 0 && n != i/4+1 {
					t.Errorf("read %d after %d writes", n, i/4+1)
					return
				}
			}
		})
	}
	reach := func(what string, cond func() bool) { eventually(t, what, cond) }
	for range 5 {
		before := onReplica.Load()
		reach("replicas serve reads", func() bool { return onReplica.Load() > before+50 })
		require.NoError(t, db.SetMode(readroute.ModePrimary))
		calls.Add(1)
		count := func() uint64 { return db.RouteStats().Nodes[0].Reasons[readroute.ReasonMode] }
		on := count()
		reach("the primary serves them", func() bool { return count() > on+200 })
		calls.Add(1)
		require.NoError(t, db.SetMode(readroute.ModeRoute))
	}
	close(stop)
	wg.Wait()
	require.Zero(t, wrong.Load(), "statements on a replica that began after the call")
}

// TestModePrimaryReachesEveryWay: no way to a replica is left.
func TestModePrimaryReachesEveryWay(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	replica := config.Replicas[0].Name
	ways := map[string]context.Context{
		"session": ctx, "eventual": readroute.WithLevel(ctx, readroute.LevelEventual), "node": readroute.WithNode(ctx, replica),
		"stale": readroute.WithFallback(ctx, readroute.FallbackStale), "error": readroute.WithFallback(ctx, readroute.FallbackError),
	}
	for name, ctx := range ways {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role, name)
	}
	require.NoError(t, db.SetMode(readroute.ModePrimary))
	for name, ctx := range ways {
		for _, query := range []string{"SELECT 1", "/* route:replica */ SELECT 1", "/* route:replica */ SELECT not_known(1)"} {
			_ = db.QueryRowContext(ctx, query).Scan(new(int))
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, name)
			require.Equal(t, readroute.ReasonMode, d.Reason, name)
			require.Nil(t, d.Shadow)
		}
		d, err := db.Explain(ctx, "SELECT 1")
		require.NoError(t, err)
		require.Equal(t, readroute.ReasonMode, d.Reason)
	}
}

// TestModeEndsAWait: a read that waits for a replica when the mode changes does not end up there.
func TestModeEndsAWait(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Strategy = readroute.PositionWait(time.Minute)
	seen := record(&config)
	db := open(t, config)
	table := newTable(t, c, "id int")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	ctx := sessionContext(t)
	for _, n := range standbys(c) {
		require.NoError(t, n.SetApplyDelay(testContext(t), time.Second))
		t.Cleanup(func() { require.NoError(t, n.SetApplyDelay(context.Background(), 0)) })
	}
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	seen.take()
	done := make(chan error, 1)
	go func() { done <- db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)) }()
	eventually(t, "the read waits", func() bool { return db.RouteStats().Waiting > 0 })
	require.NoError(t, db.SetMode(readroute.ModePrimary))
	require.NoError(t, <-done)
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
}

// TestModeShadow: every statement runs on the primary and says where it would have gone, and whether that was stale.
func TestModeShadow(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	table := newTable(t, c, "id int")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, db.SetMode(readroute.ModeShadow))
	ctx := sessionContext(t)
	shadow := func(ctx context.Context, query string) readroute.Shadow {
		t.Helper()
		require.NoError(t, db.QueryRowContext(ctx, query).Scan(new(int)))
		d := seen.one(t)
		require.Equal(t, readroute.RolePrimary, d.Role)
		require.NotNil(t, d.Shadow)
		return *d.Shadow
	}
	count := "SELECT count(*) FROM " + table
	s := shadow(ctx, count)
	require.Equal(t, readroute.RoleReplica, s.Role)
	require.NotEmpty(t, s.Node)
	require.Equal(t, readroute.ReasonCovered, s.Reason)
	require.False(t, s.Stale || s.WouldWait)
	s = shadow(testContext(t), count)
	require.Equal(t, readroute.RolePrimary, s.Role)
	require.Equal(t, readroute.ReasonNoSession, s.Reason)

	pauseReplay(t, c)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	d := seen.one(t)
	require.Equal(t, readroute.ReasonWrite, d.Reason)
	require.Equal(t, readroute.RolePrimary, d.Shadow.Role)
	_, err = readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	s = shadow(ctx, count)
	require.True(t, s.WouldWait || s.Role == readroute.RolePrimary, "%+v", s)
	s = shadow(readroute.WithLevel(ctx, readroute.LevelEventual), count)
	require.Equal(t, readroute.RoleReplica, s.Role)
	require.True(t, s.Stale, "the replica does not have the row")
	s = shadow(readroute.WithLevel(sessionContext(t), readroute.LevelEventual), count)
	require.False(t, s.Stale, "another session has written nothing")

	tx, err := db.BeginTx(readroute.WithLevel(ctx, readroute.LevelEventual), readOnly)
	require.NoError(t, err)
	require.NoError(t, tx.QueryRowContext(ctx, count).Scan(new(int)))
	require.NoError(t, tx.Rollback())
	for _, d := range seen.take() {
		require.Equal(t, readroute.RolePrimary, d.Role)
		require.Equal(t, readroute.RoleReplica, d.Shadow.Role, "%+v", d.Shadow)
	}

	require.NoError(t, db.SetMode(readroute.ModeRoute))
	require.NoError(t, db.QueryRowContext(ctx, count).Scan(new(int)))
	require.Nil(t, seen.one(t).Shadow)
}

// TestModeShadowOfSticky: within the window a replica is stale for all that anybody knows; and the mode's own use of the primary
// connection is not held against later statements of a *sql.Conn.
func TestModeShadowOfSticky(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Strategy = readroute.Sticky(time.Minute)
	seen := record(&config)
	db := open(t, config)
	table := newTable(t, c, "id int")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, db.SetMode(readroute.ModeShadow))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, conn.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		d := seen.one(t)
		require.Equal(t, readroute.RolePrimary, d.Role)
		require.Equal(t, readroute.RoleReplica, d.Shadow.Role)
		require.False(t, d.Shadow.Stale)
	}
	require.NoError(t, conn.Close())
	_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	seen.take()
	require.NoError(t, db.QueryRowContext(readroute.WithLevel(ctx, readroute.LevelEventual), "SELECT 1").Scan(new(int)))
	require.True(t, seen.one(t).Shadow.Stale)
}

// TestModeReadShare: a canary of the reads goes to replicas.
func TestModeReadShare(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	const reads = 400
	share := func() float64 {
		seen.take()
		for range reads {
			require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		}
		n := 0
		for _, d := range seen.take() {
			if d.Role == readroute.RoleReplica {
				n++
			} else {
				require.Equal(t, readroute.ReasonMode, d.Reason)
			}
		}
		return float64(n) / reads
	}
	for _, want := range []float64{0, 0.2, 0.8, 1} {
		require.NoError(t, db.SetReadShare(want))
		got := share()
		if want == 0 || want == 1 {
			require.Equal(t, want, got)
		} else {
			require.InDelta(t, want, got, 0.12) // five standard deviations
		}
	}
}
