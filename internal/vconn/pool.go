package vconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

// Engine is what a pool needs to know of the servers' kind.
type Engine interface {
	monitor.Engine
	// ReadOnlySQL makes a session refuse writes.
	ReadOnlySQL() string
	// SettingsSQL tells what a session is like: whether the node is a replica, whether transactions are read-only unless they
	// say otherwise, the statement timeout in milliseconds, and how many connections the user may have.
	SettingsSQL() string
	// SettingNames are what the server calls the second and the third of them, and how the second is turned off.
	SettingNames() (readOnly, timeout, remedy string)
	// Capabilities says, a sentence each, what the server does not have or the user may not see; nothing when all is well.
	Capabilities(ctx context.Context, link monitor.Link) []string
	// RemoteApplySQL makes commits of the session, or with local of its transaction, wait until a synchronous standby shows
	// them, if there is one. Its row is what was set before and how many such standbys there are. It is empty when the server has no such
	// thing. RestoreSQL puts back what was set before.
	RemoteApplySQL(local bool) string
	RestoreSQL(before string) string
	// SelfSQL tells a connection its own Backend; ParseSelf reads its row.
	SelfSQL() string
	ParseSelf(row []string) (monitor.Backend, error)
	// Wire returns what can be asked of a native connection itself.
	Wire(conn driver.Conn) monitor.Wire
	// Down reports that a failure to open a connection is the server's, not the caller's.
	Down(err error) bool
	// Refused reports that the server said no, so that nothing was committed.
	Refused(err error) bool
	// NotSent reports that the statement never reached the server.
	NotSent(err error) bool
	// ReadOnly reports that the server, the session or the transaction refuses writes.
	ReadOnly(err error) bool
	// Retry says whether a read that a replica answered with err may be run once more.
	Retry(err error) core.Retry
}

// ReadOnlyConnector is a connector that can open connections which refuse writes from their first moment.
type ReadOnlyConnector interface {
	driver.Connector
	ReadOnly() driver.Connector
}

// ErrNotPrimary is returned, wrapped, when the node that is to take a write is not a primary.
var ErrNotPrimary = errors.New("readroute: no primary")

// PoolConfig is what a Pool needs.
type PoolConfig struct {
	Index           int
	Name            string
	Connector       driver.Connector
	Engine          Engine
	Writer          bool // for the primary role; otherwise its connections refuse writes
	Pooled          bool // a pooler shares the server's sessions: nothing of ours may be left in one
	DialTimeout     time.Duration
	MaxOpenConns    int
	MaxIdleConns    int
	ConnMaxLifetime time.Duration
	ConnMaxIdleTime time.Duration
	// Judge returns what a server that accepts writes while it replicates has said as that of a primary, when it counts as one. It may be nil.
	Judge func(core.Sample) core.Sample
	// Proved hears what a connection of a writer was told when it was opened. It may be nil.
	Proved func(core.Sample)
	// Elsewhere hears what a connection of a writer was told that does not lead to a primary. It may be nil.
	Elsewhere func(core.Sample)
	// Dialled hears of every attempt to open a connection.
	Dialled func(error)
}

// Pool is a node's pool of physical connections for one role.
type Pool struct {
	// What each statement needs comes first: it is one cache line.
	parked  []slot
	epoch   atomic.Uint64
	now     atomic.Int64 // nanoseconds since began, as of the last tick
	silent  atomic.Bool  // the node does not answer
	shared  atomic.Bool  // several servers answer under its name
	closed  atomic.Bool
	ticking atomic.Bool // timer is set
	ticks   bool        // parked connections have to be looked at
	writer  bool        // as in PoolConfig
	capped  bool        // there is a limit on open connections
	ages    bool        // there is one on their age

	waiting atomic.Int32 // how many look for a connection past the slots, where their number is limited
	dialled atomic.Int32 // connections that are open or being opened
	began   time.Time    // when the pool was made
	timer   *time.Timer  // calls tick
	cfg     PoolConfig
	db      *sql.DB
	// Parked connections that were closed: they were too old, or idle for too long.
	agedOut, idledOut atomic.Int64

	mu   sync.Mutex
	open map[*physical]struct{} // guarded by mu
}

// NewPool makes a pool. It opens nothing yet.
func NewPool(cfg PoolConfig) *Pool {
	p := &Pool{
		cfg: cfg, ticks: cfg.ticks(), writer: cfg.Writer, capped: cfg.MaxOpenConns > 0, ages: cfg.ConnMaxLifetime > 0,
		parked: make([]slot, cfg.slots()), began: time.Now(), open: make(map[*physical]struct{}),
	}
	p.timer = time.AfterFunc(time.Hour, p.tick)
	p.timer.Stop()
	p.db = sql.OpenDB(poolConnector{p})
	p.db.SetMaxOpenConns(cfg.MaxOpenConns)
	p.limitIdle()
	p.db.SetConnMaxLifetime(cfg.ConnMaxLifetime)
	p.db.SetConnMaxIdleTime(cfg.ConnMaxIdleTime)
	return p
}

// Close closes the idle connections and refuses new checkouts; those that are out are closed when they come back.
func (p *Pool) Close() error {
	p.closed.Store(true)
	p.timer.Stop()
	p.unpark()
	return p.db.Close()
}

// limitIdle keeps the limit on idle connections, of which the parked ones are some.
func (p *Pool) limitIdle() { p.db.SetMaxIdleConns(p.cfg.MaxIdleConns - len(p.parked)) }

