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

// TestMarkerInTransactionsThatNothingTellsOf: where a statement is in a transaction that no text has begun, a write is not put into one of its
// own, which would commit it, and its session is held to the primary.
func TestMarkerInTransactionsThatNothingTellsOf(t *testing.T) {
	onBoth(t, func(t *testing.T, m *dbtest.MySQLCluster) {
		c := &engineCluster{name: "MySQL", driver: "mysql", caught: m.WaitCaughtUp, config: func() readroute.Config { return gtidConfig(m) }}
		for _, n := range m.Nodes() {
			c.nodes = append(c.nodes, n)
		}
		table := c.table(t, "id int PRIMARY KEY")
		procedure := table + "_begins"
		require.NoError(t, m.Primary().Exec(testContext(t), "CREATE PROCEDURE "+procedure+"() START TRANSACTION"))
		require.NoError(t, c.caught(testContext(t)))
		db, bare := open(t, c.markedConfig(t)), c.bare(t, 0)
		c.pause(t, 1)
		c.pause(t, 2)
		insert := "INSERT INTO " + table + " VALUES (1)"
		for name, texts := range map[string][]string{
			"autocommit":      {"SET autocommit = 0", insert},
			"XA":              {"XA START 'marker'", insert, "XA END 'marker'"},
			"CALL":            {"CALL " + procedure + "()", insert},
			"completion_type": {"SET completion_type = 1", "BEGIN", "COMMIT", insert},
		} {
			for _, end := range []string{"ROLLBACK", "COMMIT"} {
				t.Run(name+" "+end, func(t *testing.T) {
					ctx, other := sessionContext(t), sessionContext(t)
					_, err := bare.ExecContext(ctx, "DELETE FROM "+table)
					require.NoError(t, err)
					conn, err := db.Conn(ctx)
					require.NoError(t, err)
					defer conn.Close()
					for _, text := range texts {
						_, err := conn.ExecContext(ctx, text)
						require.NoError(t, err, text)
					}
					last := []string{end}
					if name == "XA" {
						last = []string{"XA PREPARE 'marker'", "XA " + end + " 'marker'"}
					}
					for _, text := range last {
						_, err = conn.ExecContext(other, text) // whoever ends it
						require.NoError(t, err, text)
					}
					require.NoError(t, conn.Close())
					want := 0
					if end == "COMMIT" {
						want = 1
					}
					var n int
					require.NoError(t, bare.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n))
					require.Equal(t, want, n, "what stands")
					require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n))
					require.Equal(t, want, n, "what the session sees")
				})
			}
		}
	})
}
