package lite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// Fleet is a primary with replicas. Its methods and those of its servers may be called from several goroutines.
type Fleet struct {
	dir     string
	history history
	servers []*Server
	primary atomic.Pointer[Server]
	watch   atomic.Pointer[watcher]
	hidden  string // a part of texts that nobody need be told of

	maxFrames int64 // see the constant of that name

	// changing is held by whatever changes who follows whom.
	changing sync.Mutex

	mu      sync.Mutex
	arrival chan struct{} // guarded by mu: closed when a transaction has arrived somewhere
	closed  bool          // guarded by mu

	cancel context.CancelFunc
	all    sync.WaitGroup
}

// Open makes a fleet of a primary and replicas with empty databases, in a folder of its own. The caller closes it. Reads of what has hidden in
// its text are not watched.
func Open(replicas int, hidden string) (_ *Fleet, err error) {
	dir, err := os.MkdirTemp("", "replicatest-")
	if err != nil {
		return nil, err
	}
	f := &Fleet{dir: dir, hidden: hidden, maxFrames: maxFrames}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	for i := range replicas + 1 {
		name := nodeName(i)
		s := &Server{
			fleet: f, name: name, path: filepath.Join(dir, name+".db"), up: true, writable: i == 0, following: i > 0, run: 1,
			gate: make(chan struct{}, 1), kick: make(chan struct{}, 1), conns: make(map[*conn]struct{}),
		}
		s.wal.path = s.path + "-wal"
		if s.control, err = openControl(s.path); err != nil {
			return nil, err
		}
		s.bare = sql.OpenDB(connector{s, false})
		s.bare.SetMaxIdleConns(16)
		f.servers = append(f.servers, s)
	}
	f.primary.Store(f.servers[0])
	for _, s := range f.servers {
		f.all.Go(func() { s.follow(ctx) })
	}
	return f, nil
}

func nodeName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return fmt.Sprintf("n%d", i)
}

// Servers returns all servers, the first primary at the front.
func (f *Fleet) Servers() []*Server { return slices.Clone(f.servers) }

// Primary returns the server that the others follow.
func (f *Fleet) Primary() *Server { return f.primary.Load() }

// arrived tells that a transaction has arrived somewhere, and drops those that have arrived everywhere.
func (f *Fleet) arrived() {
	least := f.history.newest()
	for _, s := range f.servers {
		if s.follows() {
			least = min(least, s.applied.Load())
		}
	}
	f.history.trim(least)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.arrival != nil {
		close(f.arrival)
		f.arrival = nil
	}
}

func (s *Server) follows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.following
}

// WaitCaughtUp waits until every replica that runs shows what the primary has committed by now. The error says who does not.
func (f *Fleet) WaitCaughtUp(ctx context.Context) error {
	primary := f.Primary()
	primary.capture()
	target := f.history.newest()
	for {
		f.mu.Lock()
		if f.arrival == nil {
			f.arrival = make(chan struct{})
		}
		arrival := f.arrival
		f.mu.Unlock()
		late, err := f.behind(target)
		if late == nil || err != nil {
			return err
		}
		select {
		case <-arrival:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, which shows %d of %d transactions: %w", late.name, late.applied.Load(), target, ctx.Err())
		}
	}
}

// behind returns a replica that runs and does not show a transaction.
func (f *Fleet) behind(target uint64) (*Server, error) {
	for _, s := range f.servers {
		s.mu.Lock()
		waits, err := s.up && s.following, s.err
		s.mu.Unlock()
		if err != nil {
			return s, err
		}
		if waits && s.applied.Load() < target {
			return s, nil
		}
	}
	return nil, nil
}

