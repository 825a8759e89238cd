package readroute_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/sqlclass"
)

const adapterWindow = 15 * time.Second

// pgxCluster routes statements over pools of pgx's own, one a node, without database/sql. It is all that another driver
// surface needs: classify, route, check the connection, run, and tell the session of a write.
type pgxCluster struct {
	*router.Router
	classifier *sqlclass.Classifier
	pools      []*pgxpool.Pool
}

// proof is what was read on a connection when it was opened.
type proof struct {
	core.Sample
	opened time.Time
}

// proveConn reads identity and position on a new connection.
func proveConn(ctx context.Context, conn *pgx.Conn) error {
	opened := time.Now()
	s, err := monitor.Ask(ctx, postgres.PgxLink{Conn: conn}, postgres.Engine{})
	conn.PgConn().CustomData()["proof"] = proof{s, opened}
	return err
}

// shows reports whether the very server behind a connection has what the session needs.
func (c *pgxCluster) shows(ctx context.Context, conn *pgx.Conn, d *router.Decided) bool {
	p, s := conn.PgConn().CustomData()["proof"].(proof), c.Monitor.Snapshot()
	replay, began := s.Nodes[d.Node].Proof()
	if p.Start == s.Nodes[d.Node].Sample.Start && p.opened.Before(began) && s.Covers(replay, d.Positions, d.CapturedAt) == core.Covered {
		return true
	}
	now, err := monitor.Ask(ctx, postgres.PgxLink{Conn: conn}, postgres.Engine{})
	return err == nil && s.Covers(now.Position, d.Positions, d.CapturedAt) == core.Covered
}

// run finds a connection for a statement, gives it to f and returns the node.
func (c *pgxCluster) run(ctx context.Context, query string, f func(*pgx.Conn) error) (string, error) {
	st := c.classifier.Classify(query)
	req := router.Request{Class: core.Class(st.Class), Hint: core.Hint(st.Hint), Replica: core.AnyNode}
	for {
		var d router.Decided
		c.Route(ctx, &req, &d)
		if d.Err != nil {
			return "", d.Err
		}
		conn, err := c.pools[d.Node].Acquire(ctx)
		if err != nil {
			return "", err
		}
		if d.Role == core.RoleReplica && !c.shows(ctx, conn.Conn(), &d) {
			req.Exclude |= 1 << d.Node
			conn.Release()
			continue
		}
		err = f(conn.Conn())
		if st.MayWrite && d.Role == core.RolePrimary {
			c.wrote(ctx, conn.Conn(), err)
		}
		conn.Release()
		c.Report(ctx, &d, 0)
		return c.Monitor.Snapshot().Nodes[d.Node].Name, err
	}
}

// wrote tells the session of a write. Nothing was written when the server refused it; when that is not known, the
// primary serves the session for a while.
func (c *pgxCluster) wrote(ctx context.Context, conn *pgx.Conn, err error) {
	s, engine := core.FromContext(ctx).Session, postgres.Engine{}
	switch now := time.Now(); {
	case err == nil:
		s.Wrote("main", now, conn.PgConn().CustomData()["proof"].(proof).Start, c.Captures.Join(), false, adapterWindow)
	case !engine.Refused(err) && !engine.NotSent(err):
		s.Unprovable("main", now, now.Add(adapterWindow))
	}
}

// openPgx opens pools and what watches their nodes.
func openPgx(t testing.TB, nodes []*dbtest.PostgresNode) *pgxCluster {
	t.Helper()
	c := &pgxCluster{}
	var err error
	c.classifier, err = sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
	require.NoError(t, err)
	watch := monitor.Config{Engine: postgres.Engine{}, Interval: 50 * time.Millisecond, ProbeTimeout: time.Second, MaxWaiters: 100, MaxLag: time.Minute}
	var names []string
	for _, n := range nodes {
		config, err := pgxpool.ParseConfig(n.DSN())
		require.NoError(t, err)
		config.AfterConnect = proveConn
		pool, err := pgxpool.NewWithConfig(testContext(t), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		c.pools, names = append(c.pools, pool), append(names, n.Name())
		watch.Nodes = append(watch.Nodes, monitor.Node{Name: n.Name(), Weight: 1, Dial: func(ctx context.Context) (monitor.Link, error) {
			conn, err := pgx.ConnectConfig(ctx, config.ConnConfig.Copy())
			return postgres.PgxLink{Conn: conn}, err
		}})
	}
	m := monitor.Start(watch)
	captures := monitor.StartCaptures(m)
	t.Cleanup(func() { captures.Close(); m.Close() })
	c.Router = router.New(router.Config{
		Cluster: "main", Level: core.LevelSession, MaxLag: 30 * time.Second, CaptureTimeout: 50 * time.Millisecond,
		Strategy: core.Strategy{Wait: time.Second, Window: adapterWindow},
	}, m, captures, names)
	eventually(t, "all nodes have been seen", func() bool {
		for _, n := range m.Snapshot().Nodes {
			if !n.Healthy || !n.LagKnown {
				return false
			}
		}
		return m.Snapshot().PrimaryUp
	})
	return c
}

// TestAdapterOverNativePools: the core knows no pool. A session reads its own writes from a replica while another one does
// not replay.
func TestAdapterOverNativePools(t *testing.T) {
	cluster := sharedCluster(t)
	table := newTable(t, cluster, "id int PRIMARY KEY, v int")
	c := openPgx(t, cluster.Nodes())
	paused := cluster.Standby(0)
	t.Cleanup(func() { resumeReplay(t, cluster) })
	require.NoError(t, paused.PauseReplay(testContext(t)))

	ctx := readroute.WithSession(testContext(t))
	served := map[string]int{}
	for i := range 200 {
		node, err := c.run(ctx, "INSERT INTO "+table+" VALUES ($1, $2)", func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2)", i, i*i)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, "a", node)
		query, v := fmt.Sprintf("SELECT v FROM %s WHERE id = $1", table), 0
		node, err = c.run(ctx, query, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, query, i).Scan(&v) })
		require.NoError(t, err)
		require.Equal(t, i*i, v)
		served[node]++
	}
	require.Zero(t, served[paused.Name()])
	require.Greater(t, served[cluster.Standby(1).Name()], 180, "%v", served)

	// A refused write leaves the session as it was.
	before, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	query := "INSERT INTO " + table + " VALUES (0, 0)"
	_, err = c.run(ctx, query, func(conn *pgx.Conn) error { _, err := conn.Exec(ctx, query); return err })
	require.ErrorContains(t, err, "23505")
	after, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
