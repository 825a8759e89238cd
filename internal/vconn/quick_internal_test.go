package vconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakedb"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// TestQuickWriteOfAFormerPrimary: the name of the primary leads to another server, after a failover. What is parked leads to the one of
// before, which may well take writes, and gets none: also when that is seen while such a connection is being reset, which may take a ping.
func TestQuickWriteOfAFormerPrimary(t *testing.T) {
	t.Run("seen before", func(t *testing.T) { quickWriteOfAFormerPrimary(t, false) })
	t.Run("seen meanwhile", func(t *testing.T) { quickWriteOfAFormerPrimary(t, true) })
}

func quickWriteOfAFormerPrimary(t *testing.T, meanwhile bool) {
	synctest.Test(t, func(t *testing.T) {
		node := fakenode.New("a", fakenode.State{LSN: 0x5000})
		var timeline atomic.Int32
		timeline.Store(1)
		var ran []int
		fail := func() {
			node.Set(func(s *fakenode.State) { s.Timeline, s.Start = 2, 2 })
			timeline.Store(2)
			<-time.After(2 * time.Second)
		}
		resetting := func() {}
		script := &fakedb.Script{
			Direct: true, Resetter: true, ConnChecker: true,
			ResetSession: func(context.Context, int) error {
				resetting()
				return nil
			},
			Answer: answerPrimary(&timeline),
			Exec: func(_ context.Context, conn int, _ string, _ []driver.NamedValue) (driver.Result, error) {
				ran = append(ran, conn)
				return driver.RowsAffected(1), nil
			},
		}
		cluster := quickCluster(t, node, script)
		<-time.After(time.Second)
		db := sql.OpenDB(&Connector{Cluster: cluster})
		defer func() { require.NoError(t, db.Close()) }()
		write := func() int {
			ctx := core.NewContext(t.Context(), &core.Options{Session: new(core.Session)})
			_, err := db.ExecContext(ctx, "UPDATE t SET n = $1", 1)
			require.NoError(t, err)
			return ran[len(ran)-1]
		}
		before := write()
		for range 4 {
			require.Equal(t, before, write())
		}
		require.EqualValues(t, 2, cluster.Router.Tallied(), "the text is kept from the second time on, and at hand after the third")

		if meanwhile {
			resetting = sync.OnceFunc(fail)
		} else {
			fail()
		}
		after := write()
		require.NotEqual(t, before, after)
		require.Equal(t, after, write())
		require.Greater(t, cluster.Router.Tallied(), uint64(2), "the short way goes on")
	})
}

// answerPrimary answers what is asked of a connection to the primary.
func answerPrimary(timeline *atomic.Int32) fakedb.Answer {
	engine := postgres.Engine{}
	return func(query string) ([]string, bool, error) {
		switch query {
		case engine.ProbeSQL():
			return []string{
				"false", strconv.FormatUint(fakenode.System, 10), "1", "0/5000", "0/5000", "0000000" + strconv.Itoa(int(timeline.Load())), "0", "8192", "16777216", "200000", "",
			}, true, nil
		case engine.SelfSQL():
			return []string{"1", "1"}, true, nil
		}
		return nil, false, nil
	}
}

// quickCluster is a cluster of one node, whose connections are those of a script.
func quickCluster(t *testing.T, node *fakenode.Node, script *fakedb.Script) *Cluster {
	t.Helper()
	m := monitor.Start(monitor.Config{
		Nodes: []monitor.Node{node.Watch()}, Engine: fakenode.Engine, Interval: 500 * time.Millisecond, ProbeTimeout: time.Second, MaxWaiters: 9, MaxLag: time.Minute,
	})
	t.Cleanup(m.Close)
	captures := monitor.StartCaptures(m)
	t.Cleanup(captures.Close)
	classifier, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
	require.NoError(t, err)
	pool := NewPool(PoolConfig{Name: "a", Connector: script.Connector(), Engine: postgres.Engine{}, Writer: true, MaxIdleConns: 4})
	return &Cluster{
		Name: "main", Classifier: classifier, Engine: postgres.Engine{}, Writers: []*Pool{pool}, Readers: []*Pool{pool},
		Router:   router.New(router.Config{Cluster: "main", Level: core.LevelSession, CaptureTimeout: time.Second, MaxLag: time.Minute}, m, captures, []string{"a"}),
		Shutdown: pool.Close,
	}
}

