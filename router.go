package readroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/engine"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
	"github.com/readroute/readroute/internal/vconn"
)

// virtualIdleConns is the idle limit of the routed pool. Virtual connections cost nothing, and database/sql's default of
// 2 would make them anew all the time.
const virtualIdleConns = 4096

// readyPoll is how often WaitReady looks at what the monitor knows.
const readyPoll = 5 * time.Millisecond

// DB is a routed pool. The embedded *sql.DB is a real one: hand it to whatever takes a *sql.DB. Its statements are
// routed one by one. It is safe for concurrent use.
type DB struct {
	*sql.DB

	config     Config
	nodes      []Node
	monitor    *monitor.Monitor
	captures   *monitor.Captures
	router     *router.Router
	engine     *engine.Found
	marking    vconn.Marking // nil without Config.Marker
	classifier *sqlclass.Classifier
	cluster    *vconn.Cluster
	plain      plainPool
	catalogue  *catalogue // nil: not read
	shutdown   func() error
	closing    chan struct{} // closed by shutdown

	asked        chan struct{} // closed once the configured primary has been asked what it is, or could not be
	askedOnce    sync.Once
	capabilities []atomic.Pointer[[]string] // by node
}

// Open returns a routed pool over the nodes of config. It opens one pool a node from the node's Connector; [DB.Close],
// or Close of the embedded *sql.DB, closes exactly those. Open waits for no server: a node that is down is left out until
// it answers. WaitReady waits. The error for a bad configuration matches [ErrBadConfig] and names every problem.
func Open(config Config) (*DB, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	db := &DB{config: config, nodes: config.nodes(), closing: make(chan struct{}), asked: make(chan struct{})}
	db.capabilities = make([]atomic.Pointer[[]string], len(db.nodes))
	if err := db.classify(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	for i := range db.nodes {
		if c, ok := db.nodes[i].Connector.(interface{ pooled() driver.Connector }); ok && db.nodes[i].Pooled {
			db.nodes[i].Connector = c.pooled()
		}
	}
	strategy := config.Strategy.core(config.StickyWindow)

	db.cluster = &vconn.Cluster{
		Name:          config.Name,
		Classifier:    db.classifier,
		Engine:        db.engine,
		Marking:       db.marking,
		Strategy:      strategy,
		Process:       config.WithoutSession == WithoutSessionProcess,
		OnDiscard:     db.onDiscard,
		OnPooledState: db.onPooledState,
		Refusal:       db.refusal,

		CaptureTimeout: config.CaptureTimeout,
	}
	for i, n := range db.nodes {
		db.cluster.Readers = append(db.cluster.Readers, vconn.NewPool(db.pool(i, n, false)))
		if n.SharedEndpoint || n.Pooled {
			db.cluster.Readers[i].Share()
		}
		db.cluster.Writers = append(db.cluster.Writers, vconn.NewPool(db.pool(i, n, true)))
	}
	db.plain = plainPool{db: db}
	db.catalogue = newCatalogue(db)
	db.shutdown = sync.OnceValue(db.stop)
	db.cluster.Shutdown = db.shutdown

	db.monitor = monitor.Start(db.watch())
	db.captures = monitor.StartCaptures(db.monitor)
	db.router = router.New(db.routing(strategy), db.monitor, db.captures, names(db.nodes))
	db.cluster.Router = db.router
	db.DB = sql.OpenDB(&vconn.Connector{Cluster: db.cluster})
	db.SetMaxIdleConns(virtualIdleConns)
	db.warnOfConfig()
	db.catalogue.start()
	return db, nil
}

func names(nodes []Node) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.Name
	}
	return list
}

func (db *DB) pool(i int, n Node, writer bool) vconn.PoolConfig {
	return vconn.PoolConfig{
		Index:           i,
		Name:            n.Name,
		Connector:       n.Connector,
		Engine:          db.at(i),
		Writer:          writer,
		Pooled:          n.Pooled,
		DialTimeout:     db.config.ProbeTimeout,
		MaxOpenConns:    n.MaxOpenConns,
		MaxIdleConns:    n.MaxIdleConns,
		ConnMaxLifetime: n.ConnMaxLifetime,
		ConnMaxIdleTime: n.ConnMaxIdleTime,
		Judge:           func(s core.Sample) core.Sample { return db.monitor.Snapshot().Judge(i, s) },
		Proved:          func(s core.Sample) { db.monitor.Base(s) },
		Elsewhere:       func(s core.Sample) { db.elsewhere(i, s) },
		Dialled:         func(err error) { db.dialled(i, err) },
	}
}

