package vconn

import (
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// markedRows are the rows of a write that runs in a transaction of its own. Their end commits it, and says when that fails: by the
// time that the checkout ends nobody would hear it.
//
// They hide what a driver's rows can do beyond the interfaces of database/sql/driver that are here.
type markedRows struct {
	native driver.Rows
	own    *ownTx
	failed error // why there are no more rows
	over   bool
	told   error // of the end
}

var (
	_ driver.RowsNextResultSet              = (*markedRows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*markedRows)(nil)
	_ driver.RowsColumnTypeLength           = (*markedRows)(nil)
	_ driver.RowsColumnTypeNullable         = (*markedRows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*markedRows)(nil)
	_ driver.RowsColumnTypeScanType         = (*markedRows)(nil)
)

// wrapRows returns rows whose end commits the transaction that their statement was put into, if it was.
func (c *Conn) wrapRows(rows driver.Rows) driver.Rows {
	if c.marked == nil || c.marked.wrapped {
		return rows
	}
	c.marked.wrapped = true
	return &markedRows{native: rows, own: c.marked}
}

// Columns implements driver.Rows.
func (r *markedRows) Columns() []string { return r.native.Columns() }

// Next implements driver.Rows. After the last row it commits.
func (r *markedRows) Next(dest []driver.Value) error {
	err := r.native.Next(dest)
	switch {
	case err == nil:
	case err != io.EOF: //nolint:errorlint // database/sql compares the same way
		r.failed = err
	case !r.HasNextResultSet():
		if told := r.end(); told != nil {
			return told
		}
	}
	return err
}

// Close implements driver.Rows. It commits when that has not been done, also when there are rows left.
func (r *markedRows) Close() error { return r.end() }

// end closes the native rows, and commits unless something was wrong with them.
func (r *markedRows) end() error {
	if r.over {
		return r.told
	}
	r.over = true
	c := r.own.c
	err := r.native.Close()
	c.marked = nil
	if err == nil && r.failed == nil {
		r.told = r.own.commit(c.writes.handing)
	} else {
		r.own.rollback(r.own.h)
		r.told = err
	}
	c.handedOut()
	return r.told
}

// HasNextResultSet implements driver.RowsNextResultSet.
func (r *markedRows) HasNextResultSet() bool {
	n, ok := r.native.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

// NextResultSet implements driver.RowsNextResultSet.
func (r *markedRows) NextResultSet() error {
	n, ok := r.native.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	err := n.NextResultSet()
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return err
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *markedRows) ColumnTypeDatabaseTypeName(index int) string {
	if n, ok := r.native.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return n.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *markedRows) ColumnTypeLength(index int) (length int64, ok bool) {
	if n, ok := r.native.(driver.RowsColumnTypeLength); ok {
		return n.ColumnTypeLength(index)
	}
	return 0, false
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *markedRows) ColumnTypeNullable(index int) (nullable, ok bool) {
	if n, ok := r.native.(driver.RowsColumnTypeNullable); ok {
		return n.ColumnTypeNullable(index)
	}
	return false, false
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *markedRows) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	if n, ok := r.native.(driver.RowsColumnTypePrecisionScale); ok {
		return n.ColumnTypePrecisionScale(index)
	}
	return 0, 0, false
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *markedRows) ColumnTypeScanType(index int) reflect.Type {
	if n, ok := r.native.(driver.RowsColumnTypeScanType); ok {
		return n.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}
