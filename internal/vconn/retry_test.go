package vconn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestWhatRunsOnceMore: a read that the replica cannot serve and the primary may; an error that would come again does not.
func TestWhatRunsOnceMore(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	db := open(t, c, configFor(c))
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1)"))
	pauseReplay(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "ALTER TABLE "+table+" ADD late int NOT NULL DEFAULT 5"))
	const once = readroute.Retry(0)
	for name, test := range map[string]struct {
		text  string
		arg   any
		fails string
		role  readroute.Role
		retry readroute.Retry
	}{
		"a column that the replica lacks": {
			text: "SELECT late FROM " + table + " WHERE id = $1", arg: 1, role: readroute.RolePrimary, retry: readroute.RetrySchema,
		},
		"a column that nobody has": {
			text: "SELECT never FROM " + table + " WHERE id = $1", arg: 1, fails: "42703", role: readroute.RolePrimary, retry: readroute.RetrySchema,
		},
		"an error of the data": {
			text: "SELECT 1 / (id - $1) FROM " + table, arg: 1, fails: "22012", role: readroute.RoleReplica, retry: once,
		},
		"a syntax error": {
			text: "SELECT FROM FROM " + table + " WHERE id = $1", arg: 1, fails: "42601", role: readroute.RoleReplica, retry: once,
		},
		"an argument that cannot be sent": {
			text: "SELECT id FROM " + table + " WHERE id = $1", arg: struct{}{}, fails: "unable to encode", role: readroute.RoleReplica, retry: once,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := sessionContext(t)
			var n int
			err := db.QueryRowContext(ctx, test.text, test.arg).Scan(&n)
			if test.fails == "" {
				require.NoError(t, err)
				require.Equal(t, 5, n)
			} else {
				require.ErrorContains(t, err, test.fails)
			}
			d := db.last(t)
			require.Equal(t, test.role, d.Role, "%+v", d)
			require.Equal(t, test.retry, d.Retry, "%+v", d)
		})
	}
}
