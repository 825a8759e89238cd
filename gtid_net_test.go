package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// writableReplicas lets anybody write to the replicas for the length of a test, and returns a config whose user is an
// administrator.
func writableReplicas(t testing.TB, c *dbtest.MySQLCluster) readroute.Config {
	t.Helper()
	for _, n := range replicasOf(c) {
		execOn(t, n, "SET GLOBAL read_only = OFF")
		t.Cleanup(func() { require.NoError(t, n.Exec(context.Background(), readOnlyAgain(c)...)) })
	}
	config := gtidConfig(c, dbtest.AdminUser)
	patient(&config)
	return config
}

// errantOn are the writes that a server has made of itself and not got from its source.
func errantOn(t testing.TB, c *dbtest.MySQLCluster, n *dbtest.MySQLNode) string {
	t.Helper()
	if c.IsMariaDB() {
		return ask(t, n, fmt.Sprintf("SELECT @@GLOBAL.gtid_binlog_state REGEXP '(^|,)[0-9]+-%d-'", n.ServerID()))
	}
	return ask(t, n, "SELECT @@GLOBAL.gtid_executed LIKE CONCAT('%', @@GLOBAL.server_uuid, '%')")
}

// TestGTIDNet: an administrator cannot write to a replica through the routed pool, although the replica would take it. A
// statement that was taken for a read is refused there, runs on the primary, and is remembered.
func TestGTIDNet(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDWritable(t, c)
		config := writableReplicas(t, c)
		config.ReadFunctions = []string{"add_" + table} // which is a lie
		seen := record(&config)
		db := open(t, config)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		errant := map[string]string{}
		for _, n := range replicasOf(c) {
			errant[n.Name()] = errantOn(t, c, n)
		}
		for i, query := range []string{
			"SELECT add_" + table + "(%d, 0)",
			"SELECT id FROM (SELECT add_" + table + "(%d, 0) AS id) x",
			"/* route:replica */ SELECT 1 + add_" + table + "(%d, 0)",
		} {
			query = fmt.Sprintf(query, i)
			ctx := sessionContext(t)
			learned := db.RouteStats().Classes.Learned
			require.NoError(t, db.QueryRowContext(ctx, query).Scan(new(int)))
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			require.Equal(t, readroute.RetryRefused, d.Retry, "%+v", d)
			require.Equal(t, learned+1, db.RouteStats().Classes.Learned)
			require.Equal(t, 1, rowsOf(t, ctx, db, table, i), "its session sees it")
			seen.take()
			require.NoError(t, db.QueryRowContext(ctx, query).Scan(new(int)))
			d = seen.one(t)
			require.Empty(t, d.Retry, "the same text goes to the primary at once: %+v", d)
			require.Equal(t, readroute.ReasonWrite, d.Reason)
			require.Equal(t, "2", ask(t, c.Primary(), fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", table, i)))
		}
		for _, query := range []string{
			"/* route:replica */ INSERT INTO " + table + " (id) VALUES (9)", "/*FORCE_SLAVE*/ UPDATE " + table + " SET id = 9",
			"/* route:replica */ CREATE TABLE nowhere (id INT)", "/* route:replica */ CALL put_" + table + "(9, 0)",
			"/* route:replica */ START TRANSACTION READ WRITE",
		} {
			conn, err := db.Conn(sessionContext(t))
			require.NoError(t, err)
			seen.take()
			_, err = conn.ExecContext(sessionContext(t), query)
			require.NoError(t, err, query)
			require.Equal(t, readroute.RolePrimary, seen.one(t).Role, query)
			require.NoError(t, conn.Close())
		}
		execOn(t, c.Primary(), "DROP TABLE nowhere")
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		for _, n := range replicasOf(c) {
			require.Equal(t, errant[n.Name()], errantOn(t, c, n), "%s has written nothing", n.Name())
		}
		for _, n := range db.Nodes() {
			require.True(t, n.Healthy && !n.Stopped, "a refusal is no verdict on a node: %+v", n)
		}
	})
}

