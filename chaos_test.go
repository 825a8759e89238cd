package readroute_test

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"flag"
	"fmt"
	"math/rand/v2"
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
	chaosFor  = flag.Duration("chaos.for", 8*time.Second, "how long the chaos tests break each cluster")
	chaosSeed = flag.Uint64("chaos.seed", 0, "what the chaos tests break, and when; 0 draws one. Real servers make of it what they will")
)

func TestChaosPostgres(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2, WALSegmentMB: 1})
	newChaos(t, simulation.Postgres, c.Nodes(), func(n *dbtest.PostgresNode, p *dbtest.Proxy) driver.Connector {
		return readroute.Postgres(n.DSNVia(p))
	}).run()
}

func TestChaosMySQL(t *testing.T) {
	c := ownGTIDs(t, false, dbtest.MySQLOptions{Replicas: 2})
	newChaos(t, simulation.MySQL, c.Nodes(), mysqlVia).run()
}

func TestChaosMariaDB(t *testing.T) {
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
}

// broken is what is wrong with a node, and until when.
type broken struct {
	down, frozen, paused bool
	start, thaw, resume  time.Time
	follow, judge        time.Time // when it is told to follow the primary, and when it is looked at whether it does
	former, misplaced    bool      // it may take writes, and is the primary no more; it is to follow another
	attempts             int
	id                   int // MariaDB: another one since it was made anew; 0: its first
}

// promotion is what a new primary had when it became one, between two moments.
type promotion struct {
	node     string
	at, seen time.Duration
	has      map[int]bool
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
	load    *simulation.Workload
	splits  bool // the former primary may go on beside the new one

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
	c.load = &simulation.Workload{Record: c.rec, Engine: engine, Ops: 1 << 40, Pace: 300 * time.Millisecond, Grace: 3 * time.Second}
	for pool := range pools {
		config := readroute.Config{
			Strategy: readroute.PositionWait(50 * time.Millisecond), ProbeInterval: 50 * time.Millisecond, ProbeTimeout: time.Second,
			StickyWindow: time.Minute,
		}
		config.Hooks = readroute.JoinHooks(simulation.Hooks(c.rec), readroute.Hooks{Event: func(e readroute.Event) {
			c.tell("pool %d: %s %s %s %v", pool, e.Kind, e.Node, e.Role, e.Err)
		}})
		for i, n := range nodes {
			p, err := dbtest.NewProxy(n.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			c.proxies, c.mended = append(c.proxies, p), append(c.mended, time.Time{})
			node := readroute.Node{Name: n.Name(), Connector: connector(n, p)}
			if i == 0 {
				config.Primary = node
			} else {
				config.Replicas = append(config.Replicas, node)
			}
		}
		c.load.Pools = append(c.load.Pools, open(t, config))
	}
	return c
}

// tell writes down what happens, for whoever looks into a violation.
func (c *chaos[N]) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.story = append(c.story, fmt.Sprintf("%s "+format, append([]any{c.rec.Now().Round(time.Millisecond)}, args...)...))
}

// run breaks the cluster for a while, mends it, and lets the checker judge.
func (c *chaos[N]) run() {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), *chaosFor)
	defer stop()
	var wg sync.WaitGroup
	seed := c.rng.Uint64()
	wg.Go(func() { c.load.Run(ctx, 8, seed) })
	for next := time.Now(); ctx.Err() == nil; c.pause(20 * time.Millisecond) {
		c.mend()
		if time.Now().After(next) {
			c.strike()
			next = time.Now().Add(c.between(50*time.Millisecond, 700*time.Millisecond))
		}
	}
	wg.Wait()
	c.heal()
	c.recovers()
	for _, db := range c.load.Pools {
		require.NoError(c.t, db.Close())
	}
	c.judge()
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

