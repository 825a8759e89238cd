package private

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/replicatest/internal/fleet"
)

// mysql are servers of MySQL or MariaDB.
type mysql struct {
	*dbtest.MySQLCluster
	members
}

// mysqlServer is one of them.
type mysqlServer struct {
	*dbtest.MySQLNode
	fleet *mysql
	db    *sql.DB
}

// StartMySQL starts a primary of MySQL with replicas.
func StartMySQL(ctx context.Context, replicas int) (fleet.Servers, error) {
	return startMySQL(ctx, dbtest.StartMySQL, replicas)
}

// StartMariaDB starts a primary of MariaDB with replicas.
func StartMariaDB(ctx context.Context, replicas int) (fleet.Servers, error) {
	return startMySQL(ctx, dbtest.StartMariaDB, replicas)
}

func startMySQL(ctx context.Context, start func(context.Context, dbtest.MySQLOptions) (*dbtest.MySQLCluster, error), replicas int) (fleet.Servers, error) {
	c, err := start(ctx, dbtest.MySQLOptions{Replicas: replicas})
	if err != nil {
		return nil, missing(err)
	}
	m := &mysql{MySQLCluster: c}
	for _, n := range c.Nodes() {
		db, err := openPool("mysql", n.AppDSN())
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.add(&mysqlServer{MySQLNode: n, fleet: m, db: db})
	}
	right := "REPLICATION CLIENT"
	if c.IsMariaDB() {
		right = "SLAVE MONITOR"
	}
	err = c.Primary().Exec(ctx, "GRANT "+right+" ON *.* TO "+dbtest.AppUser+"@'127.0.0.1'")
	if err == nil {
		err = m.WaitCaughtUp(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Engine implements fleet.Servers.
func (m *mysql) Engine() string { return m.Flavor() }

// Primary implements fleet.Servers.
func (m *mysql) Primary() fleet.Server { return m.named(m.MySQLCluster.Primary().Name()) }

// Configure implements fleet.Servers.
func (m *mysql) Configure(*readroute.Config) {}

// Close implements fleet.Servers.
func (m *mysql) Close() error { return errors.Join(m.closePools(), m.MySQLCluster.Close()) }

// Position implements fleet.Positioned.
func (m *mysql) Position(ctx context.Context) (string, error) {
	position, err := m.MySQLCluster.Primary().Position(ctx)
	return strings.ReplaceAll(position, "\n", ""), err
}

// Shows implements fleet.Positioned.
func (m *mysql) Shows(ctx context.Context, server, position string) (bool, error) {
	n := m.named(server).(*mysqlServer)
	if position == "" || n.MySQLNode == m.MySQLCluster.Primary() {
		return true, nil
	}
	query := "SELECT GTID_SUBSET('" + position + "', @@GLOBAL.gtid_executed)"
	if m.IsMariaDB() {
		query = "SELECT MASTER_GTID_WAIT('" + position + "', 0) = 0"
	}
	reached, err := n.QueryValue(ctx, query)
	return reached == "1", err
}

// WaitCaughtUp implements fleet.Servers.
func (m *mysql) WaitCaughtUp(ctx context.Context) error {
	target, err := m.Position(ctx)
	if err != nil {
		return err
	}
	return m.waitFor(ctx, m, target)
}

// Connector implements fleet.Server.
func (s *mysqlServer) Connector() driver.Connector { return readroute.MySQL(s.AppDSN()) }

// DB implements fleet.Server.
func (s *mysqlServer) DB() *sql.DB { return s.db }

// Exec implements fleet.Server.
func (s *mysqlServer) Exec(ctx context.Context, statements ...string) error {
	return run(ctx, s, statements)
}

// SetLag implements fleet.Server.
func (s *mysqlServer) SetLag(ctx context.Context, d time.Duration) error {
	return s.SetApplyDelay(ctx, d)
}

// Pause implements fleet.Server.
func (s *mysqlServer) Pause(ctx context.Context) error { return s.PauseReplay(ctx) }

// Resume implements fleet.Server.
func (s *mysqlServer) Resume(ctx context.Context) error { return s.ResumeReplay(ctx) }

// Stop implements fleet.Server.
func (s *mysqlServer) Stop(ctx context.Context) error { return s.StopFast(ctx) }

// Start implements fleet.Server.
func (s *mysqlServer) Start(ctx context.Context) error {
	if s.IsRunning() {
		return nil
	}
	return s.MySQLNode.Start(ctx)
}

// Promote implements fleet.Server.
func (s *mysqlServer) Promote(ctx context.Context) error {
	f := s.fleet
	f.changing.Lock()
	defer f.changing.Unlock()
	former := f.MySQLCluster.Primary()
	if former == s.MySQLNode {
		return nil
	}
	if err := s.MySQLNode.Promote(ctx); err != nil {
		return err
	}
	f.leave(former.Name())
	var errs []error
	for _, n := range f.Nodes() {
		if n != former && n != s.MySQLNode && n.IsRunning() && f.follows(n.Name()) {
			errs = append(errs, n.Follow(ctx, s.MySQLNode))
		}
	}
	return errors.Join(errs...)
}

// Diverge implements fleet.Server.
func (s *mysqlServer) Diverge(ctx context.Context, statements ...string) error {
	f := s.fleet
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.MySQLCluster.Primary() == s.MySQLNode {
		return fmt.Errorf("let %s diverge: it is the primary: pause the replicas, write, and promote one of them", s.Name())
	}
	f.leave(s.Name())
	if err := s.PauseReplay(ctx); err != nil {
		return err
	}
	readOnly := "super_read_only"
	if f.IsMariaDB() {
		readOnly = "read_only"
	}
	return errors.Join(
		s.MySQLNode.Exec(ctx, append([]string{"SET GLOBAL " + readOnly + " = 0"}, statements...)...),
		s.MySQLNode.Exec(ctx, "SET GLOBAL "+readOnly+" = 1"))
}

// Restore implements fleet.Server.
func (s *mysqlServer) Restore(ctx context.Context) error {
	f := s.fleet
	f.changing.Lock()
	defer f.changing.Unlock()
	primary := f.MySQLCluster.Primary()
	if primary == s.MySQLNode {
		return fmt.Errorf("restore %s: it is the primary", s.Name())
	}
	if err := s.Rebuild(ctx, primary); err != nil {
		return err
	}
	f.join(s.Name())
	return nil
}
