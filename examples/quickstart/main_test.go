package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/replicatest/mysql"
	"github.com/readroute/readroute/replicatest/postgres"
)

func TestEveryWayIsWatchedAndReadrouteIsNeverStale(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			e.each = min(e.each, 1500*time.Millisecond)
			began := time.Now()
			err := run(t.Context(), &out, e)
			if name == "mysql" && errors.Is(err, mysql.ErrNoServer) {
				t.Skipf("MySQL NOT TESTED: %v", err)
			}
			require.NoError(t, err, "%s", &out)
			t.Logf("%v\n%s", time.Since(began), &out)
			stale := map[string]string{}
			for line := range strings.Lines(out.String()) {
				if f := strings.Fields(line); strings.HasSuffix(strings.TrimSpace(line), "%") && len(f) >= 5 {
					stale[strings.Join(f[:len(f)-4], " ")] = f[len(f)-2]
				}
			}
			require.Equal(t, "0", stale["readroute"])
			require.NotEqual(t, "0", stale["round robin"], "the faults are too mild to show anything")
			require.Len(t, stale, 4)
		})
	}
}

func TestMissingPostgreSQLIsOneLine(t *testing.T) {
	t.Setenv("READROUTE_PGBIN", t.TempDir())
	var out strings.Builder
	err := run(t.Context(), &out, engines["postgres"])
	require.ErrorIs(t, err, postgres.ErrNoServer)
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, out.String())
}
