package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// anyDriver opens connections that are not known to be pgx's, and may fail the question for a position.
type anyDriver struct {
	driver.Connector
	connects atomic.Int64
	refuse   atomic.Pointer[error] // why no connection is opened
	unasked  atomic.Pointer[error] // why the question for the position fails
}

func newAnyDriver(n *dbtest.PostgresNode) *anyDriver {
	return &anyDriver{Connector: readroute.Postgres(n.DSN())}
}

func (d *anyDriver) Connect(ctx context.Context) (driver.Conn, error) {
	d.connects.Add(1)
	if err := d.refuse.Load(); err != nil {
		return nil, *err
	}
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &anyConn{native: conn.(*stdlib.Conn), d: d}, nil
}

type native = stdlib.Conn

type anyConn struct {
	*native
	d *anyDriver
}

// Conn hides the method of that name by which pgx's connections are known.
func (c *anyConn) Conn(struct{}) {}

func (c *anyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.d.unasked.Load(); err != nil && strings.Contains(query, "pg_last_wal_replay_lsn") {
		return nil, *err
	}
	return c.native.QueryContext(ctx, query, args)
}

// TestAnyDriver runs the main path over connections that are not known to be pgx's.
func TestAnyDriver(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	for i, n := range c.Nodes() {
		node := &config.Primary
		if i > 0 {
			node = &config.Replicas[i-1]
		}
		node.Connector = newAnyDriver(n)
	}
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	for i := range 50 {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
		require.NoError(t, err)
		require.Equal(t, 1, count(t, ctx, db, table, i))
		tx, err := db.BeginTx(ctx, readOnly)
		require.NoError(t, err)
		require.Equal(t, i+1, countIn(t, ctx, tx, table))
		require.NoError(t, tx.Commit())
	}
	onReplicas := 0
	for _, d := range seen.take() {
		if d.Role == readroute.RoleReplica {
			onReplicas++
		}
	}
	require.Greater(t, onReplicas, 75)
	conn, err := db.Conn(readroute.WithLevel(ctx, readroute.LevelEventual))
	require.NoError(t, err)
	_, err = conn.ExecContext(ctx, "SELECT count(*) FROM "+table)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestK4_11_DeadNodesAreProbedSeldom(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.ProbeInterval = 10 * time.Millisecond
	dead := newAnyDriver(standbys(c)[0])
	why := errors.New("connection refused, at once")
	dead.refuse.Store(&why)
	config.Replicas[0].Connector = dead
	db := open(t, config)
	ctx := sessionContext(t)
	before, began := dead.connects.Load(), time.Now()
	eventually(t, "two and a half seconds of load", func() bool {
		for range 20 {
			require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		}
		return time.Since(began) > 2500*time.Millisecond
	})
	require.LessOrEqual(t, dead.connects.Load()-before, int64(4), "about one a second")
}

func TestK4_18_UnknownLagIsNotZero(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.ProbeInterval = 20 * time.Millisecond
	silent := newAnyDriver(standbys(c)[0])
	config.Replicas[0].Connector = silent
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	eventually(t, "the node serves", func() bool {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		return served(seen.take())[config.Replicas[0].Name] > 0
	})
	require.True(t, status(t, db, config.Replicas[0].Name).LagKnown, "a real zero is a lag")

	why := errors.New("no row")
	silent.unasked.Store(&why)
	eventually(t, "the monitor knows", func() bool { return !status(t, db, config.Replicas[0].Name).Healthy })
	require.ErrorIs(t, status(t, db, config.Replicas[0].Name).Err, why)
	seen.take()
	for _, ctx := range []context.Context{ctx, readroute.WithLevel(ctx, readroute.LevelEventual)} {
		for range 50 {
			require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		}
	}
	require.Equal(t, map[string]int{config.Replicas[1].Name: 100}, served(seen.take()))
	silent.unasked.Store(nil)
	eventually(t, "the node serves again", func() bool {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		return served(seen.take())[config.Replicas[0].Name] > 0
	})
}

// TestK4_20_NoPosition: a service that does not implement the position functions serves no read that needs one, and its
// status says why.
func TestK4_20_NoPosition(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	managed := newAnyDriver(standbys(c)[0])
	var why error = &pgconn.PgError{Code: "0A000", Severity: "ERROR", Message: "Function pg_last_wal_replay_lsn() is currently not supported"}
	managed.unasked.Store(&why)
	config.Replicas[0].Connector = managed
	seen := record(&config)
	db, err := readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	eventually(t, "the monitor knows", func() bool { return status(t, db, config.Replicas[0].Name).Role == readroute.RoleReplica })
	ctx := sessionContext(t)
	for i := range 20 {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
		require.NoError(t, err)
		require.Equal(t, i+1, countIn(t, ctx, db, table))
	}
	require.Equal(t, map[string]int{c.Primary().Name(): 40}, served(seen.take()))
	s := status(t, db, config.Replicas[0].Name)
	require.True(t, s.Healthy)
	require.Len(t, s.Missing, 1)
	require.Contains(t, s.Missing[0], "pg_last_wal_replay_lsn() is currently not supported")
}

// TestK4_20_NoPositionAnywhere: a cluster whose servers keep their positions to themselves is on the sticky window, and says so.
func TestK4_20_NoPositionAnywhere(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	config.StickyWindow = 300 * time.Millisecond
	var why error = &pgconn.PgError{Code: "42501", Severity: "ERROR", Message: "permission denied for function pg_control_system"}
	for n, node := range map[*readroute.Node]*dbtest.PostgresNode{&config.Primary: c.Primary(), &config.Replicas[0]: standbys(c)[0]} {
		managed := newAnyDriver(node)
		managed.unasked.Store(&why)
		n.Connector = managed
	}
	seen := record(&config)
	db := open(t, config)
	require.True(t, db.RouteStats().Sticky)
	require.NotEmpty(t, status(t, db, config.Primary.Name).Missing)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	seen.take()
	require.Equal(t, 1, countIn(t, ctx, db, table))
	require.Equal(t, []string{"primary sticky"}, where(seen.take()))
	require.NoError(t, c.WaitCaughtUp(ctx))
	eventually(t, "the window is over", func() bool {
		require.Equal(t, 1, countIn(t, ctx, db, table))
		return slices.Equal(where(seen.take()), []string{"replica covered"})
	})
	require.NoError(t, db.Fence(ctx))
	require.Equal(t, 1, countIn(t, ctx, db, table))
	require.Equal(t, []string{"primary sticky"}, where(seen.take()), "after a fence as well")
}

// where tells roles and reasons of decisions.
func where(decisions []readroute.Decision) []string {
	var list []string
	for _, d := range decisions {
		list = append(list, d.Role.String()+" "+d.Reason.String())
	}
	return list
}

func TestK4_22_AddressThatLeadsToTwoNodes(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	proxy, err := dbtest.NewProxy(c.Primary().Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	config := configFor(c)
	config.Primary.Connector = readroute.Postgres(c.Primary().DSNVia(proxy))
	config.Primary.MaxIdleConns = 1
	db := open(t, config)
	proxy.SetTarget(standbys(c)[0].Addr(), c.Primary().Addr())
	for range 20 {
		ctx := sessionContext(t)
		conns := make([]*sql.Conn, 3) // at least two of them need a new connection to the primary
		for i := range conns {
			conns[i], err = db.Conn(ctx)
			require.NoError(t, err)
			_, err = conns[i].ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
			require.NoError(t, err, "a connection to the standby is not used for a write")
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	}
	require.Equal(t, "60", onPrimary(t, c, "SELECT count(*) FROM "+table))

	proxy.SetTarget(standbys(c)[0].Addr())
	proxy.Cut()
	began := time.Now()
	eventually(t, "a clear error", func() bool {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (0)")
		return errors.Is(err, readroute.ErrNoPrimary)
	})
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestK4_31_ReplicaBehindALoadBalancer(t *testing.T) {
	for _, declared := range []bool{true, false} {
		name := "found"
		if declared {
			name = "declared"
		}
		t.Run(name, func(t *testing.T) {
			c := sharedCluster(t)
			table := newTable(t, c, "id int")
			proxy, err := dbtest.NewProxy(standbys(c)[0].Addr())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, proxy.Close()) })
			proxy.SetTarget(standbys(c)[0].Addr(), standbys(c)[1].Addr())
			config := configFor(c)
			quick(&config)
			config.Replicas = config.Replicas[:1]
			config.Replicas[0].Connector = readroute.Postgres(standbys(c)[0].DSNVia(proxy))
			config.Replicas[0].SharedEndpoint = declared
			config.Replicas[0].MaxIdleConns = 4
			seen := record(&config)
			db := open(t, config)
			t.Cleanup(func() { resumeReplay(t, c) })
			require.NoError(t, standbys(c)[1].PauseReplay(testContext(t)))
			errs := make(chan error, 4)
			for w := range 4 {
				go func() {
					errs <- func() error {
						for i := range 50 {
							ctx := readroute.WithSession(context.Background())
							if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", 100*w+i); err != nil {
								return err
							}
							var n int
							err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", 100*w+i).Scan(&n)
							if err == nil && n != 1 {
								err = errors.New("the lagging server was read")
							}
							if err != nil {
								return err
							}
						}
						return nil
					}()
				}()
			}
			for range 4 {
				require.NoError(t, <-errs)
			}
			list := seen.take()
			t.Logf("reads and writes by node: %v", served(list))
			if declared {
				require.Positive(t, served(list)[config.Replicas[0].Name])
			}
		})
	}
}
