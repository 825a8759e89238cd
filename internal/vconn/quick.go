package vconn

import (
	"context"
	"database/sql/driver"
	"reflect"
	"slices"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Most statements are the only one of their checkout, and nothing about them is out of the ordinary. They take a short way. Beside a real
// server a statement pays for the code and the data that it finds cold, far more than for what it does: so the short way is little of
// both. It goes by the same facts as the long one, and leaves to that whatever is not as it should be, before the statement was sent or after.

// stage is how far a checkout has come.
type stage uint8

const (
	stageIdle     stage = iota // nothing has happened in it
	stagePlain                 // one statement has run, the short way, and left nothing behind
	stageSkipped               // one has been placed, and its driver wants it prepared
	stagePrepared              // it has been, and has not run
	stageRan                   // it has, and is not closed
	stageOther
)

// queryQuickly runs a read on a replica that is known to be right, on a connection that lies parked, in a checkout in which nothing has
// happened. done is false when nothing was sent, and args are as they were given.
func (c *Conn) queryQuickly(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, done bool, err error) {
	st := c.recent.Get(query)
	if st == nil || st.Class != sqlclass.Read || st.Hint != sqlclass.HintNone || st.Multi {
		return nil, false, nil
	}
	node, s, positions, capturedAt := c.router.Quick(core.FromContext(ctx))
	if node < 0 {
		return nil, false, nil
	}
	if int32(node) != c.readerNode {
		c.reader, c.readerNode = c.cluster.Readers[node], int32(node)
	}
	p := c.reader.takeAsking(ctx, c.number)
	if p == nil {
		return nil, false, nil
	}
	h := &c.replica
	h.p, h.sc, h.node, p.sc = p, p.sc, node, nil
	c.begun(h)
	c.stage = stageOther                                                                                        // also of a driver that panics
	if s != nil && (s.Number != c.router.Monitor.Number() || p.accepted != s.Number && !p.speaksFor(s, node)) { // it may have taken a while
		h.discard = !p.busy.CompareAndSwap(busyAsking, busyNot)
		c.giveUp(h)
		return nil, false, nil
	}
	var g given
	if args, err = g.bind(c, p, args); err == nil {
		rows, err = p.able.QueryContext(ctx, query, args)
	}
	interrupted := !p.busy.CompareAndSwap(busyAsking, busyNot)
	if interrupted || err != nil || c.tells {
		c.skipped = skippedQuickly{query, s, positions, capturedAt}
		rows, err = c.queryOn(ctx, st, &g, rows, interrupted, err)
		return rows, true, err
	}
	g.drop()
	h.ran, c.stage = true, stagePlain
	c.countQuick(node)
	return rows, true, nil
}

// countQuick counts a read that went the short way.
func (c *Conn) countQuick(node int) {
	if node == c.covered.Node() {
		c.covered.Add()
	} else {
		c.countElsewhere(node)
	}
}

// queryOn goes the rest of the way of c.skipped when somebody is to be told, or the connection to a replica has returned err, or was
// interrupted. Inlined, and with copies to pass to it, it would make the frame of the short way twice as large.
//
//go:noinline
func (c *Conn) queryOn(ctx context.Context, known *sqlclass.Statement, g *given, rows driver.Rows, interrupted bool, err error) (driver.Rows, error) {
	h := &c.replica
	if err == driver.ErrSkip && !interrupted && c.skips(h.p) { //nolint:errorlint // database/sql compares the same way
		g.drop()
		return nil, err
	}
	st, query := *known, c.skipped.query
	c.decideSkipped()
	defer g.drop()
	c.cluster.Classifier.Hit(c.number)
	op := func(p *physical) (err error) {
		rows, err = nativeQuery(ctx, p, query, g.fresh())
		return err
	}
	if err = c.ranQuickly(ctx, &st, query, h, false, true, c.silenced(h, interrupted, err), op); err != nil {
		return nil, err
	}
	return c.wrapRows(rows), nil
}

// ranQuickly goes the rest of the way of a statement that went the short way to a connection. open is as in ran, rows as in execute.
func (c *Conn) ranQuickly(ctx context.Context, st *sqlclass.Statement, query string, h *held, open, rows bool, err error, op func(*physical) error) error {
	again, err := c.ran(ctx, h, open, err)
	if again {
		err = c.run(ctx, h, h == &c.primary, op)
	}
	return c.finish(ctx, st, query, h, false, rows, err, op)
}

// execQuickly runs a write on the primary, on a connection that lies parked, in a checkout in which nothing has happened. done is false
// when nothing was sent, and args are as they were given.
func (c *Conn) execQuickly(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, done bool, err error) {
	st := c.recent.Get(query)
	if st == nil || !c.quickWrites || !onlyWrites(st) {
		return nil, false, nil
	}
	o := core.FromContext(ctx)
	node := c.router.QuickWrite(o)
	if node < 0 {
		return nil, false, nil
	}
	if node != c.written.Node() {
		c.router.MoveTally(&c.written, node)
		c.writer = c.cluster.Writers[node]
	}
	p := c.writer.takeAsking(ctx, c.number)
	if p == nil {
		return nil, false, nil
	}
	h := &c.primary
	h.p, h.sc, h.node, p.sc = p, p.sc, node, nil
	c.begun(h)
	c.stage = stageOther                                                // also of a driver that panics
	if !p.busy.CompareAndSwap(busyAsking, busyNot) || p.wire.Broken() { // a write is not ended when its server falls silent
		h.discard = true
		c.giveUp(h)
		return nil, false, nil
	}
	if p.accepted != c.router.Monitor.Number() && c.accept(h) != nil { // it may have taken a while
		c.stage = stageIdle
		return nil, false, nil
	}
	var session *core.Session
	if o != nil && o.Session != nil {
		session = o.Session
		session.Begin()
		defer session.End()
	}
	var g given
	args, err = g.bind(c, p, args)
	open := !p.gone()
	if !open {
		err = driver.ErrBadConn
	} else if err == nil {
		result, err = p.able.ExecContext(ctx, query, args)
	}
	if inTx, _ := p.wire.InTx(); inTx || err != nil || c.tells {
		c.skipped = skippedQuickly{query: query}
		result, err = c.execOn(ctx, st, &g, result, open, err)
		return result, true, err
	}
	g.drop()
	h.ran, c.stage = true, stagePlain
	c.written.Add()
	if session != nil {
		c.await(session, h, c.router.Captures.Join())
	}
	return result, true, nil
}

// execOn goes the rest of the way of c.skipped when somebody is to be told, or the connection to the primary has returned err, or is in a
// transaction. open is false when nothing was sent because the server had ended it.
//
//go:noinline
func (c *Conn) execOn(ctx context.Context, known *sqlclass.Statement, g *given, result driver.Result, open bool, err error) (driver.Result, error) {
	h := &c.primary
	if err == driver.ErrSkip && c.skips(h.p) { //nolint:errorlint // database/sql compares the same way
		g.drop()
		return nil, err
	}
	st, query := *known, c.skipped.query
	c.decideSkipped()
	defer g.drop()
	c.cluster.Classifier.Hit(c.number)
	op := func(p *physical) (err error) {
		result, err = nativeExec(ctx, p, query, g.fresh())
		return err
	}
	err = c.ranQuickly(ctx, &st, query, h, open, false, err, op)
	return result, err
}

// onlyWrites reports that a text does no more than to write.
func onlyWrites(st *sqlclass.Statement) bool {
	return st.Class == sqlclass.Write && st.MayWrite && !st.LeavesState && !st.TxState &&
		!st.EndsTx && !st.MayEndTx && !st.BeginsTx && !st.Unlogged && !st.Multi
}

// giveUp leaves a statement of which nothing was sent to the long way.
func (c *Conn) giveUp(h *held) {
	c.release(h)
	c.stage = stageIdle
}

// countElsewhere counts a read of another node than those that are counted at hand. Between two replicas that would change all the time.
func (c *Conn) countElsewhere(node int) {
	if !c.counts || c.covered.Node() < 0 {
		c.router.MoveTally(&c.covered, node)
		c.covered.Add()
		return
	}
	c.router.Tally(node, core.ReasonCovered, c.number)
	c.cluster.Classifier.Hit(c.number)
}

// given are the arguments of a statement that goes the short way, for when it has to go the long one. Where the driver may be asked
// twice to take the same ones, they are those that are bound: a copy of all costs as much as many another step.
type given struct {
	bound []driver.NamedValue
	copy  *arguments
}

// bind binds the arguments in place. drop follows.
func (g *given) bind(c *Conn, p *physical, args []driver.NamedValue) ([]driver.NamedValue, error) {
	g.keep(c, p, args)
	for i := range args {
		args[i].Ordinal = i + 1
		if p.able.CheckNamedValue(&args[i]) != nil {
			return g.again(p)
		}
	}
	return args, nil
}

// again binds the arguments as database/sql does.
//
//go:noinline
func (g *given) again(p *physical) ([]driver.NamedValue, error) { return bind(p, nil, g.fresh()) }

// keep keeps the arguments as they are. drop follows.
func (g *given) keep(c *Conn, p *physical, args []driver.NamedValue) {
	if g.bound = args; !p.rebinds {
		g.copy = &c.kept
		g.copy.keep(args)
		g.copy.used = true
	}
}

// drop forgets the copy, which belongs to the virtual connection.
func (g *given) drop() {
	if g.copy != nil {
		*g.copy = arguments{}
	}
}

// fresh returns them as they were given, or as good.
func (g *given) fresh() []driver.NamedValue {
	if g.copy != nil {
		return g.copy.fresh(nil)
	}
	return slices.Clone(g.bound)
}

// rebinds reports that a driver takes an argument that it has bound as it took it before: pgx leaves all as they are, and what
// go-sql-driver/mysql makes of one it makes of that again. A wrapper may do otherwise.
func rebinds(native driver.Conn) bool {
	t := reflect.TypeOf(native)
	if t.Kind() != reflect.Pointer {
		return false
	}
	path := t.Elem().PkgPath()
	return path == "github.com/jackc/pgx/v5/stdlib" || path == "github.com/go-sql-driver/mysql"
}

// endQuickly ends a checkout in which one statement has run the short way.
func (c *Conn) endQuickly() {
	h := c.quickHeld()
	c.out, c.stage = false, stageIdle
	if h.p.litter.Load() || !h.p.pool.park(h, c.number) {
		c.release(h)
		return
	}
	c.over(h)
}

// speaksFor reports that what s knows of a node holds for the server of p, by the newest sample alone.
func (p *physical) speaksFor(s *core.Snapshot, node int) bool {
	n := &s.Nodes[node]
	speaks := !n.Shared && n.Sample.Start == p.proof.Start && n.Sample.Position.Timeline != 0 && p.opened.Before(n.Sample.Began)
	if speaks {
		p.accepted = s.Number
	}
	return speaks
}
