package dbtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// PostgresOptions says what cluster to start. The zero value is a primary alone.
type PostgresOptions struct {
	// Standbys is the number of streaming standbys beside the primary.
	Standbys int
	// BinDir is the folder of the PostgreSQL programs. Empty means what FindPostgres finds.
	BinDir string
	// Settings are server settings for every node, by name, over those that this package makes. ALTER SYSTEM and
	// PostgresNode.Set override them.
	Settings map[string]string
	// WALSegmentMB is the size of a log segment in megabytes, a power of two up to 1024. Zero means PostgreSQL's own
	// default, 16. Small segments make positions at a segment's start frequent.
	WALSegmentMB int
}

// Roles that every cluster has beside the superuser. All databases are the same for them: AppDatabase.
const (
	// SuperUser is the superuser.
	SuperUser = "postgres"
	// AppUser owns AppDatabase and has no other rights; it may use every table that SuperUser makes there.
	AppUser = "app"
	// WatchUser has no rights but those of pg_monitor.
	WatchUser = "watch"
	// AppDatabase is the database that all DSNs name.
	AppDatabase = "app"
)

// PostgresCluster is a running primary with its standbys. Its methods may be called from several goroutines.
type PostgresCluster struct {
	options  PostgresOptions
	version  int
	owner    *serverUser
	folder   *folder
	launcher *launcher

	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex // guards the fields below
	nodes   []*PostgresNode
	primary *PostgresNode
	poolers []*PgBouncer
}

// errPortTaken is returned by a start whose port somebody else has taken since it was chosen.
var errPortTaken = errors.New("the port was taken by another program")

// StartPostgres starts a cluster and waits until every standby streams and has replayed all there is. The caller closes
// it; should the process end first, however it ends, the servers stop and their folder is removed all the same.
//
// The error matches ErrNoServer when no PostgreSQL is installed.
func StartPostgres(ctx context.Context, options PostgresOptions) (*PostgresCluster, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if options.Standbys < 0 {
		return nil, fmt.Errorf("dbtest: %d standbys: the number cannot be negative", options.Standbys)
	}
	version := 0
	var err error
	if options.BinDir == "" {
		options.BinDir, version, err = FindPostgres()
	} else if version, err = postgresVersion(options.BinDir); err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrNoServer, options.BinDir, err)
	}
	if err != nil {
		return nil, err
	}
	for {
		c, err := startPostgres(ctx, options, version)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, fmt.Errorf("dbtest: starting PostgreSQL %d: %w", version, err)
		}
	}
}

func startPostgres(ctx context.Context, options PostgresOptions, version int) (_ *PostgresCluster, err error) {
	owner, err := findServerUser()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder(owner, uint64(options.Standbys+1)*(400<<20))
	if err != nil {
		return nil, err
	}
	c := &PostgresCluster{options: options, version: version, owner: owner, folder: folder, launcher: newLauncher()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()

	for range options.Standbys + 1 {
		if _, err := c.newNode(); err != nil {
			return nil, err
		}
	}
	c.primary = c.nodes[0]
	if err := c.initialize(ctx, c.primary); err != nil {
		return nil, err
	}
	// A data folder that has never been started may be copied cold: each copy is the base of a standby.
	for _, n := range c.nodes[1:] {
		if err := folder.copyTree(c.primary.dataDir(), n.dataDir(), func(string) bool { return false }); err != nil {
			return nil, fmt.Errorf("copying the data folder: %w", err)
		}
	}
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if errs[i] = n.configure(c.primary); errs[i] == nil {
				errs[i] = n.Start(ctx)
			}
			if errs[i] == nil && n == c.primary {
				errs[i] = c.createRoles(ctx)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, c.WaitCaughtUp(ctx)
}

// initialize makes the primary's data folder.
func (c *PostgresCluster) initialize(ctx context.Context, n *PostgresNode) error {
	args := []string{
		"-D", n.dataDir(), "-U", SuperUser, "--auth=trust", "--no-sync", "--no-instructions",
		"--encoding=UTF8", "--locale=C", "--data-checksums",
	}
	if c.options.WALSegmentMB != 0 {
		args = append(args, fmt.Sprintf("--wal-segsize=%d", c.options.WALSegmentMB))
	}
	if err := c.launcher.run(c.command(ctx, "initdb", args...)); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	conf, err := os.OpenFile(filepath.Join(n.dataDir(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "\ninclude '%s'\n", configName)
	return errors.Join(err, conf.Close())
}

// command is a program of the cluster's PostgreSQL, run as the servers' user.
func (c *PostgresCluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.options.BinDir, name), args...)
	cmd.SysProcAttr = serverAttr(c.owner)
	cmd.Dir = c.folder.path
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin", "HOME=" + c.folder.path}
	return cmd
}

// configName is the file in a data folder that holds the settings of this package. ALTER SYSTEM goes over it, which it
// could not over settings on the command line.
const configName = "dbtest.conf"

// settings are those of one node.
func (c *PostgresCluster) settings(n *PostgresNode) map[string]string {
	s := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": c.folder.path,
		"cluster_name":            n.name,

		"max_connections":           "200",
		"max_prepared_transactions": "10",
		"max_wal_senders":           "20",
		"shared_buffers":            "32MB",
		// After a SIGKILL nothing is left outside the data folder.
		"dynamic_shared_memory_type": "mmap",

		// A crash of the machine is no case here.
		"fsync": "off",

		"hot_standby":                  "on",
		"hot_standby_feedback":         "off",
		"wal_keep_size":                "256MB", // a stopped standby finds what it has missed
		"wal_retrieve_retry_interval":  "20ms",
		"wal_receiver_status_interval": "1s",

		// Nothing writes to the log but the test.
		"autovacuum":                      "off",
		"checkpoint_timeout":              "1h",
		"max_logical_replication_workers": "0",

		"jit":             "off",
		"log_line_prefix": "%m [%p] %a ",
	}
	if c.version >= 18 {
		s["io_method"] = "sync" // no worker processes
	}
	maps.Copy(s, c.options.Settings)
	return s
}

// createRoles makes the roles and the database on the primary.
func (c *PostgresCluster) createRoles(ctx context.Context) error {
	err := c.primary.exec(ctx, controlDatabase,
		"CREATE ROLE "+AppUser+" LOGIN",
		"CREATE ROLE "+WatchUser+" LOGIN IN ROLE pg_monitor",
		"CREATE DATABASE "+AppDatabase+" OWNER "+AppUser)
	if err != nil {
		return fmt.Errorf("creating roles: %w", err)
	}
	return c.primary.Exec(ctx,
		"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO "+AppUser,
		"ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO "+AppUser)
}

// Version is the major version of the servers.
func (c *PostgresCluster) Version() int { return c.version }

// Primary returns the node that was started as the primary or, later, the one promoted last.
func (c *PostgresCluster) Primary() *PostgresNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary
}

