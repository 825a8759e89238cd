package readroute_test

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/check"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/simulation"
)

var (
	chaosFor   = flag.Duration("chaos.for", 8*time.Second, "how long the chaos tests break each cluster, at least")
	chaosReads = flag.Int("chaos.reads", 1000, "how many reads the chaos tests make on each cluster, at least")
	chaosSeed  = flag.Uint64("chaos.seed", 0, "what the chaos tests break, and when; 0 draws one. Real servers make of it what they will")
	chaosKeep  = flag.String("chaos.keep", "", "a folder where the chaos tests put what has happened, as JSON")
)

// The pools of the chaos tests, and who uses them.
const (
	chaosUsers    = 24
	chaosInterval = 50 * time.Millisecond
	chaosWait     = 50 * time.Millisecond
	// chaosPatience is what a machine that has much else to do may add to anything that is to be over in time.
	chaosPatience = 3 * time.Second
	// chaosAtMost bounds how long reads that are not enough yet, and faults that have not come, are waited for.
	chaosAtMost = 8 * time.Minute
)

func TestChaosPostgres(t *testing.T) {
	t.Parallel()
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2, WALSegmentMB: 1, Settings: map[string]string{"max_connections": "500"}})
	newChaos(t, simulation.Postgres, c.Nodes(), func(n *dbtest.PostgresNode, p *dbtest.Proxy) driver.Connector {
		return readroute.Postgres(n.DSNVia(p))
	}).run()
}

func TestChaosMySQL(t *testing.T) {
	t.Parallel()
	c := ownGTIDs(t, false, dbtest.MySQLOptions{Replicas: 2})
	newChaos(t, simulation.MySQL, c.Nodes(), mysqlVia).run()
}

func TestChaosMariaDB(t *testing.T) {
	t.Parallel()
	c := ownGTIDs(t, true, dbtest.MySQLOptions{Replicas: 2})
	newChaos(t, simulation.MariaDB, c.Nodes(), mysqlVia).run()
}

func mysqlVia(n *dbtest.MySQLNode, p *dbtest.Proxy) driver.Connector {
	return readroute.MySQL(n.DSNVia(p, watchful))
}

// chaosNode is a node of either kind of cluster, with all that can happen to it.
type chaosNode[N any] interface {
	server
	Addr() string
	IsRunning() bool
	Start(context.Context) error
	StopFast(context.Context) error
	Kill(context.Context) error
	Freeze(context.Context) error
	Thaw(context.Context) error
	Promote(context.Context) error
	Follow(context.Context, N) error
	Rebuild(context.Context, N) error
	Backup(context.Context) error
	Restore(context.Context) error
}

// broken is what is wrong with a node, and until when.
type broken struct {
	down, frozen, paused bool
	start, thaw, resume  time.Time
	follow, judge        time.Time // when it is told to follow the primary, and when it is looked at whether it does
	former, misplaced    bool      // it may take writes, and is the primary no more; it is to follow another
	returns              bool      // it was the primary before
	attempts             int
	backup               int // how many promotions there had been when a backup of it was made, and one; 0: there is none
}

// promotion is what a new primary had when it became one, between two moments, and when it was ready.
type promotion struct {
	node            string
	at, ready, seen time.Duration
	calm            bool // nothing was wrong on the way to it then, or for a while after
	has             map[int]bool
}

// chaos breaks a real cluster while sessions use it. One goroutine does all the breaking, so that the seed says what comes
// after what.
type chaos[N chaosNode[N]] struct {
	t       *testing.T
	engine  simulation.Engine
	rng     *rand.Rand
	rec     *check.Recorder
	nodes   []N
	bare    []*sql.DB // of the nodes, past the pools and their proxies
	wrong   []broken  // with the nodes
	primary int
	proxies []*dbtest.Proxy
	mended  []time.Time // with the proxies: when each is what it should be again
	astray  []bool      // with the proxies: it leads to another node
	load    *simulation.Workload
	splits  bool // the former primary may go on beside the new one

	deck, next []fault // what is still to go wrong before anything does again; what is to go wrong first of all
	promotions []promotion
	split      time.Duration // since when there are two primaries; -1 when there are not
	done       map[string]int
	marks      int

	mu    sync.Mutex
	story []string // guarded by mu
}

