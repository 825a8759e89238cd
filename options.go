package readroute

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/readroute/readroute/internal/core"
)

// The defaults of Config and Node.
const (
	DefaultName            = "main"
	DefaultWaitTimeout     = 100 * time.Millisecond
	DefaultStickyWindow    = 15 * time.Second
	DefaultMaxLag          = 30 * time.Second
	DefaultProbeInterval   = 500 * time.Millisecond
	DefaultProbeTimeout    = time.Second
	DefaultCaptureTimeout  = 50 * time.Millisecond
	DefaultClockSkew       = 2 * time.Minute
	DefaultFallbackLimit   = 32
	DefaultMaxWaiters      = 10_000
	DefaultMaxIdleConns    = 16
	DefaultConnMaxIdleTime = 5 * time.Minute

	DefaultCatalogueInterval = time.Minute
)

// maxNodes is how many nodes a decision can hold.
const maxNodes = 64

// maxSetting is the longest that a duration can be set to: sums of a few of them, and of one and a time, fit.
const maxSetting = 10 * 365 * 24 * time.Hour

// Config says what a [DB] is made of. Only Primary is needed. The zero value of every other field means its default; a
// negative value is refused by [Open] unless the field says otherwise, and so is a duration of more than ten years.
type Config struct {
	// Name is the cluster's name: tokens carry positions by it, so every process of a service must use the same one, and
	// two clusters different ones. At most 255 bytes; a token of 64 characters needs at most 16.
	// Defaults to "main".
	Name string

	// Primary is the node that is taken for the primary until the nodes have been asked. Roles are observed: after a
	// failover the promoted replica takes the writes.
	Primary Node

	// Replicas are the other nodes. There may be none: everything runs on the primary then.
	Replicas []Node

	// Strategy is how a session's reads come to see its writes.
	// Defaults to PositionWait(100 ms).
	Strategy Strategy

	// Level is the consistency of reads whose context carries a session and no level.
	// Defaults to LevelSession.
	Level Level

	// WithoutSession says what a read gets whose context carries neither a session nor a level.
	// Defaults to WithoutSessionPrimary.
	WithoutSession WithoutSession

	// Fallback says what happens to a read that no replica can serve in time.
	// Defaults to FallbackPrimary.
	Fallback Fallback

	// MaxLag is how old the state of a replica may be for it to serve reads at all. It guards against a replica that is far
	// behind; it promises no read anything. While the primary is down a replica's lag cannot be measured, and the value
	// seen last stands.
	// Defaults to 30 s.
	MaxLag time.Duration

	// StickyWindow is for how long the primary serves a session whose write has no position that could be known.
	// Defaults to 15 s.
	StickyWindow time.Duration

	// CaptureTimeout is how long a read waits for the position of its session's last write before it goes to the primary.
	// Defaults to 50 ms.
	CaptureTimeout time.Duration

	// ProbeInterval is how often each node is asked for its role and position while nobody waits for it.
	// Defaults to 500 ms.
	ProbeInterval time.Duration

	// ProbeTimeout is how long a node may take to answer before it is left out, and how long a connection to a replica may
	// take to open. One to the primary may take as long as the caller's context lets it, and five times ProbeTimeout when that has
	// no deadline.
	// Defaults to 1 s.
	ProbeTimeout time.Duration

	// FallbackLimit is how many reads that no replica can serve may be on the primary at one time. Past it a read waits
	// for what is left of its wait timeout, then gets ErrPrimaryProtected. A read that would be on the primary with every
	// node well does not count (Sticky, LevelPrimary, no session). It does not hold for reads that no replica may serve: there is
	// none, or Node.Tags keeps all of them for others.
	// Defaults to half of the primary's MaxOpenConns, or 32 when that is not limited.
	FallbackLimit int

	// MaxWaiters is how many reads may wait for a replica at one time. Past it they fall back at once.
	// Defaults to 10,000.
	MaxWaiters int

	// Zones are names of zones, the nearest first. Reads go to the nearest zone that has a replica which can serve them
	// without a wait; the zones that are not named here come last, and are alike.
	// Defaults to none: all replicas are alike.
	Zones []string

	// ReadFunctions are names of functions of yours that only read, and whose result does not depend on the session or
	// the node, so that a statement that calls them may run on a replica. Names are lower case, without a schema.
	// Defaults to none: a statement that calls an unknown function runs on the primary.
	ReadFunctions []string

	// CatalogueInterval is how often the primary's catalogue is read for what the text of a statement does not tell. Your own
	// functions are reads when the server calls every function of that name STABLE or IMMUTABLE; what reads a sequence or an
	// unlogged table, or a view, an operator, a cast or a row security policy over a function that is not harmless, stays on
	// the primary. It is read in the background as soon as there is a primary, again when there is another one, and then at
	// this interval, over a connection of its own that counts towards no limit and is closed each time. A failure is
	// EventCatalogueFailed and changes nothing. What has changed on the primary since the last reading is not known yet, and
	// before the first one, which DB.WaitReady waits for, nothing is: views and sequences are taken for tables.
	// Defaults to 1 minute. Negative means never: all that is known of your own functions then is ReadFunctions, and your
	// own views are taken for tables.
	CatalogueInterval time.Duration

	// Marker has positions made of a table, for servers that tell none; all processes of a service must use the same one. Make the
	// table with [CreateMarker] first: while there is none, sessions are on the sticky window, and EventSetting says so.
	// Defaults to none: positions are those of the servers' logs.
	Marker *Marker

	// Hooks are told of decisions and events.
	// Defaults to none.
	Hooks Hooks
}

