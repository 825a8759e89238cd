package simulation

import (
	"context"
	"database/sql/driver"
	"io"
	"strconv"
)

// answer is a table of text.
type answer struct {
	columns []string
	rows    [][]string
}

// one is an answer of one row.
func one(values ...string) *answer {
	a := &answer{rows: [][]string{values}}
	for i := range values {
		a.columns = append(a.columns, "c"+strconv.Itoa(i+1))
	}
	return a
}

// rows hands an answer out.
type rows struct {
	*answer
	k       *conn
	ctx     context.Context
	op      int
	next    int
	returns chan error // of a write: how its commit has gone
	closed  bool
	err     error
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return r.columns }

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	if r.next >= len(r.rows) {
		if err := r.Close(); err != nil {
			return err
		}
		return io.EOF
	}
	for i, v := range r.rows[r.next] {
		dest[i] = v
	}
	r.next++
	return nil
}

// Close implements driver.Rows. Those of a write are over when its commit is.
func (r *rows) Close() error {
	if r.closed {
		return r.err
	}
	r.closed = true
	if r.returns == nil {
		return nil
	}
	select {
	case r.err = <-r.returns:
	case <-r.ctx.Done():
		r.err = r.ctx.Err()
	case <-r.k.cut:
		r.err = errCut
	}
	if r.err == nil {
		r.k.net.c.mu.Lock()
		back := r.k.latency(r.op, rowsBack)
		r.k.net.c.mu.Unlock()
		r.err = r.k.travel(r.ctx, back)
	}
	if r.err != nil {
		r.k.shut()
	}
	return r.err
}