// Standby returns the i-th node, from 0, that was made as a standby, whatever has become of it. It panics when there are
// not that many.
func (c *PostgresCluster) Standby(i int) *PostgresNode { return c.Nodes()[i+1] }

// Nodes returns all nodes in the order in which they were made, the first primary at the front. They are named a, b, c
// and so on.
func (c *PostgresCluster) Nodes() []*PostgresNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// AddStandby adds a standby, made from a backup of the primary, and waits until it has replayed what the primary had
// written by then.
func (c *PostgresCluster) AddStandby(ctx context.Context) (*PostgresNode, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	primary := c.Primary()
	for {
		n, err := c.newNode()
		if err != nil {
			return nil, err
		}
		err = n.restore(ctx, primary)
		if err == nil {
			err = n.Start(ctx)
		}
		if err == nil {
			err = waitCaughtUp(ctx, primary, n)
		}
		if err == nil {
			return n, nil
		}
		c.forget(n)
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, fmt.Errorf("dbtest: adding a standby to %s: %w", primary.name, err)
		}
	}
}

// newNode adds a node, with a name and a port but without data.
func (c *PostgresCluster) newNode() (*PostgresNode, error) {
	port, err := pickPort()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &PostgresNode{cluster: c, name: nodeName(len(c.nodes)), port: port}
	c.nodes = append(c.nodes, n)
	return n, nil
}

func nodeName(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return fmt.Sprintf("n%d", i)
}

// forget takes a node that did not start out of the cluster.
func (c *PostgresCluster) forget(n *PostgresNode) {
	n.shutdown()
	_ = os.RemoveAll(n.dataDir()) // the folder goes at Close anyway
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(other *PostgresNode) bool { return other == n })
}

// WaitCaughtUp waits until every standby that runs has replayed all that the primary has written at the time of the
// call, asynchronous commits included. The error says who has not, and how far it is.
func (c *PostgresCluster) WaitCaughtUp(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	primary := c.Primary()
	var standbys []*PostgresNode
	for _, n := range c.Nodes() {
		if n != primary && n.IsRunning() {
			standbys = append(standbys, n)
		}
	}
	return waitCaughtUp(ctx, primary, standbys...)
}

// Close stops all servers, without ceremony, and removes all they have left. Later calls return what the first returned.
func (c *PostgresCluster) Close() error {
	c.closeOnce.Do(func() {
		var wg sync.WaitGroup
		for _, n := range c.Nodes() {
			wg.Go(n.shutdown)
		}
		wg.Wait()
		c.mu.Lock()
		poolers := c.poolers
		c.mu.Unlock()
		for _, b := range poolers {
			b.Close()
		}
		c.closeErr = c.folder.remove()
		c.launcher.close()
	})
	return c.closeErr
}

// Logs returns the end of every server's log.
func (c *PostgresCluster) Logs() string {
	var b strings.Builder
	for _, n := range c.Nodes() {
		fmt.Fprintf(&b, "log of %s (port %d):\n%s\n", n.name, n.port, lastLines(n.logFile(), 30))
	}
	return b.String()
}
