package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

func TestOpenNamesEveryProblem(t *testing.T) {
	const secret = "hunter2"
	db, err := readroute.Open(readroute.Config{
		Name:           strings.Repeat("x", 256),
		Strategy:       readroute.PositionWait(-time.Second),
		Level:          -42,
		Fallback:       42,
		WithoutSession: 42,
		MaxLag:         -1,
		StickyWindow:   -1,
		CaptureTimeout: -1,
		ProbeInterval:  -1,
		ProbeTimeout:   -1,
		FallbackLimit:  -1,
		MaxWaiters:     -1,
		Replicas: []readroute.Node{
			{Name: "one", Connector: readroute.Postgres("postgres://app:" + secret + "@host:port/app")},
			{Name: "one", Connector: readroute.Postgres("host=/x password='" + secret + " port=1")},
			{Name: "nil"},
			{Connector: readroute.Postgres("postgres://app@host/app")},
			{Name: "two", Connector: readroute.PostgresConfig(nil), Weight: -1, MaxOpenConns: -1, MaxIdleConns: -1, ConnMaxLifetime: -1, ConnMaxIdleTime: -1},
		},
	})
	require.Nil(t, db)
	require.ErrorIs(t, err, readroute.ErrBadConfig)
	require.NotContains(t, err.Error(), secret)
	require.NotContains(t, err.Error(), "app@")
	for _, what := range []string{
		"Name has 256 bytes", "Strategy is -1s", "Level -42", "Fallback 42", "WithoutSession 42", "MaxLag is -1ns", "StickyWindow is",
		"CaptureTimeout is", "ProbeInterval is", "ProbeTimeout is", "FallbackLimit is -1", "MaxWaiters -1", "no Primary",
		`Replicas[0] "one": the PostgreSQL DSN cannot be parsed`, `Replicas[1] "one": the PostgreSQL DSN`,
		`Replicas[1]: another node is called "one"`, `Replicas[2] "nil": it has no Connector`, "Replicas[3]", "it has no Name",
		"PostgresConfig was given nil", "Weight is negative", "MaxOpenConns is negative", "MaxIdleConns is negative",
		"ConnMaxLifetime is negative", "ConnMaxIdleTime is negative",
	} {
		require.ErrorContains(t, err, what)
	}
	_, err = readroute.Open(readroute.Config{})
	require.ErrorIs(t, err, readroute.ErrBadConfig)
	require.ErrorContains(t, err, "no Primary")
	const forEver = math.MaxInt64
	_, err = readroute.Open(readroute.Config{
		Strategy: readroute.Sticky(forEver), MaxLag: forEver, StickyWindow: forEver, CaptureTimeout: forEver, ProbeInterval: forEver,
		ProbeTimeout: forEver, CatalogueInterval: forEver,
		Primary: readroute.Node{Name: "p", Connector: readroute.Postgres(""), ConnMaxLifetime: forEver},
	})
	for _, what := range []string{
		"Strategy", "MaxLag", "StickyWindow", "CaptureTimeout", "ProbeInterval", "ProbeTimeout", "CatalogueInterval", "ConnMaxIdleTime",
	} {
		require.ErrorContains(t, err, what+" is 2562047h47m16", "a sum would be negative")
	}
	many := readroute.Config{Primary: readroute.Node{Name: "p", Connector: readroute.Postgres("")}}
	for i := range 64 {
		many.Replicas = append(many.Replicas, readroute.Node{Name: fmt.Sprint(i), Connector: readroute.Postgres("")})
	}
	_, err = readroute.Open(many)
	require.ErrorContains(t, err, "64 Replicas")
}

func TestOpenWithAReplicaDown(t *testing.T) {
	c := breakable(t)
	gone := standbys(c)[0]
	require.NoError(t, gone.StopFast(testContext(t)))
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	for range 50 {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	}
	require.Equal(t, map[string]int{standbys(c)[1].Name(): 50}, served(seen.take()))
	require.Error(t, status(t, db, gone.Name()).Err)
	require.NoError(t, gone.Start(testContext(t)))
	eventually(t, "the replica serves", func() bool {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		return served(seen.take())[gone.Name()] > 0
	})
}