// Promote makes a replica the primary. It takes in first what has been committed, unless it is paused: then that is lost. The replicas
// follow it, but for one that has more than it. The former primary goes on as it is, and nobody follows it.
func (f *Fleet) Promote(_ context.Context, s *Server) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	former := f.Primary()
	if s == former {
		return nil
	}
	s.mu.Lock()
	up, following, paused := s.up, s.following, s.paused
	s.mu.Unlock()
	switch {
	case !up:
		return fmt.Errorf("promote %s: it is stopped", s.name)
	case !following:
		return fmt.Errorf("promote %s: it follows nobody: restore it first", s.name)
	}
	former.capture()
	if !paused {
		if err := s.catchUp(); err != nil {
			return fmt.Errorf("promote %s: %w", s.name, err)
		}
	}
	s.change(func() { s.following, s.paused = false, false })
	if err := f.takeOver(s); err != nil {
		return fmt.Errorf("promote %s: %w", s.name, err)
	}
	for _, other := range f.servers {
		other.change(func() {
			if other.applied.Load() > s.applied.Load() {
				other.following = false // it has what the new primary has not
			}
		})
	}
	s.change(func() { s.writable = true })
	s.hangUp() // sessions of a replica are read-only
	return nil
}

// takeOver makes the history go on from what a server has.
func (f *Fleet) takeOver(s *Server) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	h := &f.history
	h.mu.Lock()
	defer h.mu.Unlock()
	s.wal.close()
	s.wal = walReader{path: s.wal.path}
	if err := s.wal.read(func([]page, uint32) {}); err != nil { // what it has replicated itself
		return err
	}
	h.cutLocked(s.applied.Load())
	f.primary.Store(s)
	return nil
}

// Restore throws a server's data away and makes it a replica of the primary, with the primary's data. A stopped one is started; a
// pause is over.
func (f *Fleet) Restore(ctx context.Context, s *Server) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	primary := f.Primary()
	if s == primary {
		return fmt.Errorf("restore %s: it is the primary", s.name)
	}
	s.change(func() { s.up, s.writable, s.following = false, false, false })
	s.hangUp()
	pages, number, err := primary.snapshot(ctx)
	if err == nil {
		err = s.replace(pages, number)
	}
	if err != nil {
		return fmt.Errorf("restore %s from %s: %w", s.name, primary.name, err)
	}
	s.change(func() { s.up, s.following, s.paused, s.err, s.run = true, true, false, nil, s.run+1 })
	f.arrived()
	return nil
}

// snapshot returns all of a primary's database, and the number of the newest transaction in it.
func (s *Server) snapshot(ctx context.Context) (pages []page, number uint64, err error) {
	select {
	case s.gate <- struct{}{}:
		defer func() { <-s.gate }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.control == nil {
		return nil, 0, errClosed
	}
	s.fleet.history.mu.Lock()
	err = s.captureLocked()
	number = s.fleet.history.last
	s.fleet.history.mu.Unlock()
	if err == nil {
		err = s.control.inTx(false, func() (err error) {
			pages, err = s.control.readPages()
			return err
		})
	}
	return pages, number, err
}

// Diverge gives a replica a history of its own: statements that nobody else runs. It takes nothing more from the primary until
// Restore.
func (f *Fleet) Diverge(ctx context.Context, s *Server, statements ...string) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	if s == f.Primary() {
		return fmt.Errorf("let %s diverge: it is the primary: pause the replicas, write, and promote one of them", s.name)
	}
	s.change(func() { s.following = false })
	if err := s.diverge(ctx, statements); err != nil {
		return fmt.Errorf("let %s diverge: %w", s.name, err)
	}
	return nil
}

// Close ends everything and removes the databases. Later calls do nothing.
func (f *Fleet) Close() error {
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	f.mu.Unlock()
	if closed {
		return nil
	}
	f.cancel()
	f.all.Wait()
	var errs []error
	for _, s := range f.servers {
		s.mu.Lock()
		s.up = false
		s.mu.Unlock()
		s.hangUp()
		errs = append(errs, s.bare.Close())
		s.applying.Lock()
		errs = append(errs, s.control.close())
		s.control = nil
		s.applying.Unlock()
		f.history.mu.Lock()
		s.wal.close()
		f.history.mu.Unlock()
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