// TestGTIDNetInReadOnlyTransactions: what is sent to a replica within a read-only transaction does not leave it, whatever it says
// of transactions.
func TestGTIDNetInReadOnlyTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDWritable(t, c)
		config := writableReplicas(t, c)
		seen := record(&config)
		db := open(t, config)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		insert := "INSERT INTO " + table + " (id) VALUES (1)"
		for _, texts := range [][]string{
			{insert},
			{"UPDATE " + table + " SET id = 2"},
			{"CREATE TABLE ran_away (id INT)"},
			{"DROP TABLE " + table},
			{"TRUNCATE TABLE " + table},
			{"ALTER TABLE " + table + " ADD COLUMN c INT"},
			{"COMMIT", insert},
			{"ROLLBACK", insert},
			{"COMMIT", "CREATE TABLE ran_away (id INT)"},
			{"COMMIT", "BEGIN", insert, "COMMIT"},
			{"CALL put_" + table + "(1, 0)"},
			{"SELECT * FROM " + table + " FOR UPDATE"},
			{"START TRANSACTION READ WRITE", insert, "COMMIT", insert},
			{"SET SESSION TRANSACTION READ WRITE", "COMMIT", insert},
			{"SET SESSION transaction_read_only = 0, tx_read_only = 0", "COMMIT", insert},
			{"SET SESSION transaction_read_only = 0", "COMMIT", insert},
			{"SET SESSION tx_read_only = 0", "COMMIT", insert},
			{"COMMIT", "SET TRANSACTION READ WRITE", insert},
			{"SET autocommit = 0", "COMMIT", insert},
			{"PREPARE p FROM 'START TRANSACTION READ WRITE'", "EXECUTE p", insert, "COMMIT", insert},
			{"EXECUTE IMMEDIATE 'START TRANSACTION READ WRITE'", insert, "COMMIT", insert},
			{"SET STATEMENT tx_read_only = 0 FOR " + insert, insert},
			{"COMMIT", "SET STATEMENT tx_read_only = 0 FOR " + insert, insert},
			{"BEGIN NOT ATOMIC COMMIT; START TRANSACTION READ WRITE; " + insert + "; COMMIT; END", insert},
			{"SAVEPOINT s", "SET @v = 1", "SELECT @v", insert, "ROLLBACK TO SAVEPOINT s", insert},
			{"ANALYZE TABLE " + table},
			{"FLUSH TABLES"},
			{"SET GLOBAL max_connections = 200"},
			{"LOCK TABLES " + table + " WRITE", insert},
		} {
			ctx := sessionContext(t)
			tx, err := db.BeginTx(ctx, readOnly)
			require.NoError(t, err)
			d := seen.take()
			require.Equal(t, readroute.RoleReplica, d[len(d)-1].Role)
			var last error
			for _, text := range texts {
				if _, err := tx.ExecContext(ctx, text); err != nil {
					last = err
				}
			}
			_ = tx.Rollback()
			if errors.Is(last, readroute.ErrNeedsPrimary) {
				continue // the library has refused it, and not the server
			}
			var refused *mysql.MySQLError
			require.ErrorAs(t, last, &refused, "%q", texts)
			require.Contains(t, []uint16{1792, 1290}, refused.Number, "%q: %v", texts, last)
		}
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		for _, n := range replicasOf(c) {
			require.Equal(t, "0", ask(t, n, "SELECT COUNT(*) FROM "+table))
			require.Equal(t, "0", ask(t, n, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'ran_away'"))
		}
	})
}

// TestGTIDRefusalsAreToldApart: 1290, 1792 and 1836 of a read-only server are about the node; 1290 of another option, and a
// read-only transaction of the user's own, are not.
func TestGTIDRefusalsAreToldApart(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		happened := listen(&config)
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		number := func(err error) uint16 {
			var refused *mysql.MySQLError
			require.ErrorAs(t, err, &refused)
			return refused.Number
		}
		for range 5 {
			tx, err := db.BeginTx(readroute.WithLevel(ctx, readroute.LevelPrimary), readOnly)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (1)")
			require.EqualValues(t, 1792, number(err))
			require.NoError(t, tx.Rollback())
			add(t, ctx, db, table, 1)
		}
		require.True(t, status(t, db, c.Primary().Name()).Primary)
		require.Empty(t, happened.of(readroute.EventPrimaryChanged))
		require.Empty(t, happened.of(readroute.EventDown))

		// A user's own settings on a replica's connection are no more than a refusal either.
		learned := db.RouteStats().Classes.Learned
		seen.take()
		err := db.QueryRowContext(ctx, "SELECT LOAD_FILE('/etc/hostname')").Scan(new(sql.NullString))
		t.Log(err, where(seen.take()))
		require.Equal(t, learned, db.RouteStats().Classes.Learned)

		// A write that a server refuses because it is read-only now is returned, once; the connection is not used again.
		execOn(t, c.Primary(), "SET GLOBAL read_only = ON")
		t.Cleanup(func() { require.NoError(t, c.Primary().Exec(context.Background(), "SET GLOBAL read_only = OFF")) })
		_, err = db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (2)")
		require.Error(t, err)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		eventually(t, "the probe has seen it", func() bool {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (2)")
			require.Error(t, err)
			return status(t, db, c.Primary().Name()).Role == readroute.RoleReplica
		})
		execOn(t, c.Primary(), "SET GLOBAL read_only = OFF")
		began := time.Now()
		eventually(t, "it takes writes again", func() bool {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (3)")
			return err == nil
		})
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, "0", ask(t, c.Primary(), "SELECT COUNT(*) FROM "+table+" WHERE id = 2"))
	})
}

// TestGTIDRefusedCommitAsksAtOnce: a primary that is made read-only under an open transaction refuses its COMMIT. The node is asked now, not
// when its turn comes, and the connection is not used again.
func TestGTIDRefusedCommitAsksAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.ProbeInterval = time.Hour
		db := open(t, config)
		ctx := sessionContext(t)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (1)")
		require.NoError(t, err)
		execOn(t, c.Primary(), "SET GLOBAL read_only = ON")
		t.Cleanup(func() { require.NoError(t, c.Primary().Exec(context.Background(), "SET GLOBAL read_only = OFF")) })
		err = tx.Commit()
		var answer *mysql.MySQLError
		require.ErrorAs(t, err, &answer)
		require.EqualValues(t, 1290, answer.Number)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		eventually(t, "the probe has seen it", func() bool { return status(t, db, c.Primary().Name()).Role == readroute.RoleReplica })
		require.Zero(t, db.RouteStats().Nodes[0].Writer.OpenConnections)
	})
}
