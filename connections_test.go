package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func TestK3_06_ConnectHooksRunEverywhere(t *testing.T) {
	c := sharedCluster(t)
	config := readroute.Config{}
	for i, n := range c.Nodes() {
		pg, err := pgx.ParseConfig(n.DSN())
		require.NoError(t, err)
		pg.RuntimeParams["timezone"] = "Asia/Tokyo"
		node := readroute.Node{Name: n.Name(), Connector: stdlib.GetConnector(*pg,
			stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET datestyle TO German")
				return err
			}))}
		if i == 0 {
			config.Primary = node
		} else {
			config.Replicas = append(config.Replicas, node)
		}
	}
	seen := record(&config)
	db := open(t, config)
	conns := make([]*sql.Conn, 0, 12)
	nodes := map[string]bool{}
	for i := range cap(conns) {
		ctx := sessionContext(t)
		if i%3 == 0 {
			ctx = readroute.WithLevel(ctx, readroute.LevelPrimary)
		}
		conn, err := db.Conn(ctx)
		require.NoError(t, err)
		conns = append(conns, conn)
		var hour string
		require.NoError(t, conn.QueryRowContext(ctx, "/* route:replica */ SELECT '2026-01-01 00:00+00'::timestamptz::text").Scan(&hour))
		d := seen.one(t)
		nodes[d.Node] = true
		require.Equal(t, "01.01.2026 09:00:00 JST", hour, "%+v", d)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.Len(t, nodes, 3)
}

func TestK3_11_PlanThatDDLHasOutrun(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1)"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
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
		require.True(t, rows.Next())
		require.False(t, rows.Next())
		require.NoError(t, rows.Err())
		return len(names)
	}
	require.Equal(t, 1, columns())
	for added := 2; added < 5; added++ {
		require.NoError(t, c.Primary().Exec(testContext(t), fmt.Sprintf("ALTER TABLE %s ADD COLUMN c%d int", table, added)))
		columns() // before or after replay: no error
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		seen.take()
		require.Equal(t, added, columns())
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role, "the text is no write because of it")
		require.Equal(t, added, columns())
		require.Empty(t, seen.one(t).Retry)
	}
}

func TestK3_12_NestedReadEndsWithItsContext(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	config.Replicas[0].MaxOpenConns = 1
	config.Primary.MaxOpenConns = 1
	db := open(t, config)
	table := newTable(t, c, "id int")
	_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (1), (2)")
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	ctx := readroute.WithNode(readroute.WithLevel(testContext(t), readroute.LevelEventual), config.Replicas[0].Name) // both reads go there
	rows, err := db.QueryContext(ctx, "SELECT id FROM "+table)
	require.NoError(t, err)
	for rows.Next() {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		err := db.QueryRowContext(short, "SELECT 1").Scan(new(int))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.Equal(t, 2, countIn(t, ctx, db, table))
}

func TestK3_13_TransactionsNeedNoSecondConnection(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Primary.MaxOpenConns = 10
	db := open(t, config)
	table := newTable(t, c, "id int")
	var start, wg sync.WaitGroup
	start.Add(10)
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			errs[i] = func() error {
				ctx := sessionContext(t)
				tx, err := db.BeginTx(ctx, nil)
				start.Done()
				start.Wait() // all ten have their connection
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i); err != nil {
					return err
				}
				if err := tx.Commit(); err != nil {
					return err
				}
				if _, err := readroute.SessionFrom(ctx).Token(ctx); err != nil {
					return err
				}
				var n int
				err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE id = $1", i).Scan(&n)
				if err == nil && n != 1 {
					err = errors.New("stale")
				}
				return err
			}()
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestK3_14_RowsThatNobodyScans(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	quick(&config)
	config.Primary.MaxOpenConns = 10
	db := open(t, config)
	table := newTable(t, c, "id int unique")
	ctx := sessionContext(t)
	for i := range 50 {
		require.NoError(t, db.QueryRowContext(ctx, "INSERT INTO "+table+" VALUES ($1) RETURNING id", i).Scan(new(int)))
		require.Error(t, db.QueryRowContext(ctx, "INSERT INTO "+table+" VALUES ($1) RETURNING id", i).Err())
		require.Error(t, db.QueryRowContext(ctx, "SELECT nothing FROM "+table).Err())
	}
	require.Zero(t, db.Stats().InUse)
	for _, n := range db.RouteStats().Nodes {
		require.Zero(t, n.Writer.InUse+n.Reader.InUse, n.Name)
	}
}

func TestK3_16_RawBytesSurviveCancellation(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, configFor(c))
	for range 100 {
		ctx, cancel := context.WithCancel(sessionContext(t))
		rows, err := db.QueryContext(ctx, "SELECT repeat(chr(65 + i % 26), 1000) FROM generate_series(0, 200) i")
		require.NoError(t, err)
		timer := time.AfterFunc(rand.N(2*time.Millisecond), cancel)
		for i := 0; rows.Next(); i++ {
			var b sql.RawBytes
			if rows.Scan(&b) != nil {
				break
			}
			for _, got := range b {
				require.Equal(t, byte('A'+i%26), got)
			}
		}
		timer.Stop()
		cancel()
		_ = rows.Close()
		if err := rows.Err(); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
}

func TestK3_17_RowsOutliveTheCall(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, configFor(c))
	ctx, cancel := context.WithTimeout(sessionContext(t), time.Minute)
	defer cancel()
	table := newTable(t, c, "id int")
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" SELECT generate_series(1, 1000)")
	require.NoError(t, err)
	rows, err := db.QueryContext(ctx, "SELECT id FROM "+table) // after a capture and a wait
	require.NoError(t, err)
	n := 0
	for rows.Next() {
		n++
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.Equal(t, 1000, n)
}

