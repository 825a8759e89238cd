package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// The functions here do to a native connection what database/sql would have done to it.

// bind applies the native rules for arguments, in database/sql's order: the statement's checker, else the
// connection's; then the statement's column converter; then the default. It works in place.
func bind(p *physical, stmt driver.Stmt, args []driver.NamedValue) ([]driver.NamedValue, error) {
	want := -1
	checker := p.checker
	var columns driver.ColumnConverter
	if stmt != nil {
		want = stmt.NumInput()
		columns, _ = stmt.(driver.ColumnConverter)
		if own, ok := stmt.(driver.NamedValueChecker); ok {
			checker = own
		}
	}
	bound := args[:0]
	for i := range args {
		last := &args[len(bound)]
		if len(bound) < i {
			*last = args[i]
		}
		last.Ordinal = len(bound) + 1
		err := check(checker, columns, want, last)
		if err == driver.ErrRemoveArgument { //nolint:errorlint // database/sql compares the same way
			continue
		}
		if err != nil {
			return nil, notSent{fmt.Errorf("sql: converting argument %s type: %w", describe(last), err)}
		}
		bound = args[:len(bound)+1]
	}
	if want != -1 && len(bound) != want {
		return nil, notSent{fmt.Errorf("sql: expected %d arguments, got %d", want, len(bound))}
	}
	return bound, nil
}

// arguments keeps those of one call as they were given. The slice that database/sql has made for the call is bound in
// place the first time.
type arguments struct {
	few  [4]driver.NamedValue // no allocation
	more []driver.NamedValue  // when few is not enough
	n    int
	used bool
}

func (a *arguments) keep(args []driver.NamedValue) {
	a.n = len(args)
	if a.n > len(a.few) {
		a.more = slices.Clone(args)
	} else {
		copy(a.few[:], args)
	}
}

// fresh returns the arguments as they were given: given itself the first time, a copy for one more node. What an earlier
// attempt was given may still be in use by its driver.
func (a *arguments) fresh(given []driver.NamedValue) []driver.NamedValue {
	switch {
	case !a.used:
		a.used = true
		return given
	case a.n > len(a.few):
		return slices.Clone(a.more)
	}
	again := make([]driver.NamedValue, a.n)
	copy(again, a.few[:])
	return again
}

func check(checker driver.NamedValueChecker, columns driver.ColumnConverter, want int, arg *driver.NamedValue) error {
	if checker != nil {
		if err := checker.CheckNamedValue(arg); err != driver.ErrSkip { //nolint:errorlint // as above
			return err
		}
	}
	if columns != nil {
		if err := convertColumn(columns, want, arg); err != driver.ErrSkip { //nolint:errorlint // as above
			return err
		}
	}
	v, err := driver.DefaultParameterConverter.ConvertValue(arg.Value)
	arg.Value = v
	return err
}

// convertColumn lets the statement's column converter have its say. It is not asked for a column that it does not
// expect.
func convertColumn(columns driver.ColumnConverter, want int, arg *driver.NamedValue) error {
	index := arg.Ordinal - 1
	if want >= 0 && want <= index {
		return nil
	}
	if valuer, ok := arg.Value.(driver.Valuer); ok {
		v, err := valueOf(valuer)
		if err != nil {
			return err
		}
		if !driver.IsValue(v) {
			return fmt.Errorf("non-subset type %T returned from Value", v)
		}
		arg.Value = v
	}
	v, err := columns.ColumnConverter(index).ConvertValue(arg.Value)
	if err != nil {
		return err
	}
	if !driver.IsValue(v) {
		return fmt.Errorf("driver ColumnConverter error converted %T to unsupported type %T", arg.Value, v)
	}
	arg.Value = v
	return nil
}

// valueOf calls Value. A nil pointer whose Value method has a value receiver, which would panic, is NULL.
func valueOf(v driver.Valuer) (driver.Value, error) {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() &&
		r.Type().Elem().Implements(reflect.TypeFor[driver.Valuer]()) {
		return nil, nil
	}
	return v.Value()
}

func describe(arg *driver.NamedValue) string {
	if arg.Name != "" {
		return fmt.Sprintf("with name %q", arg.Name)
	}
	return fmt.Sprintf("$%d", arg.Ordinal)
}