// TestOpenWithThePrimaryDown (K4-02): what needs nothing newer goes on.
func TestOpenWithThePrimaryDown(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	earlier := open(t, configFor(c))
	ctx := sessionContext(t)
	_, err := earlier.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	old, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(ctx))
	pauseReplay(t, c)
	_, err = earlier.ExecContext(ctx, "INSERT INTO "+table+" VALUES (2)")
	require.NoError(t, err)
	newer, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Primary().StopFast(testContext(t)))

	config := configFor(c)
	config.ProbeInterval = 50 * time.Millisecond
	seen := record(&config)
	db, err := readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	eventually(t, "the replicas are known", func() bool { return status(t, db, "b").Healthy && status(t, db, "c").Healthy })
	short, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	require.ErrorIs(t, db.WaitReady(short), context.DeadlineExceeded)

	withToken := func(token readroute.Token) context.Context {
		return readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
	}
	for range 20 {
		require.Zero(t, count(t, sessionContext(t), db, table, 7))
	}
	for _, d := range seen.take() {
		require.Equal(t, readroute.RoleReplica, d.Role)
	}
	for _, token := range []readroute.Token{old, newer} {
		// Nobody has said since Open which timeline the replicas are on: they prove nothing yet.
		began := time.Now()
		require.Error(t, db.QueryRowContext(withToken(token), "SELECT count(*) FROM "+table).Scan(new(int)))
		require.Less(t, time.Since(began), 2*time.Second)
	}
	began := time.Now()
	_, err = db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (3)")
	require.Error(t, err)
	require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
	require.Less(t, time.Since(began), 2*time.Second, "a write fails fast")

	require.NoError(t, c.Primary().Start(testContext(t)))
	_, err = db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (4)")
	require.NoError(t, err, "a write always dials the primary")
	resumeReplay(t, c)
	eventually(t, "replicas serve the newer token", func() bool {
		seen.take()
		require.Equal(t, 1, count(t, withToken(newer), db, table, 2))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestPrimaryIsFrozenAtStart: its kernel takes connections and it says nothing. A write without a deadline ends all the same.
func TestPrimaryIsFrozenAtStart(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, c.Primary().Freeze(testContext(t)))
	config := configFor(c)
	config.ProbeTimeout = 200 * time.Millisecond
	config.Primary.MaxOpenConns = 2
	db, err := readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	done := make(chan error, 3)
	for _, write := range []func() error{
		func() error { _, err := db.Exec("INSERT INTO " + table + " VALUES (1)"); return err },
		func() error { _, err := db.Begin(); return err },
		func() error { return db.PrimaryRaw(context.Background(), func(any) error { return nil }) },
	} {
		go func() { done <- write() }()
	}
	for range 3 {
		select {
		case err := <-done:
			require.Error(t, err)
			require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		case <-testContext(t).Done():
			require.FailNow(t, "a write hangs")
		}
	}
	require.NoError(t, c.Primary().Thaw(testContext(t)))
	eventually(t, "writes", func() bool {
		_, err := db.Exec("INSERT INTO " + table + " VALUES (2)")
		return err == nil
	})
}

// TestPrimaryIsFrozen is noticed within an interval and a probe's timeout.
func TestPrimaryIsFrozen(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	config.ProbeInterval, config.ProbeTimeout = 200*time.Millisecond, 300*time.Millisecond
	happened := listen(&config)
	db := open(t, config)
	began := time.Now()
	require.NoError(t, c.Primary().Freeze(testContext(t)))
	eventually(t, "it is down", func() bool { return !status(t, db, c.Primary().Name()).Healthy })
	require.Less(t, time.Since(began), config.ProbeInterval+config.ProbeTimeout+2*time.Second, "with two seconds for a machine that is busy")
	happened.first(t, readroute.EventDown)
	require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)), "replicas serve")
}

// TestPrimaryGoesDown: the replicas go on serving the sessions that they are known to cover.
func TestPrimaryGoesDown(t *testing.T) {
	stops := map[string]func(*dbtest.PostgresNode, context.Context) error{
		dbtest.SuperUser: (*dbtest.PostgresNode).StopFast,
		dbtest.AppUser:   (*dbtest.PostgresNode).Kill,
	}
	for user, stop := range stops {
		t.Run(user, func(t *testing.T) {
			c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
			table := newTable(t, c, "id int")
			config := configFor(c)
			config.Primary.Connector = readroute.Postgres(c.Primary().DSN(user))
			for i, n := range standbys(c) {
				config.Replicas[i].Connector = readroute.Postgres(n.DSN(user))
			}
			config.ProbeInterval = 50 * time.Millisecond
			seen := record(&config)
			db := open(t, config)
			ctx := sessionContext(t)
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
			require.NoError(t, err)
			for _, n := range config.Replicas {
				eventually(t, "both replicas serve the session", func() bool {
					seen.take()
					require.Equal(t, 1, countIn(t, readroute.WithNode(ctx, n.Name), db, table))
					return seen.one(t).Node == n.Name
				})
			}
			require.NoError(t, stop(c.Primary(), testContext(t)))
			down := time.Now()
			eventually(t, "a second without a primary", func() bool {
				seen.take()
				err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int))
				d := seen.one(t)
				require.NoError(t, err, "%+v %+v", d, db.Nodes())
				require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
				return time.Since(down) > time.Second
			})
		})
	}
}

// sessionsOf counts the server sessions of an application on all nodes.
func sessionsOf(t testing.TB, c *dbtest.PostgresCluster, application string) int {
	t.Helper()
	total := 0
	for _, n := range c.Nodes() {
		v, err := n.QueryValue(testContext(t), "SELECT count(*) FROM pg_stat_activity WHERE application_name = '"+application+"'")
		require.NoError(t, err)
		var here int
		_, err = fmt.Sscan(v, &here)
		require.NoError(t, err)
		total += here
	}
	return total
}