func TestK3_25_CancellationIsNoFailure(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	var down []readroute.Event
	var mu sync.Mutex
	config.Hooks.Event = func(e readroute.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == readroute.EventDown {
			down = append(down, e)
		}
	}
	db := open(t, config)
	table := newTable(t, c, "id int")
	statements := []string{"INSERT INTO " + table + " VALUES (1)", "SELECT count(*) FROM " + table}
	for i := range 200 {
		ctx := sessionContext(t)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		for _, s := range statements {
			cancelled, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(rand.N(300*time.Microsecond), cancel)
			_, err = tx.ExecContext(cancelled, s)
			if err != nil {
				require.ErrorIs(t, err, context.Canceled, "round %d", i)
				break
			}
			timer.Stop()
			cancel()
		}
		_ = tx.Rollback()

		cancelled, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(rand.N(300*time.Microsecond), cancel)
		if err := db.QueryRowContext(cancelled, statements[1]).Scan(new(int)); err != nil {
			require.ErrorIs(t, err, context.Canceled, "round %d", i)
		}
		timer.Stop()
		cancel()
	}
	for _, n := range db.Nodes() {
		require.True(t, n.Healthy, n.Name)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, down)
}

func TestK3_26_ReplicaConnectionsAreKept(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Replicas = config.Replicas[:1]
	config.Replicas[0].Connector = readroute.Postgres(standbys(c)[0].DSN() + "&application_name=kept")
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	pids := map[int]bool{}
	for i := range 200 {
		var pid int
		require.NoError(t, db.QueryRowContext(ctx, "/* route:replica */ SELECT pid FROM pg_stat_activity WHERE application_name = 'kept'"+
			" AND query LIKE '%kept%' AND state = 'active'").Scan(&pid))
		pids[pid] = true
		if i%10 == 0 {
			tx, err := db.BeginTx(ctx, readOnly)
			require.NoError(t, err)
			require.Error(t, tx.QueryRowContext(ctx, "SELECT 1/0").Scan(&pid))
			require.NoError(t, tx.Rollback())
		}
	}
	for _, d := range seen.take() {
		require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
	}
	require.Len(t, pids, 1, "resetting a connection needs nothing that a standby refuses")
}
