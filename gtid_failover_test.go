package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// numbered are columns of a table whose rows can have an id twice.
const numbered = "n INT AUTO_INCREMENT PRIMARY KEY, id INT"

// gtidFailoverConfig notices changes soon.
func gtidFailoverConfig(c *dbtest.MySQLCluster) readroute.Config {
	config := gtidConfig(c)
	config.ProbeInterval = 50 * time.Millisecond
	config.ProbeTimeout = 2 * time.Second
	return config
}

// others are the nodes of c but the primary.
func others(c *dbtest.MySQLCluster) []*dbtest.MySQLNode {
	var list []*dbtest.MySQLNode
	for _, n := range c.Nodes() {
		if n != c.Primary() {
			list = append(list, n)
		}
	}
	return list
}

// follow lets all nodes of c that run, and those of more, follow the primary.
func follow(t testing.TB, c *dbtest.MySQLCluster, more ...*dbtest.MySQLNode) {
	t.Helper()
	for _, n := range others(c) {
		if n.IsRunning() {
			more = append(more, n)
		}
	}
	for _, n := range more {
		require.NoError(t, n.Follow(testContext(t), c.Primary()))
	}
}

// TestK3_03_K4_21_K5_22_GTIDFailover takes a cluster through the ends of its primaries: one that stops in order, one that
// dies with writes that nobody else has, one that comes back and takes writes, all of them, and one that dies under load.
func TestK3_03_K4_21_K5_22_GTIDFailover(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 2}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidFailoverConfig(c)
		f := &gtidFailover{c: c, table: table, seen: record(&config), happened: listen(&config)}
		f.db = open(t, config)
		f.ctx = sessionContext(t)
		f.write(t, f.ctx, 1)
		require.True(t, t.Run("a primary that stops in order", f.switchOver))
		require.True(t, t.Run("a primary that dies with writes of its own", f.lose))
		require.True(t, t.Run("a former primary that takes writes", f.splitBrain))
		require.True(t, t.Run("K4_10 everything is down", f.everythingDown))
		require.True(t, t.Run("a primary that dies under load", f.underLoad))
	})
}

type gtidFailover struct {
	c        *dbtest.MySQLCluster
	db       *readroute.DB
	table    string
	seen     *decisions
	happened *events
	ctx      context.Context // of a session that goes through it all, and has written id 1 on every primary
	written  int             // how often
}

// write is a write of ctx's session, which is there once and for all when it returns.
func (f *gtidFailover) write(t testing.TB, ctx context.Context, id int) {
	t.Helper()
	add(t, ctx, f.db, f.table, id)
	tokenOf(t, ctx)
	require.NoError(t, f.c.WaitCaughtUp(testContext(t)))
	if ctx == f.ctx {
		f.written++
	}
}

// served lets ctx's session read until a replica serves it. It never reads another number of rows.
func (f *gtidFailover) served(t testing.TB, ctx context.Context, id, rows int) {
	t.Helper()
	eventually(t, "a replica serves the session", func() bool {
		f.seen.take()
		require.Equal(t, rows, rowsOf(t, ctx, f.db, f.table, id))
		return f.seen.one(t).Role == readroute.RoleReplica
	})
}

