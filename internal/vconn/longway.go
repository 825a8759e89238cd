package vconn

import (
	"context"
	"database/sql/driver"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// What leaves the short way goes on here: most of it on the long one.

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

// speaksFor reports that what s knows of a node holds for the server of p, by the newest sample alone.
func (p *physical) speaksFor(s *core.Snapshot, node int) bool {
	n := &s.Nodes[node]
	speaks := !n.Shared && n.Sample.Start == p.proof.Start && n.Sample.Position.Timeline != 0 && p.opened.Before(n.Sample.Began)
	if speaks {
		p.accepted = s.Number
	}
	return speaks
}
