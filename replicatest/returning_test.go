package replicatest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// TestRowsOfAWrite: the rows of a write that is marked are handed out before its COMMIT, which comes with their end; how they end decides.
func TestRowsOfAWrite(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, text VARCHAR(7))"}})
	var seen decisions
	db := c.OpenT(t, record(&seen))
	const write = "INSERT INTO t (text) VALUES ('a'), ('b'), ('c') RETURNING id, text"
	committed := func() int { return shows(t, c.Primary(), "SELECT count(*) FROM t") }

	ctx := sessionContext(t)
	rows, err := db.QueryContext(ctx, write)
	require.NoError(t, err)
	types, err := rows.ColumnTypes()
	require.NoError(t, err)
	require.Equal(t, "VARCHAR(7)", types[1].DatabaseTypeName())
	require.True(t, rows.Next())
	require.Zero(t, committed())
	seen.take()
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(new(int)))
	require.Equal(t, readroute.ReasonCapturePending, seen.last(t).Reason, "the write is not over")
	_, err = readroute.SessionFrom(ctx).Token(ctx)
	require.ErrorIs(t, err, readroute.ErrWriteOpen)
	for rows.Next() {
	}
	require.Equal(t, 3, committed(), "with the last row")
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	_, err = readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)

	rows, err = db.QueryContext(ctx, write)
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.Equal(t, 6, committed(), "with Close")

	ending, cancel := context.WithCancel(sessionContext(t))
	rows, err = db.QueryContext(ending, write)
	require.NoError(t, err)
	require.True(t, rows.Next())
	cancel()
	for rows.Next() {
	}
	require.ErrorIs(t, rows.Err(), context.Canceled)
	require.NoError(t, rows.Close())
	require.Equal(t, 6, committed(), "a context that ends takes the write with it")
	seen.take()
	require.NoError(t, db.QueryRowContext(context.WithoutCancel(ending), "SELECT count(*) FROM t").Scan(new(int)))
	require.NotEqual(t, readroute.ReasonSticky, seen.last(t).Reason, "nothing was written")

	conn, err := db.Conn(ctx)
	require.NoError(t, err)
	rows, err = conn.QueryContext(ctx, write)
	require.NoError(t, err)
	require.True(t, rows.Next())
	_, err = conn.ExecContext(ctx, "DELETE FROM t")
	require.ErrorContains(t, err, "close them first")
	_, err = conn.BeginTx(ctx, nil)
	require.ErrorContains(t, err, "close them first")
	var n int
	require.NoError(t, conn.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	require.Equal(t, 9, n, "the same connection sees it")
	require.NoError(t, rows.Close())
	_, err = conn.ExecContext(ctx, "DELETE FROM t WHERE id > 3")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Equal(t, 3, committed())
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	require.Equal(t, 3, n)

	stmt, err := db.PrepareContext(ctx, write)
	require.NoError(t, err)
	defer stmt.Close()
	require.NoError(t, stmt.QueryRowContext(ctx).Scan(&n, new(string)))
	require.Equal(t, 6, committed())
	for _, node := range db.RouteStats().Nodes {
		require.Zero(t, node.Writer.InUse, node.Name)
	}
}