func (f *gtidFailover) switchOver(t *testing.T) {
	c, db := f.c, f.db
	var wg sync.WaitGroup
	for range 4 { // so many connections are idle
		wg.Go(func() { _, _ = db.ExecContext(sessionContext(t), "DO SLEEP(0.02)") })
	}
	wg.Wait()
	former, next := c.Primary(), replicasOf(c)[0]
	rows := ask(t, former, "SELECT COUNT(*) FROM "+f.table)
	require.NoError(t, former.StopFast(testContext(t)))
	require.NoError(t, next.Promote(testContext(t)))
	follow(t, c, former)

	eventually(t, "the new primary takes writes", func() bool {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+f.table+" (id) VALUES (2)")
		if err != nil {
			require.NotErrorIs(t, err, readroute.ErrCommitUnknown, "an idle connection of the past is noticed before it is used")
		}
		return err == nil
	})
	for range 20 {
		add(t, sessionContext(t), db, f.table, 2)
	}
	require.Equal(t, ask(t, next, "SELECT "+rows+" + 21"), ask(t, next, "SELECT COUNT(*) FROM "+f.table), "a write that failed was not run again")
	require.True(t, status(t, db, next.Name()).Primary)
	require.Zero(t, db.RouteStats().Nodes[0].Writer.OpenConnections, "connections to the former primary are dropped")
	f.happened.first(t, readroute.EventPrimaryChanged)
	var port int
	require.NoError(t, db.PrimaryDB().QueryRowContext(testContext(t), "SELECT @@GLOBAL.port").Scan(&port))
	require.Equal(t, next.Port(), port)

	eventually(t, "the former primary serves reads", func() bool {
		f.seen.take()
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		return f.seen.one(t).Node == former.Name()
	})
	f.served(t, f.ctx, 1, f.written)
	require.Empty(t, f.happened.of(readroute.EventPositionLost), "nothing of it was lost")
	before := status(t, db, next.Name())
	f.write(t, f.ctx, 1)
	f.served(t, f.ctx, 1, f.written)
	eventually(t, "the position moves on", func() bool {
		s := status(t, db, next.Name())
		return s.GTIDSet != before.GTIDSet || s.MariaDBGTID != before.MariaDBGTID
	})
	s := status(t, db, next.Name())
	require.Equal(t, readroute.RolePrimary, s.Role)
	require.Zero(t, s.Lag)
	require.True(t, s.LagKnown)
	require.Zero(t, s.LagTransactions)
}

func (f *gtidFailover) lose(t *testing.T) {
	c, db := f.c, f.db
	kept := sessionContext(t)
	f.write(t, kept, 3)
	former, next := c.Primary(), others(c)[0]
	for _, n := range others(c) {
		require.NoError(t, n.StopReceiver(testContext(t)))
	}
	lost := sessionContext(t)
	for range 5 {
		add(t, lost, db, f.table, 4)
	}
	token := tokenOf(t, lost)
	require.NoError(t, former.Kill(testContext(t)))
	require.NoError(t, next.Promote(testContext(t)))
	follow(t, c)
	eventually(t, "the new primary is known", func() bool { return status(t, db, next.Name()).Primary })
	for range 10 { // more than were lost: a sequence number says nothing of them
		add(t, sessionContext(t), db, f.table, 5)
	}
	require.NoError(t, c.WaitCaughtUp(testContext(t)))

	before := len(f.happened.of(readroute.EventPositionLost))
	for name, ctx := range map[string]context.Context{"carried": carrying(t, token), "its own": lost} {
		f.seen.take()
		at := time.Now()
		require.Zero(t, rowsOf(t, ctx, db, f.table, 4))
		d := f.seen.one(t)
		require.Equal(t, next.Name(), d.Node, "%s: %+v", name, d)
		require.Equal(t, readroute.ReasonPositionLost, d.Reason, "%s: %+v", name, d)
		require.Less(t, time.Since(at), 5*time.Second)
		f.served(t, ctx, 4, 0) // it is told once, and goes on
	}
	require.Len(t, f.happened.of(readroute.EventPositionLost), before+2)
	f.served(t, kept, 3, 1)
	f.write(t, f.ctx, 1)
	f.served(t, f.ctx, 1, f.written)
	// Tokens of before and after are needed both.
	f.served(t, carrying(t, tokenOf(t, kept), tokenOf(t, f.ctx)), 1, f.written)
	require.Len(t, f.happened.of(readroute.EventPositionLost), before+2)
	require.Less(t, len(tokenOf(t, f.ctx).String()), 200)
}

