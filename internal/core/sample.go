package core

import "time"

// Start identifies one run of one server process: the same data on the same server after a restart is another Start,
// because a position can go back in a restart. The zero Start is unknown and equal to nothing that is known.
type Start struct {
	System uint64 // PostgreSQL: system identifier
	At     int64  // PostgreSQL: pg_postmaster_start_time, in microseconds of the Unix epoch
}

// IsZero reports whether s is unknown.
func (s Start) IsZero() bool { return s == Start{} }

// Sample is what one statement on one connection said of its server. It proves something only for a connection to the
// same Start that was open before Began.
type Sample struct {
	Began    time.Time // before the statement was sent
	Ended    time.Time // after its answer had come
	Since    time.Time // before the connection was opened that it was read on; zero when that is not known
	Start    Start
	Role     Role
	Position Position // replica: replayed; primary: inserted, rounded down. Timeline 0 when it is not known.
	Reported LSN      // Position.LSN before rounding
	Flush    LSN      // primary: flushed
	// Recovered is how far a PostgreSQL primary had replayed when it was promoted, or restarted after a crash: of the timelines before
	// its own it has nothing beyond; 0 when it is not known.
	Recovered LSN
	// FlushDelay is after how long an asynchronous commit is flushed when the log writer runs as it should (3 x wal_writer_delay).
	FlushDelay time.Duration
	HasSource  bool // replica: something feeds it
	// SourceUnknown: the user may not see whether something feeds it, and HasSource is false.
	SourceUnknown bool
	// SourceLag is how far behind the replica says it is, if it says so. It is for clusters without positions.
	SourceLag      time.Duration
	SourceLagKnown bool
	// Seen is a position that all that a read could see before Began is at or below, when that is not Position; SeenUnknown:
	// the server does not tell one.
	Seen        Position
	SeenUnknown bool
	// Own is the part of a MySQL or MariaDB Position that the server writes to itself; no position when it has none.
	Own Position
	// History is what a MariaDB server has logged or replayed, by domain and server (@@gtid_binlog_state, @@gtid_slave_pos).
	History MariaDBGTID
	// Self names a MySQL or MariaDB server to those that replicate from it; Sources are those that it is set to replicate from.
	Self    uint64
	Sources []Source
	// Claim is what a server that replicates says as a primary, for it accepts writes all the same. Which of the two it is can
	// only be told by who knows the others.
	Claim *Sample
	// TimelineFloor is a timeline that the position is on or past, for when Position.Timeline is not known.
	TimelineFloor uint32
}

// Source is a server that another one is set to replicate from.
type Source struct {
	Self   uint64 // its Sample.Self; 0 when that is not known
	Active bool   // it is not stopped
}

// Writable reports whether the server accepts writes.
func (s *Sample) Writable() bool { return s.Role == RolePrimary || s.Claim != nil }

// AsPrimary returns what s claims.
func (s *Sample) AsPrimary() Sample {
	p := *s.Claim
	p.Began, p.Ended, p.Since = s.Began, s.Ended, s.Since
	p.Self, p.Sources, p.Claim = s.Self, s.Sources, s.Claim
	return p
}

// NodeView is one node in a Snapshot.
type NodeView struct {
	Name     string
	Zone     int // rank in the caller's zone order, 0 is nearest
	Weight   uint32
	Role     Role
	Healthy  bool // answered the newest probe in time and has not failed since
	Shared   bool // several servers answer under this name: samples prove nothing for other connections
	Foreign  bool // of another system than the cluster's primary
	Former   bool // its name is the primary's and leads to the primary of before a failover
	Blind    bool // what is read of it speaks for no later statement, on whichever connection
	Stopped  bool // replica: nothing feeds it although the primary is up
	Writable bool // replica: it accepts writes
	Sample   Sample
	Err      error // why it is not healthy
	Failures int   // probes failed in a row

	// Confirmed is the newest sample that was over before a primary was seen on ConfirmedTimeline, which is its
	// TimelineFloor. It lets a replica whose timeline cannot be read prove a position: it was not left behind on an older
	// timeline, and no promotion to a newer one was possible unseen.
	Confirmed         Position
	ConfirmedTimeline uint32
	ConfirmedBegan    time.Time

	// Lag is an upper bound: the replica shows everything that the primary had Lag ago. LagKnown false means that nothing
	// can be said.
	Lag      time.Duration
	LagKnown bool
	// Late: its lag was beyond the limit and has not come well below it since.
	Late bool
	// AsOf: the replica is proven to show everything that was committed before; zero when nothing is.
	AsOf time.Time
	// Missing is how much the primary has that the replica does not show: bytes of log on PostgreSQL, else transactions.
	Missing uint64
	// Behind is a lower bound: for so long the replica has certainly been behind. 0 when it is not.
	Behind time.Duration
	// Delay is how long the replica took, at least, to show what the primary had: the newest observation.
	Delay time.Duration
	// Rate is how many bytes a second it replays while it is behind. 0 when it stands still or was never behind.
	Rate float64
}

