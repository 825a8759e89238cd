package dbtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

func TestSmoke(t *testing.T) {
	t0 := time.Now()
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	t.Log(time.Since(t0))
	ctx := t.Context()
	require.NoError(t, c.Primary().Exec(ctx, "create table t (a int)", "insert into t values (1)"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	v, err := c.Standby(1).QueryValue(ctx, "select a from t")
	require.NoError(t, err)
	require.Equal(t, "1", v)
	t0 = time.Now()
	require.NoError(t, c.Close())
	t.Log(time.Since(t0))
}