func (f *gtidFailover) splitBrain(t *testing.T) {
	c, db := f.c, f.db
	former := c.Nodes()[1]
	require.False(t, former.IsRunning())
	primary := c.Primary()
	require.NotEqual(t, former, primary)
	rows := func() string { return ask(t, former, "SELECT COUNT(*) FROM "+f.table) }
	// A primary that has just died still counts as one until it is asked.
	before := len(f.happened.of(readroute.EventTwoPrimaries))
	twoPrimaries := func() []readroute.Event { return f.happened.of(readroute.EventTwoPrimaries)[before:] }
	f.seen.take()

	require.NoError(t, former.Start(testContext(t))) // writable, as it was
	stands := rows()
	eventually(t, "it is known as a second primary", func() bool { return len(twoPrimaries()) > 0 })
	require.Equal(t, primary.Name(), twoPrimaries()[0].Node, "the one that counts")
	for range 30 {
		add(t, f.ctx, db, f.table, 1)
		f.written++
		require.Equal(t, f.written, rowsOf(t, f.ctx, db, f.table, 1))
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
	}
	require.Equal(t, stands, rows(), "never both")
	for _, d := range f.seen.take() {
		require.NotEqual(t, former.Name(), d.Node, "%+v", d)
	}
	require.Len(t, twoPrimaries(), 1, "it is told once")
	require.Equal(t, readroute.RolePrimary, status(t, db, former.Name()).Role)
	require.False(t, status(t, db, former.Name()).Primary)

	require.NoError(t, former.Rebuild(testContext(t), primary))
	eventually(t, "made anew, it serves reads", func() bool {
		f.seen.take()
		require.Equal(t, f.written, rowsOf(t, f.ctx, db, f.table, 1))
		return f.seen.one(t).Node == former.Name()
	})
}

func (f *gtidFailover) everythingDown(t *testing.T) {
	c, db := f.c, f.db
	var wg sync.WaitGroup
	for _, n := range c.Nodes() {
		wg.Go(func() {
			if err := n.Kill(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	down := time.Now()
	eventually(t, "a second of errors", func() bool {
		short, cancel := context.WithTimeout(f.ctx, 5*time.Second)
		defer cancel()
		at := time.Now()
		require.Error(t, db.QueryRowContext(short, "SELECT COUNT(*) FROM "+f.table).Scan(new(int)))
		_, err := db.ExecContext(short, "INSERT INTO "+f.table+" (id) VALUES (6)")
		require.Error(t, err)
		require.Less(t, time.Since(at), 4*time.Second, "errors come fast")
		return time.Since(down) > time.Second
	})
	for _, i := range []int{2, 0, 1} {
		require.NoError(t, c.Nodes()[i].Start(testContext(t)))
	}
	eventually(t, "writes", func() bool {
		_, err := db.ExecContext(f.ctx, "INSERT INTO "+f.table+" (id) VALUES (1)")
		return err == nil
	})
	f.written++
	eventually(t, "all nodes serve", func() bool {
		require.Equal(t, f.written, rowsOf(t, f.ctx, db, f.table, 1))
		for _, n := range db.Nodes() {
			if !n.Healthy || n.Stopped {
				return false
			}
		}
		return true
	})
	f.served(t, f.ctx, 1, f.written)
	require.Equal(t, "0", ask(t, c.Primary(), "SELECT COUNT(*) FROM "+f.table+" WHERE id = 6"), "nothing that was refused has been run")
}

// underLoad: nobody reads what is older than his own writes, and no write is run twice, while the primary is killed and a replica
// takes over.
func (f *gtidFailover) underLoad(t *testing.T) {
	c, db, table := f.c, f.db, f.table
	running, stop := context.WithCancel(testContext(t))
	defer stop()
	const first = 1_000_000
	var ids, acknowledged atomic.Int64
	var mu sync.Mutex
	missing := map[int]int{} // ids that were acknowledged and not read, and how many rows were
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for running.Err() == nil {
				ctx := readroute.WithSession(context.Background())
				id := first + int(ids.Add(1))
				if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", id); err != nil {
					<-time.After(5 * time.Millisecond)
					continue
				}
				acknowledged.Add(1)
				var n int
				err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = ?", id).Scan(&n)
				if err == nil && n != 1 {
					mu.Lock()
					missing[id] = n
					mu.Unlock()
				}
			}
		})
	}
	eventually(t, "load", func() bool { return acknowledged.Load() > 200 })
	former, next := c.Primary(), others(c)[0]
	require.NoError(t, former.Kill(testContext(t)))
	require.NoError(t, next.Promote(testContext(t)))
	follow(t, c)
	at := acknowledged.Load()
	eventually(t, "load on the new primary", func() bool { return acknowledged.Load() > at+200 })
	stop()
	wg.Wait()
	for id, n := range missing {
		require.Equal(t, "0", ask(t, next, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", table, id)),
			"write %d was read as %d rows, and was not lost", id, n)
	}
	t.Logf("%d writes, %d acknowledged, %d of them lost with the primary", ids.Load(), acknowledged.Load(), len(missing))
	twice := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT id FROM %s WHERE id > %d GROUP BY id HAVING COUNT(*) > 1) x", table, first)
	require.Equal(t, "0", ask(t, next, twice))
}

