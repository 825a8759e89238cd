package replicatest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest/internal/fleet"
)

// Reporter is what [RequireNoStaleReads] needs of a test. A *testing.T is one. One that has a Cleanup method as well is told at the end of the test
// by itself.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// RequireNoStaleReads watches the reads of a pool that [Cluster.Open] has opened, from now on, and fails the test for each place in the
// code whose reads
//
//   - went to a replica although their context carries no session, or
//   - were stale: the replica showed less than had been committed when the read began.
//
// The first is found at any lag, the second at the lag that there is at the moment: set one, or pause the replicas, before the code
// under test runs. On the embedded database a read is stale when its rows are not those that the primary would have handed out; the primary is
// asked each time, and a query whose answer differs by itself is let pass. On real servers it is stale when the replica does not show
// some write, whichever, that was made through the pool.
//
// A read of a session sees its own writes, so what is found is a read without its session: in a request that was not given the token
// of the one that wrote, or with a level that gives the promise up. A read that may be stale says so with [AllowStale].
//
// check reports what was found since the last report. It is called by itself at the end of a test that has Cleanup, and may be called before;
// where there is none, call it. It may be called from several goroutines; of two watches of one pool at a time the later one is told.
func RequireNoStaleReads(t Reporter, db *readroute.DB) (check func()) {
	t.Helper()
	found, ok := detectors.Load(db)
	if !ok {
		t.Errorf("replicatest: RequireNoStaleReads: the pool was not opened by Cluster.Open, or is closed")
		return func() {}
	}
	d := found.(*detector)
	d.start()
	check = func() {
		t.Helper()
		for _, f := range d.take() {
			t.Errorf("%s", f)
		}
	}
	if c, ok := t.(interface{ Cleanup(func()) }); ok {
		c.Cleanup(check)
	}
	return check
}

type allowKey struct{}

// AllowStale returns a context whose reads may be stale: [RequireNoStaleReads] says nothing of them.
func AllowStale(ctx context.Context) context.Context { return context.WithValue(ctx, allowKey{}, true) }

func allowed(ctx context.Context) bool { return ctx.Value(allowKey{}) != nil }

// detectors are those of the pools that are open.
var detectors sync.Map // of *readroute.DB to *detector

// detector watches the statements of one pool.
type detector struct {
	servers fleet.Servers
	on      atomic.Bool

	mu       sync.Mutex
	findings map[finding]int // guarded by mu
	written  string          // guarded by mu: the primary's position after the newest write; "" when there was none
	inTx     bool            // guarded by mu: the newest write was in a transaction, which was not over then
}

// finding is a place where something was found.
type finding struct {
	site, node, query string
	stale             bool
	session           bool
}

func newDetector(servers fleet.Servers) *detector {
	return &detector{servers: servers, findings: make(map[finding]int)}
}

// start begins to watch.
func (d *detector) start() {
	d.on.Store(true)
	if c, ok := d.servers.(fleet.Comparing); ok {
		c.Watch(d.differed)
	}
}

// differed is told of a read that a replica has answered otherwise than the primary would.
func (d *detector) differed(ctx context.Context, s fleet.Stale) {
	if d.on.Load() && !allowed(ctx) {
		d.add(finding{site: callSite(), node: s.Node, query: oneLine(s.Query), stale: true, session: readroute.SessionFrom(ctx) != nil})
	}
}

// decided is a hook of the pool.
func (d *detector) decided(ctx context.Context, decision readroute.Decision) {
	if !d.on.Load() || decision.Err != nil {
		return
	}
	p, tells := d.servers.(fleet.Positioned)
	if decision.Class != readroute.ClassRead {
		if tells && decision.Role == readroute.RolePrimary {
			d.wrote(ctx, p, decision.Reason == readroute.ReasonTx)
		}
		return
	}
	if decision.Role != readroute.RoleReplica || allowed(ctx) {
		return
	}
	f := finding{site: callSite(), node: decision.Node, session: readroute.SessionFrom(ctx) != nil}
	if tells {
		f.stale = d.missed(ctx, p, decision.Node)
	}
	if f.stale || !f.session {
		d.add(f)
	}
}

// wrote notes where the primary is after a write.
func (d *detector) wrote(ctx context.Context, p fleet.Positioned, inTx bool) {
	position, err := p.Position(context.WithoutCancel(ctx))
	if err != nil {
		return // then nothing can be said of it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written, d.inTx = position, inTx
}

// missed reports that a node does not show what was written.
func (d *detector) missed(ctx context.Context, p fleet.Positioned, node string) bool {
	d.mu.Lock()
	written, inTx := d.written, d.inTx
	d.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if written == "" {
		return false
	}
	if inTx { // it was not committed yet when it was noted
		now, err := p.Position(ctx)
		if err != nil {
			return false
		}
		written = now
	}
	shows, err := p.Shows(ctx, node, written)
	return err == nil && !shows
}

func (d *detector) add(f finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.findings[f]++
}

// take returns what was found, a sentence each, in the order of the places.
func (d *detector) take() []string {
	d.mu.Lock()
	found := d.findings
	d.findings = make(map[finding]int)
	d.mu.Unlock()
	stale := make(map[string]bool)
	for f := range found {
		stale[f.site] = stale[f.site] || f.stale
	}
	var keys []finding
	for f := range found {
		if f.stale || !stale[f.site] { // what is stale says more
			keys = append(keys, f)
		}
	}
	slices.SortFunc(keys, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.query, b.query), cmp.Compare(a.node, b.node))
	})
	var list []string
	for _, f := range keys {
		list = append(list, f.describe(found[f]))
	}
	return list
}

func (f finding) describe(times int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", f.site)
	what := "a read without a session went to replica"
	if f.stale {
		what = "a stale read from replica"
	}
	fmt.Fprintf(&b, "%s %s", what, f.node)
	if times > 1 {
		fmt.Fprintf(&b, ", %d times", times)
	}
	if f.query != "" {
		fmt.Fprintf(&b, ": %s", f.query)
	}
	switch {
	case !f.session:
		b.WriteString("\n\tits context carries no session: make one with WithSession where the request comes in, and hand its context on")
	case f.stale:
		b.WriteString("\n\tits session does not know of the write: hand on the token of the session that wrote, or call Fence; if the read may be stale, say so with AllowStale")
	}
	return b.String()
}

// maxQuery is how much of a text is told.
const maxQuery = 200

func oneLine(query string) string {
	query = strings.Join(strings.Fields(query), " ")
	if len(query) > maxQuery {
		query = strings.ToValidUTF8(query[:maxQuery], "") + " ..."
	}
	return query
}
