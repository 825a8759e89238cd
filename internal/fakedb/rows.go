package fakedb

import (
	"database/sql/driver"
	"io"
	"strconv"
)

// TextRows returns rows of strings. Without column names the columns are called c1, c2 and so on.
func TextRows(columns []string, rows ...[]string) driver.Rows {
	if columns == nil && len(rows) > 0 {
		for i := range rows[0] {
			columns = append(columns, "c"+strconv.Itoa(i+1))
		}
	}
	return &textRows{columns: columns, rows: rows}
}

type textRows struct {
	columns []string
	rows    [][]string
}

func (r *textRows) Columns() []string { return r.columns }

func (r *textRows) Close() error { return nil }

func (r *textRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	for i, v := range r.rows[0] {
		dest[i] = v
	}
	r.rows = r.rows[1:]
	return nil
}
