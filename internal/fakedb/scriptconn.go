package fakedb

import (
	"context"
	"database/sql/driver"
)

// scriptConn is the least a connection can be.
type scriptConn struct {
	script *Script
	n      int
}

func (c *scriptConn) Prepare(query string) (driver.Stmt, error) {
	c.script.note(c.n, "prepare %s", query)
	if c.script.Prepare != nil {
		if err := c.script.Prepare(c.n, query); err != nil {
			return nil, err
		}
	}
	return (&scriptStmt{conn: c, query: query}).interfaces(), nil
}

func (c *scriptConn) Close() error {
	c.script.note(c.n, "close")
	return nil
}

func (c *scriptConn) Begin() (driver.Tx, error) {
	c.script.note(c.n, "begin")
	if c.script.Begin != nil {
		if err := c.script.Begin(c.n); err != nil {
			return nil, err
		}
	}
	return scriptTx{c}, nil
}

func (c *scriptConn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.script.note(c.n, "exec %s%s", query, values(args))
	if c.script.Exec == nil {
		return driver.RowsAffected(1), nil
	}
	return c.script.Exec(ctx, c.n, query, args)
}

func (c *scriptConn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.script.Answer != nil {
		row, ok, err := c.script.Answer(query)
		if ok || err != nil {
			c.script.mu.Lock()
			c.script.calls = append(c.script.calls, call{conn: c.n, answered: true})
			c.script.mu.Unlock()
		}
		if err != nil {
			return nil, err
		}
		if ok {
			return TextRows(nil, row), nil
		}
	}
	c.script.note(c.n, "query %s%s", query, values(args))
	if c.script.Query == nil {
		return TextRows([]string{"n"}), nil
	}
	return c.script.Query(ctx, c.n, query, args)
}

type directConn struct{ c *scriptConn }

func (d directConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return d.c.Prepare(query)
}

func (d directConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return d.c.Begin() }

func (d directConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if d.c.script.SkipDirect {
		d.c.script.note(d.c.n, "skip exec %s%s", query, values(args))
		return nil, driver.ErrSkip
	}
	return d.c.exec(ctx, query, args)
}

func (d directConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if d.c.script.SkipDirect {
		// The monitor of a pool may know no other way to ask.
		if a := d.c.script.Answer; a == nil || !answers(a, query) {
			d.c.script.note(d.c.n, "skip query %s%s", query, values(args))
			return nil, driver.ErrSkip
		}
	}
	return d.c.query(ctx, query, args)
}

func answers(a Answer, query string) bool {
	_, ok, err := a(query)
	return ok || err != nil
}

func (d directConn) Ping(context.Context) error {
	d.c.script.note(d.c.n, "ping")
	if d.c.script.Ping == nil {
		return nil
	}
	return d.c.script.Ping(d.c.n)
}

type resetConn struct{ c *scriptConn }

func (r resetConn) ResetSession(ctx context.Context) error {
	r.c.script.note(r.c.n, "reset")
	if r.c.script.ResetSession == nil {
		return nil
	}
	return r.c.script.ResetSession(ctx, r.c.n)
}

type validConn struct{ c *scriptConn }

func (v validConn) IsValid() bool {
	valid := v.c.script.IsValid == nil || v.c.script.IsValid(v.c.n)
	v.c.script.note(v.c.n, "valid %t", valid)
	return valid
}

type checkConn struct{ c *scriptConn }

func (k checkConn) CheckNamedValue(nv *driver.NamedValue) error {
	k.c.script.note(k.c.n, "conn checks %T(%v)", nv.Value, nv.Value)
	if k.c.script.CheckConn == nil {
		return nil
	}
	return k.c.script.CheckConn(nv)
}

type scriptTx struct{ c *scriptConn }

func (t scriptTx) Commit() error {
	t.c.script.note(t.c.n, "commit")
	if t.c.script.Commit == nil {
		return nil
	}
	return t.c.script.Commit(t.c.n)
}

func (t scriptTx) Rollback() error {
	t.c.script.note(t.c.n, "rollback")
	if t.c.script.Rollback == nil {
		return nil
	}
	return t.c.script.Rollback(t.c.n)
}

// scriptStmt is a statement with the context methods; interfaces adds what the script chose.
type scriptStmt struct {
	conn  *scriptConn
	query string
}

// contextStmt is what every statement of a script has.
type contextStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func (s *scriptStmt) interfaces() driver.Stmt {
	k, v := checkStmt{s}, convertStmt{s}
	type columns interface{ driver.ColumnConverter } // a field of the method's own name would hide the method
	switch script := s.conn.script; {
	case script.StmtChecker && script.Converter:
		return struct {
			contextStmt
			driver.NamedValueChecker
			columns
		}{s, k, v}
	case script.StmtChecker:
		return struct {
			contextStmt
			driver.NamedValueChecker
		}{s, k}
	case script.Converter:
		return struct {
			contextStmt
			columns
		}{s, v}
	}
	return s
}

func (s *scriptStmt) Close() error {
	s.conn.script.note(s.conn.n, "close statement %s", s.query)
	if s.conn.script.CloseStmt != nil {
		s.conn.script.CloseStmt(s.query)
	}
	return nil
}

func (s *scriptStmt) NumInput() int {
	if s.conn.script.NumInput == nil {
		return -1
	}
	return s.conn.script.NumInput(s.query)
}

func (s *scriptStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.conn.exec(context.Background(), s.query, named(args))
}

func (s *scriptStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.conn.query(context.Background(), s.query, named(args))
}

func (s *scriptStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.exec(ctx, s.query, args)
}

func (s *scriptStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, s.query, args)
}

type checkStmt struct{ s *scriptStmt }

func (k checkStmt) CheckNamedValue(nv *driver.NamedValue) error {
	k.s.conn.script.note(k.s.conn.n, "statement checks %T(%v)", nv.Value, nv.Value)
	if k.s.conn.script.CheckStmt == nil {
		return nil
	}
	return k.s.conn.script.CheckStmt(nv)
}

type convertStmt struct{ s *scriptStmt }

func (v convertStmt) ColumnConverter(column int) driver.ValueConverter {
	v.s.conn.script.note(v.s.conn.n, "statement converts column %d", column)
	if v.s.conn.script.Convert == nil {
		return driver.DefaultParameterConverter
	}
	return v.s.conn.script.Convert(column)
}
