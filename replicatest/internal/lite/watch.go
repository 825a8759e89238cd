package lite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"slices"
	"strings"
)

// Stale is a read whose rows were not those that the primary would have handed out.
type Stale struct {
	Node  string
	Query string
	// Behind is how many transactions the replica did not show.
	Behind uint64
}

// Watch has each read of a replica that is behind compared with what the primary would say, and told when it differs, on the
// goroutine of whoever reads. nil ends it.
func (f *Fleet) Watch(told func(ctx context.Context, s Stale)) {
	if told == nil {
		f.watch.Store(nil)
	} else {
		f.watch.Store(&told)
	}
}

type watcher = func(ctx context.Context, s Stale)

// behind returns who is to be told when a read is stale; nil when it cannot be.
func (c *conn) behind(query string) watcher {
	f := c.s.fleet
	told := f.watch.Load()
	if told == nil || !c.watched || kindOf(query) != kindRead || c.s.takesWrites() || f.hidden != "" && strings.Contains(query, f.hidden) ||
		c.s.applied.Load() >= f.history.newest() {
		return nil
	}
	return *told
}

// compare reads all rows, and what the primary would say. A query that says something else each time proves nothing.
func (f *Fleet) compare(ctx context.Context, told watcher, c *conn, from driver.Rows, query string, args []driver.NamedValue) (driver.Rows, error) {
	behind := f.history.newest() - c.s.applied.Load()
	seen := drain(from)
	if seen.err != nil {
		return seen, nil
	}
	first, err := f.onPrimary(ctx, query, args)
	if err != nil || sameRows(first, seen.rows) {
		return seen, nil //nolint:nilerr // the primary is down, or does not know of it: nobody can say
	}
	again, err := f.onPrimary(ctx, query, args)
	if err == nil && sameRows(first, again) {
		told(c.within(ctx), Stale{Node: c.s.name, Query: query, Behind: behind})
	}
	return seen, nil
}

// within is a statement's context, with the values of the transaction's that it is in.
func (c *conn) within(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inTx || c.begun == nil {
		return ctx
	}
	return within{ctx, c.begun}
}

type within struct {
	context.Context
	begun context.Context
}

// Value implements context.Context.
func (w within) Value(key any) any {
	if v := w.Context.Value(key); v != nil {
		return v
	}
	return w.begun.Value(key)
}

// onPrimary runs a query on the primary, past routing.
func (f *Fleet) onPrimary(ctx context.Context, query string, args []driver.NamedValue) (list [][]driver.Value, err error) {
	conn, err := f.Primary().bare.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = conn.Raw(func(native any) error {
		got, err := native.(driver.QueryerContext).QueryContext(ctx, query, slices.Clone(args))
		if err != nil {
			return err
		}
		v := drain(got)
		list = v.rows
		return v.err
	})
	return list, err
}

func sameRows(a, b [][]driver.Value) bool {
	return slices.EqualFunc(a, b, func(x, y []driver.Value) bool { return slices.EqualFunc(x, y, sameValue) })
}

func sameValue(a, b driver.Value) bool {
	x, isBytes := a.([]byte)
	if y, ok := b.([]byte); ok || isBytes {
		return ok && isBytes && bytes.Equal(x, y)
	}
	return a == b
}