// strike makes something go wrong.
func (c *chaos[N]) strike() {
	i := c.rng.IntN(len(c.nodes))
	n, w := c.nodes[i], &c.wrong[i]
	p := c.rng.IntN(len(c.proxies))
	proxy := c.proxies[p]
	free := !w.down && !w.frozen
	switch kind := c.rng.IntN(12); {
	case kind < 2 && free && i != c.primary && !w.paused && !w.former:
		w.paused = c.do("pause the replay of", i, n.PauseReplay)
		w.resume = c.after(50*time.Millisecond, 1500*time.Millisecond)
	case kind == 2 && free:
		w.frozen = c.do("freeze", i, n.Freeze)
		w.thaw = c.after(10*time.Millisecond, 1500*time.Millisecond)
	case kind == 3 && free && !w.former:
		w.down = c.do("kill", i, n.Kill)
		w.start, w.paused = c.after(10*time.Millisecond, time.Second), false
	case kind == 4 && free && !w.former:
		w.down = c.do("stop", i, n.StopFast)
		w.start, w.paused = c.after(10*time.Millisecond, time.Second), false
	case kind == 5:
		c.tell("cut connections to %s", c.nodes[p%len(c.nodes)].Name())
		proxy.Cut()
		c.done["cut connections to"]++
	case kind == 6:
		c.tell("make a hole before %s", c.nodes[p%len(c.nodes)].Name())
		proxy.Stall(true)
		c.mended[p] = c.after(10*time.Millisecond, time.Second)
		c.done["make a hole before"]++
	case kind == 7:
		proxy.SetDelay(c.between(time.Millisecond, 60*time.Millisecond))
		c.mended[p] = c.after(100*time.Millisecond, 2*time.Second)
		c.done["slow down"]++
	case kind == 8:
		what := []string{"INSERT", "COMMIT", "SELECT v"}[c.rng.IntN(3)]
		proxy.OnClientData(dbtest.Once(what, []dbtest.Verdict{dbtest.CutBefore, dbtest.CutAfter, dbtest.CutAfter}[c.rng.IntN(3)]))
		c.done["lose the answer to "+what]++
	case kind >= 9:
		c.failover()
	}
}

// failover makes another node the primary.
func (c *chaos[N]) failover() {
	var candidates []int
	for i, w := range c.wrong {
		if i == c.primary {
			if w.down || w.frozen {
				return // one thing at a time, for the truth must be known
			}
			continue
		}
		if !w.down && !w.frozen && !w.former && !w.misplaced {
			candidates = append(candidates, i)
		}
	}
	if len(candidates) == 0 || c.split >= 0 {
		return
	}
	next, old := candidates[c.rng.IntN(len(candidates))], c.primary
	former := &c.wrong[old]
	way := c.rng.IntN(4)
	if !c.splits {
		way %= 2
	}
	switch way {
	case 0:
		former.down = c.do("stop for good", old, c.nodes[old].StopFast)
	case 1:
		former.down = c.do("kill for good", old, c.nodes[old].Kill)
	case 2:
		former.frozen = c.do("freeze for a failover", old, c.nodes[old].Freeze)
	}
	if way < 2 && !former.down {
		return // it has not ended
	}
	c.pause(c.between(time.Millisecond, 500*time.Millisecond))
	p := promotion{node: c.nodes[next].Name(), at: c.rec.Now()}
	if way >= 2 {
		c.split = p.at
	}
	*former = broken{
		id: former.id, down: former.down, frozen: former.frozen, former: true, misplaced: true,
		start: time.Now().Add(time.Hour), thaw: c.after(50*time.Millisecond, time.Second), follow: c.after(time.Millisecond, 2*time.Second),
	}
	if !c.do("promote", next, c.nodes[next].Promote) {
		c.t.Fatalf("no primary can be made:\n%s", c.tale(0))
	}
	c.primary, c.wrong[next] = next, broken{id: c.wrong[next].id}
	p.has, p.seen = c.versions(next), c.rec.Now()
	c.promotions = append(c.promotions, p)
	for i := range c.wrong {
		if i != next && i != old {
			c.wrong[i].follow, c.wrong[i].misplaced = c.after(0, time.Second), true
		}
	}
}

// versions are those that a node shows.
func (c *chaos[N]) versions(i int) map[int]bool {
	has := map[int]bool{}
	for _, v := range c.list(i) {
		has[v] = true
	}
	return has
}

func (c *chaos[N]) list(i int) []int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rows, err := c.bare[i].QueryContext(ctx, "SELECT v FROM kv WHERE k >= 0")
	require.NoError(c.t, err)
	defer rows.Close()
	var list []int
	for rows.Next() {
		var v int
		require.NoError(c.t, rows.Scan(&v))
		list = append(list, v)
	}
	require.NoError(c.t, rows.Err())
	return list
}

// mend ends what has been wrong for long enough.
func (c *chaos[N]) mend() {
	now := time.Now()
	for i := range c.proxies {
		if at := c.mended[i]; !at.IsZero() && now.After(at) {
			c.proxies[i].Stall(false)
			c.proxies[i].SetDelay(0)
			c.mended[i] = time.Time{}
		}
	}
	for i := range c.nodes {
		c.mendNode(i, now)
	}
}

