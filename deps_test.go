package readroute_test

import (
	"encoding/json"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	modulePath = "github.com/readroute/readroute"
	pgxPath    = "github.com/jackc/pgx/v5"
	mysqlPath  = "github.com/go-sql-driver/mysql"
)

// allowedModules is all that the root module may require, as patterns of versions. Users get these into their own build;
// everything else lives in a module of its own (cmd, contrib, examples).
var allowedModules = map[string]string{
	pgxPath:                       `^v5\.12\.\d+$`,
	mysqlPath:                     `^v1\.10\.\d+$`,
	"github.com/stretchr/testify": `^v1\.`, // tests only; TestImports keeps it out of the rest
}

// allowedIndirect is what those three modules need in turn, and who needs it.
var allowedIndirect = map[string]string{
	"filippo.io/edwards25519":        "mysql: ed25519 authentication",
	"github.com/davecgh/go-spew":     "testify",
	"github.com/jackc/pgpassfile":    "pgx: the password file",
	"github.com/jackc/pgservicefile": "pgx: the service file",
	"github.com/jackc/puddle/v2":     "pgx: pgxpool",
	"github.com/pmezard/go-difflib":  "testify",
	"golang.org/x/sync":              "pgx: pgxpool",
	"golang.org/x/text":              "pgx: SASLprep",
	"gopkg.in/yaml.v3":               "testify",
}

func TestRootModuleRequiresTwoDriversAndTestify(t *testing.T) {
	t.Parallel()

	readFile(t, "go.mod") // the test cache does not see what the go command reads
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", "go.mod").Output()
	require.NoError(t, err)
	var mod struct {
		Module  struct{ Path string }
		Go      string
		Require []struct {
			Path, Version string
			Indirect      bool
		}
		Replace, Exclude []struct{}
	}
	require.NoError(t, json.Unmarshal(out, &mod))

	require.Equal(t, modulePath, mod.Module.Path)
	require.Equal(t, "1.25.0", mod.Go, "raising the Go version locks out users: do it on purpose, and say so in CHANGELOG.md")
	require.Empty(t, mod.Replace, "a replaced module is not what users get")
	require.Empty(t, mod.Exclude)
	direct := map[string]bool{}
	for _, r := range mod.Require {
		if r.Indirect {
			require.Containsf(t, allowedIndirect, r.Path, "%s %s is a new indirect requirement", r.Path, r.Version)
			continue
		}
		require.Containsf(t, allowedModules, r.Path, "the default answer to a dependency is no: %s %s", r.Path, r.Version)
		require.Regexpf(t, regexp.MustCompile(allowedModules[r.Path]), r.Version, "version of %s", r.Path)
		direct[r.Path] = true
	}
	require.Len(t, direct, len(allowedModules))
}

// imports maps the folders of Go packages to what their non-test files import, whatever the build tags.
func imports(tb testing.TB) map[string][]string {
	tb.Helper()
	found := map[string][]string{}
	for _, file := range goFiles(tb) {
		if isTestFile(file) {
			continue
		}
		dir := path.Dir(file)
		if _, ok := found[dir]; !ok {
			found[dir] = nil // a package that imports nothing is there as well
		}
		for _, spec := range parseGo(tb, file, readFile(tb, file)).file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(tb, err)
			if !slices.Contains(found[dir], imported) {
				found[dir] = append(found[dir], imported)
			}
		}
	}
	return found
}

// nestedModules are the folders that have a go.mod of their own.
func nestedModules(tb testing.TB) []string {
	tb.Helper()
	var dirs []string
	for _, file := range repositoryFiles(tb) {
		if path.Base(file) == "go.mod" && file != "go.mod" {
			dirs = append(dirs, path.Dir(file))
		}
	}
	return dirs
}

func inOneOf(dir string, parents []string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool { return within(dir, parent) })
}

func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// What users compile into their programs is the standard library, the two drivers and this module. testing registers
// flags and belongs in no program, not even in the packages that tests use.
func TestImports(t *testing.T) {
	t.Parallel()

	nested := nestedModules(t)
	for dir, imported := range imports(t) {
		if inOneOf(dir, nested) {
			continue
		}
		for _, p := range imported {
			switch {
			case p == "testing" || strings.HasPrefix(p, "testing/"):
				require.Failf(t, "testing outside tests", "%s imports %s: take a small interface instead", dir, p)
			case isStandard(p), within(p, modulePath), within(p, pgxPath), within(p, mysqlPath):
			default:
				require.Failf(t, "import of another module", "%s imports %s: the default answer to a dependency is no", dir, p)
			}
		}
	}
}

// The same for what the drivers bring along: testing must not arrive through them either.
func TestProgramsDoNotLinkTesting(t *testing.T) {
	t.Parallel()

	readFile(t, "go.mod")
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, modulePath)
	require.NotContains(t, deps, "testing")
	for _, dep := range deps {
		require.NotContainsf(t, dep, "stretchr/testify", "users do not need %s", dep)
	}
}

// corePackages know no pool: another driver surface than database/sql can use them as they are.
var corePackages = []string{"internal/core", "internal/monitor", "internal/router", "internal/sqlclass"}

func TestCoreKnowsNoPool(t *testing.T) {
	t.Parallel()

	all := imports(t)
	for _, dir := range corePackages {
		_, ok := all[dir]
		require.Truef(t, ok, "%s has no Go files", dir)
		for _, dep := range closure(all, dir) {
			require.Falsef(t, within(dep, "database/sql"), "%s reaches %s", dir, dep)
			require.Truef(t, isStandard(dep) || within(dep, modulePath), "%s reaches %s, a driver", dir, dep)
		}
	}
}

// closure is everything that the package in dir imports, also by way of other packages of this module.
func closure(all map[string][]string, dir string) []string {
	var reached []string
	todo := []string{dir}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		for _, imported := range all[next] {
			if slices.Contains(reached, imported) {
				continue
			}
			reached = append(reached, imported)
			if imported == modulePath {
				todo = append(todo, ".")
			} else if own, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
				todo = append(todo, own)
			}
		}
	}
	return reached
}

func TestClosureFollowsOwnPackages(t *testing.T) {
	t.Parallel()

	all := map[string][]string{
		"internal/a": {"fmt", modulePath + "/internal/b"},
		"internal/b": {modulePath, modulePath + "/internal/a"},
		".":          {"database/sql"},
	}
	require.ElementsMatch(t,
		[]string{"fmt", modulePath + "/internal/b", modulePath, modulePath + "/internal/a", "database/sql"},
		closure(all, "internal/a"))
}

// internalOf says which internal package a nested module may use all the same, and why.
var internalOf = map[string]string{
	"cmd/readroute":                modulePath + "/internal/sqlclass", // it shows what the classifier says
	"replicatest/internal/lite":    modulePath + "/internal/sqlclass", // it takes a text for what the pool does
	"replicatest/internal/private": modulePath + "/internal/dbtest",   // it hands out what that starts
}

// Nested modules use the public surface, as everybody else has to. Go itself would let them import internal packages.
func TestNestedModulesUseThePublicSurface(t *testing.T) {
	t.Parallel()

	nested := nestedModules(t)
	for dir, imported := range imports(t) {
		if !inOneOf(dir, nested) {
			continue
		}
		for _, p := range imported {
			if p != internalOf[dir] {
				require.Falsef(t, within(p, modulePath+"/internal"), "%s imports %s", dir, p)
			}
		}
	}
}
