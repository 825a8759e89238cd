package fakedb

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"
	"sync/atomic"
)

// Answer returns the one row, as text, with which a driver answers a statement. With ok false the driver answers as it
// always does. It is called from several goroutines.
type Answer func(query string) (row []string, ok bool, err error)

// NullConnector opens connections that do nothing, at once. Every query gives one row of one column, the int64 1; every
// other statement affects one row. The connections, statements and rows have the optional interfaces that those of
// pgx's stdlib have, and queries and executions allocate nothing.
type NullConnector struct {
	// Answer, when it is not nil, is asked about every query first.
	Answer Answer

	opened atomic.Int64
	closed atomic.Int64
}

// Null returns a connector without an Answer.
func Null() *NullConnector { return &NullConnector{} }

// Connect returns a new connection.
func (n *NullConnector) Connect(context.Context) (driver.Conn, error) {
	n.opened.Add(1)
	c := &nullConn{connector: n}
	c.stmt.conn = c
	return c, nil
}

// Driver returns a driver that opens connections of the same kind, whatever the name.
func (n *NullConnector) Driver() driver.Driver { return nullDriver{n} }

// Open is the number of connections that are open.
func (n *NullConnector) Open() int { return int(n.opened.Load() - n.closed.Load()) }

// Opened is the number of connections that were ever opened.
func (n *NullConnector) Opened() int { return int(n.opened.Load()) }

type nullDriver struct{ connector *NullConnector }

func (d nullDriver) Open(string) (driver.Conn, error) {
	return d.connector.Connect(context.Background())
}

// nullConn is used by one goroutine at a time and has one set of rows open at a time, as database/sql promises. That is
// why it can hold them itself.
type nullConn struct {
	connector *NullConnector
	rows      nullRows
	stmt      nullStmt
}

func (c *nullConn) Prepare(string) (driver.Stmt, error) { return &c.stmt, nil }

func (c *nullConn) PrepareContext(ctx context.Context, _ string) (driver.Stmt, error) {
	return &c.stmt, ctx.Err()
}

func (c *nullConn) Close() error {
	c.connector.closed.Add(1)
	return nil
}

func (c *nullConn) Begin() (driver.Tx, error) { return nullTx{}, nil }

func (c *nullConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nullTx{}, nil
}

func (c *nullConn) Ping(context.Context) error { return nil }

func (c *nullConn) CheckNamedValue(*driver.NamedValue) error { return nil }

func (c *nullConn) ResetSession(context.Context) error { return nil }

func (c *nullConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

func (c *nullConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if c.connector.Answer != nil {
		row, ok, err := c.connector.Answer(query)
		if err != nil {
			return nil, err
		}
		if ok {
			return TextRows(nil, row), nil
		}
	}
	c.rows.done = false
	return &c.rows, nil
}

type nullStmt struct{ conn *nullConn }

func (s *nullStmt) Close() error { return nil }

func (s *nullStmt) NumInput() int { return -1 }

func (s *nullStmt) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(1), nil }

func (s *nullStmt) Query([]driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), nil)
}

func (s *nullStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

func (s *nullStmt) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	s.conn.rows.done = false
	return &s.conn.rows, nil
}

type nullTx struct{}

func (nullTx) Commit() error   { return nil }
func (nullTx) Rollback() error { return nil }

var (
	nullColumns = []string{"n"}
	nullValue   = driver.Value(int64(1))
)

type nullRows struct{ done bool }

func (*nullRows) Columns() []string { return nullColumns }

func (*nullRows) Close() error { return nil }

func (r *nullRows) Next(dest []driver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done = true
	dest[0] = nullValue
	return nil
}

func (*nullRows) ColumnTypeDatabaseTypeName(int) string { return "INT8" }

func (*nullRows) ColumnTypeLength(int) (length int64, ok bool) { return 0, false }

func (*nullRows) ColumnTypePrecisionScale(int) (precision, scale int64, ok bool) { return 0, 0, false }

func (*nullRows) ColumnTypeScanType(int) reflect.Type { return reflect.TypeFor[int64]() }
