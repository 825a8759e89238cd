package readroute_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestLevelEventualAndPrimary: on every engine, LevelEventual is for the replicas whatever its session has written, and LevelPrimary for the
// primary.
func TestLevelEventualAndPrimary(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		for i := range 20 {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" SELECT 1 + count(*) FROM "+table)
			require.NoError(t, err)
			seen.take()
			countIn(t, readroute.WithLevel(ctx, readroute.LevelEventual), db, table)
			d := seen.one(t)
			require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
			require.Equal(t, readroute.ReasonLevel, d.Reason)
			require.Equal(t, i+1, countIn(t, readroute.WithLevel(ctx, readroute.LevelPrimary), db, table))
			d = seen.one(t)
			require.Equal(t, c.nodes[0].Name(), d.Node, "%+v", d)
			require.Equal(t, readroute.ReasonLevel, d.Reason)
		}
	})
}

// TestReadOnlyTxLevelOfBegin: the level at BeginTx counts, and that of a statement in the transaction does not.
func TestReadOnlyTxLevelOfBegin(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		config := c.config()
		seen := record(&config)
		db := open(t, config)
		for _, at := range []struct {
			begin, statement readroute.Level
			role             readroute.Role
		}{
			{readroute.LevelEventual, readroute.LevelPrimary, readroute.RoleReplica},
			{readroute.LevelEventual, readroute.LevelGlobal, readroute.RoleReplica},
			{readroute.LevelPrimary, readroute.LevelEventual, readroute.RolePrimary},
		} {
			ctx := func(l readroute.Level) context.Context { return readroute.WithLevel(sessionContext(t), l) }
			tx, err := db.BeginTx(ctx(at.begin), &sql.TxOptions{ReadOnly: true})
			require.NoError(t, err)
			begun := seen.one(t)
			require.Equal(t, at.role, begun.Role, "%+v", begun)
			require.NoError(t, tx.QueryRowContext(ctx(at.statement), "SELECT 1").Scan(new(int)))
			require.Equal(t, begun.Node, seen.one(t).Node)
			require.NoError(t, tx.Commit())
		}
	})
}
