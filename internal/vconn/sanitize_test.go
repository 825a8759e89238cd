package vconn_test

import (
	"cmp"
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// onPrimary is a context whose statements run on the primary, in no session.
func onPrimary(t testing.TB) context.Context {
	t.Helper()
	return readroute.WithLevel(testContext(t), readroute.LevelPrimary)
}

func backend(t testing.TB, ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (pid string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(ctx, "SELECT pg_backend_pid()::text").Scan(&pid))
	return pid
}

// TestStateEndsWithItsCheckout: whatever a caller leaves on a connection to the primary, the next one does not find it.
// pgx itself keeps a connection with any of these, but for an open transaction, and that it notices only at the next use:
// until then its locks stand.
func TestStateEndsWithItsCheckout(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	for name, test := range map[string]struct {
		leave []string
		// found counts, in the next checkout, what is left; or, from a session outside of the pool, what stands before it.
		found, stands string
		why           string // "session state" unless said
	}{
		"a setting": {
			leave: []string{"SET datestyle TO German"},
			found: "SELECT count(*) FROM pg_settings WHERE name = 'DateStyle' AND setting LIKE 'German%'",
		},
		"a setting by a function": {
			leave: []string{"SELECT set_config('readroute.left', 'x', false)"},
			found: "SELECT count(*) FROM (SELECT current_setting('readroute.left', true) v) s WHERE v = 'x'",
		},
		"a temporary table": {
			leave: []string{"CREATE TEMPORARY TABLE left_behind (id int)"},
			found: "SELECT count(*) FROM pg_class WHERE relname = 'left_behind' AND pg_table_is_visible(oid)",
		},
		"a channel": {
			leave: []string{"LISTEN left_behind"},
			found: "SELECT count(*) FROM pg_listening_channels()",
		},
		"a prepared statement": {
			leave: []string{"PREPARE left_behind AS SELECT 1"},
			found: "SELECT count(*) FROM pg_prepared_statements WHERE name = 'left_behind'",
		},
		"a cursor that outlives its transaction": {
			leave: []string{"DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1"},
			found: "SELECT count(*) FROM pg_cursors WHERE name = 'left_behind'",
		},
		"an advisory lock": {
			leave:  []string{"SELECT pg_advisory_lock(4712)"},
			found:  "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4712 AND pid = pg_backend_pid()",
			stands: "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4712",
		},
		"a role": {
			leave: []string{"SET ROLE pg_monitor"},
			found: "SELECT count(*) FROM (SELECT current_user u) s WHERE u = 'pg_monitor'",
		},
		"an open transaction": {
			leave:  []string{"BEGIN", "LOCK TABLE " + table},
			stands: "SELECT count(*) FROM pg_locks WHERE relation = '" + table + "'::regclass",
			why:    "open transaction",
		},
		"a failed transaction": {
			leave:  []string{"BEGIN", "LOCK TABLE " + table, "SELECT 1 / (SELECT 0)"},
			stands: "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'",
			why:    "open transaction",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, c, configFor(c))
			ctx := onPrimary(t)
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			pid := backend(t, ctx, conn)
			for _, text := range test.leave {
				if _, err = conn.ExecContext(ctx, text); err != nil {
					require.ErrorContains(t, err, "division by zero")
				}
			}
			if test.found != "" {
				require.Equal(t, 1, scanInt(t, ctx, conn, test.found), "the test does not see what is left")
			}
			require.NoError(t, conn.Close())
			e := db.lastEvent(t)
			require.Equal(t, readroute.EventStateDiscarded, e.Kind)
			require.Contains(t, e.Why, cmp.Or(test.why, "session state"))

			// Nobody uses the pool meanwhile.
			ended := "SELECT count(*) FROM pg_stat_activity WHERE pid = " + pid
			for _, query := range []string{ended, test.stands} {
				require.Eventually(t, func() bool {
					if query == "" {
						return true
					}
					n, err := c.Primary().QueryValue(ctx, query)
					require.NoError(t, err)
					return n == "0"
				}, 20*time.Second, 10*time.Millisecond, query)
			}
			require.NotEqual(t, pid, backend(t, ctx, db))
			if test.found != "" {
				require.Zero(t, scanInt(t, ctx, db, test.found))
			}
		})
	}
}

func scanInt(t testing.TB, ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, query string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(ctx, query).Scan(&n))
	return n
}

// TestNothingIsLeftOfWhatEnds: what a transaction has for itself ends with it, and so does a transaction that text ends.
// Its connection is used again.
func TestNothingIsLeftOfWhatEnds(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	for _, texts := range []string{
		"BEGIN; INSERT INTO " + table + " VALUES (1); COMMIT",
		"BEGIN; INSERT INTO " + table + " VALUES (1); ROLLBACK",
		"BEGIN; SET LOCAL datestyle TO German; COMMIT",
		"BEGIN; SELECT pg_advisory_xact_lock(4713); COMMIT",
	} {
		t.Run(texts, func(t *testing.T) {
			db := open(t, c, configFor(c))
			ctx := onPrimary(t)
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			pid := backend(t, ctx, conn)
			for text := range strings.SplitSeq(texts, "; ") {
				_, err = conn.ExecContext(ctx, text)
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close())
			require.Equal(t, pid, backend(t, ctx, db))
			require.NotEqual(t, readroute.EventStateDiscarded, db.lastEvent(t).Kind)
		})
	}
}
