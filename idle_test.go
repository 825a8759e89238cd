package readroute_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestIdleConnectionsThatDiedAreReplaced: nothing was sent on them, so no write fails.
func TestIdleConnectionsThatDiedAreReplaced(t *testing.T) {
	c := sharedCluster(t)
	config, proxy := behindProxy(t, c)
	db := open(t, config)
	table := newTable(t, c, "id int")
	const idle = 8
	for range 3 {
		conns := make([]*sql.Conn, idle)
		for i := range conns {
			var err error
			conns[i], err = db.Conn(sessionContext(t))
			require.NoError(t, err)
			_, err = conns[i].ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES ($1)", i)
			require.NoError(t, err)
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
		require.Equal(t, idle, db.RouteStats().Nodes[0].Writer.Idle)
		proxy.Cut()
		eventually(t, "the proxy has cut", func() bool { return proxy.Live() <= 2 }) // the monitor dials again
		for i := range idle / 2 {
			_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES ($1)", i)
			require.NoError(t, err)
			tx, err := db.BeginTx(sessionContext(t), nil)
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
		}
	}
}

// TestIdleConnectionsThatTheServerEndedAreReplaced: its last words lie unread on them.
func TestIdleConnectionsThatTheServerEndedAreReplaced(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Primary.Connector = readroute.Postgres(c.Primary().AppDSN() + "&application_name=to_be_ended")
	db := open(t, config)
	table := newWritable(t, c)
	const idle = 8
	conns := make([]*sql.Conn, idle)
	for i := range conns {
		var err error
		conns[i], err = db.Conn(sessionContext(t))
		require.NoError(t, err)
		_, err = conns[i].ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES ($1)", i)
		require.NoError(t, err)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	const ofOurs = "FROM pg_stat_activity WHERE application_name = 'to_be_ended' AND query LIKE 'INSERT%'"
	require.NotEqual(t, "0", onPrimary(t, c, "SELECT count(pg_terminate_backend(pid)) "+ofOurs))
	eventually(t, "they are gone", func() bool { return onPrimary(t, c, "SELECT count(*) "+ofOurs) == "0" })
	for i := range idle {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES ($1)", idle+i)
		require.NoError(t, err)
	}
}

// TestIdleConnectionThatCannotBeReplaced: the write was not sent, and says why.
func TestIdleConnectionThatCannotBeReplaced(t *testing.T) {
	c := sharedCluster(t)
	config, proxy := behindProxy(t, c)
	replica, err := dbtest.NewProxy(standbys(c)[0].Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, replica.Close()) })
	config.Replicas = config.Replicas[:1]
	config.Replicas[0].Connector = readroute.Postgres(standbys(c)[0].DSNVia(replica))
	config.ProbeInterval = time.Minute // nobody notices before the statements do
	db := open(t, config)
	table := newTable(t, c, "id int")
	ctx := sessionContext(t)
	for _, use := range []func() error{
		func() error { _, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)"); return err },
		func() error { _, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", 1); return err },
		func() error {
			tx, err := db.BeginTx(ctx, nil)
			if err == nil {
				err = tx.Commit()
			}
			return err
		},
		func() error { return db.PingContext(ctx) },
	} {
		eventually(t, "the primary answers", func() bool { return use() == nil })
		require.NoError(t, proxy.Refuse(true))
		eventually(t, "the proxy has cut", func() bool { proxy.Cut(); return proxy.Live() == 0 })
		err := use()
		require.Error(t, err)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		require.NoError(t, proxy.Refuse(false))
	}

	read := sessionContext(t)
	require.NoError(t, db.QueryRowContext(read, "SELECT 1").Scan(new(int)))
	require.NoError(t, replica.Refuse(true))
	eventually(t, "the proxy has cut", func() bool { replica.Cut(); return replica.Live() == 0 })
	require.NoError(t, db.QueryRowContext(read, "SELECT 1").Scan(new(int)), "it goes to the primary")
}
