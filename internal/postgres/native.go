package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"

	"github.com/readroute/readroute/internal/monitor"
)

// pgxConn is what pgx's database/sql connections let through.
type pgxConn interface {
	driver.Conn
	Conn() *pgx.Conn
}

// Wire returns what can be asked of a native connection itself. pgx tells all of it; another driver, next to nothing.
func (Engine) Wire(conn driver.Conn) monitor.Wire {
	if w, ok := PgxWire(conn); ok {
		return w
	}
	return driverWire{conn}
}

// PgxWire returns what can be asked of a connection of pgx. ok is false for one of another driver.
func PgxWire(conn driver.Conn) (w monitor.Wire, ok bool) {
	c, ok := conn.(pgxConn)
	if !ok {
		return nil, false
	}
	return pgxWire{c.Conn(), conn}, true
}

// pgxWire is the pgx connection under a database/sql connection.
type pgxWire struct {
	pgx  *pgx.Conn
	conn driver.Conn
}

// Link uses the simple protocol, which leaves no prepared statement behind.
func (w pgxWire) Link() monitor.Link { return stdlibLink{PgxLink{w.pgx}, w.conn} }

// OwnLink prepares what is asked again and again: planning the probe costs the server more than running it.
func (w pgxWire) OwnLink() monitor.Link {
	return &preparedLink{stdlibLink: stdlibLink{PgxLink{w.pgx}, w.conn}}
}

// InTx counts a failed transaction as an open one.
func (w pgxWire) InTx() (open, known bool) {
	return !w.pgx.IsClosed() && w.pgx.PgConn().TxStatus() != 'I', true
}

// Broken is exact: pgx closes a connection on which anything but an answer of the server has ended a statement.
func (w pgxWire) Broken() bool { return w.pgx.IsClosed() }

// HungUp costs a system call.
func (w pgxWire) HungUp() bool { return !w.pgx.IsClosed() && hungUp(w.pgx.PgConn().Conn()) }

// Interrupt closes the socket: closing a net.Conn is safe beside its use.
func (w pgxWire) Interrupt() { _ = socket(w.pgx.PgConn().Conn()).Close() }

// driverWire is a connection of any driver.
type driverWire struct{ conn driver.Conn }

// Link uses a query without arguments.
func (w driverWire) Link() monitor.Link { return driverLink(w) }

// OwnLink is Link.
func (w driverWire) OwnLink() monitor.Link { return w.Link() }

// InTx cannot tell.
func (w driverWire) InTx() (open, known bool) { return false, false }

// Broken is what the driver says of itself.
func (w driverWire) Broken() bool {
	v, ok := w.conn.(driver.Validator)
	return ok && !v.IsValid()
}

// Tells reports that Broken is more than a guess.
func (w driverWire) Tells() bool {
	_, ok := w.conn.(driver.Validator)
	return ok
}

// HungUp cannot tell.
func (w driverWire) HungUp() bool { return false }

// Interrupt does nothing.
func (w driverWire) Interrupt() {}

// socket is what is under TLS, whose own Close says goodbye first, and waits for a peer that takes nothing any more.
func socket(conn net.Conn) net.Conn {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return wrapped.NetConn()
	}
	return conn
}

// PgxLink asks on a pgx connection.
type PgxLink struct {
	Conn *pgx.Conn
}

// QueryRow implements monitor.Link.
func (l PgxLink) QueryRow(ctx context.Context, query string) ([]string, error) {
	results, err := l.Conn.PgConn().Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) == 0 {
		return nil, nil
	}
	return textRow(results[0].Rows[0]), nil
}

func textRow(values [][]byte) []string {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = string(v)
	}
	return row
}

// Close implements monitor.Link.
func (l PgxLink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return l.Conn.Close(ctx)
}

// stdlibLink asks on the pgx connection under a database/sql connection, and closes the latter: it may belong to a
// pgxpool.Pool that waits for it.
type stdlibLink struct {
	PgxLink
	conn driver.Conn
}

// Close implements monitor.Link.
func (l stdlibLink) Close() error { return l.conn.Close() }

// preparedLink prepares a question the second time that it is asked.
type preparedLink struct {
	stdlibLink
	asked    string // the question that was asked last
	prepared bool   // as probeStatement
}

// probeStatement is the name of the prepared question. An own connection has but one that comes again.
const probeStatement = "readroute_probe"

// QueryRow implements monitor.Link.
func (l *preparedLink) QueryRow(ctx context.Context, query string) ([]string, error) {
	switch {
	case l.prepared && query == l.asked:
	case l.prepared || query != l.asked:
		if !l.prepared {
			l.asked = query
		}
		return l.stdlibLink.QueryRow(ctx, query)
	default:
		if _, err := l.Conn.PgConn().Prepare(ctx, probeStatement, query, nil); err != nil {
			return nil, err
		}
		l.prepared = true
	}
	result := l.Conn.PgConn().ExecPrepared(ctx, probeStatement, nil, nil, nil).Read()
	if result.Err != nil || len(result.Rows) == 0 {
		return nil, result.Err
	}
	return textRow(result.Rows[0]), nil
}

// driverLink asks on a connection of any driver.
type driverLink struct {
	conn driver.Conn
}

// QueryRow implements monitor.Link.
func (l driverLink) QueryRow(ctx context.Context, query string) (row []string, err error) {
	q, ok := l.conn.(driver.QueryerContext)
	if !ok {
		return nil, fmt.Errorf("ask the server: driver connection %T cannot query with a context", l.conn)
	}
	rows, err := q.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	dest := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(dest); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	for _, v := range dest {
		switch v := v.(type) {
		case string:
			row = append(row, v)
		case []byte:
			row = append(row, string(v))
		case nil:
			row = append(row, "")
		default:
			row = append(row, fmt.Sprint(v))
		}
	}
	return row, nil
}

// Close implements monitor.Link.
func (l driverLink) Close() error { return l.conn.Close() }
