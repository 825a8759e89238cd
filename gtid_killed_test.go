package readroute_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestReadsOutliveTheirConnections: a replica's sessions are ended all the time, between two reads and in the middle of one. No read fails,
// and the replica goes on being read. A connection that was in use just now is not looked at before the next read.
func TestReadsOutliveTheirConnections(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		for _, parameters := range []string{"", "?interpolateParams=true"} {
			replica := replicasOf(c)[0]
			config := gtidConfig(c)
			config.Replicas = config.Replicas[:1]
			config.Replicas[0].Connector = readroute.MySQL(replica.DSN(watchful) + parameters)
			db := open(t, config)
			table := newGTIDTable(t, c, "id INT PRIMARY KEY")
			execOn(t, c.Primary(), "INSERT INTO "+table+" VALUES (7)")
			require.NoError(t, c.WaitCaughtUp(testContext(t)))
			own := ask(t, replica, "SELECT MAX(ID) FROM information_schema.PROCESSLIST")

			var done atomic.Bool
			var wg sync.WaitGroup
			const readers = 8
			failed := make(chan error, readers)
			for range readers {
				ctx := sessionContext(t)
				wg.Go(func() {
					for !done.Load() {
						var id int
						if err := db.QueryRowContext(ctx, "SELECT id FROM "+table+" WHERE id = ?", 7).Scan(&id); err != nil {
							failed <- err
							return
						}
					}
				})
			}
			killed := 0
			for ctx := testContext(t); killed < 300 && len(failed) == 0 && ctx.Err() == nil; {
				ids := ask(t, replica, "SELECT COALESCE(GROUP_CONCAT(ID), '') FROM information_schema.PROCESSLIST WHERE USER = '"+watchful+"' AND ID > "+own)
				for _, id := range strings.FieldsFunc(ids, func(r rune) bool { return r == ',' }) {
					if replica.Exec(testContext(t), "KILL "+id) == nil { // it may have ended
						killed++
					}
				}
			}
			done.Store(true)
			wg.Wait()
			select {
			case err := <-failed:
				require.NoError(t, err)
			default:
			}
			require.GreaterOrEqual(t, killed, 300, "the replica is read all the time")
			before := db.RouteStats().Nodes[1].Total()
			eventually(t, "the replica is read", func() bool {
				require.Equal(t, 1, rowsOf(t, sessionContext(t), db, table, 7))
				return db.RouteStats().Nodes[1].Total() > before
			})
			require.NoError(t, db.Close())
		}
	})
}

// lookedAt counts how often a driver looks at a connection to see whether it is alive.
type lookedAt struct {
	*net.TCPConn
	looks *atomic.Int64
}

func (c lookedAt) SyscallConn() (syscall.RawConn, error) {
	c.looks.Add(1)
	return c.TCPConn.SyscallConn()
}

// TestWhatIsReadOnIsNotLookedAt: go-sql-driver looks at each connection that it takes out of the pool, with a system call. One that was in
// use just now to read on a replica is spared that; one to write on never is, since a write is not sent twice.
func TestWhatIsReadOnIsNotLookedAt(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := gtidConfig(c)
		config.Replicas = config.Replicas[:1]
		looks := make([]atomic.Int64, 2)
		for i, n := range []*readroute.Node{&config.Primary, &config.Replicas[0]} {
			parsed, err := mysql.ParseDSN(c.Nodes()[i].DSN(watchful))
			require.NoError(t, err)
			parsed.Net = "lookedat" + n.Name
			mysql.RegisterDialContext(parsed.Net, func(ctx context.Context, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				if err != nil {
					return nil, err
				}
				return lookedAt{conn.(*net.TCPConn), &looks[i]}, nil
			})
			n.Connector = readroute.MySQL(parsed.FormatDSN())
		}
		db := open(t, config)
		table := newGTIDTable(t, c, "id INT")
		for i := range 4 { // from the third time on a text is at hand
			add(t, sessionContext(t), db, table, i)
			rowsOf(t, sessionContext(t), db, table, 7)
		}
		const times = 300
		wrote, read := looks[0].Load(), looks[1].Load()
		for range times {
			add(t, sessionContext(t), db, table, 8)
		}
		require.GreaterOrEqual(t, looks[0].Load()-wrote, int64(times))
		for range times {
			rowsOf(t, sessionContext(t), db, table, 7)
		}
		require.Less(t, looks[1].Load()-read, int64(times/2), "of %d reads, one after another", times)
	})
}
