package lite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
)

// connector opens connections to a server, as from outside.
type connector struct {
	s       *Server
	watched bool
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.s.connect(ctx, c.watched)
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return &sqlite.Driver{} }

// Connector opens connections for a routed pool. The server's Watch is told of their reads.
func (s *Server) Connector() driver.Connector { return connector{s, true} }

// Bare opens connections past routing.
func (s *Server) Bare() driver.Connector { return connector{s, false} }

// conn is a connection to a server. The native connection is for one goroutine at a time, and the server may end it at any.
type conn struct {
	s       *Server
	watched bool
	killed  atomic.Bool

	mu     sync.Mutex
	native native             // guarded by mu
	dead   bool               // guarded by mu
	cancel context.CancelFunc // ends what is under way; guarded by busy
	busy   sync.Mutex

	inTx  bool               // guarded by mu: a transaction is open, by BeginTx or by text
	begun context.Context    // guarded by mu: of the newest BeginTx
	gated bool               // guarded by mu: it has the gate until the transaction ends
	open  map[child]struct{} // guarded by mu: rows and statements, which end before the native connection does
}

// child is something native that must be closed before its connection. The connection's mu is held.
type child interface{ closeLocked() error }

var (
	_ driver.Conn               = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
)

// StateSQL asks a server for its role, and for what tells one run of it from another. It is answered without SQLite.
const StateSQL = "SELECT replicatest_state()"

var errLog = errors.New("the log of the database belongs to its replication: PRAGMA journal_mode, wal_checkpoint and wal_autocheckpoint are not for you")

// do runs op on the native connection. Without an answer in time it was not sent, unless the server was stopped while it ran.
func (c *conn) do(ctx context.Context, op func(ctx context.Context) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doLocked(ctx, op)
}

func (c *conn) doLocked(ctx context.Context, op func(ctx context.Context) error) error {
	if c.dead {
		return driver.ErrBadConn
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.busy.Lock()
	c.cancel = cancel
	c.busy.Unlock()
	err := op(ctx)
	c.busy.Lock()
	c.cancel = nil
	c.busy.Unlock()
	if err != nil && c.killed.Load() {
		return errStopped
	}
	return err
}

// kill ends the connection from the server's side.
func (c *conn) kill() {
	c.killed.Store(true)
	c.busy.Lock()
	if c.cancel != nil {
		c.cancel()
	}
	c.busy.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.endLocked() // nobody is there to hear it
}

// endLocked closes the native connection, which rolls back what is open.
func (c *conn) endLocked() error {
	if c.dead {
		return nil
	}
	c.dead = true
	var errs []error
	for o := range c.open {
		errs = append(errs, o.closeLocked())
	}
	c.open = nil
	err := errors.Join(append(errs, c.native.Close())...)
	c.ungateLocked()
	return err
}

// ownLocked makes o end with the connection.
func (c *conn) ownLocked(o child) {
	if c.open == nil {
		c.open = make(map[child]struct{})
	}
	c.open[o] = struct{}{}
}

func (c *conn) ungateLocked() {
	if c.gated {
		c.gated = false
		<-c.s.gate
	}
}

// writable reports whether the server takes writes.
func (s *Server) takesWrites() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writable
}

// enterLocked takes the gate for whoever may write outside a transaction, or has not yet in one.
func (c *conn) enterLocked(ctx context.Context, writes bool) error {
	if !writes || c.gated || c.dead || !c.s.takesWrites() {
		return nil
	}
	c.mu.Unlock()
	var err error
	taken := false
	select {
	case c.s.gate <- struct{}{}:
		taken = true
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	if taken && c.dead {
		<-c.s.gate
		return driver.ErrBadConn
	}
	c.gated = taken
	return err
}

// leaveLocked gives the gate back, unless a transaction goes on.
func (c *conn) leaveLocked() {
	if !c.inTx {
		c.ungateLocked()
	}
}

// statement runs a text, or a prepared statement of it.
func (c *conn) statement(ctx context.Context, query string, op func(ctx context.Context) error) error {
	if refused(query) {
		return errLog
	}
	kind := kindOf(query)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enterLocked(ctx, kind == kindWrite); err != nil {
		return err
	}
	err := c.doLocked(ctx, op)
	switch {
	case err != nil:
	case kind == kindBegin && !c.inTx:
		c.inTx, c.begun = true, nil
	case kind == kindEnd:
		c.inTx = false
	}
	return err
}

// after is called when a statement is over.
func (c *conn) after(query string) {
	if kindOf(query) == kindRead {
		return
	}
	c.mu.Lock()
	c.leaveLocked()
	c.mu.Unlock()
	if c.s.takesWrites() {
		c.s.capture()
	}
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.statement(ctx, query, func(ctx context.Context) (err error) {
		result, err = c.native.ExecContext(ctx, query, args)
		return err
	})
	c.after(query)
	return result, err
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if query == StateSQL {
		return c.state(ctx)
	}
	return c.query(ctx, query, args, func(ctx context.Context) (driver.Rows, error) { return c.native.QueryContext(ctx, query, args) })
}

// query runs a text that hands out rows, or a prepared statement of it. The rows of a write hold the gate until they are closed.
func (c *conn) query(ctx context.Context, query string, args []driver.NamedValue, run func(context.Context) (driver.Rows, error)) (driver.Rows, error) {
	watch := c.behind(query)
	r := &rows{c: c, query: query}
	err := c.statement(ctx, query, func(ctx context.Context) (err error) {
		if r.native, err = run(ctx); err == nil {
			c.ownLocked(r)
		}
		return err
	})
	switch {
	case err != nil:
		c.after(query)
		return nil, err
	case watch != nil:
		return c.s.fleet.compare(ctx, watch, c, r, query, args)
	}
	return r, nil
}

// state answers StateSQL.
func (c *conn) state(ctx context.Context) (driver.Rows, error) {
	err := c.do(ctx, func(context.Context) error { return nil })
	if err != nil {
		return nil, err
	}
	role, run := c.s.state()
	return &values{columns: []string{"role", "run"}, rows: [][]driver.Value{{role, run}}}, nil
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	st := &stmt{c: c, query: query}
	err := c.do(ctx, func(ctx context.Context) (err error) {
		if st.native, err = c.native.PrepareContext(ctx, query); err == nil {
			c.ownLocked(st)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Prepare implements driver.Conn.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enterLocked(ctx, !opts.ReadOnly); err != nil {
		return nil, err
	}
	t := &tx{c: c}
	err := c.doLocked(ctx, func(ctx context.Context) (err error) {
		t.native, err = c.native.BeginTx(ctx, opts)
		return err
	})
	if err != nil {
		c.leaveLocked()
		return nil, err
	}
	c.inTx, c.begun = true, ctx
	return t, nil
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	return c.do(ctx, func(context.Context) error { return nil })
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error { return c.do(ctx, c.native.ResetSession) }

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead && !c.inTx && c.native.IsValid()
}

// Close implements driver.Conn.
func (c *conn) Close() error {
	c.s.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endLocked()
}

// refused reports a text that takes the log away from under its replication.
func refused(query string) bool {
	lower := strings.ToLower(query)
	return strings.Contains(lower, "pragma") && (strings.Contains(lower, "journal_mode") || strings.Contains(lower, "checkpoint"))
}
