package readroute_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestK2_04_K2_12_GTIDRoutingFollowsTheText: what a statement is decides, and not the method that it is given to, nor what was
// first in its transaction.
func TestK2_04_K2_12_GTIDRoutingFollowsTheText(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := writableReplicas(t, c)
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		rows, err := db.QueryContext(ctx, "DELETE FROM "+table+" WHERE id = 1")
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		require.NoError(t, rows.Err())
		require.Equal(t, []string{"primary write"}, where(seen.take()))
		_, err = db.ExecContext(sessionContext(t), "SELECT 1")
		require.NoError(t, err)
		require.Equal(t, readroute.ClassRead, seen.one(t).Class)

		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (1)")
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		for _, d := range seen.take() {
			require.Equal(t, c.Primary().Name(), d.Node)
			require.Equal(t, readroute.ReasonTx, d.Reason)
		}
		tx, err = db.BeginTx(ctx, readOnly)
		require.NoError(t, err)
		require.Equal(t, 1, countIn(t, ctx, tx, table))
		require.NoError(t, tx.Commit())
		for _, d := range seen.take() {
			require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
		}
	})
}

// TestK2_05_K2_06_K2_20_K2_23_GTIDSessions: what is written belongs to the session, whichever connection it is on and however
// the write is hidden, and to no other.
func TestK2_05_K2_06_K2_20_K2_23_GTIDSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDWritable(t, c)
		config := gtidConfig(c)
		quick(&config)
		seen := record(&config)
		db := open(t, config)
		db.SetMaxOpenConns(8)
		holdBack(t, c)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() {
				n := 0
				err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = 1").Scan(&n)
				if err == nil && n != 1 {
					err = fmt.Errorf("read %d rows", n)
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}

		job := func(write bool) readroute.Role {
			ctx := sessionContext(t)
			if write {
				add(t, ctx, db, table, 2)
			}
			seen.take()
			rowsOf(t, ctx, db, table, 2)
			return seen.one(t).Role
		}
		require.Equal(t, readroute.RoleReplica, job(false))
		require.Equal(t, readroute.RolePrimary, job(true))
		require.Equal(t, readroute.RoleReplica, job(false), "one job's write is not the next one's")

		fill := sessionContext(t)
		require.Zero(t, rowsOf(t, fill, db, table, 1), "without the token the fill is stale")
		readroute.SessionFrom(fill).Merge(tokenOf(t, ctx))
		require.Equal(t, 1, rowsOf(t, fill, db, table, 1))

		hidden := sessionContext(t)
		seen.take()
		require.NoError(t, db.QueryRowContext(hidden, "SELECT add_"+table+"(3, 0)").Scan(new(int)))
		require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
		require.Equal(t, 1, rowsOf(t, hidden, db, table, 3))
	})
}

// TestK3_11_GTIDSchemaLag: what a migration has not yet brought to a replica is read on the primary; a statement that was prepared
// before a table changed goes on.
func TestK3_11_GTIDSchemaLag(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		quick(&config)
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		stmt, err := db.PrepareContext(ctx, "SELECT * FROM "+table)
		require.NoError(t, err)
		defer stmt.Close()
		columns := func() int {
			rows, err := stmt.QueryContext(ctx)
			require.NoError(t, err)
			defer rows.Close()
			names, err := rows.Columns()
			require.NoError(t, err)
			require.NoError(t, rows.Err())
			return len(names)
		}
		require.Equal(t, 1, columns())
		holdBack(t, c, db)
		execOn(t, c.Primary(), "CREATE TABLE "+table+"_new (id INT)", "ALTER TABLE "+table+" ADD COLUMN more INT")
		for _, query := range []string{"SELECT COUNT(*) FROM " + table + "_new", "SELECT COUNT(more) FROM " + table} {
			seen.take()
			require.NoError(t, db.QueryRowContext(sessionContext(t), query).Scan(new(int)))
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			require.Equal(t, readroute.RetrySchema, d.Retry, "%+v", d)
		}
		require.Equal(t, 1, columns(), "the replica has the table of before")
		letGo(t, c)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		for range 10 {
			require.Equal(t, 2, columns())
		}
	})
}

