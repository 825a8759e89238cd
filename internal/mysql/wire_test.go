package mysql_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	native "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

// silent keeps the driver from reporting connections that a test has broken on purpose.
type silent struct{}

func (silent) Print(...any) {}

// quiet opens a connection whose end is no news.
func quiet(t testing.TB, dsn string) driver.Conn {
	t.Helper()
	config, err := native.ParseDSN(dsn)
	require.NoError(t, err)
	config.Logger = silent{}
	conn, err := mysql.OpenConfig(config).Connect(testContext(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The connection is the driver's own, and its socket is known until it is closed, whoever closes it.
func TestConnectorKnowsSockets(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		before := mysql.OpenSockets()
		conn := quiet(t, c.Primary().AppDSN())
		require.Equal(t, "*mysql.mysqlConn", fmt.Sprintf("%T", conn))
		require.Equal(t, before+1, mysql.OpenSockets())
		w := e.Wire(conn)
		require.False(t, w.Broken())
		require.False(t, w.HungUp())
		open, known := w.InTx()
		require.False(t, open || known)
		resetter, ok := conn.(driver.SessionResetter)
		require.True(t, ok)
		require.NoError(t, resetter.ResetSession(testContext(t)), "the driver sees a live socket")
		require.NoError(t, conn.Close())
		require.True(t, w.Broken())
		require.False(t, w.HungUp())
		require.Equal(t, before, mysql.OpenSockets())

		// One that cannot be opened leaves nothing.
		config, err := native.ParseDSN(c.Primary().AppDSN())
		require.NoError(t, err)
		config.User, config.Logger = "nobody", silent{}
		_, err = mysql.OpenConfig(config).Connect(testContext(t))
		require.Error(t, err)
		require.Equal(t, before, mysql.OpenSockets())

		// A context that ends closes the connection, and the socket with it.
		conn = quiet(t, c.Primary().AppDSN())
		ctx, cancel := context.WithTimeout(testContext(t), 30*time.Millisecond)
		defer cancel()
		_, err = e.Wire(conn).Link().QueryRow(ctx, "SELECT SLEEP(2)")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, e.Wire(conn).Broken())
		require.Equal(t, before, mysql.OpenSockets())
	})
}

// A connection of another connector is asked all the same; nothing is known of its socket.
func TestWireOfAnotherConnector(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		config, err := native.ParseDSN(c.Primary().AppDSN())
		require.NoError(t, err)
		connector, err := native.NewConnector(config)
		require.NoError(t, err)
		conn, err := connector.Connect(testContext(t))
		require.NoError(t, err)
		w := e.Wire(conn)
		s, err := e.Ask(testContext(t), w.Link())
		require.NoError(t, err)
		require.Equal(t, core.RolePrimary, s.Role)
		require.False(t, w.Broken())
		require.False(t, w.HungUp())
		w.Interrupt()
		require.False(t, w.Broken())
		require.NoError(t, w.Link().Close())
		require.True(t, w.Broken())
	})
}

// Links of one row only, which is what monitor.Link promises, cannot be asked for what feeds a server.
func TestAskNeedsRows(t *testing.T) {
	_, err := mysql.Engine{}.Ask(testContext(t), oneRow{})
	require.ErrorContains(t, err, "one row only")
}

type oneRow struct{}

func (oneRow) QueryRow(context.Context, string) ([]string, error) { return nil, nil }
func (oneRow) Close() error                                       { return nil }

// A server that has ended an idle session is noticed without asking it.
func TestHungUp(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		for name, end := range map[string]func(l *mysql.Link){
			"killed":            func(l *mysql.Link) { exec(t, c.Primary(), "KILL "+query(t, l, "SELECT CONNECTION_ID()")[0]) },
			"idle for too long": func(l *mysql.Link) { query(t, l, "SET SESSION wait_timeout = 1") },
		} {
			t.Run(name, func(t *testing.T) {
				conn := quiet(t, c.Primary().AppDSN())
				w := e.Wire(conn)
				l, ok := w.Link().(*mysql.Link)
				require.True(t, ok)
				require.False(t, w.HungUp())
				end(l)
				eventually(t, "the server hangs up", w.HungUp)
				require.False(t, w.Broken(), "the driver has not looked")
				_, err := l.QueryRow(testContext(t), "SELECT 1")
				require.Error(t, err)
				require.Equal(t, core.RetryConnection, e.Retry(err), "%v", err)
				require.False(t, e.Refused(err), "%v", err)
			})
		}
	})
}