func (c *chaos[N]) mendNode(i int, now time.Time) {
	n, w, primary := c.nodes[i], &c.wrong[i], &c.wrong[c.primary]
	switch {
	case w.frozen:
		if now.After(w.thaw) && c.do("thaw", i, n.Thaw) {
			w.frozen = false
		}
	case w.down && !w.misplaced:
		if now.After(w.start) && c.do("start", i, n.Start) {
			w.down = false
			c.identify(i)
		}
	case w.paused && now.After(w.resume):
		w.paused = !c.do("resume the replay of", i, n.ResumeReplay)
	case primary.down || primary.frozen:
	case !w.follow.IsZero() && now.After(w.follow):
		if c.do("follow by", i, func(ctx context.Context) error { return n.Follow(ctx, c.nodes[c.primary]) }) {
			w.down, w.follow, w.judge = false, time.Time{}, c.after(300*time.Millisecond, 2*time.Second)
			c.identify(i)
			c.replaced(i)
		} else if w.attempts++; w.attempts > 2 {
			w.follow, w.judge = time.Time{}, now
		}
	case !w.judge.IsZero() && now.After(w.judge):
		if c.follows(i) {
			w.misplaced, w.judge = false, time.Time{}
		} else if c.do("rebuild", i, func(ctx context.Context) error { return n.Rebuild(ctx, c.nodes[c.primary]) }) {
			*w = broken{id: firstNewID + c.done["rebuild"]}
			c.identify(i)
			c.replaced(i)
		}
	}
}

// firstNewID is above the ids that the servers begin with.
const firstNewID = 1000

// identify gives a server of MariaDB that was made anew the id that it has since: under the former's, what that had written and
// lost would be taken for its own, and the numbers come again.
func (c *chaos[N]) identify(i int) {
	if id := c.wrong[i].id; id > 0 && c.engine == simulation.MariaDB {
		c.do("name", i, func(ctx context.Context) error {
			return c.nodes[i].Exec(ctx, fmt.Sprintf("SET GLOBAL server_id = %d", id))
		})
	}
}

// replaced is called when a node is no primary any more.
func (c *chaos[N]) replaced(i int) {
	c.wrong[i].former = false
	if c.split >= 0 && !slices.ContainsFunc(c.wrong, func(w broken) bool { return w.former }) {
		from := c.split
		c.split = -1
		c.rec.Truth(func(h *check.History) { h.Split = append(h.Split, check.Span{From: from, To: c.rec.Now()}) })
	}
}

// follows reports that a node has all that the primary shows, and receives what is written now.
func (c *chaos[N]) follows(i int) bool {
	if c.wrong[i].down || !c.nodes[i].IsRunning() {
		return false
	}
	c.marks++
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := c.bare[c.primary].ExecContext(ctx, fmt.Sprintf("INSERT INTO kv (k, v) VALUES (-2, %d)", c.marks)); err != nil {
		c.tell("mark: %v", err)
		return false
	}
	want := c.versions(c.primary)
	for ; ctx.Err() == nil; c.pause(20 * time.Millisecond) {
		var marked int
		err := c.bare[i].QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM kv WHERE k = -2 AND v = %d", c.marks)).Scan(&marked)
		if err != nil || marked == 0 {
			continue
		}
		has := c.versions(i)
		for v := range want {
			if !has[v] {
				c.tell("%s lacks version %d", c.nodes[i].Name(), v)
				return false
			}
		}
		return true
	}
	c.tell("%s does not follow", c.nodes[i].Name())
	return false
}

// heal ends all that is wrong.
func (c *chaos[N]) heal() {
	for i := range c.proxies {
		c.mended[i] = time.Now().Add(-time.Second)
		c.proxies[i].OnClientData(nil)
	}
	whole := func() bool {
		return !slices.ContainsFunc(c.wrong, func(w broken) bool { return w.down || w.frozen || w.paused || w.misplaced })
	}
	for deadline := time.Now().Add(40 * time.Second); !whole(); c.pause(10 * time.Millisecond) {
		require.Truef(c.t, time.Now().Before(deadline), "the cluster cannot be mended: %+v\n%s", c.wrong, c.tale(0))
		past := time.Now().Add(-time.Second)
		for i := range c.wrong {
			w := &c.wrong[i]
			w.thaw, w.start, w.resume = past, past, past
			for _, at := range []*time.Time{&w.follow, &w.judge} {
				if !at.IsZero() {
					*at = past
				}
			}
		}
		c.mend()
	}
	c.mend()
}

