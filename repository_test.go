package readroute_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxSourceLines is where a file has usually become more than one noun.
const maxSourceLines = 400

// longFiles may have more than maxSourceLines lines, for the reason given.
var longFiles = map[string]string{}

// generated matches the line that says that nobody edits a file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// repositoryFiles lists the files of the checkout, slash-separated and relative to its root, without what .gitignore
// names. It walks instead of asking git: a walk is seen by the test cache, so a new file runs these tests again.
func repositoryFiles(tb testing.TB) []string {
	tb.Helper()
	ignoredDirs := []string{".git", ".cache", "bin", ".idea", ".vscode"}
	ignoredExts := []string{".test", ".prof", ".out"}
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains(ignoredDirs, d.Name()) {
				return fs.SkipDir
			}
			return nil
		case d.Type().IsRegular() && !slices.Contains(ignoredExts, filepath.Ext(path)):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	})
	require.NoError(tb, err)
	require.Contains(tb, files, "go.mod")
	return files
}

// goFiles lists the Go files of the checkout, nested modules included, without those under testdata.
func goFiles(tb testing.TB) []string {
	tb.Helper()
	return slices.DeleteFunc(repositoryFiles(tb), func(path string) bool {
		return !strings.HasSuffix(path, ".go") || strings.Contains("/"+path, "/testdata/")
	})
}

func isTestFile(path string) bool { return strings.HasSuffix(path, "_test.go") }

func readFile(tb testing.TB, path string) []byte {
	tb.Helper()
	content, err := os.ReadFile(filepath.FromSlash(path))
	require.NoError(tb, err)
	return content
}

// syntax is the parsed form of one file.
type syntax struct {
	path string
	fset *token.FileSet
	file *ast.File
}

func parseGo(tb testing.TB, path string, src []byte) syntax {
	tb.Helper()
	s := syntax{path: path, fset: token.NewFileSet()}
	var err error
	s.file, err = parser.ParseFile(s.fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(tb, err)
	return s
}

func (s syntax) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

// importName is the name under which the file uses the package at path, or "" if it does not import it.
func (s syntax) importName(path string) string {
	for _, spec := range s.file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err != nil || imported != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}

func TestSourceFilesAreShort(t *testing.T) {
	t.Parallel()

	long := map[string]int{}
	for _, path := range goFiles(t) {
		src := readFile(t, path)
		if lines := bytes.Count(src, []byte("\n")); !isTestFile(path) && lines > maxSourceLines && !generated.Match(src) {
			long[path] = lines
		}
	}
	for path, lines := range long {
		require.Containsf(t, longFiles, path, "%s has %d lines; split it, or say in longFiles why not", path, lines)
	}
	for path, reason := range longFiles {
		require.Containsf(t, long, path, "%s is in longFiles (%s) but has at most %d lines", path, reason, maxSourceLines)
	}
}

func TestGoFilesAreFormatted(t *testing.T) {
	t.Parallel()

	for _, path := range goFiles(t) {
		src := readFile(t, path)
		formatted, err := format.Source(src)
		require.NoError(t, err, path)
		require.Truef(t, bytes.Equal(formatted, src), "%s: run gofmt -w", path)
	}
}

// A test that sleeps is slow when the machine is fast and red when it is slow. In a synctest bubble a sleep costs nothing
// and ends when it should.
func TestTestsSleepOnlyInBubbles(t *testing.T) {
	t.Parallel()

	for _, path := range goFiles(t) {
		if isTestFile(path) {
			require.Empty(t, sleepsOutsideBubbles(parseGo(t, path, readFile(t, path))),
				"time.Sleep outside synctest.Test: wait for a condition with a deadline instead")
		}
	}
}

// sleepsOutsideBubbles finds uses of time.Sleep that do not stand in a function literal given to synctest.Test. Bodies
// of named functions that a bubble calls do not count: nothing says that they are only called from there.
func sleepsOutsideBubbles(s syntax) []string {
	clock, bubble := s.importName("time"), s.importName("testing/synctest")
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if bubble != "" && isSelector(n.Fun, bubble, "Test") && len(n.Args) == 2 {
				_, isLiteral := n.Args[1].(*ast.FuncLit)
				return !isLiteral
			}
		case *ast.SelectorExpr:
			if clock != "" && isSelector(n, clock, "Sleep") {
				found = append(found, s.at(n.Pos()))
			}
		}
		return true
	})
	return found
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func TestSleepsOutsideBubblesAreFound(t *testing.T) {
	t.Parallel()

	const src = `package p
import ("testing"; "testing/synctest"; clock "time")
func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { clock.Sleep(1); func() { clock.Sleep(1) }() })
	clock.Sleep(1) // line 5
	synctest.Test(t, bubble)
	t.Run("x", func(t *testing.T) { defer clock.Sleep(1) }) // line 7
	f := clock.Sleep // line 8
	f(1)
}
func bubble(t *testing.T) { clock.Sleep(1) } // line 11
`
	require.Equal(t, []string{"a_test.go:5", "a_test.go:7", "a_test.go:8", "a_test.go:11"},
		sleepsOutsideBubbles(parseGo(t, "a_test.go", []byte(src))))
}