// Node is one database server.
type Node struct {
	// Name is the node's name in decisions, statistics and errors. It must be unique and not empty.
	Name string

	// Connector opens connections to the server: [Postgres], [PostgresConfig], [MySQL], [MySQLConfig], or any driver's own for
	// PostgreSQL, MySQL 8 or MariaDB 10.6 and later whose connections implement driver.QueryerContext. Which kind of server it
	// is, is asked of the server. All nodes of a cluster are of one kind: a server of another than the first that has
	// answered (the configured primary, when it is up) is left out, and says so in NodeStatus.Err.
	Connector driver.Connector

	// Weight is the node's share of reads among the replicas of its zone.
	// Defaults to 1.
	Weight int

	// Zone is where the node is; see Config.Zones.
	Zone string

	// Tags keep the node for reads that ask for one of them ([WithTags]): reports, search, exports. It serves no other read. As a
	// primary it takes the writes all the same.
	// Defaults to none: the node serves reads that ask for no tag.
	Tags []string

	// SharedEndpoint says that several servers answer under this address (a load balancer). What one connection learns
	// proves nothing for another then: each read asks on its own connection first, one more round trip. A node that is
	// found to be like that is treated so by itself.
	SharedEndpoint bool

	// Pooled says that a pooler in transaction mode (PgBouncer) stands before the server, so that statements of several
	// clients share its sessions. Then the library leaves nothing of its own in a session: no startup parameter, no SET, no
	// prepared statement. Session state that a statement of yours leaves behind outside a transaction (SET, LISTEN, an
	// advisory lock, a temporary table) is reported as EventPooledState: it has leaked to other clients. A connection of
	// the pooler outlives a restart of the server, so each read that must be fresh asks on its own connection first, one
	// more round trip, as with SharedEndpoint. Prepared statements are run as text, so that bad SQL fails when it runs; a
	// write whose outcome is unknown holds its session to the primary for StickyWindow; the replica's own refusal of
	// writes is all that keeps a misjudged one from it; and a read that is under way on a server that falls silent behind the
	// pooler is not ended, as nobody can tell that from a pooler that is full: give its context a deadline.
	//
	// Connectors of this package open connections in pgx's "exec" mode unless their config says "cache_describe" or
	// "simple_protocol"; "cache_statement" needs a pooler that follows prepared statements (PgBouncer 1.21) and a connector
	// of your own (stdlib.GetConnector).
	//
	// A pooler that spreads one database over several servers is both Pooled and a SharedEndpoint: nothing can be proven on
	// it, and it serves no read that must be fresh.
	Pooled bool

	// MaxOpenConns is the limit on open connections of the node's pool, as (*sql.DB).SetMaxOpenConns. The library uses one
	// more connection a node, and two on the primary; a third there while it reads the catalogue.
	// Defaults to no limit.
	MaxOpenConns int

	// MaxIdleConns is the limit on idle connections of the node's pool, as (*sql.DB).SetMaxIdleConns.
	// Defaults to 16, or MaxOpenConns when that is lower.
	MaxIdleConns int

	// ConnMaxLifetime is how long a connection is used, as (*sql.DB).SetConnMaxLifetime.
	// Defaults to no limit.
	ConnMaxLifetime time.Duration

	// ConnMaxIdleTime is how long a connection stays idle, as (*sql.DB).SetConnMaxIdleTime.
	// Defaults to 5 minutes.
	ConnMaxIdleTime time.Duration
}

