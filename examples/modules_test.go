// Package examples_test lets one command from the root test all examples.
package examples_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModules runs the tests of the examples that are modules of their own: a pattern such as ./examples/... ends where
// another module begins, in a workspace too. With GOWORK=off, as in the Makefile, each module is tested by itself.
func TestModules(t *testing.T) {
	if os.Getenv("GOWORK") == "off" {
		t.Skip("GOWORK=off: each module is tested by itself")
	}
	for _, dir := range modules(t, "../examples") {
		testModule(t, dir)
	}
}

// modules returns the folders below root that are modules of their own, but not that of the repository.
func modules(t *testing.T, root string) (folders []string) {
	t.Helper()
	// The test cache sees a walk and does not see what the go command reads.
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		dir := filepath.Dir(path)
		if err == nil && d.Name() == "go.mod" && dir != ".." && strings.HasPrefix(dir, filepath.FromSlash(root)) {
			folders = append(folders, dir)
		}
		return err
	}))
	require.NotEmpty(t, folders)
	return folders
}

// testModule runs the tests of a module with further arguments.
func testModule(t *testing.T, dir string, args ...string) {
	t.Helper()
	args = append([]string{"test"}, args...)
	if raceDetector() {
		args = append(args, "-race")
	}
	if testing.Verbose() {
		args = append(args, "-v")
	}
	t.Run(filepath.Base(dir), func(t *testing.T) {
		run := exec.CommandContext(t.Context(), "go", append(args, "./...")...)
		run.Dir = dir
		run.Env = append(os.Environ(), "GOWORK=off")
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
	})
}

// raceDetector reports that this test runs with -race.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
