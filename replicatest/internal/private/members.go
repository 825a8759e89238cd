package private

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/replicatest/internal/fleet"
)

// ErrNoServer says that the programs of a server are not installed.
var ErrNoServer = errors.New("replicatest: the server is not installed")

// missing makes an error match ErrNoServer when no server is installed.
func missing(err error) error {
	if errors.Is(err, dbtest.ErrNoServer) {
		return fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	return err
}

// members are the servers of a fleet, and who follows the primary.
type members struct {
	changing sync.Mutex // held by whatever changes who follows whom

	all  []fleet.Server // not changed once the fleet is made
	mu   sync.Mutex
	left map[string]bool // guarded by mu: they do not follow it
}

func (m *members) add(s fleet.Server) { m.all = append(m.all, s) }

// All implements fleet.Servers.
func (m *members) All() []fleet.Server { return slices.Clone(m.all) }

func (m *members) named(name string) fleet.Server {
	for _, s := range m.all {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

func (m *members) leave(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		m.left = make(map[string]bool)
	}
	m.left[name] = true
}

func (m *members) join(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.left, name)
}

func (m *members) follows(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.left[name]
}

// openPool opens a pool that keeps as many idle connections as a routed one does.
func openPool(driver, dsn string) (*sql.DB, error) {
	db, err := sql.Open(driver, dsn)
	if err == nil {
		db.SetMaxIdleConns(readroute.DefaultMaxIdleConns)
	}
	return db, err
}

func (m *members) closePools() error {
	var errs []error
	for _, s := range m.all {
		errs = append(errs, s.DB().Close())
	}
	return errors.Join(errs...)
}

// pollInterval is how often a server is asked that somebody waits for.
const pollInterval = 2 * time.Millisecond

// waitFor waits until every replica that follows and runs shows a position.
func (m *members) waitFor(ctx context.Context, p fleet.Positioned, position string) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for _, s := range m.all {
		running, ok := s.(interface{ IsRunning() bool })
		for m.follows(s.Name()) && (!ok || running.IsRunning()) {
			shows, err := p.Shows(ctx, s.Name(), position)
			if shows && err == nil {
				break
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return fmt.Errorf("wait for %s to show %s: %w", s.Name(), position, errors.Join(ctx.Err(), err))
			}
		}
	}
	return nil
}

// run runs statements on a server.
func run(ctx context.Context, s fleet.Server, statements []string) error {
	for _, statement := range statements {
		if _, err := s.DB().ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("run a statement on %s: %w", s.Name(), err)
		}
	}
	return nil
}