// withDefaults returns a copy with every default filled in.
func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, DefaultName)
	c.Level = cmp.Or(c.Level, LevelSession)
	c.Fallback = cmp.Or(c.Fallback, FallbackPrimary)
	c.MaxLag = cmp.Or(c.MaxLag, DefaultMaxLag)
	c.StickyWindow = cmp.Or(c.StickyWindow, DefaultStickyWindow)
	c.CaptureTimeout = cmp.Or(c.CaptureTimeout, DefaultCaptureTimeout)
	c.ProbeInterval = cmp.Or(c.ProbeInterval, DefaultProbeInterval)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, DefaultProbeTimeout)
	c.MaxWaiters = cmp.Or(c.MaxWaiters, DefaultMaxWaiters)
	c.CatalogueInterval = cmp.Or(c.CatalogueInterval, DefaultCatalogueInterval)
	if c.FallbackLimit == 0 {
		c.FallbackLimit = DefaultFallbackLimit
		if n := c.Primary.MaxOpenConns; n > 0 {
			c.FallbackLimit = max(1, n/2)
		}
	}
	c.Primary = c.Primary.withDefaults()
	c.Replicas = slices.Clone(c.Replicas)
	for i := range c.Replicas {
		c.Replicas[i] = c.Replicas[i].withDefaults()
	}
	return c
}

func (n Node) withDefaults() Node {
	n.Weight = cmp.Or(n.Weight, 1)
	if n.MaxIdleConns == 0 {
		n.MaxIdleConns = DefaultMaxIdleConns
		if n.MaxOpenConns > 0 {
			n.MaxIdleConns = min(n.MaxIdleConns, n.MaxOpenConns)
		}
	}
	n.ConnMaxIdleTime = cmp.Or(n.ConnMaxIdleTime, DefaultConnMaxIdleTime)
	return n
}

// nodes returns the primary and the replicas.
func (c *Config) nodes() []Node {
	return append([]Node{c.Primary}, c.Replicas...)
}

// zone returns a node's rank in the caller's order.
func (c *Config) zone(n Node) int {
	if i := slices.Index(c.Zones, n.Zone); i >= 0 {
		return i
	}
	return len(c.Zones)
}

