package readroute

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"
)

// Conn is what (*sql.Conn).Raw on the routed pool hands out. It belongs to the caller until Raw returns.
type Conn interface {
	driver.Conn
	// Primary returns the native connection to the primary, such as *stdlib.Conn. It stays attached until the *sql.Conn is
	// closed, and everything done on it counts as a write of ctx's session, whose position is taken then.
	Primary(ctx context.Context) (driver.Conn, error)
}

// PrimaryRaw calls f with a native connection to the primary, such as *stdlib.Conn, for what database/sql cannot do
// (COPY). It counts as a write: when PrimaryRaw returns, the session of ctx is held to a position that covers it. A
// connection that f leaves in a transaction is closed; other session state that f leaves (SET, a temporary table) is not seen
// and stays with the connection, so f has to put it back. With [WithRemoteApply] a commit
// of f waits as any other does, and where it could not, f is not called: [ErrRemoteApply]. The error of f is returned as it is; f
// must not keep the connection.
func (db *DB) PrimaryRaw(ctx context.Context, f func(driverConn any) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	err = conn.Raw(func(v any) error {
		c, ok := v.(Conn)
		if !ok {
			return fmt.Errorf("readroute: PrimaryRaw: a wrapper hides the routed connection behind a %T", v)
		}
		native, err := c.Primary(ctx)
		if err != nil {
			return err
		}
		return f(native)
	})
	if closed := conn.Close(); err == nil && closed != nil && closed != sql.ErrConnDone { //nolint:errorlint // never wrapped
		err = closed
	}
	return err
}

// PrimaryDB returns a plain pool of the primary, for tools that must not be routed: migrations, LISTEN, advisory locks.
// It follows the primary: after a failover its new connections lead to the new one, and idle ones to the old are
// closed. Its connections are the native driver's own and are counted on their own, within the primary's MaxOpenConns.
// Writes through it leave no position: call [DB.Fence] where a session has to see them; what a context of this package says, such
// as [WithRemoteApply], says nothing to it. It is opened by the first call,
// and [DB.Close] closes it; do not close it.
func (db *DB) PrimaryDB() *sql.DB { return db.plain.get() }

// plainPool is the pool behind PrimaryDB.
type plainPool struct {
	db *DB

	mu     sync.Mutex
	pool   *sql.DB // guarded by mu
	closed bool    // guarded by mu
}

func (p *plainPool) get() *sql.DB {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool == nil {
		n := p.db.config.Primary
		p.pool = sql.OpenDB(primaryConnector{p.db})
		p.pool.SetMaxOpenConns(n.MaxOpenConns)
		p.pool.SetMaxIdleConns(n.MaxIdleConns)
		p.pool.SetConnMaxLifetime(n.ConnMaxLifetime)
		p.pool.SetConnMaxIdleTime(n.ConnMaxIdleTime)
		if p.closed {
			_ = p.pool.Close()
		}
	}
	return p.pool
}

// drop closes the idle connections.
func (p *plainPool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != nil {
		p.pool.SetMaxIdleConns(-1)
		p.pool.SetMaxIdleConns(p.db.config.Primary.MaxIdleConns)
	}
}

func (p *plainPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.pool == nil {
		return nil
	}
	return p.pool.Close()
}

// primaryConnector opens native connections to whichever node is the primary.
type primaryConnector struct{ db *DB }

// Connect implements driver.Connector.
func (c primaryConnector) Connect(ctx context.Context) (driver.Conn, error) {
	return c.db.nodes[c.db.monitor.Snapshot().Primary].Connector.Connect(ctx)
}

// Driver implements driver.Connector.
func (c primaryConnector) Driver() driver.Driver { return c.db.nodes[0].Connector.Driver() }
