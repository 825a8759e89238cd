package lite

import (
	"context"
	"database/sql/driver"
	"errors"
)

// stmt is a prepared statement.
type stmt struct {
	c      *conn
	query  string
	native driver.Stmt
	closed bool // guarded by c.mu
}

var (
	_ driver.StmtExecContext  = (*stmt)(nil)
	_ driver.StmtQueryContext = (*stmt)(nil)
)

var errOld = errors.New("the statement needs a context")

// Close implements driver.Stmt.
func (s *stmt) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	delete(s.c.open, s)
	return s.closeLocked()
}

func (s *stmt) closeLocked() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.native.Close()
}

// NumInput implements driver.Stmt.
func (s *stmt) NumInput() int { return -1 }

// Exec implements driver.Stmt. It is not used.
func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, errOld }

// Query implements driver.Stmt. It is not used.
func (s *stmt) Query([]driver.Value) (driver.Rows, error) { return nil, errOld }

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	err = s.c.statement(ctx, s.query, func(ctx context.Context) (err error) {
		result, err = s.native.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	s.c.after(s.query)
	return result, err
}

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.query(ctx, s.query, args, func(ctx context.Context) (driver.Rows, error) {
		return s.native.(driver.StmtQueryContext).QueryContext(ctx, args)
	})
}

// tx is a transaction.
type tx struct {
	c      *conn
	native driver.Tx
}

// Commit implements driver.Tx.
func (t *tx) Commit() error { return t.end(t.native.Commit) }

// Rollback implements driver.Tx.
func (t *tx) Rollback() error { return t.end(t.native.Rollback) }

func (t *tx) end(how func() error) error {
	t.c.mu.Lock()
	err := t.c.doLocked(context.Background(), func(context.Context) error { return how() })
	t.c.inTx = false
	t.c.leaveLocked()
	t.c.mu.Unlock()
	if t.c.s.takesWrites() {
		t.c.s.capture()
	}
	return err
}
