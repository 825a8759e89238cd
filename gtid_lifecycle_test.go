package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// lodger is a user of a test's own, whose sessions can be counted.
func lodger(t testing.TB, c *dbtest.MySQLCluster) (name string, sessions func() int) {
	t.Helper()
	name = fmt.Sprintf("lodger%d", tables.Add(1))
	execOn(t, c.Primary(), "CREATE USER "+name+"@'127.0.0.1'", "GRANT ALL ON "+dbtest.AppDatabase+".* TO "+name+"@'127.0.0.1'")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	return name, func() int {
		n := 0
		for _, node := range c.Nodes() {
			n += number(t, node, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '"+name+"'")
		}
		return n
	}
}

// gtidWork is one of eight things that an application does.
func gtidWork(ctx context.Context, db *readroute.DB, table string, i int) error {
	ctx = readroute.WithSession(ctx)
	switch i % 8 {
	case 0:
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", i)
		return err
	case 1:
		return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = ?", i).Scan(new(int))
	case 2:
		stmt, err := db.PrepareContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id > ? OR id = %d", table, rand.N(50)))
		if err != nil {
			return err
		}
		defer stmt.Close()
		return stmt.QueryRowContext(ctx, i).Scan(new(int))
	case 3:
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: i%16 == 3})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = 1").Scan(new(int)); err != nil {
			return err
		}
		return tx.Commit()
	case 4:
		rows, err := db.QueryContext(ctx, "SELECT id FROM "+table+" LIMIT 20")
		if err != nil {
			return err
		}
		return errors.Join(rows.Close(), rows.Err())
	case 5:
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.ExecContext(ctx, "SET @soak = 1")
		return err
	case 6:
		if _, err := db.ExecContext(ctx, "SELECT * FROM nowhere"); err == nil {
			return errors.New("a table that is not there was read")
		}
		return ctx.Err()
	default:
		if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", i); err != nil {
			return err
		}
		return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = ?", i).Scan(new(int))
	}
}

// TestGTIDSoakLeavesNothing runs everything for a while, with cancellations and errors, and looks for what is left.
func TestGTIDSoakLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		name, sessions := lodger(t, c)
		config := gtidConfig(c, name)
		quick(&config)
		config.Primary.MaxOpenConns = 12
		statements := func() (n int) {
			for _, node := range c.Nodes() {
				n += number(t, node, "SELECT VARIABLE_VALUE FROM "+globalStatus(c)+" WHERE VARIABLE_NAME = 'Prepared_stmt_count'")
			}
			return n
		}
		prepared := statements()
		db := open(t, config)
		round := func() {
			errs := make(chan error, 8)
			for w := range cap(errs) {
				go func() {
					var failed error
					for i := range 80 {
						ctx, cancel := context.WithCancel(context.Background())
						if i%10 == 9 {
							time.AfterFunc(rand.N(time.Millisecond), cancel)
						}
						err := gtidWork(ctx, db, table, w*80+i)
						if err != nil && ctx.Err() == nil {
							failed = err
						}
						cancel()
					}
					errs <- failed
				}()
			}
			for range cap(errs) {
				require.NoError(t, <-errs)
			}
		}
		settle := func() int {
			eventually(t, "nothing is in use", func() bool {
				busy := db.Stats().InUse
				for _, n := range db.RouteStats().Nodes {
					busy += n.Reader.InUse + n.Writer.InUse
				}
				for _, n := range db.Nodes() {
					busy += n.InFlight
				}
				return busy == 0 && db.RouteStats().Waiting == 0
			})
			runtime.GC()
			return runtime.NumGoroutine()
		}
		round()
		before := settle()
		for range 2 {
			round()
		}
		eventually(t, "no goroutine more, but for the connections' own", func() bool { return settle() <= before+32 })
		require.LessOrEqual(t, sessions(), 12+3*readroute.DefaultMaxIdleConns+4, "a pool holds what its limits say, and two more for the monitor")
		require.NoError(t, db.Close())
		eventually(t, "no session is left", func() bool { return sessions() == 0 })
		eventually(t, "no prepared statement is left", func() bool { return statements() <= prepared })
	})
}

// TestGTIDCloseDuringTraffic: Close ends whatever waits, and leaves neither a goroutine nor a session.
func TestGTIDCloseDuringTraffic(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		name, sessions := lodger(t, c)
		require.Zero(t, sessions())
		holdBack(t, c)
		goroutines := runtime.NumGoroutine()
		for range 3 {
			letGo(t, c)
			config := gtidConfig(c, name)
			config.Strategy, config.CaptureTimeout = readroute.PositionWait(time.Minute), time.Minute
			db, err := readroute.Open(config)
			require.NoError(t, err)
			require.NoError(t, db.WaitReady(testContext(t)))
			holdBack(t, c)
			var done atomic.Int64
			var wg sync.WaitGroup
			ends := make(chan error, 16)
			for w := range cap(ends) {
				wg.Go(func() {
					ctx := context.Background()
					if w%2 == 1 {
						ctx = readroute.WithFallback(ctx, readroute.FallbackError)
					}
					for i := w; ; i++ {
						err := gtidWork(ctx, db, table, i)
						done.Add(1)
						if err != nil && db.PingContext(context.Background()) != nil {
							ends <- err
							return
						}
					}
				})
			}
			eventually(t, "reads wait for a replica", func() bool { return db.RouteStats().Waiting > 0 && done.Load() > 20 })
			began := time.Now()
			require.NoError(t, db.Close())
			wg.Wait()
			require.Less(t, time.Since(began), 10*time.Second)
			for range cap(ends) {
				require.ErrorContains(t, <-ends, "sql: database is closed")
			}
			require.NoError(t, db.Close(), "it may be called more than once")
			require.Zero(t, db.RouteStats().Waiting)
			_, err = db.ExecContext(testContext(t), "INSERT INTO "+table+" (id) VALUES (1)")
			require.ErrorContains(t, err, "closed")
			eventually(t, "no session is left", func() bool { return sessions() == 0 })
			eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines+3 })
		}
	})
}