// TestK4_26_GTIDPrimaryFromABackup: the primary's address leads to a server that has gone back in time.
func TestK4_26_GTIDPrimaryFromABackup(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidFailoverConfig(c)
		seen, happened := record(&config), listen(&config)
		db := open(t, config)
		primary, backup := c.Primary(), c.Replica(0)
		kept := sessionContext(t)
		add(t, kept, db, table, 1)
		tokenOf(t, kept)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		require.NoError(t, backup.StopReceiver(testContext(t)))
		lost := sessionContext(t)
		for range 20 {
			add(t, lost, db, table, 2)
		}
		token := tokenOf(t, lost)
		require.NoError(t, primary.Rebuild(testContext(t), backup))
		require.NoError(t, primary.Promote(testContext(t)))
		require.NoError(t, backup.Follow(testContext(t), primary))
		eventually(t, "the primary takes writes", func() bool {
			_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (3)")
			return err == nil && status(t, db, primary.Name()).Healthy
		})
		for range 100 {
			seen.take()
			at := time.Now()
			require.Zero(t, rowsOf(t, carrying(t, token), db, table, 2))
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			require.Equal(t, readroute.ReasonPositionLost, d.Reason, "%+v", d)
			require.Less(t, time.Since(at), 5*time.Second, "nothing waits for what cannot come")
		}
		happened.first(t, readroute.EventPositionLost)
		for ctx, rows := range map[context.Context]int{lost: 0, kept: 1} {
			eventually(t, "a replica serves the session", func() bool {
				seen.take()
				require.Equal(t, rows, rowsOf(t, ctx, db, table, 2-rows))
				return seen.one(t).Role == readroute.RoleReplica
			})
		}
	})
}

// TestGTIDPrimaryThatHasLoggedOnlyItsOwn: with log_slave_updates off the log of a promoted replica says nothing of what it has applied.
// It has it all the same.
func TestGTIDPrimaryThatHasLoggedOnlyItsOwn(t *testing.T) {
	for _, mariadb := range []bool{true, false} {
		t.Run(flavorName(mariadb), func(t *testing.T) {
			setting := map[bool]string{true: "log-slave-updates", false: "log-replica-updates"}[mariadb]
			c := ownGTIDs(t, mariadb, dbtest.MySQLOptions{Replicas: 1, Settings: map[string]string{setting: "OFF"}})
			table := newGTIDTable(t, c, numbered)
			config := gtidFailoverConfig(c)
			seen, happened := record(&config), listen(&config)
			db := open(t, config)
			ctx := sessionContext(t)
			add(t, ctx, db, table, 1)
			token := tokenOf(t, ctx)
			require.NoError(t, c.WaitCaughtUp(testContext(t)))
			former, next := c.Primary(), c.Replica(0)
			require.NoError(t, former.StopFast(testContext(t)))
			require.NoError(t, next.Promote(testContext(t)))
			eventually(t, "the new primary takes writes", func() bool {
				_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (2)")
				return err == nil
			})
			for range 20 {
				seen.take()
				require.Equal(t, 1, rowsOf(t, carrying(t, token), db, table, 1))
				d := seen.one(t)
				require.Equal(t, next.Name(), d.Node, "%+v", d)
				require.NotEqual(t, readroute.ReasonPositionLost, d.Reason)
			}
			follow(t, c, former)
			eventually(t, "a replica serves the session", func() bool {
				seen.take()
				require.Equal(t, 1, rowsOf(t, carrying(t, token), db, table, 1))
				return seen.one(t).Role == readroute.RoleReplica
			})
			require.Empty(t, happened.of(readroute.EventPositionLost))
		})
	}
}

