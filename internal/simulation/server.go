package simulation

import (
	"slices"
	"time"
)

// server is one database server. Everything in it is guarded by cluster.mu.
type server struct {
	c      *cluster
	name   string
	id     int
	system uint64

	started time.Time
	running bool
	primary bool
	fenced  bool // it was the primary once and takes no writes: read_only
	thawed  chan struct{}
	frozen  bool

	at       place    // primary: inserted; replica: replayed
	more     []place  // what it has besides, of a log that its source does not have (MySQL)
	received place    // replica: on its disk
	source   *server  // replica: nil when it has none
	linked   bool     // replica: the connection to its source stands
	paused   bool     // replica: it replays nothing
	transit  duration // replica: how old what it receives is
	lag      duration // replica: how much older what it replays is
	resumes  time.Time
	said     int       // replica: how much of at it says that it has; the last record counts a moment after it is seen
	moved    time.Time // replica: when at was moved
	streamed bool      // replica: it has received something in this run
	control  uint32    // PostgreSQL: the timeline in its control file

	sets     gtidSets // MySQL, MariaDB: what it has, kept up to at
	counted  place
	sequence uint64 // of the last transaction that it has written
	spare    []uint64
	// neverReplica: MariaDB keeps apart what a server has replicated and what it has written.
	neverReplica bool

	sessions map[uint32]*session
	next     uint32 // number of the next session
}

type duration = time.Duration

// session is the server's side of a connection.
type session struct {
	s       *server
	pid     uint32
	began   time.Time
	pending int  // statements that are on their way, or run
	left    bool // its client is gone
	killed  bool
	k       *conn
	word    error // the server's last one
}

func newServer(c *cluster, id int, name string) *server {
	s := &server{c: c, id: id, name: name, system: c.system, running: true, linked: true, thawed: make(chan struct{}), sessions: map[uint32]*session{}}
	close(s.thawed)
	s.started = c.startTime()
	s.control = 1
	return s
}

// advance brings a replica to where it is now.
func (s *server) advance(now time.Time) {
	if s.primary || !s.running || s.frozen {
		return
	}
	s.receive(now)
	if s.paused || now.Before(s.resumes) {
		return
	}
	n := s.received.flushedBy(now.Add(-s.transit-s.lag), s.at.n)
	if s.at.within(s.received) {
		if n > s.at.n {
			s.said, s.moved = n-1, now
		}
		s.at = place{s.received.b, n}
	}
}

// afterwards is how long after it is seen a record counts as replayed.
const afterwards = 800 * time.Microsecond

// says is how much of its log a replica says that it has replayed.
func (s *server) says(now time.Time) place {
	if now.Sub(s.moved) >= afterwards {
		s.said = s.at.n
	}
	return place{s.at.b, min(s.said, s.at.n)}
}

// goBack makes a replica replay again from n on.
func (s *server) goBack(n int) {
	s.at = place{s.at.b, n}
	s.said, s.counted = n, place{}
}

// streams reports that a replica is fed.
func (s *server) streams() bool {
	return s.fed() && !s.source.frozen
}

// fed reports that a replica has something that receives, as far as it knows: it does not know of a source that is silent.
func (s *server) fed() bool {
	return s.source != nil && s.linked && s.source.running && s.source.system == s.system && (s.canFollow() || s.c.engine == MySQL)
}

// canFollow reports that what a replica has is a part of what its source has.
func (s *server) canFollow() bool {
	if s.source.primary {
		return s.received.within(s.source.at)
	}
	return s.received.within(s.source.received)
}

// receive takes in what its source has flushed.
func (s *server) receive(now time.Time) {
	if !s.streams() {
		return
	}
	available := s.source.received
	if s.source.primary {
		available = place{s.source.at.b, s.source.at.flushedBy(now.Add(-s.transit), 0)}
	} else {
		s.source.advance(now)
		available = s.source.received
	}
	if s.c.engine == MySQL {
		s.rejoin(available)
	}
	if s.received.within(available) {
		s.received, s.streamed = available, true
	}
}

// rejoin makes a MySQL replica go on from where it has parted from its source; what it has beyond that stays.
func (s *server) rejoin(available place) {
	if s.received.within(available) || available.within(s.received) {
		return
	}
	last := common(s.at, available)
	for i := last.n; i < s.at.n; i++ {
		r := place{s.at.b, i + 1}.origin()
		if !slices.Contains(s.more, r) {
			s.more = append(s.more, r)
		}
	}
	s.at, s.received = last, last
	s.goBack(last.n)
}

// freeze stops a server where it is.
func (s *server) freeze() {
	if s.running && !s.frozen {
		s.advance(time.Now())
		s.frozen, s.thawed = true, make(chan struct{})
	}
}

// thaw lets it go on.
func (s *server) thaw() {
	if s.frozen {
		s.frozen = false
		close(s.thawed)
	}
}

// crash ends everything that a server was doing. A new process of it is another run; without one, only its sessions end.
// A primary loses what it had not flushed, and a replica may have to replay again what it had replayed.
func (s *server) crash(back int) {
	now := time.Now()
	s.c.settle(now)
	s.thaw()
	s.endSessions()
	if s.primary {
		s.loseTail(now)
		if s.c.engine != Postgres {
			s.started = s.c.startTime()
		}
		return
	}
	s.received = place{s.received.b, max(s.at.n, s.received.n)}
	n := max(s.at.n-back, 0, s.received.n-maxReplayBack)
	s.streamed = false
	if s.c.engine != Postgres {
		s.started = s.c.startTime() // only PostgreSQL begins anew without a new process
	}
	if n < s.at.n {
		s.goBack(n)
		s.resumes = now.Add(s.c.between(50*time.Millisecond, 400*time.Millisecond))
	}
}