// validate returns one error that names every problem, or nil.
func (c *Config) validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(c.Name) > 255 {
		bad("Name has %d bytes, at most 255 are possible", len(c.Name))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Strategy", c.Strategy.d}, {"MaxLag", c.MaxLag}, {"StickyWindow", c.StickyWindow},
		{"CaptureTimeout", c.CaptureTimeout}, {"ProbeInterval", c.ProbeInterval}, {"ProbeTimeout", c.ProbeTimeout},
		{"CatalogueInterval", c.CatalogueInterval},
	} {
		if d.value < 0 && d.name != "CatalogueInterval" {
			bad("%s is %v, it must not be negative", d.name, d.value)
		}
		if d.value > maxSetting {
			bad("%s is %v, at most %v (ten years) is possible", d.name, d.value, maxSetting)
		}
	}
	if c.FallbackLimit < 0 || c.MaxWaiters < 0 {
		bad("FallbackLimit is %d and MaxWaiters %d, neither must be negative", c.FallbackLimit, c.MaxWaiters)
	}
	if !core.Level(c.Level).Valid() {
		bad("Level %d is not known", c.Level)
	}
	if c.Fallback > FallbackStale {
		bad("Fallback %d is not known", c.Fallback)
	}
	if c.WithoutSession > WithoutSessionProcess {
		bad("WithoutSession %d is not known", c.WithoutSession)
	}
	if c.Marker != nil {
		if _, err := c.Marker.options(); err != nil {
			bad("Marker: %w", err)
		}
	}
	problems = append(problems, c.validateNodes()...)
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBadConfig, errors.Join(problems...))
}

func (c *Config) validateNodes() []error {
	var problems []error
	if c.Primary.Name == "" && c.Primary.Connector == nil {
		problems = append(problems, errors.New("there is no Primary"))
	}
	if n := len(c.Replicas); n >= maxNodes {
		problems = append(problems, fmt.Errorf("there are %d Replicas, at most %d are possible", n, maxNodes-1))
	}
	seen := make(map[string]bool)
	families := make(map[family]bool)
	for i, n := range c.nodes() {
		families[n.family()] = true
		what := "Primary"
		if i > 0 {
			what = fmt.Sprintf("Replicas[%d]", i-1)
		} else if n.Name == "" && n.Connector == nil {
			continue
		}
		if c, ok := n.Connector.(interface{ fightsPrimary() error }); ok && i == 0 {
			if err := c.fightsPrimary(); err != nil {
				problems = append(problems, fmt.Errorf("%s %q: %w", what, n.Name, err))
			}
		}
		for _, p := range n.validate() {
			problems = append(problems, fmt.Errorf("%s %q: %w", what, n.Name, p))
		}
		if n.Name != "" && seen[n.Name] {
			problems = append(problems, fmt.Errorf("%s: another node is called %q", what, n.Name))
		}
		seen[n.Name] = true
	}
	if families[familyPostgres] && families[familyMySQL] {
		problems = append(problems, errors.New("its nodes are PostgreSQL and MySQL: a cluster cannot mix kinds of servers"))
	}
	return problems
}

func (n *Node) validate() []error {
	var problems []error
	if n.Name == "" {
		problems = append(problems, errors.New("it has no Name"))
	}
	switch c := n.Connector.(type) {
	case nil:
		problems = append(problems, errors.New("it has no Connector"))
	case interface{ configError() error }:
		if err := c.configError(); err != nil {
			problems = append(problems, err)
		}
	}
	if _, ours := n.Connector.(*mysqlConnector); n.Connector != nil && !ours {
		if _, ok := n.Connector.Driver().(*mysql.MySQLDriver); ok {
			problems = append(problems, errors.New("its Connector is go-sql-driver's own: give the same config to MySQLConfig, which checks its "+
				"options and watches its sockets"))
		}
	}
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"Weight", int64(n.Weight)}, {"MaxOpenConns", int64(n.MaxOpenConns)}, {"MaxIdleConns", int64(n.MaxIdleConns)},
		{"ConnMaxLifetime", int64(n.ConnMaxLifetime)}, {"ConnMaxIdleTime", int64(n.ConnMaxIdleTime)},
	} {
		if v.value < 0 {
			problems = append(problems, fmt.Errorf("%s is negative", v.name))
		}
	}
	if d := max(n.ConnMaxLifetime, n.ConnMaxIdleTime); d > maxSetting {
		problems = append(problems, fmt.Errorf("ConnMaxLifetime or ConnMaxIdleTime is %v, at most %v (ten years) is possible", d, maxSetting))
	}
	return problems
}
