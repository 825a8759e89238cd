package readroute_test

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestMarkerAfterADeadlock: on MySQL and MariaDB a deadlock ends a transaction of which database/sql's Tx goes on. What that writes stands,
// also when it is rolled back, and its session sees it.
func TestMarkerAfterADeadlock(t *testing.T) {
	onBoth(t, func(t *testing.T, m *dbtest.MySQLCluster) {
		c := &engineCluster{name: "MySQL", driver: "mysql", caught: m.WaitCaughtUp, config: func() readroute.Config { return gtidConfig(m) }}
		for _, n := range m.Nodes() {
			c.nodes = append(c.nodes, n)
		}
		table := c.table(t, "id int PRIMARY KEY, n int NOT NULL")
		db, other := open(t, c.markedConfig(t)), c.bare(t, 0)
		for id := range 20 {
			_, err := other.ExecContext(testContext(t), "INSERT INTO "+table+" VALUES (?, 0)", id)
			require.NoError(t, err)
		}
		require.NoError(t, c.caught(testContext(t)))
		c.pause(t, 1)
		c.pause(t, 2)
		for name, end := range map[string]func(*sql.Tx) error{"rolled back": (*sql.Tx).Rollback, "committed": (*sql.Tx).Commit} {
			t.Run(name, func(t *testing.T) {
				ctx := sessionContext(t)
				update := "UPDATE " + table + " SET n = n + 1 WHERE id = ?"
				large, err := other.BeginTx(testContext(t), nil)
				require.NoError(t, err)
				_, err = large.ExecContext(testContext(t), "UPDATE "+table+" SET n = n + 1 WHERE id > 0")
				require.NoError(t, err)
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				_, err = tx.ExecContext(ctx, update, 0)
				require.NoError(t, err)
				waited := make(chan error, 1)
				go func() { _, err := large.ExecContext(testContext(t), update, 0); waited <- err }()
				eventually(t, "the other one waits", func() bool { return c.running(t, "UPDATE "+table) == 1 })
				_, err = tx.ExecContext(ctx, update, 1)
				var refused *mysql.MySQLError
				require.ErrorAs(t, err, &refused)
				require.EqualValues(t, 1213, refused.Number)
				require.NoError(t, <-waited)
				require.NoError(t, large.Rollback())

				id := 100 + len(name)
				_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (?, 0)", id)
				require.NoError(t, err)
				require.NoError(t, end(tx))
				var n int
				require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = ?", id).Scan(&n))
				require.Equal(t, 1, n)
			})
		}
	})
}