// Saw returns a position that all that a read could see before the sample is at or below.
func (s *Sample) Saw() Position {
	switch {
	case s.SeenUnknown:
		return Position{}
	case s.Seen.IsZero():
		return s.Position
	}
	return s.Seen
}

// HasAny reports whether the server of s has any of the transactions that a position has beyond another, both of GTIDs.
func (s *Sample) HasAny(of, beyond Position) bool {
	if of.Kind == KindMariaDB {
		for e := range of.Domains().Entries() {
			had, _ := beyond.Domains().Find(e.Domain, e.Server)
			if has, ok := s.History.Find(e.Domain, e.Server); ok && has > had {
				return true
			}
		}
		return false
	}
	more := of.GTIDs().Difference(beyond.GTIDs())
	return more.Difference(s.Position.GTIDs()) != more
}

// Snapshot is all that is known of a cluster at one moment. It is immutable.
type Snapshot struct {
	Nodes []NodeView
	// Number tells it from every other snapshot of the process, also of another cluster; 0 of one that was not published.
	Number  uint64
	Primary int // index of the primary, or of the node that was the primary last
	// PrimaryUp is true when the primary answered its newest probe.
	PrimaryUp bool
	// Positionless is true when the primary answered it without a position: sessions are on the sticky window.
	Positionless bool
	// Timeline is the newest that a primary of this cluster was seen on.
	Timeline uint32
}

// Accepts reports whether a server that calls itself a primary, on a connection to node, may be the primary that node is
// taken for. It may not when it is of another system, on a timeline that has ended, or, where histories have no
// timelines, another server than the one that is watched there, or one that is taken for the primary of before.
func (s *Snapshot) Accepts(node int, o *Sample) bool {
	known := &s.Nodes[node].Sample
	told := !o.Position.IsZero() && !known.Position.IsZero()
	switch {
	case told && (o.Position.System != known.Position.System || o.Position.Kind != known.Position.Kind):
		return false
	case told && o.Position.Kind == KindPostgres:
		return o.Position.Timeline >= s.Timeline
	case o.Start.System == 0 || known.Start.System == 0:
		return true
	}
	return o.Start.System == known.Start.System && !s.Nodes[node].Former // also one that has written nothing, and so has no position
}

// Judge returns what node's server has said as that of a primary when it accepts writes while it replicates, and counts as one.
func (s *Snapshot) Judge(node int, o Sample) Sample {
	known := &s.Nodes[node]
	if o.Claim == nil || o.Role == RolePrimary || known.Role != RolePrimary || known.Sample.Start.System != o.Start.System {
		return o
	}
	return o.AsPrimary()
}

// Proof returns the position that the node is known to show, and when the sample that says so began: its newest one when
// its timeline is known, else the newest one that a later sample of the primary confirms.
func (n *NodeView) Proof() (Position, time.Time) {
	p := n.Sample.Position
	if p.Timeline == 0 && n.ConfirmedTimeline != 0 {
		p = n.Confirmed
		p.Timeline = n.ConfirmedTimeline
		return p, n.ConfirmedBegan
	}
	return p, n.Sample.Began
}

// flushMargin is for how much longer than FlushDelay a server's log writer may be kept from the processor. A server that takes a
// quarter of it for an answer may have stood still.
const flushMargin = time.Second

// Effective lowers a captured position to what the primary has flushed, once a sample of the primary shows that every
// commit below the position must be flushed by now. The rest of the position is unflushed log of transactions that are
// still open, which no replica can have. A position above all that the primary has written is not lowered: it is lost.
func (s *Snapshot) Effective(p Position, capturedAt time.Time) Position {
	if s.Primary < 0 || s.Primary >= len(s.Nodes) || capturedAt.IsZero() {
		return p
	}
	n := &s.Nodes[s.Primary]
	if p.Kind != KindPostgres || n.Role != RolePrimary || !p.SameHistory(n.Sample.Position) || n.Sample.FlushDelay <= 0 || p.LSN > n.Sample.Reported {
		return p
	}
	if n.Sample.Flush != 0 && n.Sample.Flush < p.LSN && n.Sample.Began.Sub(capturedAt) >= n.Sample.FlushDelay+flushMargin &&
		n.Sample.Ended.Sub(n.Sample.Began) <= flushMargin/4 {
		p.LSN = n.Sample.Flush
	}
	return p
}
