package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

func TestEveryWayIsWatchedAndReadrouteIsNeverStale(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := run(t.Context(), &out, e, 1500*time.Millisecond)
			if name == "mysql" && errors.Is(err, dbtest.ErrNoServer) {
				t.Skipf("MySQL NOT TESTED: %v", err)
			}
			require.NoError(t, err, "%s", &out)
			t.Log("\n" + out.String())
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
	t.Setenv(dbtest.PostgresBinEnv, t.TempDir())
	var out strings.Builder
	err := run(t.Context(), &out, engines["postgres"], time.Millisecond)
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, out.String())
}
