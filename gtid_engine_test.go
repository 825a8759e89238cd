package readroute_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestGTIDMixedClusters: what kind of servers a cluster is made of is asked of the servers, and one of another kind is left out.
func TestGTIDMixedClusters(t *testing.T) {
	pg, my, maria := sharedCluster(t), sharedGTIDs(t, false), sharedGTIDs(t, true)
	_, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres(pg.Primary().DSN())},
		Replicas: []readroute.Node{{Name: "b", Connector: readroute.MySQL(replicasOf(my)[0].AppDSN())}},
	})
	require.ErrorIs(t, err, readroute.ErrBadConfig)
	require.ErrorContains(t, err, "a cluster cannot mix kinds of servers")
	for _, pair := range [][2]*dbtest.MySQLCluster{{my, maria}, {maria, my}} {
		c, other := pair[0], pair[1]
		t.Run(c.Flavor()+" with "+other.Flavor(), func(t *testing.T) {
			table := newGTIDTable(t, c, numbered)
			for _, hidden := range []bool{false, true} {
				config := gtidConfig(c)
				config.ProbeInterval = 20 * time.Millisecond
				config.Replicas[1] = readroute.Node{Name: "stranger", Connector: readroute.MySQL(replicasOf(other)[0].DSN(watchful))}
				if hidden {
					config.Primary.Connector = &hiddenDriver{Connector: config.Primary.Connector}
					config.Replicas[1].Connector = &hiddenDriver{Connector: readroute.Postgres(standbys(pg)[0].DSN())}
				}
				patient(&config)
				seen := record(&config)
				db := open(t, config)
				require.Equal(t, c.Flavor(), db.RouteStats().Engine)
				require.Positive(t, gtidSessions(t, db, seen, table, 4, 10), "the rest works")
				eventually(t, "it has been asked", func() bool { return status(t, db, "stranger").Err != nil })
				s := status(t, db, "stranger")
				require.False(t, s.Healthy)
				require.ErrorContains(t, s.Err, "a cluster cannot mix kinds of servers")
				require.ErrorContains(t, s.Err, "and the first that was asked "+c.Flavor())
				require.NotContains(t, s.Err.Error(), "\n")
				for range 20 {
					require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
				}
				require.NotContains(t, served(seen.take()), "stranger")
			}
		})
	}
}

// TestK4_02_GTIDPrimaryDownAtStart: what kind of servers they are, a replica tells.
func TestK4_02_GTIDPrimaryDownAtStart(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		before := sessionContext(t)
		add(t, before, open(t, gtidConfig(c)), table, 1)
		token := tokenOf(t, before)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))

		proxy, err := dbtest.NewProxy(c.Primary().Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		require.NoError(t, proxy.Refuse(true))
		config := gtidConfig(c)
		config.Primary.Connector = readroute.MySQL(c.Primary().DSNVia(proxy, watchful))
		config.ProbeInterval = 20 * time.Millisecond
		seen := record(&config)
		db, err := readroute.Open(config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		eventually(t, "the replicas have been asked", func() bool {
			return status(t, db, "b").Healthy && status(t, db, "c").Healthy && !status(t, db, "a").Healthy
		})
		require.Equal(t, c.Flavor(), db.RouteStats().Engine)
		for _, ctx := range []context.Context{sessionContext(t), readroute.WithLevel(testContext(t), readroute.LevelEventual)} {
			require.Equal(t, 1, rowsOf(t, ctx, db, table, 1))
			require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
		}
		require.Equal(t, 1, rowsOf(t, carrying(t, token), db, table, 1), "a token that a replica covers needs no primary")
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
		at := time.Now()
		_, err = db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (2)")
		require.Error(t, err)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		require.Less(t, time.Since(at), 3*time.Second)
		require.NoError(t, proxy.Refuse(false))
		eventually(t, "it recovers without a restart", func() bool {
			_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (2)")
			return err == nil && status(t, db, "a").Primary && status(t, db, "a").Healthy
		})
		seen.take()
		ctx := sessionContext(t)
		add(t, ctx, db, table, 3)
		require.Equal(t, 1, rowsOf(t, ctx, db, table, 3))
	})
}

