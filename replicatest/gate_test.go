package replicatest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// TestReadsDoNotWaitForWrites: on the embedded primary a read, however it begins, goes on while a transaction writes, and a write
// while the rows of a read are open.
func TestReadsDoNotWaitForWrites(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Schema: []string{form}})
	db := c.OpenT(t)
	ctx, cancel := context.WithTimeout(readroute.WithLevel(sessionContext(t), readroute.LevelPrimary), 20*time.Second)
	defer cancel()
	for id := range 3 {
		_, err := db.ExecContext(ctx, "INSERT INTO form VALUES (?, 0)", id)
		require.NoError(t, err)
	}
	for _, query := range []string{
		"SELECT id FROM form", "WITH f AS (SELECT id FROM form) SELECT id FROM f", "-- name: Ids :many\nSELECT id FROM form",
		"/* a */ SELECT id FROM form WHERE ';' <> ''", "SELECT id FROM form WHERE changes() >= 0",
	} {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "UPDATE form SET n = n + 1")
		require.NoError(t, err)
		var id int
		require.NoError(t, db.QueryRowContext(ctx, query).Scan(&id), query)
		require.NoError(t, tx.Rollback())

		rows, err := db.QueryContext(ctx, query)
		require.NoError(t, err)
		for rows.Next() {
			require.NoError(t, rows.Scan(&id))
			_, err = db.ExecContext(ctx, "UPDATE form SET n = n + 1 WHERE id = ?", id)
			require.NoError(t, err, query)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
}