// maxReplayBack bounds how many records a replica replays again after a crash.
const maxReplayBack = 400

// loseTail drops what a primary had not flushed. Its log goes on from there, on the same timeline.
func (s *server) loseTail(now time.Time) {
	n := s.at.flushedBy(now, 0)
	if n == s.at.n {
		return
	}
	kept := place{s.at.b, n}
	b := kept.branchOff(s.at.b.timeline)
	s.at = place{b, n}
	s.counted = place{}
	s.c.lose(now)
}

// stop ends a server. With order, its replicas have all that it has.
func (s *server) stop(inOrder bool) {
	now := time.Now()
	if inOrder && s.primary {
		for i := range s.at.n {
			if r := s.at.b.get(i); r.flushed.After(now) {
				r.flushed = now
			}
		}
	}
	if inOrder {
		for _, x := range s.ordered() {
			x.word = s.c.shutdown()
		}
	}
	s.crash(0)
	s.running = false
	if inOrder && s.c.engine == Postgres { // the others do not wait for their replicas
		for _, r := range s.c.servers {
			if r.running && !r.frozen && r.source == s && r.linked && r.received.within(s.at) {
				r.received = s.at
			}
		}
	}
}

// start starts a server that has stopped. A primary comes back as one.
func (s *server) start(back int) {
	s.running, s.started, s.streamed = true, s.c.startTime(), false
	if !s.primary && back > 0 {
		s.goBack(min(s.at.n, max(s.at.n-back, 0, s.received.n-maxReplayBack)))
	}
	if s.c.engine != Postgres {
		return
	}
	s.control = max(s.control, place{s.at.b, s.at.n}.origin().b.timeline)
}

// endSessions ends every session, with what it was doing.
func (s *server) endSessions() {
	for _, x := range s.ordered() {
		x.end()
	}
}

// ordered are the sessions in the order in which they began: a map's would not be the same in every run.
func (s *server) ordered() []*session {
	list := make([]*session, 0, len(s.sessions))
	for _, x := range s.sessions {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *session) int { return int(a.pid) - int(b.pid) })
	return list
}

// end ends a session, and the connection with it.
func (x *session) end() {
	x.killed = true
	delete(x.s.sessions, x.pid)
	x.k.sever()
}

// leave is that the client has gone. The session is over when nothing of it goes on any more.
func (x *session) leave() {
	x.left = true
	x.done()
}

func (x *session) done() {
	if x.left && x.pending <= 0 {
		delete(x.s.sessions, x.pid)
	}
}

// open begins a session.
func (s *server) open(k *conn) *session {
	s.next++
	x := &session{s: s, pid: s.next, began: time.Now(), k: k}
	s.sessions[x.pid] = x
	return x
}

// promote makes a replica the primary that counts. It replays what it has received first, unless its replay is paused on
// a server that forgets it then.
func (s *server) promote() {
	now := time.Now()
	s.c.settle(now)
	if (s.c.engine == Postgres || !s.paused) && s.at.within(s.received) {
		s.at = s.received
	}
	s.said, s.moved = s.at.n, time.Time{}
	s.count()
	s.primary, s.fenced, s.paused, s.source, s.lag, s.transit, s.resumes = true, false, false, nil, 0, 0, time.Time{}
	s.c.timelines++
	s.at = place{s.at.branchOff(s.c.timelines), s.at.n}
	s.received = s.at
	s.c.truth = s
	if s.c.engine == Postgres {
		s.at.b.append(record{at: now, flushed: now}, 120, false) // the end of recovery
		s.at.n++
	}
	s.sequence = max(s.sequence, s.sets.highest())
	s.c.lose(now)
}

// follow makes a server a replica of another.
func (s *server) follow(source *server) {
	now := time.Now()
	s.c.settle(now)
	if s.primary {
		s.endSessions()
		s.primary = false
		if s.c.engine == Postgres {
			s.started = s.c.startTime()
		}
		s.received, s.said, s.streamed = s.at, s.at.n, false
	}
	s.source, s.linked, s.fenced, s.neverReplica = source, true, true, false
	s.running = true
}

// rebuild makes a server anew as a replica, from a backup of another that may be old.
func (s *server) rebuild(from *server, old int) {
	now := time.Now()
	s.c.settle(now)
	s.thaw()
	s.endSessions()
	at := from.at
	if from.primary {
		at.n = from.at.flushedBy(now, 0)
	}
	at = place{at.b, max(0, at.n-old)}
	s.at, s.received = at, at
	s.goBack(at.n)
	s.more, s.streamed = nil, false
	if old == 0 {
		s.more = slices.Clone(from.more)
	}
	s.primary, s.fenced, s.paused, s.linked, s.running, s.frozen, s.neverReplica = false, true, false, true, true, false, false
	s.source, s.started, s.control, s.resumes = from, s.c.startTime(), at.origin().b.timeline, time.Time{}
	s.system = from.system
	if s.c.engine != Postgres {
		// A server that is made anew is another one: what the former had written and lost has names of its own.
		s.c.lastID++
		s.id = s.c.lastID
		s.sequence, s.spare = 0, nil
	}
}

// tli is the timeline of a primary.
func (s *server) tli() uint32 { return s.at.b.timeline }
