package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// MySQLOptions says what cluster of MySQL or MariaDB to start. The zero value is a primary alone.
type MySQLOptions struct {
	// Replicas is the number of replicas beside the primary.
	Replicas int
	// Program is the server's program. Empty means what FindMySQL or FindMariaDB finds.
	Program string
	// Settings are server settings for every node, by name as on the command line, over those that this package makes:
	// parallel appliers, plugin-load-add=semisync_source.so and the like. What only counts when the data folder is made
	// (innodb_page_size, lower_case_table_names) cannot be set: it comes from a template.
	Settings map[string]string
}

// Users that every cluster of MySQL and MariaDB has, without passwords, from 127.0.0.1, beside AppUser and WatchUser:
// AppUser has all rights in AppDatabase and no others, and WatchUser those to look at replication.
const (
	// AdminUser has all rights, and may write where read_only is on; not where MySQL's super_read_only is.
	AdminUser = "root"
	// replicationUser is whom replicas connect as.
	replicationUser = "repl"
)

// MySQLCluster is a running primary of MySQL or MariaDB with its replicas. Its methods may be called from several
// goroutines.
type MySQLCluster struct {
	flavor   *mysqlFlavor
	options  MySQLOptions
	version  string
	owner    *serverUser
	folder   *folder
	launcher *launcher

	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex // guards the fields below
	made    int        // nodes so far: names and server ids are not used twice
	nodes   []*MySQLNode
	primary *MySQLNode
}

// StartMySQL starts a cluster of MySQL and waits until every replica has what the primary has, which is the database
// AppDatabase. Replication is by GTID with automatic positions; replicas have super_read_only on. The caller closes the
// cluster; should the process end first, however it ends, the servers stop and their folder is removed all the same.
//
// The error matches ErrNoServer when no MySQL is installed.
func StartMySQL(ctx context.Context, options MySQLOptions) (*MySQLCluster, error) {
	return startMySQLCluster(ctx, mysqlServer, options)
}

func startMySQLCluster(ctx context.Context, flavor *mysqlFlavor, options MySQLOptions) (*MySQLCluster, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if options.Replicas < 0 {
		return nil, fmt.Errorf("dbtest: %d replicas: the number cannot be negative", options.Replicas)
	}
	version := ""
	var err error
	if options.Program == "" {
		options.Program, version, err = flavor.find()
	} else if version, err = flavor.programVersion(options.Program); err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrNoServer, options.Program, err)
	}
	if err != nil {
		return nil, err
	}
	for {
		c, err := tryMySQLCluster(ctx, flavor, options, version)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, fmt.Errorf("dbtest: starting %s %s: %w", flavor.name, version, err)
		}
	}
}

// mysqlNodeSpace is room for the data of a node and what a test writes.
const mysqlNodeSpace = 400 << 20

func tryMySQLCluster(ctx context.Context, flavor *mysqlFlavor, options MySQLOptions, version string) (_ *MySQLCluster, err error) {
	owner, err := findServerUser()
	if err != nil {
		return nil, err
	}
	template, err := mysqlTemplate(ctx, flavor, options.Program, owner)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder(owner, uint64(options.Replicas+1)*mysqlNodeSpace)
	if err != nil {
		return nil, err
	}
	c := &MySQLCluster{flavor: flavor, options: options, version: version, owner: owner, folder: folder, launcher: newLauncher()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := makeOwnedDir(filepath.Join(folder.path, mysqlTmp), owner); err != nil {
		return nil, err
	}
	for range options.Replicas + 1 {
		if _, err := c.newNode(); err != nil {
			return nil, err
		}
	}
	c.primary = c.nodes[0]
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if errs[i] = folder.copyTree(template, n.dataDir(), func(string) bool { return false }); errs[i] != nil {
				return
			}
			if n == c.primary {
				if errs[i] = n.Start(ctx); errs[i] == nil {
					// The first transaction: a position that is not empty, and a sign that replication works.
					errs[i] = n.control(ctx, "CREATE DATABASE "+AppDatabase)
				}
				return
			}
			n.source.Store(c.primary)
			if errs[i] = n.Start(ctx); errs[i] == nil {
				errs[i] = n.replicateFrom(ctx, c.primary)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, c.WaitCaughtUp(ctx)
}

// mysqlTmp is the servers' folder for temporary files, beside the data folders.
const mysqlTmp = "tmp"

func makeOwnedDir(path string, owner *serverUser) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return owner.chown(path)
}

// Flavor is "MySQL" or "MariaDB".
func (c *MySQLCluster) Flavor() string { return c.flavor.name }

// IsMariaDB reports whether the servers are MariaDB.
func (c *MySQLCluster) IsMariaDB() bool { return c.flavor == mariadbServer }

// Version is the servers' version, such as 9.7.4 or 10.11.19.
func (c *MySQLCluster) Version() string { return c.version }

// Primary returns the node that was started as the primary or, later, the one promoted last.
func (c *MySQLCluster) Primary() *MySQLNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary
}

// Replica returns the i-th node, from 0, that was made as a replica, whatever has become of it. It panics when there are
// not that many.
func (c *MySQLCluster) Replica(i int) *MySQLNode { return c.Nodes()[i+1] }

// Nodes returns all nodes in the order in which they were made, the first primary at the front. They are named a, b, c
// and so on, and have the server ids 1, 2, 3.
func (c *MySQLCluster) Nodes() []*MySQLNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// AddReplica adds a replica, made from a copy of the primary, which stands still meanwhile, and waits until it has
// applied what the primary had written by then.
func (c *MySQLCluster) AddReplica(ctx context.Context) (*MySQLNode, error) {
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
			return n, nil
		}
		c.forget(n)
		if !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return nil, fmt.Errorf("dbtest: adding a replica to %s: %w", primary.name, err)
		}
	}
}

// newNode adds a node, with a name and a port but without data.
func (c *MySQLCluster) newNode() (*MySQLNode, error) {
	port, err := pickPort()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &MySQLNode{cluster: c, name: nodeName(c.made), port: port, serverID: c.made + 1}
	c.made++
	c.nodes = append(c.nodes, n)
	return n, nil
}

// forget takes a node that did not start out of the cluster.
func (c *MySQLCluster) forget(n *MySQLNode) {
	n.shutdown()
	_ = os.RemoveAll(n.dataDir()) // the folder goes at Close anyway
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(other *MySQLNode) bool { return other == n })
}

// WaitCaughtUp waits until every other node that runs has applied all that the primary has written at the time of the
// call. The error says who has not, and how far it is.
func (c *MySQLCluster) WaitCaughtUp(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	primary := c.Primary()
	target, err := primary.Position(ctx)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if n == primary || !n.IsRunning() {
			continue
		}
		if err := n.WaitFor(ctx, target); err != nil {
			return err
		}
	}
	return nil
}

// Close kills all servers and removes all they have left. Later calls return what the first returned.
func (c *MySQLCluster) Close() error {
	c.closeOnce.Do(func() {
		var wg sync.WaitGroup
		for _, n := range c.Nodes() {
			wg.Go(n.shutdown)
		}
		wg.Wait()
		c.closeErr = c.folder.remove()
		c.launcher.close()
	})
	return c.closeErr
}

// Logs returns the end of every server's log.
func (c *MySQLCluster) Logs() string {
	var b strings.Builder
	for _, n := range c.Nodes() {
		fmt.Fprintf(&b, "log of %s (port %d):\n%s\n", n.name, n.port, lastLines(n.logFile(), 30))
	}
	return b.String()
}
