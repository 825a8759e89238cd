package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An upgrade of sqlx fails here, at once, not in the long run.
func TestPatchKnowsThePlacesOfThisSqlx(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	source, err := sqlxSource(t.Context(), root)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "sqlx")
	require.NoError(t, copyTree(dir, source))
	require.NoError(t, patchSuite(dir))
	text, err := os.ReadFile(filepath.Join(dir, "sqlx_test.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), "pgdb, err = connectPostgres(pgdsn)")
	require.Error(t, patchSuite(dir), "a suite without the places must not pass for patched")
}

func TestDifferenceSeesEveryKindOfChange(t *testing.T) {
	bare := outcome{results: map[string]string{"A": "PASS", "B": "PASS", "C": "SKIP", "D": "FAIL"}}
	require.Empty(t, difference(bare, bare, nil))
	got := outcome{results: map[string]string{"A": "FAIL", "C": "PASS", "D": "PASS", "E": "PASS"}}
	require.Len(t, difference(bare, got, nil), 5)
	known := map[string]string{"A": "why", "D": "why"}
	require.Len(t, difference(bare, got, known), 4, "known is what fails on the bare driver, not what fails here")

	require.Equal(t, []string{"D fails on the bare driver"}, failures(bare, nil))
	require.Empty(t, failures(bare, known))
	require.NotEmpty(t, failures(outcome{}, nil))
	ended := outcome{results: map[string]string{"A": "PASS"}, exit: &exec.ExitError{}}
	require.Len(t, failures(ended, nil), 1)
	raced := outcome{results: map[string]string{"A": "FAIL"}, output: []byte("WARNING: DATA RACE")}
	require.Len(t, difference(raced, raced, nil), 1)
}
