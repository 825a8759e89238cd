package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/readroute/readroute/internal/compat/suite"
)

const (
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
	checkout, version, err := suite.Checkout(ctx)
	if err != nil {
		return "", err
	}
	source, err := suite.Source(ctx, filepath.Join(checkout, toolsDir), sqlxModule)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(work, "sqlx")
	if err := suite.CopyTree(dir, source); err != nil {
		return "", fmt.Errorf("copy sqlx: %w", err)
	}
	if err := patchSuite(dir); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "routed_test.go"), routedTest, 0o600); err != nil {
		return "", err
	}
	pgx, err := suite.Output(ctx, checkout, "", "go", "list", "-m", "-f", "{{.Path}}@{{.Version}}", "github.com/jackc/pgx/v5")
	if err != nil {
		return "", err
	}
	if _, err := suite.Output(ctx, dir, "", "go", "mod", "edit", "-require="+pgx); err != nil {
		return "", err
	}
	return dir, suite.RequireRouted(ctx, dir, checkout, version)
}
