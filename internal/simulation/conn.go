package simulation

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"
)

// conn is a client's connection. database/sql lets one goroutine use it at a time; severed and what belongs to the server is
// guarded by cluster.mu.
type conn struct {
	net      *network
	number   uint64
	s        *server // nil behind a pooler
	session  *session
	readOnly bool
	timer    *time.Timer
	broken   bool // the client has given it up
	counted  bool

	cut     chan struct{} // closed when it is severed
	severed bool

	tx   *transaction
	hold time.Duration // how long the answer to a commit is held back
}

// transaction is what a connection has begun.
type transaction struct {
	readOnly bool
	failed   bool
	writes   []write
	snapshot *place  // MySQL, MariaDB: what its first read saw
	more     []place // with it
}

var (
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
)

// binder is a connection whose driver has a say in its arguments, as most have. The router takes a short way with those.
type binder struct{ *conn }

var _ driver.NamedValueChecker = binder{}

// CheckNamedValue implements driver.NamedValueChecker.
func (binder) CheckNamedValue(v *driver.NamedValue) (err error) {
	v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	return err
}

// sever cuts the connection. cluster.mu is held.
func (k *conn) sever() {
	if !k.severed {
		k.severed = true
		close(k.cut)
		if k.session != nil {
			k.session.leave()
		}
	}
}

// shut ends the connection on the client's side. cluster.mu is not held.
func (k *conn) shut() {
	k.net.c.mu.Lock()
	defer k.net.c.mu.Unlock()
	k.broken = true
	k.sever()
	if k.counted {
		k.counted = false
		k.net.c.open--
	}
	if i := slices.Index(k.net.conns, k); i >= 0 {
		k.net.conns = slices.Delete(k.net.conns, i, i+1)
	}
}

// Close implements driver.Conn.
func (k *conn) Close() error {
	k.shut()
	return nil
}

// IsValid implements driver.Validator.
func (k *conn) IsValid() bool { return !k.broken }

// ResetSession implements driver.SessionResetter. It sees that the other end has gone, as drivers that look at their socket do.
func (k *conn) ResetSession(context.Context) error {
	if k.dead() {
		return driver.ErrBadConn
	}
	return nil
}

// dead reports that the connection is known to be of no use before anything is sent on it.
func (k *conn) dead() bool {
	k.net.c.mu.Lock()
	defer k.net.c.mu.Unlock()
	return k.broken || k.severed || k.session != nil && k.session.killed
}

// Ping implements driver.Pinger.
func (k *conn) Ping(ctx context.Context) error {
	_, err := k.ask(ctx, statement{kind: nothing, op: operation(ctx)})
	return err
}

// Begin implements driver.Conn.
func (k *conn) Begin() (driver.Tx, error) { return k.BeginTx(context.Background(), driver.TxOptions{}) }

// BeginTx implements driver.ConnBeginTx.
func (k *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if _, err := k.ask(ctx, statement{kind: begin, op: operation(ctx), readOnly: opts.ReadOnly}); err != nil {
		return nil, err
	}
	return &tx{k, ctx}, nil
}

type tx struct {
	k   *conn
	ctx context.Context
}

// Commit implements driver.Tx. database/sql gives it no context; drivers take that of BeginTx.
func (t *tx) Commit() error {
	_, err := t.k.ask(t.ctx, statement{kind: commit, op: operation(t.ctx)})
	return err
}

// Rollback implements driver.Tx.
func (t *tx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Second)
	defer cancel()
	_, err := t.k.ask(ctx, statement{kind: rollback, op: operation(t.ctx)})
	return err
}

// skips reports that the driver has a statement prepared first, as go-sql-driver/mysql does with arguments.
func (k *conn) skips(args []driver.NamedValue) error {
	switch {
	case !k.net.prepares || len(args) == 0:
		return nil
	case k.broken:
		return driver.ErrBadConn
	}
	return driver.ErrSkip
}

// ExecContext implements driver.ExecerContext.
func (k *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := k.skips(args); err != nil {
		return nil, err
	}
	return k.exec(ctx, query, args)
}

func (k *conn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	_, err := k.ask(ctx, k.net.c.parse(ctx, query, args))
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), nil
}

// QueryContext implements driver.QueryerContext. The row of a write comes before its commit.
func (k *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := k.skips(args); err != nil {
		return nil, err
	}
	return k.query(ctx, query, args)
}

func (k *conn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st := k.net.c.parse(ctx, query, args)
	if st.kind == insert && k.tx == nil {
		st.returns = make(chan error, 1)
	}
	answer, err := k.ask(ctx, st)
	if err != nil {
		return nil, err
	}
	return &rows{answer: answer, k: k, ctx: ctx, op: st.op, returns: st.returns}, nil
}

// Prepare implements driver.Conn.
func (k *conn) Prepare(query string) (driver.Stmt, error) {
	return k.PrepareContext(context.Background(), query)
}

// PrepareContext implements driver.ConnPrepareContext.
func (k *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if _, err := k.ask(ctx, statement{kind: nothing, op: operation(ctx)}); err != nil {
		return nil, err
	}
	return &stmt{k, query}, nil
}

type stmt struct {
	k    *conn
	text string
}

// Close implements driver.Stmt.
func (s *stmt) Close() error {
	if s.k.dead() {
		return driver.ErrBadConn
	}
	return nil
}

// NumInput implements driver.Stmt.
func (s *stmt) NumInput() int { return -1 }

// Exec implements driver.Stmt.
func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

// Query implements driver.Stmt.
func (s *stmt) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.k.exec(ctx, s.text, args)
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.k.query(ctx, s.text, args)
}
