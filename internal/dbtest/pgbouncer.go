package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// PgBouncer is a pooler in transaction mode before one node of a cluster.
type PgBouncer struct {
	cluster *PostgresCluster
	port    int
	process *process
}

// PgBouncerOptions say what a pooler is like.
type PgBouncerOptions struct {
	// PoolSize is how many sessions of the server all clients of one user share.
	// Defaults to 4.
	PoolSize int
}

// FindPgBouncer returns the program. When there is none, the error matches ErrNoServer.
func FindPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: PgBouncer is not installed: on Debian and Ubuntu: apt-get install pgbouncer", ErrNoServer)
}

// StartPgBouncer starts a pooler before a node. It ends with the cluster, or by Close.
func (c *PostgresCluster) StartPgBouncer(ctx context.Context, n *PostgresNode, options PgBouncerOptions) (*PgBouncer, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	program, err := FindPgBouncer()
	if err != nil {
		return nil, err
	}
	for {
		b, err := c.startPgBouncer(ctx, program, n, options)
		if err == nil || !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return b, err
		}
	}
}

func (c *PostgresCluster) startPgBouncer(ctx context.Context, program string, n *PostgresNode, options PgBouncerOptions) (*PgBouncer, error) {
	port, err := pickPort()
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{cluster: c, port: port}
	if options.PoolSize == 0 {
		options.PoolSize = 4
	}
	file := func(suffix string) string {
		return filepath.Join(c.folder.path, fmt.Sprintf("pgbouncer-%d.%s", port, suffix))
	}
	var users strings.Builder
	for _, user := range []string{SuperUser, AppUser, WatchUser} {
		fmt.Fprintf(&users, "%q \"\"\n", user)
	}
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = transaction
default_pool_size = %d
max_client_conn = 1000
auth_type = trust
auth_file = %s
logfile = %s
pidfile = %s
`, n.port, port, options.PoolSize, file("users"), file("log"), file("pid"))
	if err := c.folder.writeFile(file("users"), users.String()); err != nil {
		return nil, err
	}
	if err := c.folder.writeFile(file("ini"), config); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "-q", file("ini"))
	cmd.SysProcAttr = serverAttr(c.owner)
	cmd.Dir = c.folder.path
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}
	if b.process, err = c.launcher.start(cmd); err != nil {
		return nil, fmt.Errorf("dbtest: starting PgBouncer: %w", err)
	}
	c.mu.Lock()
	c.poolers = append(c.poolers, b)
	c.mu.Unlock()
	err = poll(ctx, func() (bool, error) {
		if !b.process.running() {
			if strings.Contains(lastLines(file("log"), 10), "already in use") {
				return false, errPortTaken
			}
			return false, fmt.Errorf("it has ended: %s", lastLines(file("log"), 10))
		}
		conn, err := net.DialTimeout("tcp", b.Addr(), time.Second)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("dbtest: starting PgBouncer: %w", err)
	}
	return b, nil
}

// Addr is where clients connect, as host:port.
func (b *PgBouncer) Addr() string { return localAddr(b.port) }

// DSN is a connection URL through the pooler, as a user of the cluster; AppUser unless another is named.
func (b *PgBouncer) DSN(user ...string) string {
	if len(user) == 0 {
		user = []string{AppUser}
	}
	return dsn(b.Addr(), user)
}

// Close ends the pooler. It may be called more than once.
func (b *PgBouncer) Close() {
	if b.process == nil {
		return
	}
	ctx, cancel := bounded(context.Background())
	defer cancel()
	if b.process.running() {
		_ = b.process.stop(ctx, signalKill) // only the context can be in the way
	}
}

// StartPgBouncerT is StartPgBouncer for tests: it fails the test when there is no PgBouncer, and ends the pooler with it.
func StartPgBouncerT(tb TB, c *PostgresCluster, n *PostgresNode, options PgBouncerOptions) *PgBouncer {
	tb.Helper()
	b, err := c.StartPgBouncer(context.Background(), n, options)
	if err != nil {
		tb.Fatalf("%s: %v", tb.Name(), err)
		return nil
	}
	tb.Cleanup(b.Close)
	return b
}
