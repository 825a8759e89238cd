package readroute_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/api.txt from the exported names of the package")

// apiFile is the public surface, one exported name a line. A change of it is looked at in review.
var apiFile = filepath.Join("testdata", "api.txt")

func TestAPIIsWhatWasAgreed(t *testing.T) {
	var lines []string
	for _, name := range publicNames(t) {
		lines = append(lines, name.line)
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(apiFile), 0o755))
		require.NoError(t, os.WriteFile(apiFile, []byte(got), 0o644))
	}
	want := readFile(t, filepath.ToSlash(apiFile))
	require.Equal(t, string(want), got,
		"the public surface changed; if that is meant: go test -run TestAPIIsWhatWasAgreed . -update, and a line in CHANGELOG.md")
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	t.Parallel()

	var undocumented []string
	for _, name := range publicNames(t) {
		if !name.documented {
			undocumented = append(undocumented, name.at+": "+name.line)
		}
	}
	require.Empty(t, undocumented, "a doc comment is missing")
}

// publicName is an exported identifier of the package: a function, method, type, field, constant or variable.
type publicName struct {
	line       string // as in the API file
	at         string // file:line
	documented bool
}

func publicNames(tb testing.TB) []publicName {
	tb.Helper()
	var names []publicName
	for _, path := range goFiles(tb) {
		if strings.Contains(path, "/") || isTestFile(path) {
			continue
		}
		s := parseGo(tb, path, readFile(tb, path))
		require.Equal(tb, "readroute", s.file.Name.Name, path)
		names = append(names, exportedNames(s)...)
	}
	require.NotEmpty(tb, names)
	return names
}

func exportedNames(s syntax) []publicName {
	l := nameLister{syntax: s}
	for _, decl := range s.file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			l.function(decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					l.typ(spec, decl.Doc != nil && !decl.Lparen.IsValid() || spec.Doc != nil)
				case *ast.ValueSpec:
					// One comment above a block may stand for all that is in it.
					documented := decl.Doc != nil || spec.Doc != nil || spec.Comment != nil
					for _, name := range spec.Names {
						l.add(name, documented, "%s %s", decl.Tok, name.Name)
					}
				}
			}
		}
	}
	return l.names
}

type nameLister struct {
	syntax
	names []publicName
}

func (l *nameLister) add(name *ast.Ident, documented bool, format string, args ...any) {
	if name.IsExported() {
		l.names = append(l.names, publicName{fmt.Sprintf(format, args...), l.at(name.Pos()), documented})
	}
}

func (l *nameLister) function(decl *ast.FuncDecl) {
	documented := decl.Doc != nil
	signature := strings.TrimPrefix(l.source(decl.Type), "func")
	if decl.Recv == nil {
		l.add(decl.Name, documented, "func %s%s", decl.Name.Name, signature)
		return
	}
	receiver := l.source(decl.Recv.List[0].Type)
	if base, _, _ := strings.Cut(strings.TrimPrefix(receiver, "*"), "["); token.IsExported(base) {
		l.add(decl.Name, documented, "method (%s) %s%s", receiver, decl.Name.Name, signature)
	}
}

func (l *nameLister) typ(spec *ast.TypeSpec, documented bool) {
	name := spec.Name.Name
	kind := l.source(spec.Type)
	if spec.Assign.IsValid() {
		kind = "= " + kind
	}
	var members *ast.FieldList
	var word string
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		kind, members, word = "struct", typ.Fields, "field"
	case *ast.InterfaceType:
		kind, members, word = "interface", typ.Methods, "interface method"
	}
	l.add(spec.Name, documented, "type %s %s", name, kind)
	if members == nil || !spec.Name.IsExported() {
		return
	}
	for _, member := range members.List {
		documented := member.Doc != nil || member.Comment != nil
		typ := l.source(member.Type)
		if len(member.Names) == 0 { // the type's own doc says why something is embedded
			base := typ[strings.LastIndexAny(typ, "*.")+1:]
			l.add(&ast.Ident{Name: base, NamePos: member.Pos()}, true, "%s %s: embedded %s", word, name, typ)
		}
		for _, id := range member.Names {
			l.add(id, documented, "%s %s.%s %s", word, name, id.Name, typ)
		}
	}
}

// source is a node as gofmt prints it, on one line.
func (l *nameLister) source(node ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, l.fset, node); err != nil {
		panic(err) // a bytes.Buffer takes everything and the node comes from the parser
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestExportedNamesAreFound(t *testing.T) {
	t.Parallel()

	const src = `package p
// A is documented.
type A struct {
	*B
	hidden int
	X, Y int // both
	Z map[string]func(int) error
}
func (a *A) Close() error { return nil }
func (b b) Close() {}
func New[T any](opts ...T) (*A, error) { return nil, nil }
const (
	C = 1
	// D is documented.
	D = 2
)
// Errors.
var ( ErrX, errY = 1, 2 )
type ( I interface { M(x int) }; T = A; b int )
`
	got := map[string]bool{}
	for _, name := range exportedNames(parseGo(t, "a.go", []byte(src))) {
		got[name.line] = name.documented
	}
	require.Equal(t, map[string]bool{
		"type A struct": true, "field A: embedded *B": true, "field A.X int": true, "field A.Y int": true,
		"field A.Z map[string]func(int) error": false, "method (*A) Close() error": false,
		"func New[T any](opts ...T) (*A, error)": false, "const C": false, "const D": true, "var ErrX": true,
		"type I interface": false, "interface method I.M func(x int)": false, "type T = A": false,
	}, got)
}
