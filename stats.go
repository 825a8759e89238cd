package readroute

import (
	"database/sql"
	"slices"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// RouteStats says where statements went and why, since [Open].
type RouteStats struct {
	// Nodes has one element a node, in the order of the Config: the primary first.
	Nodes []NodeStats
	// Refused counts statements that ran nowhere, by reason.
	Refused map[Reason]uint64
	// Waiting is how many reads wait for a replica now.
	Waiting int
	// Engine is the kind of the servers: "PostgreSQL", "MySQL" or "MariaDB", with Config.Marker also "SQLite" or "SQL database"; empty
	// until one has answered.
	Engine string
	// Sticky is true when sessions are on the sticky window: by [Sticky], or because the primary tells no position.
	Sticky bool
	// Mode is what SetMode has set.
	Mode Mode
	// ReadShare is what SetReadShare has set, from 0 to 1.
	ReadShare float64
	// Classes says how the classification of texts is cached.
	Classes ClassStats
}

// ClassStats says how the classification of texts is cached, in numbers since [Open] and, for entries and bytes, of now.
type ClassStats struct {
	// Entries and Bytes are how much is cached now.
	Entries, Bytes int64
	// Hits and Misses count texts that were in the cache, and that were not. Texts that carry their values in them (an IN list
	// of its own each time) miss: they are classified each time, and kept from the second time on that they come.
	Hits, Misses int64
	// Learned is how many texts a replica has refused as writes; LearnedHits how often that was of use: the text came again
	// and went to the primary at once.
	Learned, LearnedHits int64
	// LearnedEntries and LearnedBytes are how much is remembered of those texts now.
	LearnedEntries, LearnedBytes int64
}

// The most bytes that a [DB] remembers of texts: their classification, and which ones a replica has refused as writes. Beside it each
// virtual connection may have one text of at most 1 KiB.
const (
	MaxClassBytes   = sqlclass.DefaultCacheBytes
	MaxLearnedBytes = sqlclass.LearnedBytes
)

// HitRate returns which part of the texts was in the cache, from 0 to 1; 0 before there were any.
func (s ClassStats) HitRate() float64 {
	if s.Hits == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Hits+s.Misses)
}

// NodeStats is one node's part of [RouteStats].
type NodeStats struct {
	// Name is the node's name in the Config.
	Name string
	// Reasons counts the statements that went to the node, by reason.
	Reasons map[Reason]uint64
	// Reader is the pool of connections that refuse writes, Writer that of connections for the primary role.
	Reader, Writer sql.DBStats
}

// Total returns how many statements went to the node.
func (n NodeStats) Total() uint64 {
	var total uint64
	for _, c := range n.Reasons {
		total += c
	}
	return total
}

// Stats returns the statistics of the routed pool, which counts virtual connections: a checkout is one, and there is no
// socket behind it. The sockets are in [DB.RouteStats], a pool for each node and role.
func (db *DB) Stats() sql.DBStats { return db.DB.Stats() }

// RouteStats returns the statistics. It asks no server.
func (db *DB) RouteStats() RouteStats {
	c := db.classifier.Stats()
	s := RouteStats{
		Engine:    db.engine.Name(),
		Sticky:    db.cluster.Strategy.Sticky || db.monitor.Snapshot().Positionless,
		Refused:   db.reasons(-1),
		Waiting:   db.monitor.Waiting(),
		Mode:      Mode(db.router.Mode()),
		ReadShare: db.router.Share(),
		Classes: ClassStats{
			Entries: c.Entries, Bytes: c.Bytes, Hits: c.Hits + int64(db.router.Tallied()), Misses: c.Misses, Learned: c.Learned, LearnedHits: c.LearnedHits,
			LearnedEntries: c.LearnedEntries, LearnedBytes: c.LearnedBytes,
		},
	}
	for i, n := range db.nodes {
		s.Nodes = append(s.Nodes, NodeStats{
			Name:    n.Name,
			Reasons: db.reasons(i),
			Reader:  db.cluster.Readers[i].Stats(),
			Writer:  db.cluster.Writers[i].Stats(),
		})
	}
	return s
}

