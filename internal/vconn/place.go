package vconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

// replicaTries is how many replicas are tried for one statement, counting the one retry, before the primary is.
const replicaTries = 2

// primaryTries is how many connections are opened in search of one that leads to a primary, while an address that
// should lead there still leads to another node now and then.
const primaryTries = 4

// place decides where a statement runs, in c.decided, and attaches a connection to that node. A replica that cannot be
// reached, or whose own connection does not show what the session needs, is left out and another node is found: nothing
// has been sent.
func (c *Conn) place(ctx context.Context, st *sqlclass.Statement, retry core.Retry, exclude uint64) (*held, error) {
	d := &c.decided
	c.stage = stageOther
	if c.tx != nil {
		h := c.tx.h
		*d = router.Decided{
			Node: h.node, Role: c.tx.role, Reason: core.ReasonTx, Class: core.Class(st.Class), Shadow: c.tx.shadow,
		}
		if h == &c.replica && (onlyOnPrimary(st) || !c.staysReadOnly(st, h)) {
			return nil, c.refuse(ctx, fmt.Errorf("%w: %s says something else on replica %q, where this read-only transaction is",
				ErrNeedsPrimary, st.Token, h.p.pool.cfg.Name))
		}
		return h, nil
	}
	if c.replica.state {
		*d = router.Decided{Node: -1, Reason: core.ReasonSessionState, Class: core.Class(st.Class)}
		return nil, c.refuse(ctx, fmt.Errorf("%w: a read-only transaction has left session state on replica %q, which cannot be "+
			"taken along", ErrNeedsPrimary, c.replica.p.pool.cfg.Name))
	}
	if retry == core.RetryNone {
		c.waited, c.failed = 0, 0
	}
	var failure error // of the last connection
	for {
		if c.failed >= replicaTries {
			exclude = ^uint64(0)
		}
		c.cluster.Router.Route(ctx, c.ask(st, retry, exclude), d)
		c.waited = d.Waited
		if d.Slot {
			c.slot = true
		}
		if d.Err != nil {
			if failure != nil && errors.Is(d.Err, router.ErrNoReplica) {
				d.Err = fmt.Errorf("%w that could be reached: %w", router.ErrNoReplica, failure)
			}
			err := c.explain(d)
			c.report(ctx, d)
			return nil, err
		}
		h, err := c.connect(ctx, d)
		err = final(err) // this loop is what tries again
		failure = err
		switch {
		case err == nil:
			return h, nil
		case d.Role != core.RoleReplica || ctx.Err() != nil:
			d.Err = err
			c.report(ctx, d)
			return nil, err
		}
		exclude |= 1 << d.Node
		c.failed++
		if retry == core.RetryNone {
			retry = core.RetryConnection
		}
	}
}

// ErrNeedsPrimary is matched by the error of a statement that the checkout keeps from the primary.
var ErrNeedsPrimary = errors.New("readroute: the statement needs the primary: begin the transaction with LevelPrimary, or not read-only")

// onlyOnPrimary reports that a statement means something else on a replica, where it runs without an error: a lock that only
// that node knows of, the state of a sequence, a place in the primary's log.
func onlyOnPrimary(st *sqlclass.Statement) bool {
	return st.Class == sqlclass.Unknown && !st.MayWrite || st.Class == sqlclass.SessionState && strings.Contains(st.Token, "advisory")
}

// staysReadOnly reports that a statement cannot take a read-only transaction's connection out of it, where the driver does not
// tell whether it is still in one: on MySQL and MariaDB a text, or a routine, may commit and begin another that writes, which
// nothing but the session's own setting forbids, and that can be set. Savepoints and user variables do no such thing.
func (c *Conn) staysReadOnly(st *sqlclass.Statement, h *held) bool {
	if _, known := h.p.wire.InTx(); known {
		return true
	}
	switch {
	case st.EndsTx || st.MayEndTx || st.BeginsTx || st.Multi && st.Class != sqlclass.Read:
		return false
	case st.Class == sqlclass.Read, st.Class == sqlclass.TxControl:
		return true
	case st.Class == sqlclass.Write:
		return st.CommitsOnError // a change of rows, which the server refuses; SET GLOBAL is none
	case st.DependsState && !st.LeavesState && !st.MayWrite && (strings.HasPrefix(st.Token, "@@") || strings.HasPrefix(st.Token, "SHOW")):
		return true // it looks at the session's settings, or at the statement before it
	case showsLast(st):
		return true
	}
	return strings.HasPrefix(st.Token, "@") && !strings.HasPrefix(st.Token, "@@")
}

