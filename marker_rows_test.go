package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestMarkerAtSerializable: transactions of two processes that have nothing to do with each other are not refused for the rows of the
// marker table, which is so small that the server would rather read all of it.
func TestMarkerAtSerializable(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		config := c.markedConfig(t)
		var dbs []*readroute.DB
		var inserts []string
		for range 2 {
			dbs = append(dbs, open(t, config))
			inserts = append(inserts, c.sql("INSERT INTO "+c.table(t, "id int PRIMARY KEY")+" VALUES (?)"))
		}
		begin := func(i, id int) (*sql.Tx, error) {
			tx, err := dbs[i].BeginTx(sessionContext(t), &sql.TxOptions{Isolation: sql.LevelSerializable})
			if err == nil {
				_, err = tx.ExecContext(testContext(t), inserts[i], id)
			}
			return tx, err
		}
		if c.driver == "pgx" {
			require.NoError(t, c.nodes[0].Exec(testContext(t), "VACUUM ANALYZE "+config.Marker.Table)) // as a server does by itself, which then knows how small it is
		}
		for id := range 3 { // the first of each process makes its row
			var open []*sql.Tx
			for i := range dbs {
				tx, err := begin(i, id)
				require.NoError(t, err)
				open = append(open, tx)
			}
			for i, tx := range open {
				require.NoError(t, tx.Commit(), "round %d, process %d", id, i)
			}
		}
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for id := range 15 {
					tx, err := begin(w%2, 1000*(w+1)+id)
					if err == nil {
						err = tx.Commit()
					}
					if err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
			})
		}
		all.Wait()
		for writer, seq := range markerRows(t, c, config.Marker.Table) {
			require.Positive(t, seq, writer)
		}
	})
}

// TestMarkerRowsThatAreGone: processes whose rows somebody has deleted take others, and none of them waits for another one that does, or is
// refused for it.
func TestMarkerRowsThatAreGone(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY, n int NOT NULL")
		config := c.markedConfig(t)
		dbs := []*readroute.DB{open(t, config), open(t, config)}
		update := c.sql("UPDATE " + table + " SET n = n + 1 WHERE id = ?")
		const writers = 8
		bare := c.bare(t, 0)
		for id := range writers {
			_, err := bare.ExecContext(testContext(t), c.sql("INSERT INTO "+table+" VALUES (?, 0)"), id)
			require.NoError(t, err)
		}
		// each writer has a transaction open at the same time, so each has a row
		together := func(commit func(tx *sql.Tx) error) {
			var open [writers]*sql.Tx
			for id := range open {
				tx, err := dbs[id%2].BeginTx(sessionContext(t), nil)
				require.NoError(t, err)
				_, err = tx.ExecContext(testContext(t), update, id)
				require.NoError(t, err)
				open[id] = tx
			}
			var all sync.WaitGroup
			for _, tx := range open {
				all.Go(func() {
					if err := commit(tx); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		gone := func() {
			m := config.Marker.Table
			statements := []string{"DELETE FROM " + m + " WHERE writer <> 'readroute'"}
			if c.driver == "mysql" { // where rows that were deleted a moment ago still part the gaps between others
				old := c.table(t, "id int")
				statements = []string{
					"DROP TABLE " + old, "CREATE TABLE " + old + "_ LIKE " + m, "INSERT INTO " + old + "_ SELECT * FROM " + m + " WHERE writer = 'readroute'",
					"RENAME TABLE " + m + " TO " + old + ", " + old + "_ TO " + m,
				}
			}
			require.NoError(t, c.nodes[0].Exec(testContext(t), statements...))
		}
		for range 5 {
			together((*sql.Tx).Commit)
			moved := markerRows(t, c, config.Marker.Table)
			maps.DeleteFunc(moved, func(_ string, seq int) bool { return seq == 0 }) // in the place of those that are gone
			require.Len(t, moved, 1+writers)
			gone()
		}

		together((*sql.Tx).Commit)
		gone()
		blocker, err := bare.BeginTx(testContext(t), nil)
		require.NoError(t, err)
		_, err = blocker.ExecContext(testContext(t), update, 0)
		require.NoError(t, err)
		var slow sync.WaitGroup
		slow.Go(func() {
			if _, err := dbs[0].ExecContext(sessionContext(t), update, 0); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "a write has moved its row and waits for what it writes", func() bool { return c.running(t, "UPDATE "+table) == 1 })
		for id := 1; id < writers; id++ {
			ctx, cancel := context.WithTimeout(sessionContext(t), 5*time.Second)
			_, err := dbs[1].ExecContext(ctx, update, id)
			cancel()
			require.NoError(t, err, "writer %d", id)
		}
		ctx, cancel := context.WithTimeout(testContext(t), 5*time.Second)
		defer cancel()
		_, err = bare.ExecContext(ctx, c.sql("UPDATE "+config.Marker.Table+" SET moved_at = 1 WHERE writer = ?"), "readroute")
		require.NoError(t, err)
		_, err = bare.ExecContext(ctx, "INSERT INTO "+config.Marker.Table+" VALUES ('zzz', 3, '', 1)")
		require.NoError(t, err)
		deleted, err := readroute.PruneMarker(ctx, dbs[1].PrimaryDB(), *config.Marker, time.Hour)
		require.NoError(t, err, "whoever throws old rows away waits for nobody either")
		require.EqualValues(t, 1, deleted)
		require.NoError(t, blocker.Commit())
		slow.Wait()
		var n int
		require.NoError(t, bare.QueryRowContext(testContext(t), fmt.Sprintf("SELECT sum(n) FROM %s", table)).Scan(&n))
		require.Equal(t, 6*writers+1+writers, n)
	})
}

// running returns how many statements that begin with a text run on the primary.
func (c *engineCluster) running(t testing.TB, text string) (n int) {
	t.Helper()
	query := "SELECT count(*) FROM information_schema.processlist WHERE command <> 'Sleep' AND info LIKE '" + text + "%'"
	if c.driver == "pgx" {
		query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '" + text + "%'"
	}
	value, err := c.nodes[0].(interface {
		QueryValue(ctx context.Context, query string) (string, error)
	}).QueryValue(testContext(t), query)
	require.NoError(t, err)
	_, err = fmt.Sscan(value, &n)
	require.NoError(t, err)
	return n
}