// hiddenDriver opens connections that do not tell whose they are.
type hiddenDriver struct{ driver.Connector }

func (d *hiddenDriver) Driver() driver.Driver { return someDriver{} }

type someDriver struct{}

func (someDriver) Open(string) (driver.Conn, error) { return nil, errors.New("not by name") }

func (d *hiddenDriver) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := conn.(driverMySQL); !ok {
		return hiddenConn{conn.(driverConn)}, nil
	}
	return hiddenMySQL{conn.(driverMySQL)}, nil
}

type driverConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
}

type driverMySQL interface {
	driverConn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type (
	hiddenConn  struct{ driverConn }
	hiddenMySQL struct{ driverMySQL }
)

// TestGTIDAnyDriver runs the main path over connections that are not known to be go-sql-driver's.
func TestGTIDAnyDriver(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, noted)
		config := gtidConfig(c)
		patient(&config)
		hide := func(n *readroute.Node, dsn string) {
			n.Connector = &hiddenDriver{Connector: readroute.MySQL(dsn)}
		}
		proxy, err := dbtest.NewProxy(c.Primary().Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		hide(&config.Primary, c.Primary().DSNVia(proxy, watchful))
		for i, n := range replicasOf(c) {
			hide(&config.Replicas[i], n.DSN(watchful))
		}
		seen := record(&config)
		db := open(t, config)
		require.Equal(t, c.Flavor(), db.RouteStats().Engine)
		require.Less(t, 4*20/2, gtidSessions(t, db, seen, table, 4, 20))
		ctx := sessionContext(t)
		tx, err := db.BeginTx(ctx, readOnly)
		require.NoError(t, err)
		require.Positive(t, countIn(t, ctx, tx, table))
		require.NoError(t, tx.Commit())
		require.Equal(t, readroute.RoleReplica, seen.take()[0].Role)

		for _, write := range []func(ctx context.Context) error{
			func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id, note) VALUES (7, '"+needle+"')")
				return err
			},
			func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id, note) VALUES (7, ?)", needle)
				return err
			},
		} {
			before := number(t, c.Primary(), "SELECT COUNT(*) FROM "+table+" WHERE id = 7")
			proxy.OnClientData(dbtest.Once(needle, dbtest.CutAfter))
			ctx := sessionContext(t)
			err := write(ctx)
			require.ErrorIs(t, err, readroute.ErrCommitUnknown)
			require.NotErrorIs(t, err, driver.ErrBadConn)
			proxy.OnClientData(nil)
			require.Equal(t, before+1, rowsOf(t, ctx, db, table, 7))
			require.Equal(t, before+1, number(t, c.Primary(), "SELECT COUNT(*) FROM "+table+" WHERE id = 7"), "nothing is run twice")
		}
	})
}

// TestGTIDUnknownOutcomeOverAnyDriver: without its socket, the driver itself says whether its connection is broken.
func TestGTIDUnknownOutcomeOverAnyDriver(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDWritable(t, c)
		config := gtidConfig(c)
		quick(&config)
		config.Primary.Connector = &hiddenDriver{Connector: config.Primary.Connector}
		seen := record(&config)
		db := open(t, config)
		holdBack(t, c)
		ctx := sessionContext(t)
		require.NoError(t, db.PingContext(ctx))
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(short, "INSERT INTO "+table+" (id) SELECT 1 + 0 * SLEEP(0.4)")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, readroute.ErrCommitUnknown)
		eventually(t, "it stands", func() bool {
			seen.take()
			n := rowsOf(t, ctx, db, table, 1)
			require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
			return n == 1
		})
		require.Equal(t, 1, rowsOf(t, ctx, db, table, 1))
	})
}

// TestMySQLConnectorOfTheDriver: its own connector hides the sockets, and is refused in a sentence.
func TestMySQLConnectorOfTheDriver(t *testing.T) {
	own, err := mysql.NewConnector(mysql.NewConfig())
	require.NoError(t, err)
	_, err = readroute.Open(readroute.Config{Primary: readroute.Node{Name: "a", Connector: own}})
	require.ErrorIs(t, err, readroute.ErrBadConfig)
	require.ErrorContains(t, err, "MySQLConfig")
}
