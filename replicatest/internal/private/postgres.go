package private

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/replicatest/internal/fleet"
)

// postgres are servers of PostgreSQL.
type postgres struct {
	*dbtest.PostgresCluster
	members
}

// postgresServer is one of them.
type postgresServer struct {
	*dbtest.PostgresNode
	fleet *postgres
	db    *sql.DB
}

// StartPostgres starts a primary with standbys.
func StartPostgres(ctx context.Context, replicas int) (fleet.Servers, error) {
	c, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: replicas})
	if err != nil {
		return nil, missing(err)
	}
	p := &postgres{PostgresCluster: c}
	for _, n := range c.Nodes() {
		db, err := openPool("pgx", n.AppDSN())
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.add(&postgresServer{PostgresNode: n, fleet: p, db: db})
	}
	if err := c.Primary().Exec(ctx, "GRANT pg_monitor TO "+dbtest.AppUser); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.WaitCaughtUp(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Engine implements fleet.Servers.
func (p *postgres) Engine() string { return "PostgreSQL" }

// Version implements fleet.Servers.
func (p *postgres) Version() string { return fmt.Sprint(p.PostgresCluster.Version()) }

// Primary implements fleet.Servers.
func (p *postgres) Primary() fleet.Server { return p.named(p.PostgresCluster.Primary().Name()) }

// Configure implements fleet.Servers.
func (p *postgres) Configure(*readroute.Config) {}

// Close implements fleet.Servers.
func (p *postgres) Close() error { return errors.Join(p.closePools(), p.PostgresCluster.Close()) }

// Position implements fleet.Positioned. Whatever was acknowledged is flushed, with synchronous_commit on.
func (p *postgres) Position(ctx context.Context) (string, error) {
	return p.PostgresCluster.Primary().QueryValue(ctx, "SELECT pg_current_wal_flush_lsn()")
}

// Shows implements fleet.Positioned.
func (p *postgres) Shows(ctx context.Context, server, position string) (bool, error) {
	n := p.named(server).(*postgresServer)
	reached, err := n.QueryValue(ctx, "SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= '"+position+"'")
	return reached == "t" || reached == "true", err
}

// WaitCaughtUp implements fleet.Servers.
func (p *postgres) WaitCaughtUp(ctx context.Context) error {
	target, err := p.Position(ctx)
	if err != nil {
		return err
	}
	return p.waitFor(ctx, p, target)
}

// Connector implements fleet.Server.
func (s *postgresServer) Connector() driver.Connector { return readroute.Postgres(s.AppDSN()) }

// DB implements fleet.Server.
func (s *postgresServer) DB() *sql.DB { return s.db }

// Exec implements fleet.Server.
func (s *postgresServer) Exec(ctx context.Context, statements ...string) error {
	return run(ctx, s, statements)
}

// SetLag implements fleet.Server.
func (s *postgresServer) SetLag(ctx context.Context, d time.Duration) error {
	return s.SetApplyDelay(ctx, d)
}

// Pause implements fleet.Server.
func (s *postgresServer) Pause(ctx context.Context) error { return s.PauseReplay(ctx) }

// Resume implements fleet.Server.
func (s *postgresServer) Resume(ctx context.Context) error { return s.ResumeReplay(ctx) }

// Stop implements fleet.Server.
func (s *postgresServer) Stop(ctx context.Context) error { return s.StopFast(ctx) }

// Start implements fleet.Server.
func (s *postgresServer) Start(ctx context.Context) error {
	if s.IsRunning() {
		return nil
	}
	return s.PostgresNode.Start(ctx)
}

// Promote implements fleet.Server.
func (s *postgresServer) Promote(ctx context.Context) error {
	f := s.fleet
	f.changing.Lock()
	defer f.changing.Unlock()
	former := f.PostgresCluster.Primary()
	if former == s.PostgresNode {
		return nil
	}
	if err := s.PostgresNode.Promote(ctx); err != nil {
		return err
	}
	f.leave(former.Name())
	var errs []error
	for _, n := range f.Nodes() {
		if n != former && n != s.PostgresNode && n.IsRunning() && f.follows(n.Name()) {
			errs = append(errs, n.Follow(ctx, s.PostgresNode))
		}
	}
	return errors.Join(errs...)
}

// Diverge implements fleet.Server.
func (s *postgresServer) Diverge(context.Context, ...string) error {
	return fmt.Errorf("let %s diverge: %w: nothing can be written to a standby of PostgreSQL but by promoting it", s.Name(), errors.ErrUnsupported)
}

// Restore implements fleet.Server.
func (s *postgresServer) Restore(ctx context.Context) error {
	f := s.fleet
	f.changing.Lock()
	defer f.changing.Unlock()
	primary := f.PostgresCluster.Primary()
	if primary == s.PostgresNode {
		return fmt.Errorf("restore %s: it is the primary", s.Name())
	}
	if err := s.Rebuild(ctx, primary); err != nil {
		return err
	}
	f.join(s.Name())
	return nil
}
