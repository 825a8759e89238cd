package sqlclass_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

// testCase is one statement and where it belongs: replica-ok, primary, or pin-session.
type testCase struct{ ID, Dialect, SQL, Target string }

var dialects = map[string]sqlclass.Dialect{"pg": sqlclass.PostgreSQL, "mysql": sqlclass.MySQL, "mariadb": sqlclass.MariaDB}

// readCases reads a file of testdata.
func readCases(t testing.TB, name string) []testCase {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	var cases []testCase
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c testCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c), lines.Text())
		cases = append(cases, c)
	}
	require.NoError(t, lines.Err())
	return cases
}

// allCases are the cases of every file.
func allCases(t testing.TB) []testCase {
	return append(readCases(t, "cases.jsonl"), readCases(t, "neighbours.jsonl")...)
}

// TestClassCases holds the classifier to what users of other routers reported (cases.jsonl), and to the neighbours of those
// reports (neighbours.jsonl).
func TestClassCases(t *testing.T) {
	for _, c := range allCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			st := sqlclass.ClassifyText(dialects[c.Dialect], c.SQL)
			require.Equal(t, c.Target, target(st), "%s %q: %+v", c.Dialect, c.SQL, st)
		})
	}
}

// target is the word of the cases for where a statement belongs.
func target(st sqlclass.Statement) string {
	return map[sqlclass.Target]string{
		sqlclass.TargetReplica: "replica-ok", sqlclass.TargetPrimary: "primary", sqlclass.TargetPin: "pin-session",
	}[st.Target()]
}
