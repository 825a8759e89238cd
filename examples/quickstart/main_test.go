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
			e.deadline = 2 * time.Minute // they start beside one another, on a machine that has other work
			if name == "sqlite" {        // it runs alone, to be measured, and longer: with -race SQLite is many times slower
				e.length = 2 * time.Second
			} else {
				t.Parallel()
			}
			var out strings.Builder
			began := time.Now()
			err := run(t.Context(), &out, e)
			if name == "mysql" && errors.Is(err, mysql.ErrNoServer) {
				t.Skipf("MySQL NOT TESTED: %v", err)
			}
			took := time.Since(began)
			require.NoError(t, err, "%s", &out)
			t.Logf("%v\n%s", took, &out)
			if name == "sqlite" {
				require.Less(t, took, 8*time.Second, "it takes two and a half where nothing else runs")
			}
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
