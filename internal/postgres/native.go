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

// Link returns a way to ask on a native connection. With pgx it uses the simple protocol, which leaves no prepared
// statement behind; with another driver, a query without arguments.
func (Engine) Link(conn driver.Conn) monitor.Link {
	if c, ok := conn.(pgxConn); ok {
		return stdlibLink{PgxLink{c.Conn()}, conn}
	}
	return driverLink{conn}
}

// InTx reports whether the native connection has an open transaction, failed or not.
func (Engine) InTx(conn driver.Conn) (open, known bool) {
	c, ok := conn.(pgxConn)
	if !ok {
		return false, false
	}
	if c.Conn().IsClosed() {
		return false, true
	}
	return c.Conn().PgConn().TxStatus() != 'I', true
}

// Broken reports that the native connection is closed: pgx closes a connection on which anything but an answer of the
// server has ended a statement.
func (Engine) Broken(conn driver.Conn) bool {
	if c, ok := conn.(pgxConn); ok {
		return c.Conn().IsClosed()
	}
	v, ok := conn.(driver.Validator)
	return ok && !v.IsValid()
}

// HungUp reports that the server has closed the connection while nobody used it. It costs a system call.
func (Engine) HungUp(conn driver.Conn) bool {
	c, ok := conn.(pgxConn)
	return ok && !c.Conn().IsClosed() && hungUp(c.Conn().PgConn().Conn())
}

// Interrupt closes the socket under a pgx connection; with another driver it does nothing. Closing a net.Conn is safe
// beside its use.
func (Engine) Interrupt(conn driver.Conn) {
	if c, ok := conn.(pgxConn); ok {
		_ = socket(c.Conn().PgConn().Conn()).Close()
	}
}

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
	row := make([]string, len(results[0].Rows[0]))
	for i, v := range results[0].Rows[0] {
		row[i] = string(v)
	}
	return row, nil
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