// TestSpeaksFor: a sample proves something for a connection that was there before it, to the same run of the same server.
func TestSpeaksFor(t *testing.T) {
	now := time.Now()
	start := core.Start{System: 7, At: 1}
	good := core.NodeView{Sample: core.Sample{Began: now, Start: start, Position: core.Position{Kind: core.KindPostgres, System: 7, Timeline: 1, LSN: 1}}}
	p := &physical{opened: now.Add(-time.Second), proof: core.Sample{Start: start}}
	speaks := func(p *physical, n core.NodeView) bool {
		return p.speaksFor(&core.Snapshot{Nodes: []core.NodeView{n}}, 0)
	}
	require.True(t, speaks(p, good))

	shared, restarted, hidden := good, good, good
	shared.Shared, restarted.Sample.Start.At, hidden.Sample.Position.Timeline = true, 2, 0
	require.False(t, speaks(p, shared), "another server may have answered")
	require.False(t, speaks(p, restarted))
	require.False(t, speaks(p, hidden), "nobody knows which history it is of")
	require.False(t, speaks(&physical{opened: now, proof: p.proof}, good), "the name may have led elsewhere")
}

// TestTakeAskingLeavesWhatIsNotFit: a connection to which something is to be done first stays parked for the long way, and is not asked.
func TestTakeAskingLeavesWhatIsNotFit(t *testing.T) {
	for name, unfit := range map[string]func(*Pool, *physical){
		"its driver cannot do all":          func(_ *Pool, c *physical) { c.able = nil },
		"statements are to be closed":       func(_ *Pool, c *physical) { c.litter.Store(true) },
		"its server is silent":              func(p *Pool, _ *physical) { p.silent.Store(true) },
		"several servers have its name":     func(p *Pool, _ *physical) { p.shared.Store(true) },
		"it is of another role than before": func(p *Pool, _ *physical) { p.epoch.Add(1) },
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := parkingPool(nil)
			require.NoError(t, checkout(t.Context(), p))
			c := parkedIn(p)
			require.NotNil(t, c.able)
			unfit(p, c)
			require.Nil(t, p.takeAsking(t.Context(), 1))
			require.Zero(t, c.busy.Load())
			if c.epoch == p.epoch.Load() {
				require.Same(t, c, parkedIn(p))
			} else {
				require.Nil(t, parkedIn(p))
			}
			p.silent.Store(false)
			require.NoError(t, p.Close())
			require.Zero(t, p.Stats().OpenConnections)
		})
	}
	p, _ := parkingPool(nil)
	require.NoError(t, checkout(t.Context(), p))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, p.takeAsking(ended, 1))
	c := p.takeAsking(t.Context(), 1)
	require.NotNil(t, c)
	require.EqualValues(t, busyAsking, c.busy.Load(), "the silence of its server ends what it is asked")
}

// countedResets counts how often a native connection is reset.
type countedResets struct {
	able
	n *int
}

func (c countedResets) ResetSession(context.Context) error { *c.n++; return nil }