func newChaos[N chaosNode[N]](t *testing.T, engine simulation.Engine, nodes []N, connector func(N, *dbtest.Proxy) driver.Connector) *chaos[N] {
	t.Helper()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000)
	}
	t.Logf("-chaos.seed %d", seed)
	c := &chaos[N]{
		t: t, engine: engine, nodes: nodes, wrong: make([]broken, len(nodes)), split: -1, done: map[string]int{},
		rng: rand.New(rand.NewPCG(seed, 0)), rec: check.NewRecorder(),
	}
	ctx := testContext(t)
	require.NoError(t, nodes[0].Exec(ctx, engine.CreateTable()))
	name := "mysql"
	if engine == simulation.Postgres {
		name = "pgx"
	}
	for _, n := range nodes {
		db, err := sql.Open(name, n.AppDSN())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		db.SetMaxIdleConns(-1) // what lies idle dies with its server
		c.bare = append(c.bare, db)
	}
	pools := 1 + c.rng.IntN(2)
	c.splits = pools == 1 // a process that cannot know of the new primary yet reads from the former one
	c.load = &simulation.Workload{
		Record: c.rec, Engine: engine, Ops: 1 << 40, Pace: 40 * time.Millisecond, Grace: chaosPatience, Burst: 60, Looking: chaosUsers / 2,
	}
	window := time.Minute
	if seed%3 == 0 {
		window = 500 * time.Millisecond // replicas are late for longer
	}
	for pool := range pools {
		config := readroute.Config{
			Strategy: readroute.PositionWait(chaosWait), ProbeInterval: chaosInterval, ProbeTimeout: time.Second, StickyWindow: window,
		}
		config.Hooks = readroute.JoinHooks(simulation.Hooks(c.rec), readroute.Hooks{Event: func(e readroute.Event) {
			c.tell("pool %d: %s %s %s %v", pool, e.Kind, e.Node, e.Role, e.Err)
		}})
		for i, n := range nodes {
			p, err := dbtest.NewProxy(n.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			c.proxies, c.mended, c.astray = append(c.proxies, p), append(c.mended, time.Time{}), append(c.astray, false)
			node := readroute.Node{Name: n.Name(), Connector: connector(n, p), MaxIdleConns: 2 * chaosUsers}
			if i == 0 {
				config.Primary = node
			} else {
				config.Replicas = append(config.Replicas, node)
			}
		}
		c.labelled(func() { c.load.Pools = append(c.load.Pools, open(t, config)) })
	}
	return c
}

// labelled marks the goroutines that f starts, and those that they start: none of them may be left in the end.
func (c *chaos[N]) labelled(f func()) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("chaos", c.engine.String())))
	defer pprof.SetGoroutineLabels(context.Background())
	f()
}

// tell writes down what happens, for whoever looks into a violation.
func (c *chaos[N]) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.story = append(c.story, fmt.Sprintf("%s "+format, append([]any{c.rec.Now().Round(time.Millisecond)}, args...)...))
}

// tale is the last lines of the story, since a moment.
func (c *chaos[N]) tale(since time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.story, since, func(line string, at time.Duration) int {
		when, _, _ := strings.Cut(line, " ")
		d, _ := time.ParseDuration(when)
		return cmp.Compare(d, at)
	})
	return strings.Join(c.story[i:], "\n")
}

// run breaks the cluster for a while, mends it, and lets the checker judge.
func (c *chaos[N]) run() {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	seed := c.rng.Uint64()
	c.labelled(func() { wg.Go(func() { c.load.Run(ctx, chaosUsers, seed) }) })
	enough := func() bool {
		t := c.rec.Now()
		return t >= *chaosFor && c.rec.Reads() >= *chaosReads && c.missing() == "" || t >= *chaosFor+chaosAtMost
	}
	for next := time.Now(); !enough(); c.pause(20 * time.Millisecond) {
		c.mend()
		if time.Now().After(next) {
			c.strike()
			next = time.Now().Add(c.between(50*time.Millisecond, time.Second))
		}
	}
	stop()
	wg.Wait()
	c.heal()
	c.recovers()
	for _, db := range c.load.Pools {
		require.NoError(c.t, db.Close())
	}
	c.judge()
	c.nothingIsLeft()
}

func (c *chaos[N]) pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

func (c *chaos[N]) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

func (c *chaos[N]) after(least, most time.Duration) time.Time {
	return time.Now().Add(c.between(least, most))
}

// do does something to a node. What does not work then is part of the chaos, and counted.
func (c *chaos[N]) do(what string, i int, f func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	began := time.Now()
	err := f(ctx)
	c.tell("%s %s, in %s: %v", what, c.nodes[i].Name(), time.Since(began).Round(time.Millisecond), err)
	if err != nil {
		what += " that fails"
	}
	c.done[what]++
	return err == nil
}
