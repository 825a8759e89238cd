package readroute_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestStatementThatIsPreparedFirstHasOneReason: without interpolateParams go-sql-driver prepares whatever has arguments, which
// database/sql asks for in a second call, and runs in a third. They are one statement, wherever a replica is lost in between.
func TestStatementThatIsPreparedFirstHasOneReason(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT")
		config := gtidConfig(c)
		config.Replicas = config.Replicas[:1]
		proxy, err := dbtest.NewProxy(c.Replica(0).Addr())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, proxy.Close()) })
		config.Replicas[0].Connector = readroute.MySQL(c.Replica(0).DSNVia(proxy, watchful))
		patient(&config)
		seen := record(&config)
		db := open(t, config)
		read := func(ctx context.Context, db interface {
			QueryRowContext(context.Context, string, ...any) *sql.Row
		}) error {
			return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = ?", 1).Scan(new(int))
		}
		steady := func(t *testing.T) {
			t.Helper()
			require.Eventually(t, func() bool {
				seen.take()
				require.NoError(t, read(sessionContext(t), db))
				return seen.one(t).Role == readroute.RoleReplica
			}, testTimeout, 10*time.Millisecond)
		}
		onPrimary := func(t *testing.T, retry readroute.Retry) {
			t.Helper()
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			require.Equal(t, readroute.ReasonNoReplica, d.Reason, "%+v", d)
			require.Equal(t, retry, d.Retry, "%+v", d)
		}
		t.Run("the connection is lost before", func(t *testing.T) {
			steady(t)
			conn, err := db.Conn(sessionContext(t))
			require.NoError(t, err)
			defer conn.Close()
			ctx, cancel := context.WithCancel(sessionContext(t))
			defer cancel()
			rows, err := conn.QueryContext(ctx, "SELECT * FROM information_schema.columns")
			require.NoError(t, err)
			require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
			cancel()
			_ = rows.Close() // it may say so
			require.NoError(t, read(sessionContext(t), conn))
			onPrimary(t, readroute.RetryConnection)
		})
		t.Run("the connection is lost while it prepares", func(t *testing.T) {
			steady(t)
			proxy.OnClientData(dbtest.Once("SELECT COUNT(*) FROM "+table, dbtest.CutBefore))
			require.NoError(t, read(sessionContext(t), db))
			onPrimary(t, readroute.RetryConnection)
		})
		t.Run("and nothing else may serve it", func(t *testing.T) {
			steady(t)
			proxy.OnClientData(dbtest.Once("SELECT COUNT(*) FROM "+table, dbtest.CutBefore))
			require.Error(t, read(readroute.WithFallback(sessionContext(t), readroute.FallbackError), db))
			d := seen.one(t)
			require.NotEqual(t, readroute.RolePrimary, d.Role, "%+v", d)
		})
		t.Run("the primary refuses to prepare it as well", func(t *testing.T) {
			steady(t)
			require.Error(t, db.QueryRowContext(sessionContext(t), "SELECT nothing FROM "+table+" WHERE id = ?", 1).Scan(new(int)))
			onPrimary(t, readroute.RetrySchema)
		})
		t.Run("no server can read it", func(t *testing.T) {
			steady(t)
			require.Error(t, db.QueryRowContext(sessionContext(t), "SELECT FROM FROM "+table+" WHERE id = ?", 1).Scan(new(int)))
			require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
		})
	})
}