// TestWhatWasReadOnJustNowIsNotLookedAt: where a driver only looks at a connection to reset it, that is spared for a moment after it was
// in use. Any other connection is reset each time.
func TestWhatWasReadOnJustNowIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := parkingPool(nil)
		require.NoError(t, checkout(t.Context(), p))
		resets := 0
		c := parkedIn(p)
		require.False(t, c.looks, "the driver is another one")
		c.able = countedResets{c.able, &resets}
		use := func(rest time.Duration) int {
			resets = 0
			time.Sleep(rest)
			c := p.takeAsking(t.Context(), 1)
			require.NotNil(t, c)
			c.busy.Store(busyNot)
			h := held{p: c, sc: c.sc}
			require.True(t, p.park(&h, 1))
			return resets
		}
		require.Equal(t, 1, use(0))
		require.Equal(t, 1, use(0))
		c.looks = true
		require.Equal(t, 1, use(shortRest), "it was not looked at before")
		require.Zero(t, use(0))
		require.Zero(t, use(shortRest-1))
		require.Equal(t, 1, use(shortRest))
		require.Zero(t, use(0))
		require.NoError(t, p.Close())
	})
}

// TestStatementForOneRunIsKept: whoever keeps a statement that was prepared for one run, as no *sql.DB does, has one that goes on running
// its own text, and closes it when it is given up.
func TestStatementForOneRunIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		var on []int
		var timeline atomic.Int32
		timeline.Store(1)
		open := map[string]int{}
		connector := &Connector{Cluster: quickCluster(t, fakenode.New("a", fakenode.State{LSN: 0x5000}), &fakedb.Script{
			Answer: answerPrimary(&timeline), Direct: true, Resetter: true, ConnChecker: true, SkipDirect: true,
			Prepare: func(_ int, query string) error {
				open[query]++
				return nil
			},
			CloseStmt: func(query string) { open[query]-- },
			Exec: func(_ context.Context, conn int, query string, _ []driver.NamedValue) (driver.Result, error) {
				ran, on = append(ran, query), append(on, conn)
				return driver.RowsAffected(1), nil
			},
		})}
		<-time.After(time.Second)
		virtual, err := connector.Connect(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, connector.Close()) }()
		w := virtual.(*Conn)
		require.True(t, w.IsValid()) // it was made for a checkout
		ctx := core.NewContext(t.Context(), &core.Options{Session: new(core.Session)})
		args := func() []driver.NamedValue { return []driver.NamedValue{{Ordinal: 1, Value: int64(1)}} }
		prepare := func(query string) *Stmt {
			t.Helper()
			require.NoError(t, w.ResetSession(ctx))
			_, err := w.ExecContext(ctx, query, args())
			require.Equal(t, driver.ErrSkip, err)
			stmt, err := w.PrepareContext(ctx, query)
			require.NoError(t, err)
			return stmt.(*Stmt)
		}
		run := func(stmt *Stmt) {
			t.Helper()
			_, err := stmt.ExecContext(ctx, args())
			require.NoError(t, err)
		}
		const first, second = "UPDATE t SET n = $1", "UPDATE t SET m = $1"
		for range 4 { // the text is known, and a connection parked
			stmt := prepare(first)
			run(stmt)
			require.NoError(t, stmt.Close())
			require.True(t, w.IsValid())
		}
		kept := prepare(first)
		require.Equal(t, stagePrepared, w.stage)
		run(kept)
		require.Equal(t, stageRan, w.stage)
		require.True(t, w.IsValid(), "it has not been closed")
		require.Equal(t, 1, open[first])
		connector.Cluster.Writers[0].Drop() // and it goes with its connection
		old := on[len(on)-1]
		open[first] = 0

		for range 4 {
			stmt := prepare(second)
			require.NoError(t, stmt.Close())
			require.True(t, w.IsValid())
		}
		stmt := prepare(second)
		require.Equal(t, stagePrepared, w.stage)
		ran, on = nil, nil
		run(kept)
		run(stmt)
		run(kept)
		require.Equal(t, []string{first, second, first}, ran)
		require.NotContains(t, on, old)
		require.NoError(t, kept.Close())
		require.NoError(t, stmt.Close())
		require.True(t, w.IsValid())
		require.Equal(t, map[string]int{first: 0, second: 0}, open)
		require.NoError(t, w.Close())
	})
}