// TestK4_22_GTIDAddressThatLeadsToTwoNodes: a write is run on a server that says, on the very connection, that it is the primary.
func TestK4_22_GTIDAddressThatLeadsToTwoNodes(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		proxy, err := dbtest.NewProxy(c.Primary().Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		config := gtidConfig(c)
		config.Primary.Connector = readroute.MySQL(c.Primary().DSNVia(proxy, dbtest.AdminUser))
		config.Primary.MaxIdleConns = 1
		db := open(t, config)
		proxy.SetTarget(c.Replica(0).Addr(), c.Primary().Addr())
		for range 10 {
			ctx := sessionContext(t)
			for i := range 3 { // at least two of them need a new connection to the primary
				conn, err := db.Conn(ctx)
				require.NoError(t, err)
				defer conn.Close()
				_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", i)
				require.NoError(t, err, "a connection to the replica is not used for a write")
			}
		}
		require.Equal(t, "30", ask(t, c.Primary(), "SELECT COUNT(*) FROM "+table))

		proxy.SetTarget(c.Replica(0).Addr())
		proxy.Cut()
		began := time.Now()
		eventually(t, "a clear error", func() bool {
			_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" (id) VALUES (9)")
			return errors.Is(err, readroute.ErrNoPrimary)
		})
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// TestK4_23_GTIDListIsOld: who is the primary comes from the nodes, not from the list.
func TestK4_23_GTIDListIsOld(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		config.Primary, config.Replicas[0] = config.Replicas[0], config.Primary
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		for i := range 20 {
			add(t, ctx, db, table, i)
			require.Equal(t, c.Primary().Name(), seen.one(t).Node)
			require.Equal(t, 1, rowsOf(t, ctx, db, table, i))
			seen.take()
		}
		require.True(t, status(t, db, c.Primary().Name()).Primary)
	})
}

// TestGTIDDemotionFailsOncePerConnection: a primary is made read-only while another node takes over and all connections stay open. Each of
// them fails one write at most; what fails is not run again.
func TestGTIDDemotionFailsOncePerConnection(t *testing.T) {
	const conns = 4
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidFailoverConfig(c)
		config.ProbeInterval = 2 * time.Second // what fails has the node asked before
		db := open(t, config)
		ctx := sessionContext(t)
		var held []*sql.Conn
		for range conns {
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (1)")
			require.NoError(t, err)
			held = append(held, conn)
		}
		for _, conn := range held {
			require.NoError(t, conn.Close())
		}
		require.Equal(t, conns, db.RouteStats().Nodes[0].Writer.OpenConnections)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))

		former, next := c.Primary(), replicasOf(c)[0]
		for _, text := range readOnlyAgain(c) {
			execOn(t, former, text)
		}
		refused := 0
		write := func() bool {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (2)")
			require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
			var answer *mysql.MySQLError
			if errors.As(err, &answer) {
				require.EqualValues(t, 1290, answer.Number)
				refused++
			}
			return err == nil
		}
		for range 5 * conns {
			require.False(t, write())
		}
		require.NoError(t, next.Promote(testContext(t)))
		eventually(t, "the new primary takes writes", write)
		require.LessOrEqual(t, refused, conns)
		require.Equal(t, "1", ask(t, next, "SELECT COUNT(*) FROM "+table+" WHERE id = 2"))
		require.True(t, status(t, db, next.Name()).Primary)
	})
}
