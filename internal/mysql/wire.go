package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/readroute/readroute/internal/monitor"
)

// Wire returns what can be asked of a native connection itself. A connection of this package's [Connector] has a socket
// that can be looked at and closed; any other tells next to nothing.
func (Engine) Wire(conn driver.Conn) monitor.Wire {
	return &wire{conn, socketOf(conn)}
}

// wire is a connection of go-sql-driver/mysql, or of any driver that speaks to these servers.
type wire struct {
	conn   driver.Conn
	socket *socket // nil when it is not known
}

// Link sends texts without arguments, which leaves no prepared statement behind.
func (w *wire) Link() monitor.Link { return &Link{conn: w.conn} }

// OwnLink is Link: the text protocol needs nothing to be prepared.
func (w *wire) OwnLink() monitor.Link { return w.Link() }

// InTx cannot tell: the driver keeps the server's status flags to itself.
func (w *wire) InTx() (open, known bool) { return false, false }

// Broken is exact when the socket is known: the driver closes it on whatever leaves it out of step with the server. Else it
// is what the driver says of itself, which it does not say of a connection that has an open result.
func (w *wire) Broken() bool {
	if w.socket != nil {
		return w.socket.closed()
	}
	v, ok := w.conn.(driver.Validator)
	return ok && !v.IsValid()
}

// Tells reports that Broken is more than a guess.
func (w *wire) Tells() bool {
	_, ok := w.conn.(driver.Validator)
	return ok || w.socket != nil
}

// HungUp costs a system call. Without a known socket it is false.
func (w *wire) HungUp() bool { return w.socket != nil && !w.socket.closed() && hungUp(w.socket.Conn) }

// Interrupt closes the socket: closing a net.Conn is safe beside its use. Without a known socket it does nothing, since
// the driver's own Close is not: it says goodbye on a connection that another goroutine writes to.
func (w *wire) Interrupt() {
	if w.socket != nil {
		_ = w.socket.Close()
	}
}

// Link asks on a native connection. It remembers what seldom changes of the server there, so that to ask on one and the
// same Link costs less than to make a new one each time. It is for one goroutine at a time, as the connection is.
type Link struct {
	conn   driver.Conn
	memory memory
}

func (l *Link) recall() *memory { return &l.memory }

// QueryRow implements monitor.Link.
func (l *Link) QueryRow(ctx context.Context, query string) ([]string, error) {
	_, rows, err := l.query(ctx, query, 1)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// Query runs a statement without arguments and returns its columns' names and its rows as text, NULL as "".
func (l *Link) Query(ctx context.Context, query string) (columns []string, rows [][]string, err error) {
	return l.query(ctx, query, -1)
}

func (l *Link) query(ctx context.Context, query string, limit int) (columns []string, list [][]string, err error) {
	q, ok := l.conn.(driver.QueryerContext)
	if !ok {
		return nil, nil, fmt.Errorf("ask the server: driver connection %T cannot query with a context", l.conn)
	}
	rows, err := q.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	columns = rows.Columns()
	dest := make([]driver.Value, len(columns))
	for limit < 0 || len(list) < limit {
		if err := rows.Next(dest); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return nil, nil, err
		}
		row := make([]string, len(dest))
		for i, v := range dest {
			switch v := v.(type) {
			case string:
				row[i] = v
			case []byte:
				row[i] = string(v)
			case nil:
			default:
				row[i] = fmt.Sprint(v)
			}
		}
		list = append(list, row)
	}
	return columns, list, nil
}

// Close implements monitor.Link.
func (l *Link) Close() error { return l.conn.Close() }