// values is for drivers of the time before named arguments.
func values(args []driver.NamedValue) ([]driver.Value, error) {
	out := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		out[i] = a.Value
	}
	return out, nil
}

func nativeQuery(ctx context.Context, p *physical, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, isOld := driver.Queryer(nil), false //nolint:staticcheck // database/sql still serves such drivers
	if p.queryer == nil {
		if q, isOld = p.native.(driver.Queryer); !isOld { //nolint:staticcheck // as above
			return nil, driver.ErrSkip
		}
	}
	bound, err := bind(p, nil, args)
	if err != nil {
		return nil, err
	}
	if p.queryer != nil {
		return p.queryer.QueryContext(ctx, query, bound)
	}
	old, err := values(bound)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return q.Query(query, old)
}

func nativeExec(ctx context.Context, p *physical, query string, args []driver.NamedValue) (driver.Result, error) {
	e, isOld := driver.Execer(nil), false //nolint:staticcheck // database/sql still serves such drivers
	if p.execer == nil {
		if e, isOld = p.native.(driver.Execer); !isOld { //nolint:staticcheck // as above
			return nil, driver.ErrSkip
		}
	}
	bound, err := bind(p, nil, args)
	if err != nil {
		return nil, err
	}
	if p.execer != nil {
		return p.execer.ExecContext(ctx, query, bound)
	}
	old, err := values(bound)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return e.Exec(query, old)
}

func nativePrepare(ctx context.Context, conn driver.Conn, query string) (driver.Stmt, error) {
	if pc, ok := conn.(driver.ConnPrepareContext); ok {
		return pc.PrepareContext(ctx, query)
	}
	stmt, err := conn.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = stmt.Close()
		return nil, ctx.Err()
	}
	return stmt, err
}

func nativeStmtQuery(ctx context.Context, p *physical, stmt driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	bound, err := bind(p, stmt, args)
	if err != nil {
		return nil, err
	}
	if qc, ok := stmt.(driver.StmtQueryContext); ok {
		return qc.QueryContext(ctx, bound)
	}
	old, err := values(bound)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return stmt.Query(old) //nolint:staticcheck // database/sql still serves such drivers
}

func nativeStmtExec(ctx context.Context, p *physical, stmt driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	bound, err := bind(p, stmt, args)
	if err != nil {
		return nil, err
	}
	if ec, ok := stmt.(driver.StmtExecContext); ok {
		return ec.ExecContext(ctx, bound)
	}
	old, err := values(bound)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return stmt.Exec(old) //nolint:staticcheck // database/sql still serves such drivers
}

// textStmt is a prepared statement that is not prepared anywhere.
type textStmt struct {
	p    *physical
	text string
}

// Close has nothing to close.
func (s *textStmt) Close() error { return nil }

// NumInput leaves the count to the server.
func (s *textStmt) NumInput() int { return -1 }

// Exec is not used: database/sql's own rules have been applied, and ExecContext is preferred.
func (s *textStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errStmtOld }

// Query is not used.
func (s *textStmt) Query([]driver.Value) (driver.Rows, error) { return nil, errStmtOld }

// ExecContext runs the text with arguments that are bound already.
func (s *textStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if s.p.execer == nil {
		return nil, errNoText
	}
	return s.p.execer.ExecContext(ctx, s.text, args)
}

// QueryContext is like ExecContext.
func (s *textStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if s.p.queryer == nil {
		return nil, errNoText
	}
	return s.p.queryer.QueryContext(ctx, s.text, args)
}

var errNoText = errors.New("readroute: the driver runs prepared statements only, which a pooled node cannot have")

func nativeBegin(ctx context.Context, conn driver.Conn, opts driver.TxOptions) (driver.Tx, error) {
	if bt, ok := conn.(driver.ConnBeginTx); ok {
		return bt.BeginTx(ctx, opts)
	}
	switch {
	case opts.Isolation != 0:
		return nil, errors.New("sql: driver does not support non-default isolation level")
	case opts.ReadOnly:
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	tx, err := conn.Begin() //nolint:staticcheck // database/sql still serves such drivers
	if err == nil && ctx.Err() != nil {
		_ = tx.Rollback()
		return nil, ctx.Err()
	}
	return tx, err
}