// TestK3_12_K3_13_GTIDNoSecondConnection: as many transactions as the pool has connections end, and a query within another ends
// with its context.
func TestK3_12_K3_13_GTIDNoSecondConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.Primary.MaxOpenConns = 4
		for i := range config.Replicas {
			config.Replicas[i].MaxOpenConns = 1
		}
		config.Replicas = config.Replicas[:1]
		quick(&config)
		db := open(t, config)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				ctx := readroute.WithSession(context.Background())
				tx, err := db.BeginTx(ctx, nil)
				if err == nil {
					_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", i)
					err = errors.Join(err, tx.Commit())
				}
				if err == nil {
					_, err = readroute.SessionFrom(ctx).Token(ctx)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.NoError(t, c.WaitCaughtUp(testContext(t)))

		ctx := readroute.WithLevel(testContext(t), readroute.LevelEventual)
		rows, err := db.QueryContext(ctx, "SELECT id FROM "+table)
		require.NoError(t, err)
		defer rows.Close()
		require.True(t, rows.Next())
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		at := time.Now()
		err = db.QueryRowContext(short, "SELECT 1").Scan(new(int))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(at), 5*time.Second)
		require.NoError(t, rows.Close())
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	})
}

// TestK4_05_GTIDFallbackIsLimited: reads that no replica can serve do not take the primary down.
func TestK4_05_GTIDFallbackIsLimited(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.FallbackLimit = 4
		quick(&config)
		db := open(t, config)
		holdBack(t, c)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		token := tokenOf(t, ctx)
		var protected, most atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				ctx := readroute.ContextWithSession(context.Background(), readroute.NewSession(token))
				var n int
				err := db.QueryRowContext(ctx, "SELECT COUNT(*) + 0 * SLEEP(0.05) FROM "+table+" WHERE id = 1 /* route:replica */").Scan(&n)
				most.Store(max(most.Load(), int64(db.RouteStats().Nodes[0].Writer.InUse)))
				switch {
				case errors.Is(err, readroute.ErrPrimaryProtected):
					protected.Add(1)
				case err != nil:
					t.Error(err)
				case n != 1:
					t.Error("a stale read")
				}
			})
		}
		for range 10 {
			add(t, sessionContext(t), db, table, 2)
		}
		wg.Wait()
		require.Positive(t, protected.Load())
		require.LessOrEqual(t, most.Load(), int64(4+1))
	})
}

// TestK4_31_GTIDReplicaBehindALoadBalancer: one address that leads to a server that has caught up and to one that has not.
func TestK4_31_GTIDReplicaBehindALoadBalancer(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		for _, declared := range []bool{true, false} {
			table := newGTIDTable(t, c, numbered)
			proxy, err := dbtest.NewProxy(replicasOf(c)[0].Addr())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, proxy.Close()) })
			proxy.SetTarget(replicasOf(c)[0].Addr(), replicasOf(c)[1].Addr())
			config := gtidConfig(c)
			quick(&config)
			config.Replicas = config.Replicas[:1]
			config.Replicas[0].Connector = readroute.MySQL(replicasOf(c)[0].DSNVia(proxy, watchful))
			config.Replicas[0].SharedEndpoint = declared
			config.Replicas[0].MaxIdleConns = 4
			seen := record(&config)
			db := open(t, config)
			lagging := replicasOf(c)[1]
			require.NoError(t, lagging.SetApplyDelay(testContext(t), time.Hour))
			n := gtidSessions(t, db, seen, table, 4, 40)
			t.Logf("declared %v: %d of 160 reads on the replica's address", declared, n)
			if declared {
				require.Positive(t, n)
			}
			require.NoError(t, lagging.SetApplyDelay(testContext(t), 0))
			require.NoError(t, c.WaitCaughtUp(testContext(t)))
		}
	})
}

// TestK4_16_GTIDLagNeverTakesTheWriter: whatever becomes of the replicas, the primary serves.
func TestK4_16_GTIDLagNeverTakesTheWriter(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.MaxLag = time.Microsecond
		config.ProbeInterval = 20 * time.Millisecond
		db, err := readroute.Open(config) // no replica is ever ready
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		holdBack(t, c)
		ctx := sessionContext(t)
		for i := range 20 {
			add(t, ctx, db, table, i)
			require.Equal(t, i+1, countIn(t, ctx, db, table))
		}
		config.Replicas = nil // K4-29
		alone := open(t, config)
		for i := range 20 {
			add(t, ctx, alone, table, 100+i)
			require.Equal(t, 1, rowsOf(t, ctx, alone, table, 100+i))
		}
	})
}
