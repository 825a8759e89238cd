package simulation

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/check"
)

// Workload lets sessions read and write through routed pools, and writes down what they see. It needs a table kv of two
// numbers, k and v, and works on a simulated cluster as well as on a real one.
type Workload struct {
	Pools  []*readroute.DB // of a process each
	Record *check.Recorder
	Engine Engine
	Ops    int64 // how many operations, about
	// Pace is how long a session rests between two operations, at most.
	Pace time.Duration
	// Grace is how long an operation may go on when the time that its context gives it is over.
	Grace time.Duration
	// Burst is how many reads a session makes in a row now and then, at most; 0: it does not. Looking are users who only read, and
	// mostly so: they go on when no write can be made.
	Burst, Looking int

	texts    texts
	begun    atomic.Int64
	sessions atomic.Int64
	versions atomic.Int64

	mu      sync.Mutex
	rng     *rand.Rand
	active  []int // keys
	filled  []int // how many versions each has
	next    int
	mailbox []letter
}

// CreateTable is the statement that makes the table that a workload needs.
func (e Engine) CreateTable() string { return textsOf(e).create }

// letter is a token that a session has left for others.
type letter struct {
	token readroute.Token
	op    int
}

// The keys that are in use at a time, and how many versions one gets.
const (
	activeKeys  = 8
	keyVersions = 12
	letters     = 16
)

// Hooks are what a pool of the workload must have among its own.
func Hooks(rec *check.Recorder) readroute.Hooks {
	return readroute.Hooks{
		Decision: func(ctx context.Context, d readroute.Decision) {
			if id, ok := check.FromContext(ctx); ok {
				rec.Route(id, check.Route{Node: d.Node, Replica: d.Role == readroute.RoleReplica, Reason: d.Reason.String()})
			}
		},
		Event: func(e readroute.Event) {
			switch e.Kind {
			case readroute.EventPositionLost, readroute.EventPositionEnded, readroute.EventPositionForeign:
				rec.Report()
			case readroute.EventReadAhead:
				rec.Ahead()
			default:
			}
		},
	}
}

// Run lets users sessions work at a time until all operations are done or ctx ends. The same seed does the same as far as
// the pools do.
func (w *Workload) Run(ctx context.Context, users int, seed uint64) {
	w.texts, w.rng = textsOf(w.Engine), rand.New(rand.NewPCG(seed, 3))
	for range activeKeys {
		w.active, w.filled = append(w.active, w.next), append(w.filled, 0)
		w.next++
	}
	var wg sync.WaitGroup
	for i := range users {
		u := &user{w: w, rng: rand.New(rand.NewPCG(seed, uint64(100+i))), looks: i < w.Looking}
		wg.Go(func() { u.run(ctx) })
	}
	wg.Wait()
}

// write draws a key to write to, and a new version of it.
func (w *Workload) write() (key, version int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.rng.IntN(len(w.active))
	key, version = w.active[i], int(w.versions.Add(1))
	if w.filled[i]++; w.filled[i] >= keyVersions {
		w.active[i], w.filled[i] = w.next, 0
		w.next++
	}
	return key, version
}

func (w *Workload) anyKey() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active[w.rng.IntN(len(w.active))]
}

func (w *Workload) leave(l letter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mailbox) < letters {
		w.mailbox = append(w.mailbox, l)
	} else {
		w.mailbox[w.rng.IntN(letters)] = l
	}
}

func (w *Workload) letter() (letter, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mailbox) == 0 {
		return letter{}, false
	}
	return w.mailbox[w.rng.IntN(len(w.mailbox))], true
}

// user is one session after the other.
type user struct {
	w       *Workload
	rng     *rand.Rand
	db      *readroute.DB
	session int
	ctx     context.Context // with the session
	recent  []int           // keys that the session has to do with
	looks   bool            // it only reads
}

func (u *user) run(ctx context.Context) {
	for left := 0; ctx.Err() == nil && u.w.begun.Load() < u.w.Ops; left-- {
		if left == 0 {
			left = 1 + u.rng.IntN(40)
			u.begin(ctx)
		}
		u.rest(ctx)
		if ctx.Err() == nil {
			u.act()
		}
	}
}

// begin begins a session, in some process.
func (u *user) begin(ctx context.Context) {
	u.db = u.w.Pools[u.rng.IntN(len(u.w.Pools))]
	u.session = int(u.w.sessions.Add(1))
	u.ctx = readroute.WithSession(ctx)
	u.recent = u.recent[:0]
	if u.rng.IntN(2) == 0 {
		u.merge()
	}
}