// named returns a config whose connections carry an application name.
func named(c *dbtest.PostgresCluster, application string) readroute.Config {
	config := configFor(c)
	for i, n := range c.Nodes() {
		connector := readroute.Postgres(n.DSN() + "&application_name=" + application)
		if i == 0 {
			config.Primary.Connector = connector
		} else {
			config.Replicas[i-1].Connector = connector
		}
	}
	return config
}

func TestCloseDuringTraffic(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	goroutines := runtime.NumGoroutine()
	config := named(c, "traffic")
	config.Strategy, config.CaptureTimeout = readroute.PositionWait(10*time.Second), 10*time.Second
	db, err := readroute.Open(config)
	require.NoError(t, err)
	require.NoError(t, db.WaitReady(testContext(t)))
	pauseReplay(t, c) // some of them wait when the pool is closed

	ctx := testContext(t)
	var wg sync.WaitGroup
	started := make(chan struct{}, 64)
	ended := make(chan error, 64)
	for i := range 16 {
		wg.Go(func() {
			ended <- func() error {
				for n := 0; ; n++ {
					if n == 1 {
						started <- struct{}{}
					}
					ctx := readroute.WithSession(ctx)
					if i%8 > 3 {
						ctx = readroute.WithFallback(ctx, readroute.FallbackError)
					}
					var err error
					switch i % 4 {
					case 0:
						_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
					case 1:
						err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int))
					case 2:
						var tx *sql.Tx
						if tx, err = db.BeginTx(ctx, nil); err == nil {
							_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (2)")
							err = errors.Join(err, tx.Commit())
						}
					case 3:
						started <- struct{}{}
						if _, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (3)"); err == nil {
							err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int))
						}
					}
					if err != nil {
						return err
					}
				}
			}()
		})
	}
	for range 16 {
		<-started
	}
	eventually(t, "somebody waits for a replica", func() bool { return db.RouteStats().Waiting > 0 })
	began := time.Now()
	require.NoError(t, db.Close())
	wg.Wait()
	require.Less(t, time.Since(began), 5*time.Second)
	for range 16 {
		err := <-ended
		require.ErrorContains(t, err, "sql: database is closed")
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
	}
	eventually(t, "no connection is left", func() bool { return sessionsOf(t, c, "traffic") == 0 })
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func TestCloseIsFinal(t *testing.T) {
	c := sharedCluster(t)
	for _, embedded := range []bool{false, true} {
		t.Run(fmt.Sprintf("embedded=%t", embedded), func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			db, err := readroute.Open(named(c, "final"))
			require.NoError(t, err)
			ctx := sessionContext(t)
			require.NoError(t, db.WaitReady(ctx))
			require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
			require.NoError(t, db.PrimaryDB().PingContext(ctx))
			stmt, err := db.PrepareContext(ctx, "SELECT 1")
			require.NoError(t, err)
			if embedded {
				require.NoError(t, db.DB.Close())
			}
			require.NoError(t, db.Close())
			require.NoError(t, db.Close())

			const closed = "sql: database is closed"
			_, err = db.ExecContext(ctx, "SELECT 1")
			require.EqualError(t, err, closed)
			require.EqualError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)), closed)
			_, err = db.BeginTx(ctx, nil)
			require.EqualError(t, err, closed)
			_, err = db.Conn(ctx)
			require.EqualError(t, err, closed)
			_, err = db.PrepareContext(ctx, "SELECT 1")
			require.EqualError(t, err, closed)
			require.EqualError(t, stmt.QueryRowContext(ctx).Scan(new(int)), closed)
			require.EqualError(t, db.PingContext(ctx), closed)
			require.EqualError(t, db.PrimaryRaw(ctx, func(any) error { return nil }), closed)
			require.EqualError(t, db.PrimaryDB().PingContext(ctx), closed)
			require.EqualError(t, db.Fence(ctx), closed)
			require.EqualError(t, db.WaitReady(ctx), closed)
			_, err = db.Explain(ctx, "SELECT 1")
			require.NoError(t, err)
			require.Len(t, db.Nodes(), 3)
			require.Len(t, db.RouteStats().Nodes, 3)
			_, err = readroute.SessionFrom(ctx).Token(ctx)
			require.NoError(t, err)
			eventually(t, "no connection is left", func() bool { return sessionsOf(t, c, "final") == 0 })
			eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
		})
	}
}

// TestCloseBeforeAnything closes a pool that has not reached any server.
func TestCloseBeforeAnything(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	for range 20 {
		db, err := readroute.Open(readroute.Config{
			Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres("postgres://app@127.0.0.1:1/app")},
			Replicas: []readroute.Node{{Name: "b", Connector: readroute.Postgres("postgres://app@127.0.0.1:1/app")}},
		})
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
}
