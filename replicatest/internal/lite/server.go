package lite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Server is one database of a fleet: the primary, a replica that follows it, or one that does neither.
type Server struct {
	fleet *Fleet
	name  string
	path  string
	bare  *sql.DB // past routing

	// gate is taken by whoever writes: SQLite would let the others poll for their turn.
	gate chan struct{}
	kick chan struct{} // capacity 1: something has changed for follow

	mu         sync.Mutex
	up         bool               // guarded by mu
	writable   bool               // guarded by mu: it takes writes
	following  bool               // guarded by mu: it takes what the primary commits
	paused     bool               // guarded by mu
	lag        time.Duration      // guarded by mu
	run        int                // guarded by mu: how often it was started or restored
	generation int                // guarded by mu: connections of an earlier one are dead
	conns      map[*conn]struct{} // guarded by mu
	err        error              // guarded by mu: why it cannot follow any more

	applying sync.Mutex    // held while something is written by control
	control  *control      // guarded by applying
	applied  atomic.Uint64 // of a replica: the newest transaction that it has; written under applying

	wal walReader // of one that is or was the primary; guarded by the history's mu
}

// Errors of servers. What matches driver.ErrBadConn was not sent.
var (
	errStopped = errors.New("the server was stopped while it was at work: whether it has finished is not known")
	errClosed  = errors.New("the servers are closed")
)

// Name is the server's name.
func (s *Server) Name() string { return s.name }

// Fleet is the fleet that the server belongs to.
func (s *Server) Fleet() *Fleet { return s.fleet }

// DB is a pool of the server past routing. It is closed with the fleet.
func (s *Server) DB() *sql.DB { return s.bare }

// refused is the error of a connection to a server that is down.
func (s *Server) refused() error {
	return fmt.Errorf("connect to %s: connection refused: the server is stopped", s.name)
}

// Exec runs statements on the server, past routing and past replication's own ways. A replica refuses writes.
func (s *Server) Exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := s.bare.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("run a statement on %s: %w", s.name, err)
		}
	}
	return nil
}

// state returns the server's role and what tells one run of it from another.
func (s *Server) state() (role, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	role = "replica"
	if s.writable {
		role = "primary"
	}
	return role, fmt.Sprintf("%s run %d", s.name, s.run)
}

// change changes what follow goes by.
func (s *Server) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// SetLag makes the server show each transaction only when it is d old.
func (s *Server) SetLag(_ context.Context, d time.Duration) error {
	s.change(func() { s.lag = d })
	return nil
}

// Lag returns what SetLag has set.
func (s *Server) Lag() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lag
}

// Pause stops replay. When it returns nothing more appears.
func (s *Server) Pause(context.Context) error {
	s.change(func() { s.paused = true })
	s.applying.Lock()   // whoever is at it has ended
	s.applying.Unlock() //nolint:staticcheck // nothing else is to be done
	return nil
}

// Resume ends Pause.
func (s *Server) Resume(context.Context) error {
	s.change(func() { s.paused = false })
	return nil
}

// Stop makes the server unreachable. What it has committed stays.
func (s *Server) Stop(context.Context) error {
	s.change(func() { s.up = false })
	s.hangUp()
	s.applying.Lock()   // as in Pause
	s.applying.Unlock() //nolint:staticcheck // as in Pause
	return nil
}

// Start ends Stop.
func (s *Server) Start(context.Context) error {
	s.change(func() {
		if !s.up {
			s.up = true
			s.run++
		}
	})
	return nil
}

// hangUp ends every connection to the server.
func (s *Server) hangUp() {
	s.mu.Lock()
	s.generation++
	conns := s.conns
	s.conns = make(map[*conn]struct{})
	s.mu.Unlock()
	for c := range conns {
		c.kill()
	}
}

// connect opens a connection as whoever asks for it from outside does.
func (s *Server) connect(ctx context.Context, watched bool) (driver.Conn, error) {
	s.mu.Lock()
	up, writable, generation := s.up, s.writable, s.generation
	s.mu.Unlock()
	if !up {
		return nil, s.refused()
	}
	n, err := openNative(ctx, s.path, !writable)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.name, err)
	}
	c := &conn{native: n, s: s, watched: watched}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != generation {
		return nil, errors.Join(s.refused(), n.Close())
	}
	s.conns[c] = struct{}{}
	return c, nil
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// capture takes in what the primary has committed since the last time.
func (s *Server) capture() {
	h := &s.fleet.history
	h.mu.Lock()
	err := s.captureLocked()
	long := s.wal.frames-s.wal.checkpointed > s.fleet.maxFrames
	h.mu.Unlock()
	if err != nil {
		s.fail(fmt.Errorf("read the log of %s: %w", s.name, err))
	} else if long {
		s.checkpoint()
	}
}

func (s *Server) captureLocked() error {
	return s.wal.read(func(pages []page, size uint32) {
		if s.fleet.primary.Load() == s { // else nobody follows it any more
			s.fleet.history.addLocked(pages, size)
		}
	})
}

// fail notes why nothing comes from the server, or to it, any more.
func (s *Server) fail(err error) {
	s.change(func() { s.err = errors.Join(s.err, err) })
	s.fleet.arrived()
}

// maxFrames is how many pages are logged before they are written back into the database.
const maxFrames = 8000

// checkpoint writes the log back into the database, so that the next commit begins it anew, unless somebody is writing. Whoever writes
// has the gate, so that nothing is committed meanwhile.
func (s *Server) checkpoint() {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	default:
		return
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	h := &s.fleet.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.control == nil || s.captureLocked() != nil {
		return
	}
	_ = s.control.rows("PRAGMA wal_checkpoint(PASSIVE)", func(row []driver.Value) {
		if row[0] == int64(0) && row[1] == s.wal.frames && row[2] == s.wal.frames {
			s.wal.checkpointed = s.wal.frames
		}
	}) // what is not written back now is the next time
}
