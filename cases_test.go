package readroute_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestK3_07_StatementOfAReplicaInATransaction: a statement that was prepared on a replica runs in a transaction on the primary.
func TestK3_07_StatementOfAReplicaInATransaction(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		seen := record(&config)
		db := open(t, config)
		ctx := readroute.WithLevel(testContext(t), readroute.LevelEventual)
		count, err := db.PrepareContext(ctx, c.sql("SELECT count(*) FROM "+table+" WHERE id = ?"))
		require.NoError(t, err)
		defer count.Close()
		require.NoError(t, count.QueryRowContext(ctx, 1).Scan(new(int)))
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role)

		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, c.sql("INSERT INTO "+table+" VALUES (?)"), 1)
		require.NoError(t, err)
		for _, in := range []*sql.Stmt{tx.StmtContext(ctx, count), tx.Stmt(count)} {
			var n int
			require.NoError(t, in.QueryRowContext(ctx, 1).Scan(&n))
			require.Equal(t, 1, n, "it sees what the transaction has written")
		}
		require.NoError(t, tx.Commit())
		require.NoError(t, count.QueryRowContext(ctx, 1).Scan(new(int)), "and goes on outside of it")
	})
}

// TestK3_29_ResultsAreThePrimarys: what a write returns is what the primary says, also through QueryRow, and never made up.
func TestK3_29_ResultsAreThePrimarys(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		columns := "id int PRIMARY KEY AUTO_INCREMENT, n int"
		if c.driver == "pgx" {
			columns = "id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, n int"
		}
		table := c.table(t, columns)
		config := c.config()
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		result, err := db.ExecContext(ctx, c.sql("INSERT INTO "+table+" (n) VALUES (?), (?)"), 7, 8)
		require.NoError(t, err)
		affected, err := result.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 2, affected)
		id, err := result.LastInsertId()
		if c.driver == "pgx" {
			_, bare := c.bare(t, 0).Exec("SELECT 1")
			require.NoError(t, bare)
			require.Error(t, err, "PostgreSQL has none, and says so")
			require.Zero(t, id)
			require.NoError(t, db.QueryRowContext(ctx, "INSERT INTO "+table+" (n) VALUES ($1) RETURNING id", 9).Scan(&id))
			require.EqualValues(t, 3, id)
		} else {
			require.NoError(t, err)
			require.EqualValues(t, 1, id)
		}
		for _, d := range seen.take() {
			require.Equal(t, readroute.RolePrimary, d.Role)
		}
	})
}