// dialled hears how opening a connection to node i went. A node that cannot be dialled is out at once; one that is not
// what it was taken for is asked again.
func (db *DB) dialled(i int, err error) {
	switch {
	case err == nil:
	case errors.Is(err, vconn.ErrNotPrimary) || !db.engine.Down(err):
		db.monitor.Kick(i)
	default:
		db.monitor.Failed(i, err)
	}
}

// elsewhere hears of a connection to node i that does not lead to a primary, although the monitor's own does: there are several
// servers.
func (db *DB) elsewhere(i int, s core.Sample) {
	n := &db.monitor.Snapshot().Nodes[i]
	if n.Healthy && n.Role == core.RolePrimary && n.Sample.Start != s.Start && s.Began.After(n.Sample.Began) {
		db.monitor.Shared(i)
	}
}

func (db *DB) watch() monitor.Config {
	c := monitor.Config{
		Engine:       db.engine,
		Interval:     db.config.ProbeInterval,
		ProbeTimeout: db.config.ProbeTimeout,
		MaxWaiters:   db.config.MaxWaiters,
		MaxLag:       db.config.MaxLag,
		OnEvent:      db.onNode,
	}
	for i, n := range db.nodes {
		c.Nodes = append(c.Nodes, monitor.Node{
			Name:   n.Name,
			Zone:   db.config.zone(n),
			Weight: uint32(min(n.Weight, 1<<20)),
			Shared: n.SharedEndpoint || n.Pooled,
			Blind:  n.SharedEndpoint && n.Pooled,
			Pooled: n.Pooled,
			Dial:   db.dialer(i),
		})
	}
	return c
}

func (db *DB) routing(strategy core.Strategy) router.Config {
	c := router.Config{
		Cluster:        db.config.Name,
		Strategy:       strategy,
		Level:          core.Level(db.config.Level),
		WithoutSession: router.WithoutSession(db.config.WithoutSession),
		Fallback:       core.Fallback(db.config.Fallback),
		MaxLag:         db.config.MaxLag,
		CaptureTimeout: db.config.CaptureTimeout,
		FallbackLimit:  db.config.FallbackLimit,
		OnVerdict:      db.onVerdict,
		OnAhead:        func() { db.event(Event{Kind: EventReadAhead}) },
	}
	for _, n := range db.nodes {
		c.Tags = append(c.Tags, n.Tags)
	}
	if hook := db.config.Hooks.Decision; hook != nil {
		c.OnDecision = func(ctx context.Context, d *router.Decided) { hook(ctx, db.decision(d)) }
	}
	return c
}

// decision turns the router's answer into the public one.
func (db *DB) decision(d *router.Decided) Decision {
	out := Decision{
		Role:      Role(d.Role),
		Reason:    Reason(d.Reason),
		Class:     Class(d.Class),
		Level:     Level(d.Level),
		Waited:    d.Waited,
		Retry:     Retry(d.Retry),
		WouldWait: d.WouldWait,
		Err:       d.Err,
	}
	if d.Node >= 0 {
		out.Node = db.nodes[d.Node].Name
	}
	out.Shadow = db.shadow(d.Shadow)
	return out
}

// stop ends everything behind the routed pool.
func (db *DB) stop() error {
	close(db.closing)
	db.router.Close()
	db.captures.Close()
	db.monitor.Close()
	errs := []error{db.catalogue.close(), db.plain.close()}
	for i := range db.nodes {
		errs = append(errs, db.cluster.Readers[i].Close(), db.cluster.Writers[i].Close())
	}
	return errors.Join(errs...)
}

// Close closes the pool as (*sql.DB).Close does, and every node's pool with it. It stops all goroutines and waits for
// them, at most for the answer of a connector that does not honour its context. Statements that run go on; later ones
// get the error of a closed *sql.DB. It may be called more than once.
func (db *DB) Close() error { return db.DB.Close() }