// showsLast reports that a statement tells what is to be said of the one before it on its connection: MySQL's and MariaDB's
// FOUND_ROWS(), warnings and the like.
func showsLast(st *sqlclass.Statement) bool {
	if st.Class != sqlclass.SessionState || !st.DependsState || st.LeavesState || st.MayWrite {
		return false
	}
	switch strings.ToUpper(st.Token) {
	case "FOUND_ROWS", "ROW_COUNT", "SHOW", "SHOW WARNINGS", "SHOW ERRORS", "@@WARNING_COUNT", "@@ERROR_COUNT":
		return true
	}
	return false
}

// refuse reports that the current statement runs nowhere.
func (c *Conn) refuse(ctx context.Context, err error) error {
	c.decided.Node, c.decided.Err = -1, err
	c.report(ctx, &c.decided)
	return err
}

// placeRaw attaches a connection to the primary, also in a read-only transaction that has a replica's.
func (c *Conn) placeRaw(ctx context.Context, st *sqlclass.Statement) (*held, error) {
	if c.tx == nil || c.tx.h == &c.primary {
		return c.place(ctx, st, core.RetryNone, 0)
	}
	c.stage = stageOther
	c.decided = *c.onPrimary()
	c.decided.Reason, c.decided.Class = core.ReasonWrite, core.Class(st.Class)
	return c.connectPrimary(ctx, &c.decided)
}

// ask fills in the request for a statement.
func (c *Conn) ask(st *sqlclass.Statement, retry core.Retry, exclude uint64) *router.Request {
	c.request = router.Request{
		Class:   core.Class(st.Class),
		Hint:    core.Hint(st.Hint),
		Replica: core.AnyNode,
		Exclude: exclude,
		Retry:   retry,
		Slot:    c.slot,
		Waited:  c.waited,
	}
	req := &c.request
	switch {
	case c.rawTx:
		req.Held = core.HeldTx
	case c.primary.state:
		req.Held = core.HeldState
	case c.primary.attached():
		req.Held = core.HeldPrimary
	}
	if c.replica.attached() {
		req.Replica = c.replica.node
		if !c.primary.attached() && showsLast(st) {
			req.Class = core.ClassRead // of a read that ran there
		}
	}
	return req
}

func (c *Conn) explain(d *router.Decided) error {
	if c.cluster.Refusal != nil {
		d.Err = c.cluster.Refusal(d.Err)
	}
	if errors.Is(d.Err, router.ErrUnknownNode) || errors.Is(d.Err, router.ErrUnknownTag) {
		return fmt.Errorf("%w: the context asks for one that cluster %q does not have", d.Err, c.cluster.Name)
	}
	return d.Err
}

// connect attaches a connection to the node of a decision, unless the checkout has one.
func (c *Conn) connect(ctx context.Context, d *router.Decided) (*held, error) {
	if d.Role == core.RolePrimary {
		return c.connectPrimary(ctx, d)
	}
	h := &c.replica
	if !h.attached() {
		if err := c.attach(ctx, h, c.cluster.Readers[d.Node]); err != nil {
			return nil, err
		}
	}
	if err := c.prove(ctx, h, d); err != nil {
		return nil, err
	}
	return h, nil
}

// prove holds a connection to a replica to what a decision asks of it, and gives up one that does not show it.
func (c *Conn) prove(ctx context.Context, h *held, d *router.Decided) error {
	if len(d.Positions) == 0 && d.Floor == nil || h.p.proves(c.cluster.Router.Monitor.Snapshot(), d) {
		return nil
	}
	err := c.verify(ctx, h, d)
	if err != nil {
		c.release(h)
	}
	return err
}