// A stop of the server in order is noticed as well.
func TestHungUpWhenStopped(t *testing.T) {
	t.Parallel()
	ownOnBoth(t, dbtest.MySQLOptions{}, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		w := e.Wire(quiet(t, c.Primary().AppDSN()))
		require.NoError(t, c.Primary().StopFast(testContext(t)))
		require.True(t, w.HungUp())
		_, err := mysql.Open(c.Primary().AppDSN()).Connect(testContext(t))
		require.Error(t, err)
		require.True(t, e.Down(err), "%v", err)
		require.True(t, e.NotSent(err), "%v", err)
	})
}

func TestLastWords(t *testing.T) {
	for name, c := range map[string]struct {
		head []byte
		want bool
	}{
		"an error":              {[]byte{0x4d, 0, 0, 0, 0xff}, true},
		"an OK":                 {[]byte{7, 0, 0, 1, 0}, false},
		"the start of one only": {[]byte{0x4d, 0, 0, 0}, false},
		"TLS of that length":    {[]byte{0x17, 3, 3, 0, 0xff}, false},
		"nothing":               {nil, false},
	} {
		require.Equal(t, c.want, mysql.LastWords(c.head), name)
	}
}

// Whoever waits for an answer is freed when the connection is interrupted.
func TestInterrupt(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		conn := quiet(t, c.Primary().AppDSN())
		w := e.Wire(conn)
		l := link(t, c.Primary().AppDSN())
		waits := make(chan error, 1)
		go func() {
			_, err := w.Link().QueryRow(context.Background(), "SELECT SLEEP(20) /* interrupt */")
			waits <- err
		}()
		eventually(t, "it waits", func() bool {
			return query(t, l, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(20)%'")[0] == "1"
		})
		w.Interrupt()
		select {
		case err := <-waits:
			require.Error(t, err)
			require.False(t, e.Refused(err))
			require.Equal(t, core.RetryConnection, e.Retry(err))
		case <-time.After(5 * time.Second):
			require.Fail(t, "it still waits")
		}
		require.True(t, w.Broken())
		w.Interrupt()
	})
}

// A dial function of the user's own is used, and what it dials is known.
func TestConnectorKeepsDialFunc(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		config, err := native.ParseDSN(c.Primary().AppDSN())
		require.NoError(t, err)
		config.Net, config.Addr, config.Logger = "private", "somewhere", silent{}
		dialled := ""
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled = network + " " + addr
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", c.Primary().Addr())
			return struct{ net.Conn }{conn}, err // one that nobody can look into
		}
		conn, err := mysql.OpenConfig(config).Connect(testContext(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.Equal(t, "private somewhere", dialled)
		resetter, ok := conn.(driver.SessionResetter)
		require.True(t, ok)
		require.NoError(t, resetter.ResetSession(testContext(t)))
		w := e.Wire(conn)
		require.False(t, w.HungUp())
		w.Interrupt()
		require.True(t, w.Broken())

		// A network that is registered with the driver goes its own way.
		native.RegisterDialContext("registered"+e.Name(), func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", c.Primary().Addr())
		})
		config.Net, config.DialFunc = "registered"+e.Name(), nil
		conn, err = mysql.OpenConfig(config).Connect(testContext(t))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	})
}

// turns is a connection behind which another server may answer each time, as behind a pooler.
type turns struct {
	driver.Conn
	servers []driver.Conn
	random  *rand.Rand
}

func (c *turns) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.servers[c.random.IntN(len(c.servers))].(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return q.QueryContext(ctx, query, args)
}

// What is remembered on a connection is forgotten when another server answers, or another session of the same.
func TestAskThroughPooler(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		ctx, primary, replica := testContext(t), c.Primary(), c.Replica(1)
		// Its start is to be of another second.
		second := look(t, e, primary.WatchDSN()).Start.At/1_000_000 + 1
		eventually(t, "another second", func() bool { return time.Now().Unix() > second })
		require.NoError(t, replica.StopFast(ctx))
		require.NoError(t, replica.Start(ctx))
		want := map[core.Start]core.Role{
			look(t, e, primary.WatchDSN()).Start: core.RolePrimary, look(t, e, replica.WatchDSN()).Start: core.RoleReplica,
		}
		require.Len(t, want, 2)
		conn := &turns{Conn: connect(t, primary.WatchDSN()), random: rand.New(rand.NewPCG(1, 2))}
		for _, n := range []*dbtest.MySQLNode{primary, replica, primary} {
			conn.servers = append(conn.servers, connect(t, n.WatchDSN()))
		}
		l := e.Wire(conn).Link()
		seen := map[core.Start]int{}
		for range 300 {
			s, err := e.Ask(ctx, l)
			if err != nil {
				require.ErrorContains(t, err, "another server's")
				continue
			}
			require.Contains(t, want, s.Start)
			// What feeds the primary may be the other's answer; a server that is read-only is never taken for a primary.
			require.False(t, s.Role == core.RolePrimary && want[s.Start] == core.RoleReplica)
			seen[s.Start]++
		}
		require.Len(t, seen, 2)
	})
}
