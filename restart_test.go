package readroute_test

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestRestartedReplicaIsHeldToTheSessionAgain: a replica that crashed opens at an older position, before any probe has
// noticed. The connections that lay idle are dead, and the one that is opened in the place of one of them proves nothing by what was
// known of the server before.
func TestRestartedReplicaIsHeldToTheSessionAgain(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	ctx := sessionContext(t)
	require.NoError(t, c.Primary().Exec(ctx, "CREATE TABLE t (id int)", "CHECKPOINT"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	require.NoError(t, c.Standby(0).Exec(ctx, "CHECKPOINT")) // the table outlives the crash
	config := failoverConfig(c)
	config.ProbeInterval = 2 * time.Second
	seen := record(&config)
	db := open(t, config)
	const rows = 2000
	for range rows / 100 {
		_, err := db.ExecContext(ctx, "INSERT INTO t SELECT generate_series(1, 100)")
		require.NoError(t, err)
	}
	require.NoError(t, c.WaitCaughtUp(ctx))
	standby := c.Standby(0)
	require.NoError(t, standby.SetApplyDelay(ctx, time.Hour)) // nothing is replayed after the restart
	eventually(t, "the replica serves the session", func() bool {
		require.Equal(t, rows, countIn(t, ctx, db, "t"))
		return served(seen.take())[standby.Name()] > 0
	})
	require.NoError(t, standby.Kill(ctx))
	require.NoError(t, standby.Start(ctx))
	old, err := standby.QueryValue(ctx, "SELECT count(*) FROM t")
	require.NoError(t, err)
	require.NotEqual(t, "2000", old, "the crash has cost nothing")
	for range 5 {
		require.Equal(t, rows, countIn(t, ctx, db, "t"))
	}
}

// movingConnector leads to one server and then to another, and its connections to the first say so when they are next used.
type movingConnector struct {
	before, after driver.Connector
	moved         atomic.Bool
}

func (c *movingConnector) Driver() driver.Driver { return c.before.Driver() }

func (c *movingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.moved.Load() {
		return c.after.Connect(ctx)
	}
	conn, err := c.before.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &movedConn{conn.(*stdlib.Conn), c}, nil
}

type movedConn struct {
	*stdlib.Conn
	connector *movingConnector
}

// QueryContext lets the library ask, and refuses what callers ask, which has an argument.
func (c *movedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.connector.moved.Load() && len(args) > 0 {
		return nil, driver.ErrBadConn
	}
	return c.Conn.QueryContext(ctx, query, args)
}

// TestReplacedConnectionIsHeldToTheSession: a connection that turns out to be dead when a read runs on it is replaced by one to
// a server that is further back than the one that was known.
func TestReplacedConnectionIsHeldToTheSession(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	moving := &movingConnector{before: readroute.Postgres(standbys(c)[0].DSN()), after: readroute.Postgres(standbys(c)[1].DSN())}
	config.Replicas[0].Connector = moving
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	require.NoError(t, standbys(c)[1].PauseReplay(ctx))
	t.Cleanup(func() { require.NoError(t, standbys(c)[1].ResumeReplay(context.Background())) })
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	count := func() (n int) {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", 1).Scan(&n))
		return n
	}
	eventually(t, "the replica serves the session", func() bool {
		require.Equal(t, 1, count())
		return served(seen.take())[config.Replicas[0].Name] > 0
	})
	moving.moved.Store(true)
	for range 5 {
		require.Equal(t, 1, count())
	}
}