// rest pauses, mostly for no time worth mentioning.
func (u *user) rest(ctx context.Context) {
	most := u.w.Pace
	switch u.rng.IntN(10) {
	case 0:
	case 1, 2, 3:
		most /= 20
	default:
		most /= 400
	}
	timer := time.NewTimer(time.Duration(u.rng.Int64N(int64(most) + 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// act does one thing.
func (u *user) act() {
	switch {
	case u.looks:
		u.look()
		return
	case u.w.Burst > 0 && u.rng.IntN(4) == 0:
		u.burst()
		return
	}
	switch n := u.rng.IntN(100); {
	case n < 55:
		u.read()
	case n < 70:
		u.write()
	case n < 76:
		u.transaction()
	case n < 80:
		u.readOnly()
	case n < 84:
		u.conn()
	case n < 87:
		u.prepared()
	case n < 90:
		u.returning()
	case n < 92:
		u.native()
	case n < 96:
		u.token()
	case n < 98:
		u.fence()
	default:
		u.merge()
	}
}

// begun is an operation that is under way.
type begun struct {
	id  int
	ctx context.Context
	end context.CancelFunc
}

// limits are how long operations may take.
var limits = []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 5 * time.Second}

// operation begins one, within a time that it may take.
func (u *user) operation(ctx context.Context, o check.Op, given ...time.Duration) begun {
	u.w.begun.Add(1)
	limit := limits[u.rng.IntN(len(limits))]
	if len(given) > 0 {
		limit = given[0]
	}
	limit += time.Duration(u.rng.IntN(1_000_000)) // not to end with anything else
	o.Session, o.Limit = u.session, limit+u.w.Grace
	b := begun{id: u.w.Record.Begin(o)}
	b.ctx, b.end = context.WithTimeout(check.NewContext(ctx, b.id), limit)
	return b
}

func (u *user) done(b begun, outcome check.Outcome, err error, saw ...int) {
	b.end()
	u.w.Record.End(b.id, outcome, err, saw...)
}

// outcome is what the error of a write says.
func outcome(err error) check.Outcome {
	switch {
	case err == nil:
		return check.OK
	case errors.Is(err, readroute.ErrCommitUnknown):
		return check.Unknown
	}
	return check.Failed
}

func (u *user) remember(key int) {
	if u.recent = append(u.recent, key); len(u.recent) > 6 {
		u.recent = u.recent[1:]
	}
}

// key draws one to read, mostly one that the session has to do with.
func (u *user) key() int {
	if n := len(u.recent); n > 0 && u.rng.IntN(4) > 0 {
		return u.recent[u.rng.IntN(n)]
	}
	return u.w.anyKey()
}

// level draws what a read is promised, and says so to the pool.
func (u *user) level(ctx context.Context) (context.Context, check.Op) {
	with := func(l readroute.Level, o check.Op) (context.Context, check.Op) { return readroute.WithLevel(ctx, l), o }
	switch n := u.rng.IntN(20); n {
	case 0:
		return with(readroute.LevelEventual, check.Op{Level: check.Eventual})
	case 1:
		return with(readroute.LevelPrimary, check.Op{Level: check.Primary})
	case 2, 3:
		return with(readroute.LevelGlobal, check.Op{Level: check.Global})
	case 4, 5:
		d := time.Duration(1+u.rng.Int64N(3_000)) * time.Millisecond
		return with(readroute.LevelBounded(d), check.Op{Level: check.Bounded, Within: d})
	case 6, 7, 8, 9, 10, 11:
		return with(readroute.LevelCausal, check.Op{Level: check.Causal})
	}
	return with(readroute.LevelSession, check.Op{Level: check.Session})
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// read reads a key, in a statement of its own.
func (u *user) read() {
	ctx, o := u.level(u.ctx)
	switch u.rng.IntN(12) {
	case 0:
		ctx = readroute.WithWait(ctx, time.Duration(u.rng.IntN(50))*time.Millisecond)
	case 1:
		ctx = readroute.WithFallback(ctx, readroute.FallbackError)
	case 2:
		ctx, o = readroute.WithFallback(ctx, readroute.FallbackStale), check.Op{Level: check.Eventual}
	case 3:
		if nodes := u.db.Nodes(); len(nodes) > 0 {
			ctx = readroute.WithNode(ctx, nodes[u.rng.IntN(len(nodes))].Name)
		}
	}
	u.readBy(ctx, u.db, o)
}

// readBy reads a key through a pool, a connection or a transaction, at the level of o. own are versions that the transaction
// has written itself, and that nobody else sees yet.
func (u *user) readBy(ctx context.Context, db queryer, o check.Op, own ...int) {
	o.Kind, o.Key, o.Statements = check.Read, u.key(), 1
	u.remember(o.Key)
	b := u.operation(ctx, o)
	saw, err := values(db.QueryContext(b.ctx, u.w.texts.read, o.Key))
	saw = slices.DeleteFunc(saw, func(v int) bool { return slices.Contains(own, v) })
	u.done(b, outcome(err), err, saw...)
}

// values reads a column of numbers.
func values(rows *sql.Rows, err error) ([]int, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int
	for rows.Next() {
		var v int
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return list, rows.Close()
}
