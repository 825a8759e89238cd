package replicatest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestSchemaThatIsLate: a migration has not arrived at a replica yet. A read that misses its table or its column runs once more on the
// primary; one that misses what nobody has fails.
func TestSchemaThatIsLate(t *testing.T) {
	for name, begin := range start {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t)
			ctx := testContext(t)
			require.NoError(t, c.Exec(ctx, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"))
			var seen decisions
			db := c.OpenT(t, record(&seen))
			require.NoError(t, c.Pause(ctx))
			require.NoError(t, c.Primary().Exec(ctx, "CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (2)", "ALTER TABLE t ADD late int DEFAULT 5"))
			eventual := readroute.WithLevel(ctx, readroute.LevelEventual)
			for _, query := range []string{"SELECT max(id) FROM late", "SELECT max(late) FROM t"} {
				seen.take()
				require.NoError(t, db.QueryRowContext(eventual, query).Scan(new(int)), query)
				d := seen.last(t)
				require.Equal(t, readroute.RolePrimary, d.Role, query)
				require.Equal(t, readroute.RetrySchema, d.Retry, query)
			}
			for _, query := range []string{"SELECT max(id) FROM nowhere", "SELECT max(never) FROM t"} {
				seen.take()
				require.Error(t, db.QueryRowContext(eventual, query).Scan(new(int)), query)
				require.Equal(t, readroute.RetrySchema, seen.last(t).Retry, query)
			}
			require.NoError(t, c.Resume(ctx))
		})
	}
}
