package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/compat/suite"
)

// An upgrade of sqlx fails here, at once, not in the long run.
func TestPatchKnowsThePlacesOfThisSqlx(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	source, err := suite.Source(t.Context(), filepath.Join(root, toolsDir), sqlxModule)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "sqlx")
	require.NoError(t, suite.CopyTree(dir, source))
	require.NoError(t, patchSuite(dir))
	text, err := os.ReadFile(filepath.Join(dir, "sqlx_test.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), "pgdb, err = connectPostgres(pgdsn)")
	require.Error(t, patchSuite(dir), "a suite without the places must not pass for patched")
}
