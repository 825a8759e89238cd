package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	rootModule = "github.com/readroute/readroute"
	sqlxModule = "github.com/jmoiron/sqlx"
	toolsDir   = "examples/tools" // whose go.mod names the version of sqlx
)

//go:embed routed_test.go.txt
var routedTest []byte

// An edit replaces a text in a file of the suite. The count is part of the
// program: when a new version of sqlx opens a pool in one more place, the
// suite would silently test the bare driver there.
type edit struct {
	old, new string
	count    map[string]int // by file
}

var edits = []edit{
	{`Connect("postgres", pgdsn)`, `connectPostgres(pgdsn)`, map[string]int{"sqlx_test.go": 1}},
	{`context.Background()`, `suiteContext(context.Background())`, map[string]int{"sqlx_context_test.go": 16, "named_context_test.go": 1}},
	// SQLite is not what is tested, and takes a minute to compile.
	{`_ "github.com/mattn/go-sqlite3"`, ``, map[string]int{"sqlx_test.go": 1, "sqlx_context_test.go": 1}},
}

// patchSuite edits the test files in dir.
func patchSuite(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err
	}
	for _, path := range names {
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, text := filepath.Base(path), string(src)
		for _, e := range edits {
			if got := strings.Count(text, e.old); got != e.count[name] {
				return fmt.Errorf("%s has %q %d times, not %d: look at what changed in sqlx and adapt", name, e.old, got, e.count[name])
			}
			text = strings.ReplaceAll(text, e.old, e.new)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// prepare copies sqlx to a folder in work and edits the copy.
func prepare(ctx context.Context, work string) (dir string, err error) {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", rootModule)
	if err != nil {
		return "", err
	}
	source, err := sqlxSource(ctx, root)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(work, "sqlx")
	if err := copyTree(dir, source); err != nil {
		return "", fmt.Errorf("copy sqlx: %w", err)
	}
	if err := patchSuite(dir); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "routed_test.go"), routedTest, 0o600); err != nil {
		return "", err
	}
	pgx, err := output(ctx, root, "go", "list", "-m", "-f", "{{.Path}}@{{.Version}}", "github.com/jackc/pgx/v5")
	if err != nil {
		return "", err
	}
	if _, err := output(ctx, dir, "go", "mod", "edit", "-go=1.25.0", "-require="+pgx,
		"-require="+rootModule+"@v0.0.0", "-replace="+rootModule+"@v0.0.0="+root); err != nil {
		return "", err
	}
	return dir, mergeSums(filepath.Join(dir, "go.sum"), filepath.Join(root, "go.sum"))
}

// sqlxSource is the folder of sqlx in the module cache.
func sqlxSource(ctx context.Context, root string) (string, error) {
	tools := filepath.Join(root, toolsDir)
	version, err := output(ctx, tools, "go", "list", "-m", "-f", "{{.Version}}", sqlxModule)
	if err != nil {
		return "", err
	}
	if _, err := output(ctx, tools, "go", "mod", "download", sqlxModule+"@"+version); err != nil {
		return "", err
	}
	return output(ctx, tools, "go", "list", "-m", "-f", "{{.Dir}}", sqlxModule)
}

// copyTree is os.CopyFS with files that can be written: those of the module
// cache cannot.
func copyTree(dst, src string) error {
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

// output runs a command in dir, with the go.mod there and no workspace, and
// returns what it printed.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
