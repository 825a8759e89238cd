package readroute_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestGTIDUnloggedWrite: what is written without a log never comes to a replica, and no position tells. Its session reads from the
// primary for StickyWindow.
func TestGTIDUnloggedWrite(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c, dbtest.AdminUser)
		config.StickyWindow = time.Minute
		seen := record(&config)
		db := open(t, config)
		for i, set := range []string{"SET sql_log_bin = 0", "SET SESSION sql_log_bin=OFF", "SET @@session.`SQL_LOG_BIN` = @zero"} {
			for name, write := range map[string]func(ctx context.Context) error{
				"conn": func(ctx context.Context) error {
					conn, err := db.Conn(ctx)
					require.NoError(t, err)
					defer conn.Close()
					_, err = conn.ExecContext(ctx, "SET @zero = 0")
					require.NoError(t, err)
					_, err = conn.ExecContext(ctx, set)
					require.NoError(t, err)
					_, err = conn.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", i)
					return err
				},
				"tx": func(ctx context.Context) error {
					conn, err := db.Conn(ctx)
					require.NoError(t, err)
					defer conn.Close()
					_, err = conn.ExecContext(ctx, "SET @zero = 0")
					require.NoError(t, err)
					_, err = conn.ExecContext(ctx, set)
					require.NoError(t, err)
					tx, err := conn.BeginTx(ctx, nil)
					require.NoError(t, err)
					_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", i)
					require.NoError(t, err)
					return tx.Commit()
				},
			} {
				before := number(t, c.Primary(), fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", table, i))
				ctx := sessionContext(t)
				require.NoError(t, write(ctx))
				seen.take()
				later := carrying(t, tokenOf(t, ctx))
				for range 20 {
					require.Equal(t, 1, rowsOf(t, ctx, db, table, i)-before, "%s: %s", set, name)
					require.Equal(t, 1, rowsOf(t, later, db, table, i)-before, "%s: %s", set, name)
				}
			}
		}
		ctx := sessionContext(t)
		add(t, ctx, db, table, 99)
		tokenOf(t, ctx)
		eventually(t, "the connection is nobody's any more", func() bool {
			seen.take()
			require.Equal(t, 1, rowsOf(t, ctx, db, table, 99))
			return seen.one(t).Role == readroute.RoleReplica
		})
	})
}

// TestGTIDFilters: a filter is told of by all who may see it.
func TestGTIDFilters(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1, Settings: map[string]string{"replicate-ignore-db": "elsewhere", "binlog-ignore-db": "scratch"}},
		func(t *testing.T, c *dbtest.MySQLCluster) {
			db := open(t, gtidConfig(c, dbtest.AdminUser))
			why := strings.Join(status(t, db, c.Replica(0).Name()).Missing, "\n")
			require.Contains(t, why, "Replicate_Ignore_DB=elsewhere")
			why = strings.Join(status(t, db, c.Primary().Name()).Missing, "\n")
			require.Contains(t, why, "Binlog_Ignore_DB=scratch")
			require.NotContains(t, why, "elsewhere")
		})
}
