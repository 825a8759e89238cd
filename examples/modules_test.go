// Package examples_test lets one command from the root test all examples.
package examples_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModules runs the tests of the examples that are modules of their own: a pattern such as ./examples/... ends where
// another module begins, in a workspace too. With GOWORK=off, as in the Makefile, each module is tested by itself.
func TestModules(t *testing.T) {
	if os.Getenv("GOWORK") == "off" {
		t.Skip("GOWORK=off: each module is tested by itself")
	}
	// The test cache sees a walk and does not see what the go command reads.
	var modules []string
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && d.Name() == "go.mod" && filepath.Dir(filepath.Dir(path)) == filepath.Join("..", "examples") {
			modules = append(modules, filepath.Dir(path))
		}
		return err
	}))
	require.NotEmpty(t, modules)
	args := []string{"test"}
	if raceDetector() {
		args = append(args, "-race")
	}
	if testing.Verbose() {
		args = append(args, "-v")
	}
	for _, dir := range modules {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			run := exec.CommandContext(t.Context(), "go", append(slices.Clone(args), "./...")...)
			run.Dir = dir
			run.Env = append(os.Environ(), "GOWORK=off")
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s", out)
		})
	}
}

// raceDetector reports that this test runs with -race.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
