package replicatest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// ours are the packages that are between the code that reads and whoever asks for it.
var ours = []string{
	"runtime.", "database/sql.", "github.com/readroute/readroute.", "github.com/readroute/readroute/internal/",
	"github.com/readroute/readroute/replicatest.", "github.com/readroute/readroute/replicatest/internal/",
}

// callSite returns the file and line of the innermost call that is neither in the library nor in another module: of an ORM that is
// in the module cache, it is its caller.
func callSite() string {
	var pcs [96]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	outermost := "a call that is not known"
	for {
		frame, more := frames.Next()
		if frame.File != "" && !isOurs(frame.Function) {
			at := fmt.Sprintf("%s:%d", shortPath(frame.File), frame.Line)
			if !elsewhere(frame.File) {
				return at
			}
			if outermost[0] == 'a' {
				outermost = at
			}
		}
		if !more {
			return outermost
		}
	}
}

func isOurs(function string) bool {
	for _, prefix := range ours {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// elsewhere reports that a file is of a module that is not being worked on: one that has its version in its path, wherever the module cache
// is, and with -trimpath too, or one that is vendored.
func elsewhere(file string) bool {
	file = filepath.ToSlash(file)
	_, version, found := strings.Cut(file, "@v")
	return found && version != "" && version[0] >= '0' && version[0] <= '9' || strings.Contains(file, "/vendor/")
}

// shortPath is a file with its folder, as a test prints it.
func shortPath(file string) string {
	return filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))
}