// Explain says where a statement would go now, with the session, level and other choices of ctx, and why. It runs
// nothing, asks no server and waits for nothing: when the statement would have to wait first, WouldWait is true and the
// rest is what comes of a wait that succeeds. It supposes a statement of its own, outside any transaction. The error
// says why the statement would run nowhere.
func (db *DB) Explain(ctx context.Context, query string) (Decision, error) {
	st := db.classifier.Classify(query)
	var d router.Decided
	db.router.Route(ctx, &router.Request{
		Class:   core.Class(st.Class),
		Hint:    core.Hint(st.Hint),
		Replica: core.AnyNode,
		Dry:     true,
	}, &d)
	d.Err = db.refusal(d.Err)
	return db.decision(&d), d.Err
}

// WaitReady waits until every node has been asked once and there is a primary and, if replicas are configured, a replica
// that may serve reads. It returns the error of ctx, with what is missing, when that ends first.
func (db *DB) WaitReady(ctx context.Context) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		missing := db.missing()
		if missing == "" && !db.isClosing() {
			return nil
		}
		select {
		case <-ticker.C:
		case <-db.closing:
			return db.closed(ctx)
		case <-ctx.Done():
			return fmt.Errorf("readroute: wait for cluster %q: %s: %w", db.config.Name, missing, ctx.Err())
		}
	}
}

func (db *DB) isClosing() bool {
	select {
	case <-db.closing:
		return true
	default:
		return false
	}
}

func (db *DB) missing() string {
	s := db.monitor.Snapshot()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Role == core.RoleUnknown && n.Failures == 0 {
			return fmt.Sprintf("node %q has not been asked yet", n.Name)
		}
	}
	if !s.PrimaryUp {
		return "no primary answers"
	}
	if len(db.config.Replicas) == 0 {
		return ""
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Role == core.RoleReplica && n.Healthy && !n.Stopped && s.WithinLag(n, db.config.MaxLag) {
			if db.catalogue.pending() {
				return "the primary's catalogue has not been read yet"
			}
			return ""
		}
	}
	return "no replica answers that is within MaxLag"
}

// Fence makes the session of ctx need everything that is committed when Fence is called, by anyone: what a worker calls
// when its job was written inside a transaction, where no token could exist yet. It blocks for one coalesced position
// read on the primary, for at most CaptureTimeout, or until ctx ends. The session is held to that position in any case: while
// the primary has not told it, reads wait for it as they do after a write, and run on the primary. So a primary that does not answer is
// no error of Fence. The end of ctx is one, and so is a closed pool, with the error of a closed *sql.DB. Without a session in ctx it
// returns an error and does nothing. A fence is no write: [Codec.Inject], and an answer to a request that wrote, carry what it asks for; to
// one that only fenced, [Codec.Middleware], Reply and Save tell nothing.
func (db *DB) Fence(ctx context.Context) error {
	s := SessionFrom(ctx)
	if s == nil {
		return errors.New("readroute: Fence: the context carries no session; make one with WithSession")
	}
	err := db.router.Fence(ctx, &s.core)
	if errors.Is(err, monitor.ErrClosed) || db.isClosing() {
		return db.closed(ctx)
	}
	return err
}

// closed returns the error of a closed *sql.DB, once the routed pool is closing.
func (db *DB) closed(ctx context.Context) error { return db.PingContext(context.WithoutCancel(ctx)) }

// MayCache reports whether what a read in ctx shows may be put into a cache that others read from. It may when the read shows
// everything that was committed before it began: [LevelGlobal], [LevelPrimary], or no session where that means the primary. It may not
// when a lagging replica may serve it: that would put back what was just invalidated, for as long as the cache keeps it. So it is
// at [LevelSession] and [LevelCausal], also after [DB.Fence], which may have been before the invalidation: fill with [LevelGlobal],
// which costs the same.
//
// It asks no server, and speaks of reads outside of transactions: in one a read shows what was there when it began, and the
// transaction's own writes, which may be rolled back. That the value was read before a later invalidation, and is stored after it, it
// cannot know either: that is for the cache (a version, or a short life).
func (db *DB) MayCache(ctx context.Context) bool { return db.router.MayCache(ctx) }