// Stats returns the pool's statistics. A parked connection is an idle one.
func (p *Pool) Stats() sql.DBStats {
	s := p.db.Stats()
	s.MaxLifetimeClosed += p.agedOut.Load()
	s.MaxIdleTimeClosed += p.idledOut.Load()
	for i := range p.parked {
		if p.parked[i].Load() != nil && s.InUse > 0 {
			s.InUse--
			s.Idle++
		}
	}
	return s
}

// Drop closes the idle connections now and those that are out when they come back: the node has changed its role.
func (p *Pool) Drop() {
	p.epoch.Add(1)
	p.unpark()
	p.db.SetMaxIdleConns(-1)
	p.limitIdle()
}

// Share says that several servers answer under the node's name.
func (p *Pool) Share() { p.shared.Store(true) }

// Silence says that the node does not answer, until Answer. Reads that wait for it on an open connection are ended, so
// that they can go elsewhere, and no connection is opened; nothing else is ended.
func (p *Pool) Silence() {
	p.silent.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if c.busy.CompareAndSwap(busyAsking, busyInterrupted) {
			c.wire.Interrupt()
		}
	}
}

// Answer says that the node answers again.
func (p *Pool) Answer() { p.silent.Store(false) }

func (p *Pool) remember(c *physical) {
	p.mu.Lock()
	p.open[c] = struct{}{}
	p.mu.Unlock()
}

func (p *Pool) forget(c *physical) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

// poolConnector opens physical connections.
type poolConnector struct{ p *Pool }

// Driver returns the native driver.
func (c poolConnector) Driver() driver.Driver { return c.p.cfg.Connector.Driver() }

// Connect opens a connection, asks it who it is, and refuses one that is not of the pool's role.
func (c poolConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if g, ok := ctx.(*getting); ok {
		ctx = g.Context // what a driver makes of it may outlive the checkout, whose context is used again
	}
	c.p.dialled.Add(1)
	p, err := c.p.dial(ctx)
	if c.p.cfg.Dialled != nil && ctx.Err() == nil && err != errSilent { //nolint:errorlint // never wrapped
		c.p.cfg.Dialled(err)
	}
	if err != nil {
		c.p.dialled.Add(-1)
		return nil, err
	}
	return p, nil
}

// limited is ctx for what a server of the pool has to answer within DialTimeout.
func (p *Pool) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.cfg.DialTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.cfg.DialTimeout)
}

// writerDials is how many times DialTimeout a connection to the primary may take to open for a caller who sets no deadline. There is no
// other node for a write, so it is more than a replica is given; and it ends, since a server that takes nothing in says nothing.
const writerDials = 5

func (p *Pool) dial(ctx context.Context) (*physical, error) {
	if p.silent.Load() {
		// database/sql opens connections one after the other: whoever waits for one would wait for all before it.
		return nil, errSilent
	}
	caller, connector, readOnly := ctx, p.cfg.Connector, false
	if p.cfg.Writer {
		if _, has := ctx.Deadline(); !has && p.cfg.DialTimeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, writerDials*p.cfg.DialTimeout)
			defer cancel()
		}
	} else {
		var cancel context.CancelFunc
		ctx, cancel = p.limited(ctx)
		defer cancel()
		var ro ReadOnlyConnector
		if ro, readOnly = connector.(ReadOnlyConnector); readOnly && !p.cfg.Pooled {
			connector = ro.ReadOnly()
		}
	}
	epoch := p.epoch.Load()
	native, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := newPhysical(native, p, epoch)
	if err := c.introduce(ctx, readOnly); err != nil {
		_ = native.Close()
		if ended := caller.Err(); ended != nil {
			return nil, ended // as it is, like that of the driver's own dial
		}
		return nil, err
	}
	c.opened = time.Now()
	p.remember(c)
	return c, nil
}

// introduce reads who the server is, on the new connection itself.
func (c *physical) introduce(ctx context.Context, readOnly bool) error {
	cfg := &c.pool.cfg
	link := c.wire.Link()
	var err error
	if !cfg.Writer && !readOnly && !cfg.Pooled {
		sql := cfg.Engine.ReadOnlySQL()
		if sql == "" {
			return fmt.Errorf("make a session of node %q read-only: the kind of its server is not known yet", cfg.Name)
		}
		if _, err = link.QueryRow(ctx, sql); err != nil {
			return fmt.Errorf("make a session of node %q read-only: %w", cfg.Name, err)
		}
	}
	if c.proof, err = monitor.Ask(ctx, link, cfg.Engine); err != nil {
		return fmt.Errorf("ask node %q who it is: %w", cfg.Name, err)
	}
	if !cfg.Writer {
		return nil
	}
	if cfg.Judge != nil {
		c.proof = cfg.Judge(c.proof)
	}
	if c.proof.Role != core.RolePrimary {
		if cfg.Elsewhere != nil {
			cfg.Elsewhere(c.proof)
		}
		return fmt.Errorf("%w: node %q is a %s", ErrNotPrimary, cfg.Name, c.proof.Role)
	}
	if cfg.Proved != nil {
		cfg.Proved(c.proof)
	}
	if cfg.Pooled {
		return nil // each statement may have another session
	}
	row, err := link.QueryRow(ctx, cfg.Engine.SelfSQL())
	if err == nil {
		c.backend, err = cfg.Engine.ParseSelf(row)
	}
	if err != nil {
		return fmt.Errorf("ask node %q for its session: %w", cfg.Name, err)
	}
	return nil
}
