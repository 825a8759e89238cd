package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// TestMain is also a process of the service: what is under test starts its own executable.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == serveCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestWithTheMiddlewareNothingIsStale(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	err := run(ctx, &out, 3*time.Second)
	t.Log("\n" + out.String())
	require.NoError(t, err)
	cells := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		if name, rest, ok := strings.Cut(line, " middleware "); ok && !strings.HasPrefix(line, "the") {
			cells[name] = strings.Fields(rest)
		}
	}
	require.Len(t, cells, 2)
	for name, f := range cells {
		require.GreaterOrEqual(t, len(f), 4, name)
		require.NotEqual(t, "0", f[0], name)
		require.NotEqual(t, "0%", f[3], name)
	}
	require.Equal(t, "0", cells["with"][2])
	require.NotEqual(t, "0", cells["without"][2], "the faults are too mild to show anything")
}

func TestMissingPostgreSQLIsOneLine(t *testing.T) {
	t.Setenv(dbtest.PostgresBinEnv, t.TempDir())
	var out strings.Builder
	err := run(t.Context(), &out, time.Millisecond)
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, out.String())
}
