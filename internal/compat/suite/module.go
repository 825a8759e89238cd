// Package suite runs the test suite of a module twice, as it is and with the
// routed pool in the place of its own pools, and compares the two test by test.
package suite

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Routed is the module of the routed pool.
const Routed = "github.com/readroute/readroute"

// Output runs a command in dir, with the go.mod there and no workspace, and
// returns what it printed, without the space around it. A toolchain is a value
// of GOTOOLCHAIN; empty means the one that runs anyway.
func Output(ctx context.Context, dir, toolchain, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if toolchain != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+toolchain)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// Source returns the folder in the module cache of the module that the go.mod
// in dir requires, and downloads it when it is not there.
func Source(ctx context.Context, dir, module string) (string, error) {
	version, err := Output(ctx, dir, "", "go", "list", "-m", "-f", "{{.Version}}", module)
	if err != nil {
		return "", err
	}
	if _, err := Output(ctx, dir, "", "go", "mod", "download", module+"@"+version); err != nil {
		return "", err
	}
	return Output(ctx, dir, "", "go", "list", "-m", "-f", "{{.Dir}}", module)
}

// Checkout returns the folder of the routed pool's own module and the Go
// version that it is written for.
func Checkout(ctx context.Context) (dir, version string, err error) {
	out, err := Output(ctx, "", "", "go", "list", "-m", "-f", "{{.Dir}}\t{{.GoVersion}}", Routed)
	if err != nil {
		return "", "", err
	}
	dir, version, _ = strings.Cut(out, "\t")
	return dir, version, nil
}

// RequireRouted makes the module in dir require the checkout of the routed
// pool, in place of any released version of it.
func RequireRouted(ctx context.Context, dir, checkout, version string) error {
	_, err := Output(ctx, dir, "", "go", "mod", "edit", "-go="+version,
		"-require="+Routed+"@v0.0.0", "-replace="+Routed+"@v0.0.0="+checkout)
	if err != nil {
		return err
	}
	return mergeSums(filepath.Join(dir, "go.sum"), filepath.Join(checkout, "go.sum"))
}

// mergeSums adds the lines of one go.sum to another, so that no checksum has
// to be asked for.
func mergeSums(into, from string) error {
	var lines []string
	for _, name := range []string{into, from} {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(b)), "\n")...)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	return os.WriteFile(into, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// CopyTree is os.CopyFS with files that can be written: those of the module
// cache cannot.
func CopyTree(dst, src string) error {
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		return err
	}
	return filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
}

// Build compiles the tests of a package of the module in dir, with the race
// detector. Without paths in the binary the build cache serves the next run,
// which has another temporary folder.
func Build(ctx context.Context, dir, toolchain, pkg, bin string, flags ...string) error {
	args := append([]string{"test", "-mod=mod", "-race", "-trimpath", "-c", "-o", bin}, flags...)
	_, err := Output(ctx, dir, toolchain, "go", append(args, pkg)...)
	return err
}
