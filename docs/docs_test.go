// Package docs_test holds the documents to the code.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// sources are the files of the module whose names end in suffix, with their text.
func sources(t *testing.T, suffix string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) {
			files[filepath.ToSlash(path)[len("../"):]] = read(t, path)
		}
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestDocumentsNameWhatExists(t *testing.T) {
	tests := strings.Builder{}
	for _, text := range sources(t, "_test.go") {
		tests.WriteString(text)
	}
	for _, path := range []string{"guarantees.md", "operating.md", "adopting.md", "classification.md", "mysql.md", "travel.md", "../README.md"} {
		text := read(t, path)
		for _, name := range regexp.MustCompile("`((?:Test|Example|Fuzz)[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			require.Containsf(t, tests.String(), "func "+name[1]+"(", "%s names a test that does not exist", path)
		}
		for _, file := range regexp.MustCompile("`([a-z/_]+\\.go)`").FindAllStringSubmatch(text, -1) {
			require.FileExistsf(t, filepath.Join("..", file[1]), "%s names a file that does not exist", path)
		}
	}
}

func TestOperatingExplainsEveryReason(t *testing.T) {
	var rows strings.Builder
	for line := range strings.Lines(read(t, "operating.md")) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		rows.WriteString(first)
	}
	count := 0
	for r := readroute.ReasonNoSession; r.String() != "invalid"; r++ {
		require.Containsf(t, rows.String(), "`"+r.String()+"`", "the table of reasons lacks %s", r)
		count++
	}
	require.GreaterOrEqual(t, count, 21)
}

// A name that the README or a document takes from the package is one of the package.
func TestDocumentsUseTheAPI(t *testing.T) {
	api := read(t, "../testdata/api.txt")
	name := regexp.MustCompile(`\breadroute\.([A-Z]\w*)`)
	for _, path := range []string{"guarantees.md", "operating.md", "adopting.md", "classification.md", "../README.md", "../doc.go"} {
		for _, m := range name.FindAllStringSubmatch(read(t, path), -1) {
			require.Regexpf(t, `(?m)^(func|type|const|var) `+m[1]+`\b`, api, "%s uses readroute.%s", path, m[1])
		}
	}
}

func TestMarkdownFences(t *testing.T) {
	for path, text := range sources(t, ".md") {
		require.Zerof(t, strings.Count(text, "```")%2, "%s: a code block is not closed", path)
	}
}
