package lite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// follow writes what the primary commits into the server's database, until ctx ends.
func (s *Server) follow(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, changed := s.step()
		if wait == 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-changed:
		case <-timer.C:
		}
	}
}

// idle is how long a server waits for something to be done that will be told.
const idle = time.Hour

// step writes the next transaction, if it is time for it. Else it returns for how long there is nothing to be done, unless something
// changes.
func (s *Server) step() (wait time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	idles, lag := !s.up || !s.following || s.paused || s.err != nil, s.lag
	s.mu.Unlock()
	if idles {
		return idle, nil
	}
	tx, ok, changed := s.fleet.history.after(s.applied.Load())
	if !ok {
		return idle, changed
	}
	if wait := time.Until(tx.at.Add(lag)); wait > 0 {
		return wait, nil
	}
	if err := s.apply(tx, false); err != nil {
		s.fail(fmt.Errorf("replicate to %s: %w", s.name, err))
	}
	return 0, nil
}

// apply writes one transaction. Unless it is forced, it does not on a server that has been stopped or paused meanwhile.
func (s *Server) apply(tx transaction, forced bool) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	idles := !s.up || !s.following || s.paused
	s.mu.Unlock()
	if s.control == nil || tx.number != s.applied.Load()+1 || idles && !forced {
		return nil
	}
	if err := s.control.writePages(tx.pages, tx.size); err != nil {
		return err
	}
	s.applied.Store(tx.number)
	s.writeBack()
	s.fleet.arrived()
	return nil
}

// writeBackEvery is after how many transactions a replica writes its log back into its database.
const writeBackEvery = 500

// writeBack keeps a replica's own log short. s.applying is held.
func (s *Server) writeBack() {
	if s.applied.Load()%writeBackEvery == 0 {
		_ = s.control.rows("PRAGMA wal_checkpoint(PASSIVE)", func([]driver.Value) {}) // what readers are in the way of is written back later
	}
}

// catchUp writes all that the primary has committed, at once.
func (s *Server) catchUp() error {
	for {
		tx, ok, _ := s.fleet.history.after(s.applied.Load())
		if !ok {
			return nil
		}
		if err := s.apply(tx, true); err != nil {
			return err
		}
	}
}

// replace makes the database that of another server, and the server its replica.
func (s *Server) replace(pages []page, number uint64) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.control == nil {
		return errClosed
	}
	if err := s.control.writePages(pages, uint32(len(pages))); err != nil {
		return err
	}
	s.applied.Store(number)
	return nil
}

// diverge runs statements that nobody else hears of.
func (s *Server) diverge(ctx context.Context, statements []string) (err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	n, err := openNative(ctx, s.path, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for _, statement := range statements {
		if _, err := n.ExecContext(ctx, statement, nil); err != nil {
			return err
		}
	}
	return nil
}
