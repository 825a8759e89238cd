package readroute_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestRestartOfThePrimaryHoldsItsWrites: the primary is killed before a position was read that covers an acknowledged write, and comes
// back on its timeline, with the write. A replica that is late for longer than the window serves the session only when it has it.
func TestRestartOfThePrimaryHoldsItsWrites(t *testing.T) {
	const window = 100 * time.Millisecond
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	// One standby feeds the other, which is late and eligible while nothing feeds the first.
	feeder, late := standbys(c)[0], standbys(c)[1]
	require.NoError(t, late.Follow(testContext(t), feeder))
	config, proxy := behindProxy(t, c)
	config.Replicas = config.Replicas[1:]
	config.StickyWindow = window
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	for id := range 2 {
		insert := fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, id)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		require.NoError(t, feeder.Set(testContext(t), "primary_conninfo", ""))
		eventually(t, "nothing feeds the first", func() bool {
			return ask(t, feeder, "SELECT count(*) FROM pg_stat_wal_receiver") == "0"
		})
		var written atomic.Bool
		proxy.OnClientData(func(data []byte) dbtest.Verdict { // nothing reaches the server after the write
			if bytes.Contains(data, []byte(insert)) {
				written.Store(true)
			} else if written.Load() {
				return dbtest.CutBefore
			}
			return dbtest.Forward
		})
		ctx := sessionContext(t)
		_, err := db.ExecContext(ctx, insert)
		require.NoError(t, err)
		require.NoError(t, c.Primary().Kill(testContext(t)))
		proxy.OnClientData(nil)
		require.NoError(t, c.Primary().Start(testContext(t)))
		eventually(t, "the primary serves the session", func() bool {
			return db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)) == nil
		})
		eventually(t, "the replica serves whoever needs nothing", func() bool {
			seen.take()
			rows := count(t, sessionContext(t), db, table, id)
			return seen.one(t).Role == readroute.RoleReplica && rows == 0
		})
		back := time.Now()
		eventually(t, "the window is over", func() bool {
			require.Equal(t, 1, count(t, ctx, db, table, id))
			return time.Since(back) > 10*window
		})
		require.NoError(t, feeder.Follow(testContext(t), c.Primary()))
		eventually(t, "a replica serves the session", func() bool {
			seen.take()
			require.Equal(t, 1, count(t, ctx, db, table, id))
			return seen.one(t).Role == readroute.RoleReplica
		})
		require.NotEmpty(t, happened.of(readroute.EventPositionForeign), "the restart came before the capture")
	}
}

// TestAReadIsNotRunAgainOnItsReplicaThatIsThePrimaryNow: its connection is cut after the promotion. The server may have run it as the
// primary, and nothing runs there twice.
func TestAReadIsNotRunAgainOnItsReplicaThatIsThePrimaryNow(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	former, next := c.Primary(), standbys(c)[0]
	proxy, err := dbtest.NewProxy(next.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	config := failoverConfig(c)
	config.Replicas[0].Connector = readroute.Postgres(next.DSNVia(proxy))
	seen := record(&config)
	db := open(t, config)
	running := func() string {
		return ask(t, next, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND state = 'active' AND pid <> pg_backend_pid()")
	}
	read := make(chan error, 1)
	ctx := readroute.WithLevel(testContext(t), readroute.LevelEventual)
	go func() {
		read <- db.QueryRowContext(ctx, "SELECT 1, pg_sleep(30) /* route:replica */").Scan(new(int), new(string))
	}()
	eventually(t, "it runs on the replica", func() bool { return running() == "1" })
	require.NoError(t, former.Kill(testContext(t)))
	require.NoError(t, next.Promote(testContext(t)))
	eventually(t, "the new primary is known", func() bool { return status(t, db, next.Name()).Primary })
	seen.take()
	proxy.Cut()
	select {
	case err := <-read:
		require.Error(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "it runs again")
	}
	for _, d := range seen.take() {
		require.Error(t, d.Err, "%+v", d)
	}
}
