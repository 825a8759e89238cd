package suite

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferenceSeesEveryKindOfChange(t *testing.T) {
	bare := Outcome{Results: map[string]string{"A": "PASS", "B": "PASS", "C": "SKIP", "D": "FAIL"}}
	require.Empty(t, Difference(bare, bare, nil))
	got := Outcome{Results: map[string]string{"A": "FAIL", "C": "PASS", "D": "PASS", "E": "PASS"}}
	require.Len(t, Difference(bare, got, nil), 5)
	known := map[string]string{"A": "why", "D": "why"}
	require.Len(t, Difference(bare, got, known), 4, "known is what fails on the bare driver, not what fails here")

	require.Equal(t, []string{"D fails on the bare driver"}, Failures(bare, nil))
	require.Empty(t, Failures(bare, known))
	require.NotEmpty(t, Failures(Outcome{}, nil))
	ended := Outcome{Results: map[string]string{"A": "PASS"}, Exit: &exec.ExitError{}}
	require.Len(t, Failures(ended, nil), 1)
	raced := Outcome{Results: map[string]string{"A": "FAIL"}, Output: []byte("WARNING: DATA RACE")}
	require.Len(t, Difference(raced, raced, nil), 1)
}

func TestReadFindsTheResults(t *testing.T) {
	o, err := read([]byte(strings.Join([]string{
		"=== RUN   TestA",
		"--- PASS: TestA (0.00s)",
		"    --- FAIL: TestB/x#01 (12.00s)",
		"        --- SKIP: TestC/y/z (0.10s)",
		"it says --- PASS: TestD (0.00s)",
		"statements on the replica: 17",
		"FAIL",
	}, "\n")), &exec.ExitError{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"TestA": "PASS", "TestB/x#01": "FAIL", "TestC/y/z": "SKIP"}, o.Results)
	require.Equal(t, 17, o.OnReplica)
	require.Equal(t, 1, o.Count("FAIL"))
	require.Error(t, o.Exit)
}

func TestReportShowsHowTheProcessEnded(t *testing.T) {
	diff := make([]string, 100)
	for i := range diff {
		diff[i] = "TestX: not run, on the bare driver PASS"
	}
	diff[99] = "the test process: exit status 2"
	o := Outcome{Output: []byte("=== RUN   TestA\n--- PASS: TestA (0.00s)\npanic: it\n")}
	var text strings.Builder
	Report(&text, "name", diff, o, false)
	require.Contains(t, text.String(), "exit status 2")
	require.Contains(t, text.String(), "and 70 more")
	require.Contains(t, text.String(), "panic: it")
	require.NotContains(t, text.String(), "TestA")
	text.Reset()
	Report(&text, "name", diff, o, true)
	require.Contains(t, text.String(), "TestA")
	require.Equal(t, 100, strings.Count(text.String(), "\n  "))
}
