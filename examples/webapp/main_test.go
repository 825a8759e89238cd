package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
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

// enough is how many requests each way makes at least before anything is said of it.
const enough = 2000

func TestWithTheMiddlewareNothingIsStale(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var cells map[string][]string
	var added map[string]time.Duration
	for each := 3 * time.Second; ; each *= 3 { // on a machine with much else to do
		var out strings.Builder
		err := run(ctx, &out, each)
		t.Log("\n" + out.String())
		require.NoError(t, err)
		if cells, added = read(t, out.String()); requests(t, cells["with"]) >= enough && requests(t, cells["without"]) >= enough {
			break
		}
	}
	for name, f := range cells {
		require.NotEqual(t, "0%", f[3], name)
	}
	require.Equal(t, "0", cells["with"][2])
	require.NotEqual(t, "0", cells["without"][2], "the faults are too mild to show anything")
	// The median: a save waits for its position, at most for CaptureTimeout, and a read for a replica.
	for _, what := range []string{"save", "read"} {
		require.Contains(t, added, what)
		require.Less(t, added[what], 4*readroute.DefaultCaptureTimeout, what)
	}
}

// read returns the cells of each row, and what the middleware adds to the medians.
func read(t *testing.T, out string) (cells map[string][]string, added map[string]time.Duration) {
	t.Helper()
	cells, added = map[string][]string{}, map[string]time.Duration{}
	for line := range strings.Lines(out) {
		if name, rest, ok := strings.Cut(line, " middleware "); ok && !strings.HasPrefix(line, "the") {
			cells[name] = strings.Fields(rest)
			require.GreaterOrEqual(t, len(cells[name]), 4, name)
		}
		if rest, ok := strings.CutPrefix(line, "  to a "); ok {
			what, rest, _ := strings.Cut(rest, "p50 ")
			p50, _, ok := strings.Cut(rest, ",")
			require.True(t, ok, line)
			d, err := time.ParseDuration(p50)
			require.NoError(t, err)
			added[strings.TrimSpace(what)] = d
		}
	}
	require.Len(t, cells, 2)
	return cells, added
}

// requests are the saves and reads of a row.
func requests(t *testing.T, f []string) int {
	t.Helper()
	saves, err := strconv.Atoi(f[0])
	require.NoError(t, err)
	reads, err := strconv.Atoi(f[1])
	require.NoError(t, err)
	return saves + reads
}

func TestMissingPostgreSQLIsOneLine(t *testing.T) {
	t.Setenv(dbtest.PostgresBinEnv, t.TempDir())
	var out strings.Builder
	err := run(t.Context(), &out, time.Millisecond)
	require.ErrorIs(t, err, dbtest.ErrNoServer)
	require.NotContains(t, err.Error(), "\n")
	require.Empty(t, out.String())
}