func (db *DB) reasons(node int) map[Reason]uint64 {
	counts := make(map[Reason]uint64)
	for r := range core.Reason(core.NumReasons) {
		if n := db.router.Count(node, r); n > 0 {
			counts[Reason(r)] = n
		}
	}
	return counts
}

// NodeStatus is what is known of one node now.
type NodeStatus struct {
	// Name is the node's name in the Config.
	Name string
	// Role is what the node said it is when it last answered.
	Role Role
	// Primary is true for the node that takes the writes.
	Primary bool
	// Healthy is true when the node answered its last probe in time.
	Healthy bool
	// Stopped is true for a replica that nothing feeds although the primary is up.
	Stopped bool
	// SharedEndpoint is true when several servers answer under the node's name.
	SharedEndpoint bool
	// Position is what the node has replayed, or, on the primary, written, on PostgreSQL; 0 elsewhere, and when the server
	// does not tell it.
	Position LSN
	// GTIDSet is the same on MySQL.
	GTIDSet GTIDSet
	// MariaDBGTID is the same on MariaDB.
	MariaDBGTID MariaDBGTID
	// Marker is the same with Config.Marker, as text: writers and their sequences.
	Marker string
	// Timeline is the position's timeline; 0 when the user may not see it (a replica without pg_monitor).
	Timeline uint32
	// Lag is how old the node's state is at most; it means nothing unless LagKnown.
	Lag time.Duration
	// LagKnown is false while the replica cannot be measured: it has not answered, or it is further back than the library
	// has watched the primary.
	LagKnown bool
	// LagBytes is how much log it has still to replay, on PostgreSQL; 0 elsewhere.
	LagBytes uint64
	// LagTransactions is how many transactions it has still to apply, on MySQL and MariaDB and with Config.Marker; 0 on PostgreSQL.
	LagTransactions uint64
	// InFlight is how many checkouts have a connection to the node.
	InFlight int
	// Err is why the node is not healthy.
	Err error
	// Missing says, a sentence each, what the server does not have or the user may not see, and what can be done about it.
	// EventSetting has told of each.
	Missing []string
}

// Nodes returns what is known of each node, the configured primary first. It asks no server.
func (db *DB) Nodes() []NodeStatus {
	s := db.monitor.Snapshot()
	list := make([]NodeStatus, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		list[i] = NodeStatus{
			Name:           n.Name,
			Role:           Role(n.Role),
			Primary:        i == s.Primary && n.Role == core.RolePrimary,
			Healthy:        n.Healthy,
			Stopped:        n.Stopped,
			SharedEndpoint: n.Shared,
			Lag:            n.Lag,
			LagKnown:       n.LagKnown,
			InFlight:       db.cluster.Readers[i].Stats().InUse + db.cluster.Writers[i].Stats().InUse,
			Err:            n.Err,
		}
		if missing := db.capabilities[i].Load(); missing != nil {
			list[i].Missing = slices.Clone(*missing)
		}
		if n.Writable {
			list[i].Missing = append(list[i].Missing, writableReplica)
		}
		switch p := n.Sample.Position; p.Kind {
		case core.KindPostgres:
			list[i].Position, list[i].Timeline, list[i].LagBytes = LSN(p.LSN), p.Timeline, n.Missing
		case core.KindMySQL:
			list[i].GTIDSet, list[i].LagTransactions = GTIDSet{p.GTIDs()}, n.Missing
		case core.KindMariaDB:
			list[i].MariaDBGTID, list[i].LagTransactions = MariaDBGTID{p.Domains()}, n.Missing
		case core.KindMarker:
			list[i].Marker, list[i].LagTransactions = p.Markers().String(), n.Missing
		case core.KindNone:
		}
	}
	return list
}
