package libpq

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// once: a statement that did not run a second time.
const once = readroute.Retry(0)

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return readroute.WithSession(ctx)
}

// routed is a routed pool over lib/pq, a primary "a" and one standby, and its last decision.
type routed struct {
	*readroute.DB
	cluster *dbtest.PostgresCluster
	last    atomic.Pointer[readroute.Decision]
}

func open(t *testing.T, cluster *dbtest.PostgresCluster) *routed {
	t.Helper()
	node := func(n *dbtest.PostgresNode) readroute.Node {
		connector, err := pq.NewConnector(n.DSN())
		require.NoError(t, err)
		return readroute.Node{Name: n.Name(), Connector: connector}
	}
	r := &routed{cluster: cluster}
	db, err := readroute.Open(readroute.Config{
		Primary:  node(cluster.Primary()),
		Replicas: []readroute.Node{node(cluster.Standby(0))},
		MaxLag:   time.Hour,
		// However busy the machine is:
		CaptureTimeout: 10 * time.Second,
		ReadFunctions:  []string{"writes"},
		Hooks:          readroute.Hooks{Decision: func(_ context.Context, d readroute.Decision) { r.last.Store(&d) }},
	})
	require.NoError(t, err)
	r.DB = db
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.WaitReady(testContext(t)))
	return r
}

// freeze stops replay where the primary is now, until the end of the test.
func (r *routed) freeze(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	require.NoError(t, r.cluster.Primary().Exec(ctx, "SELECT pg_switch_wal()"))
	require.NoError(t, r.cluster.WaitCaughtUp(ctx))
	require.NoError(t, r.cluster.Standby(0).PauseReplay(ctx))
	t.Cleanup(func() { require.NoError(t, r.cluster.Standby(0).ResumeReplay(context.Background())) })
}

// went requires where the last statement went, and why it ran twice if it did.
func (r *routed) went(t *testing.T, role readroute.Role, retry readroute.Retry) {
	t.Helper()
	d := r.last.Load()
	require.NotNil(t, d)
	require.Equal(t, role, d.Role, "%+v", d)
	require.Equal(t, retry, d.Retry, "%+v", d)
}

func (r *routed) number(ctx context.Context, query string, args ...any) (n int, err error) {
	err = r.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

func state(t *testing.T, err error) string {
	t.Helper()
	var answer *pq.Error
	require.ErrorAs(t, err, &answer)
	return answer.SQLState()
}

// TestErrors: what lib/pq's errors say is understood as pgx's are.
func TestErrors(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	require.NoError(t, cluster.Primary().Exec(testContext(t),
		"CREATE TABLE things (id int PRIMARY KEY)",
		"INSERT INTO things VALUES (1)",
		"CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'INSERT INTO things VALUES (100) ON CONFLICT DO NOTHING; SELECT 7'"))
	require.NoError(t, cluster.WaitCaughtUp(testContext(t)))

	t.Run("a column that the replica lacks", func(t *testing.T) {
		r := open(t, cluster)
		r.freeze(t)
		require.NoError(t, cluster.Primary().Exec(testContext(t), "ALTER TABLE things ADD late int NOT NULL DEFAULT 5"))
		n, err := r.number(testContext(t), "SELECT late FROM things WHERE id = $1", 1)
		require.NoError(t, err)
		require.Equal(t, 5, n)
		r.went(t, readroute.RolePrimary, readroute.RetrySchema)

		_, err = r.number(testContext(t), "SELECT never FROM things")
		require.Equal(t, "42703", state(t, err), "the primary's answer is the last")
		r.went(t, readroute.RolePrimary, readroute.RetrySchema)
	})

	t.Run("a function that the replica lacks", func(t *testing.T) {
		r := open(t, cluster)
		r.freeze(t)
		require.NoError(t, cluster.Primary().Exec(testContext(t), "CREATE FUNCTION late() RETURNS int LANGUAGE sql AS 'SELECT 6'"))
		n, err := r.number(testContext(t), "/* route:replica */ SELECT late()")
		require.NoError(t, err)
		require.Equal(t, 6, n)
		r.went(t, readroute.RolePrimary, readroute.RetrySchema)
	})

	t.Run("a unique violation", func(t *testing.T) {
		r := open(t, cluster)
		r.freeze(t)
		for name, write := range map[string]func(context.Context) error{
			"exec": func(ctx context.Context) error {
				_, err := r.ExecContext(ctx, "INSERT INTO things (id) VALUES ($1)", 1)
				return err
			},
			"query": func(ctx context.Context) error {
				_, err := r.number(ctx, "INSERT INTO things (id) VALUES (1) RETURNING id")
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				ctx := testContext(t)
				err := write(ctx)
				require.Equal(t, "23505", state(t, err))
				require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
				// It leaves WAL that the replica never replays: a position of it would send the next read to the primary.
				_, err = r.number(ctx, "SELECT count(*) FROM things")
				require.NoError(t, err)
				r.went(t, readroute.RoleReplica, once)
				token, err := readroute.SessionFrom(ctx).Token(ctx)
				require.NoError(t, err)
				require.True(t, token.IsZero(), "%v", token)
			})
		}
	})

	t.Run("a write that the replica refuses", func(t *testing.T) {
		r := open(t, cluster)
		r.freeze(t)
		ctx := testContext(t)
		const text = "SELECT writes()"
		n, err := r.number(ctx, text)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		r.went(t, readroute.RolePrimary, readroute.RetryRefused)
		n, err = r.number(ctx, "SELECT count(*) FROM things WHERE id = 100")
		require.NoError(t, err)
		require.Equal(t, 1, n, "the session is held to what it wrote")
		_, err = r.number(ctx, text)
		require.NoError(t, err)
		r.went(t, readroute.RolePrimary, once)
	})

	t.Run("a plan of a table that has changed", func(t *testing.T) {
		r := open(t, cluster)
		ctx := testContext(t)
		stmt, err := r.PrepareContext(ctx, "SELECT * FROM things WHERE id = $1")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, stmt.Close()) })
		columns := func() int {
			rows, err := stmt.QueryContext(ctx, 1)
			require.NoError(t, err)
			list, err := rows.Columns()
			require.NoError(t, err)
			require.True(t, rows.Next())
			require.NoError(t, errors.Join(rows.Close(), rows.Err()))
			return len(list)
		}
		before := columns()
		_, err = r.ExecContext(ctx, "ALTER TABLE things ADD more int")
		require.NoError(t, err)
		require.Equal(t, before+1, columns())
	})
}

// TestLostAnswer: lib/pq answers driver.ErrBadConn when the server ends the session in the middle of a statement, which
// asks database/sql to run it once more. A write may not.
func TestLostAnswer(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	ctx := testContext(t)
	require.NoError(t, cluster.Primary().Exec(ctx, "CREATE TABLE things (id int)"))
	r := open(t, cluster)
	_, err := r.ExecContext(ctx, "INSERT INTO things VALUES (1); SELECT pg_terminate_backend(pg_backend_pid())")
	require.ErrorIs(t, err, readroute.ErrCommitUnknown)
	var n int
	require.NoError(t, r.QueryRowContext(ctx, "SELECT count(*) FROM things").Scan(&n))
	require.Zero(t, n)
	tx, err := r.BeginTx(ctx, &sql.TxOptions{})
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "INSERT INTO things VALUES (2)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, r.QueryRowContext(ctx, "SELECT count(*) FROM things").Scan(&n))
	require.Equal(t, 1, n)
}
