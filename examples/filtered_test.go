package examples_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamplesOfModules lets `go test -run Example ./...` in the root, which ends where a module begins, run those of the other modules too.
func TestExamplesOfModules(t *testing.T) {
	onlyWhenAskedFor(t)
	for _, dir := range modules(t, "..") {
		if hasExamples(t, dir) {
			testModule(t, dir, "-run", "Example")
		}
	}
}

func hasExamples(t *testing.T, dir string) (found bool) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		found = found || bytes.Contains(source, []byte("\nfunc Example"))
		return err
	}))
	return found
}

// TestMarkerConformanceOfModules does the same for `go test -run 'Marker|Conformance' ./...`.
func TestMarkerConformanceOfModules(t *testing.T) {
	onlyWhenAskedFor(t)
	testModule(t, "../replicatest", "-run", "Marker|Conformance")
}

// TestTokenCodecMiddlewareTransportCarrierJobsStoreOfModules does the same for a pattern of any of these, which are what the modules are
// about.
func TestTokenCodecMiddlewareTransportCarrierJobsStoreOfModules(t *testing.T) {
	onlyWhenAskedFor(t)
	dirs := []string{"jobs", "tokenstore", "messages", "web"}
	if os.Getenv("GOWORK") == "off" {
		dirs = append(dirs, "../contrib/grpc") // which a pattern from the root does not reach then
	}
	require.Subset(t, modules(t, ".."), []string{filepath.FromSlash("../examples/jobs"), filepath.FromSlash("../contrib/grpc")})
	for _, dir := range dirs {
		testModule(t, filepath.FromSlash(dir), "-run", "Token|Codec|Middleware|Transport|Carrier|Jobs|Store|K5_")
	}
}

// onlyWhenAskedFor skips a test of other modules that no -run has chosen: a run of everything runs it in the module itself.
func onlyWhenAskedFor(t *testing.T) {
	if flag.Lookup("test.run").Value.String() == "" {
		t.Skip("each module is tested by itself")
	}
}
