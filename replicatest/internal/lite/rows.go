package lite

import (
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// rows are the native rows of a connection that the server may end at any time.
type rows struct {
	c      *conn
	query  string
	native driver.Rows
	closed bool // guarded by c.mu
}

var (
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
)

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return r.native.Columns() }

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.dead {
		return errStopped
	}
	return r.native.Next(dest)
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	r.c.mu.Lock()
	err := r.closeLocked()
	delete(r.c.open, r)
	r.c.mu.Unlock()
	r.c.after(r.query)
	return err
}

func (r *rows) closeLocked() error {
	if r.closed {
		return nil
	}
	r.closed = true
	return r.native.Close()
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if n, ok := r.native.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return n.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// ColumnTypeLength implements driver.RowsColumnTypeLength.
func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if n, ok := r.native.(driver.RowsColumnTypeLength); ok {
		return n.ColumnTypeLength(i)
	}
	return 0, false
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if n, ok := r.native.(driver.RowsColumnTypeNullable); ok {
		return n.ColumnTypeNullable(i)
	}
	return false, false
}

// ColumnTypePrecisionScale implements driver.RowsColumnTypePrecisionScale.
func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if n, ok := r.native.(driver.RowsColumnTypePrecisionScale); ok {
		return n.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if n, ok := r.native.(driver.RowsColumnTypeScanType); ok {
		return n.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

// values are rows that have been read already.
type values struct {
	columns []string
	types   []string
	rows    [][]driver.Value
	err     error // at their end; nil for io.EOF
}

// drain reads rows and closes them.
func drain(from driver.Rows) *values {
	v := &values{columns: from.Columns()}
	if n, ok := from.(driver.RowsColumnTypeDatabaseTypeName); ok {
		for i := range v.columns {
			v.types = append(v.types, n.ColumnTypeDatabaseTypeName(i))
		}
	}
	for {
		row := make([]driver.Value, len(v.columns))
		if err := from.Next(row); err != nil {
			if !errors.Is(err, io.EOF) {
				v.err = err
			}
			break
		}
		for i := range row {
			if b, ok := row[i].([]byte); ok {
				row[i] = append([]byte(nil), b...)
			}
		}
		v.rows = append(v.rows, row)
	}
	if err := from.Close(); v.err == nil {
		v.err = err
	}
	return v
}

// Columns implements driver.Rows.
func (v *values) Columns() []string { return v.columns }

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName.
func (v *values) ColumnTypeDatabaseTypeName(i int) string {
	if i < len(v.types) {
		return v.types[i]
	}
	return ""
}

// Next implements driver.Rows.
func (v *values) Next(dest []driver.Value) error {
	if len(v.rows) == 0 {
		if v.err != nil {
			return v.err
		}
		return io.EOF
	}
	copy(dest, v.rows[0])
	v.rows = v.rows[1:]
	return nil
}

// Close implements driver.Rows.
func (v *values) Close() error { return nil }