// recovers demands that every pool has its fresh reads served by replicas again.
func (c *chaos[N]) recovers() {
	for i, db := range c.load.Pools {
		ctx := readroute.WithFallback(readroute.WithWait(sessionContext(c.t), 5*time.Second), readroute.FallbackError)
		insert, read := "INSERT INTO kv (k, v) VALUES (-1, 1)", "SELECT count(*) FROM kv WHERE k = -1"
		began := time.Now()
		for {
			_, err := db.ExecContext(ctx, insert)
			if err == nil {
				err = db.QueryRowContext(ctx, read).Scan(new(int))
			}
			if err == nil {
				break
			}
			require.Lessf(c.t, time.Since(began), 45*time.Second, "pool %d does not recover: %v\n%s", i, err, c.tale(0))
			c.pause(50 * time.Millisecond)
		}
	}
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

// judge finds out what is true, and lets the checker compare.
func (c *chaos[N]) judge() {
	final := map[int]int{}
	for _, v := range c.list(c.primary) {
		final[v]++
	}
	h := c.rec.History()
	name := c.nodes[c.primary].Name()
	lost := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		if o.Kind != check.Write {
			continue
		}
		switch times := final[o.Version]; {
		case times > 0:
			for range times {
				h.Runs = append(h.Runs, check.Run{Op: o.ID, Node: name, Primary: true, Wrote: true})
			}
			if o.Outcome != check.Unknown { // since when that stands, only those know that have read it
				h.Commits = append(h.Commits, check.Commit{Version: o.Version, At: o.End})
			}
		case o.Outcome != check.Failed:
			at, ok := c.lost(o)
			if !ok && o.Outcome == check.OK {
				c.t.Errorf("version %d was acknowledged by the primary, and is gone without a failover: %+v", o.Version, o)
			}
			h.Losses = append(h.Losses, check.Loss{Version: o.Version, At: at})
			if o.Outcome == check.OK {
				lost++
			}
		}
	}
	violations := h.Verify()
	c.report(h, lost)
	for i, v := range violations {
		if i == 3 {
			break
		}
		since := time.Duration(0)
		if v.Op >= 0 {
			since = h.Ops[v.Op].Begin - 6*time.Second
		}
		c.t.Errorf("%s\n%s", h.Describe(v), c.tale(since))
	}
	require.Empty(c.t, len(violations), "violations")
}

// lost says when a write that does not stand in the end was lost: with the first new primary that did not have it, or when it was made, on a
// former one. ok is false when neither can be.
func (c *chaos[N]) lost(o *check.Op) (at time.Duration, ok bool) {
	on, primary := "", c.nodes[0].Name()
	if len(o.Routes) > 0 {
		on = o.Routes[len(o.Routes)-1].Node
	}
	made := false // on what was the primary then
	for _, p := range c.promotions {
		if p.seen < o.Begin {
			primary = p.node
			continue
		}
		switch {
		case !made && on == primary:
			made = true
		case !made && on == p.node && p.at <= o.End:
			made = true
			continue // perhaps after we had looked what there was
		}
		if made && !p.has[o.Version] {
			return max(p.at, o.Begin), true
		}
	}
	return o.Begin, !made && on != primary
}

// report says what there was to judge, and demands that there was something.
func (c *chaos[N]) report(h *check.History, lost int) {
	var reads, writes, unknown, replica int
	var slowest time.Duration
	for i := range h.Ops {
		switch o := &h.Ops[i]; o.Kind {
		case check.Read:
			if o.Outcome == check.OK && len(o.Routes) > 0 {
				reads++
				slowest = max(slowest, o.End-o.Begin)
				if o.Routes[len(o.Routes)-1].Replica {
					replica++
				}
			}
		case check.Write:
			switch o.Outcome {
			case check.OK:
				writes++
			case check.Unknown:
				unknown++
			case check.Failed, check.Pending:
			}
		case check.Token, check.Merge, check.Fence, check.Other:
		}
	}
	c.t.Logf("%d operations of %d processes: %d reads, %d of them by replicas, the slowest in %s; %d writes, %d of them lost, and %d of unknown outcome; %d failovers; %v",
		len(h.Ops), len(c.load.Pools), reads, replica, slowest.Round(time.Millisecond), writes, lost, unknown, len(c.promotions), c.done)
	require.Positive(c.t, replica)
	require.Positive(c.t, writes)
}
