package vconn_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// bound is how long a read may be held up by a replica that falls silent: until it is found out (an interval and
// ProbeTimeout), one connection that is being opened (ProbeTimeout), and a machine with much else to do.
const bound = readroute.DefaultProbeInterval*5/4 + 2*readroute.DefaultProbeTimeout + 2*time.Second

// freeze stops a node until the end of the test.
func freeze(t testing.TB, n *dbtest.PostgresNode) {
	t.Helper()
	require.NoError(t, n.Freeze(testContext(t)))
	t.Cleanup(func() { require.NoError(t, n.Thaw(context.Background())) })
}

// TestQueueAtASilentReplica: database/sql opens connections one after the other, and each that is opened to a silent
// server takes as long as it may. Whoever waits for one does not wait for all before it.
func TestQueueAtASilentReplica(t *testing.T) {
	const readers = 30
	c := sharedCluster(t)
	config := configFor(c)
	config.Replicas[0].MaxOpenConns = 2
	config.FallbackLimit = readers
	db := open(t, c, config)
	ctx, cancel := context.WithTimeout(sessionContext(t), 3*bound)
	defer cancel()
	require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	require.Equal(t, readroute.RoleReplica, db.last(t).Role)
	freeze(t, c.Standby(0))
	began := time.Now()
	errs := make(chan error, readers)
	for range readers {
		go func() { errs <- db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)) }()
	}
	for range readers {
		require.NoError(t, <-errs)
	}
	require.Less(t, time.Since(began), bound)
}

// TestStatementsOfASilentReplica: statements that nobody uses any more are closed when their connection is given back,
// for which the driver would wait longer.
func TestStatementsOfASilentReplica(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, c, configFor(c))
	ctx := sessionContext(t)
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	stmt, err := conn.PrepareContext(ctx, "SELECT 1")
	require.NoError(t, err)
	require.NoError(t, stmt.QueryRowContext(ctx).Scan(new(int)))
	require.Equal(t, readroute.RoleReplica, db.last(t).Role)
	require.NoError(t, stmt.Close())
	freeze(t, c.Standby(0))
	began := time.Now()
	require.NoError(t, conn.Close())
	require.Less(t, time.Since(began), bound)
}

// TestStatementsOfASilentPrimary: nobody ends what waits for the primary, and a driver gives the server five seconds to close a
// statement. Neither whoever gives a connection back waits for that, nor whoever gets one on which others have left statements.
func TestStatementsOfASilentPrimary(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.ProbeTimeout = 500 * time.Millisecond
	db := open(t, c, config)
	ctx := readroute.WithLevel(sessionContext(t), readroute.LevelPrimary)
	use := func(prepare func(context.Context, string) (*sql.Stmt, error)) {
		t.Helper()
		stmt, err := prepare(ctx, "SELECT 1")
		require.NoError(t, err)
		require.NoError(t, stmt.QueryRowContext(ctx).Scan(new(int)))
		require.Equal(t, readroute.RolePrimary, db.last(t).Role)
		require.NoError(t, stmt.Close())
	}
	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	use(conn.PrepareContext) // this one is kept
	use(db.PrepareContext)
	require.NoError(t, c.Primary().Freeze(testContext(t)))
	thaw := sync.OnceValue(func() error { return c.Primary().Thaw(context.Background()) })
	t.Cleanup(func() { require.NoError(t, thaw()) })

	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.ErrorIs(t, db.QueryRowContext(short, "SELECT 1").Scan(new(int)), context.DeadlineExceeded)
	require.Less(t, time.Since(began), 2*time.Second)
	began = time.Now()
	require.NoError(t, conn.Close())
	require.Less(t, time.Since(began), 3*time.Second)
	require.NoError(t, thaw())
}

// TestSilentServerBehindASharedEndpoint: the monitor talks to another server of the endpoint and finds nothing wrong. A
// read that has to ask on its own connection first goes elsewhere.
func TestSilentServerBehindASharedEndpoint(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	proxy, err := dbtest.NewProxy(c.Standby(0).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	config.Replicas[0].Connector = readroute.Postgres(c.Standby(0).DSNVia(proxy))
	config.Replicas[0].SharedEndpoint = true
	db := open(t, c, config)
	table := newTable(t, c, "id int")
	ctx, cancel := context.WithTimeout(sessionContext(t), 3*bound)
	defer cancel()
	_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	resolve(t, ctx)
	require.NoError(t, c.WaitCaughtUp(ctx))
	proxy.SetTarget(c.Standby(1).Addr())
	require.Eventually(t, func() bool {
		require.Equal(t, 1, count(t, ctx, db, table))
		return db.last(t).Role == readroute.RoleReplica
	}, 20*time.Second, time.Millisecond)
	freeze(t, c.Standby(1))
	began := time.Now()
	require.Equal(t, 1, count(t, ctx, db, table))
	require.Equal(t, readroute.RolePrimary, db.last(t).Role)
	require.Less(t, time.Since(began), bound)
}