// machinePath matches absolute paths that exist on one developer's machine only.
var machinePath = regexp.MustCompile(`(?:^|[^\w./-])/(?:work|root|farm|home/\w+|Users/\w+)/`)

func TestNoMachinePaths(t *testing.T) {
	t.Parallel()

	require.Regexp(t, machinePath, "see /"+"work/x")
	require.Regexp(t, machinePath, `"/`+`home/ann/x"`)
	require.NotRegexp(t, machinePath, "https://host/"+"work/x, testdata/"+"root/x, /dev/shm/x")

	for _, path := range repositoryFiles(t) {
		for i, line := range bytes.Split(readFile(t, path), []byte("\n")) {
			require.Falsef(t, machinePath.Match(line), "%s:%d names a path of somebody's machine: %s", path, i+1, line)
		}
	}
}

// markdownLink matches the target of [text](target) and of a [text]: target line.
var markdownLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)|(?m)^\s{0,3}\[[^\]^]+\]:\s+<?([^\s>]+)`)

func TestMarkdownLinksExist(t *testing.T) {
	t.Parallel()

	for _, path := range repositoryFiles(t) {
		if !strings.HasSuffix(path, ".md") {
			continue
		}
		for _, link := range relativeLinks(string(readFile(t, path))) {
			target := filepath.Join(filepath.Dir(filepath.FromSlash(path)), filepath.FromSlash(link))
			_, err := os.Stat(target)
			require.NoErrorf(t, err, "%s links to %s", path, link)
		}
	}
}

var fencedCode = regexp.MustCompile("(?ms)^ {0,3}```.*?^ {0,3}```|`[^`\n]*`")

// relativeLinks are the files that a Markdown text links to, without links into the text itself.
func relativeLinks(text string) []string {
	var links []string
	for _, m := range markdownLink.FindAllStringSubmatch(fencedCode.ReplaceAllString(text, ""), -1) {
		link, _, _ := strings.Cut(m[1]+m[2], "#")
		if link != "" && !strings.Contains(link, "://") && !strings.HasPrefix(link, "mailto:") {
			links = append(links, link)
		}
	}
	return links
}

func TestRelativeLinksAreFound(t *testing.T) {
	t.Parallel()

	text := "[a](docs/a.md#part) [b](https://x.org/b) [c](#here) `[d](d.md)` ![e](<e.png> \"e\") [f]\n" +
		"```go\nx[g](g)\n```\n[f]: f.md\n[h](mailto:a@b.c)\n"
	require.Equal(t, []string{"docs/a.md", "e.png", "f.md"}, relativeLinks(text))
}