func (c *Conn) connectPrimary(ctx context.Context, d *router.Decided) (*held, error) {
	h := &c.primary
	switch {
	case !h.attached():
	case h.node == d.Node:
		if h.p.pool.cfg.Pooled {
			// The pooler's connection outlives a restart of the server: which one a write runs on is known as of now.
			h.p.proof.Start, h.p.accepted = c.cluster.Router.Monitor.Snapshot().Nodes[d.Node].Sample.Start, 0
		}
		return h, nil // whoever holds the primary connection stays on it
	case c.rawTx || h.state || len(c.writes.handing) > 0:
		d.Node = h.node // it cannot be left
		return h, nil
	default: // another node is the primary now
		h.discard = true
		c.release(h)
	}
	var err error
	for range primaryTries {
		if err = c.attach(ctx, h, c.cluster.Writers[d.Node]); err == nil {
			err = c.accept(h)
		}
		if !errors.Is(err, ErrNotPrimary) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// accept gives a connection to a primary up that is not the one which is known there: its address leads elsewhere by now.
func (c *Conn) accept(h *held) error {
	m := c.cluster.Router.Monitor
	snapshot, proof := m.Snapshot(), &h.p.proof
	if h.p.accepted == snapshot.Number && snapshot.Number != 0 { // both are as they were
		return nil
	}
	if snapshot.Accepts(h.node, proof) {
		if proof.Position.Kind == core.KindPostgres && proof.Position.Timeline > snapshot.Timeline && snapshot.Timeline != 0 {
			// A failover that the monitor has not seen: its own connection may lead to the former primary, and others call
			// themselves primary as well.
			m.Observe(h.node, *proof)
			m.Redial(h.node)
			return nil
		}
		h.p.accepted = snapshot.Number
		return nil
	}
	err := fmt.Errorf("%w: node %q leads to another server", ErrNotPrimary, h.p.pool.cfg.Name)
	m.Redial(h.node)
	h.discard = true
	c.release(h)
	return err
}

var errNotProven = errors.New("the connection's own server does not show what the session needs")

// verify asks the very connection that will serve the read.
func (c *Conn) verify(ctx context.Context, h *held, d *router.Decided) error {
	m := c.cluster.Router.Monitor
	asking, cancel := h.p.pool.limited(ctx)
	defer cancel()
	var s core.Sample
	interrupted, err := h.p.interruptible(func(p *physical) (err error) {
		s, err = monitor.Ask(asking, p.wire.Link(), c.cluster.Engine)
		return err
	})
	if interrupted && err == nil {
		err = errSilent
	}
	if err != nil {
		h.discard = true
		m.Kick(d.Node)
		return err
	}
	snapshot := m.Snapshot()
	n := &snapshot.Nodes[d.Node]
	if !n.Shared && s.Start != n.Sample.Start {
		if s.Start == h.p.proof.Start && h.p.opened.Before(n.Sample.Began) {
			// It was there before the monitor saw another server under this name, and still is: there are several.
			m.Shared(d.Node)
		} else {
			m.Kick(d.Node)
		}
	}
	if s.Position.Timeline == 0 {
		c.date(ctx, &s)
	}
	if d.Floor != nil && (s.Start != d.Floor.Start || !d.Floor.Lived(h.p.opened, &n.Sample)) || snapshot.Covers(s.Position, d.Positions, d.CapturedAt) != core.Covered {
		return fmt.Errorf("read on node %q: %w", n.Name, errNotProven)
	}
	h.p.proof, h.p.accepted = s, 0 // it is proven from now on, also when nobody is left to ask
	return nil
}

// date fills in the timeline of a sample whose server does not tell it to this user: a primary that is seen on it after
// the sample leaves no room for a promotion in between.
func (c *Conn) date(ctx context.Context, s *core.Sample) {
	ctx, cancel := context.WithTimeout(ctx, c.cluster.CaptureTimeout)
	defer cancel()
	capture := c.cluster.Router.Captures.Join()
	if capture.Wait(ctx) != nil {
		return
	}
	primary := capture.Result().Position
	if primary.System == s.Position.System && primary.Timeline == s.TimelineFloor {
		s.Position.Timeline = primary.Timeline
	}
}
