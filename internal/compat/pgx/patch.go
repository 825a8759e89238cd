package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
)

// An edit replaces the bytes from start to end of a source file.
type edit struct {
	start, end int
	text       string
}

// places counts what was rewritten in one file. The counts are part of the
// program: when a new version of pgx opens a pool in one more place, the suite
// would silently test the bare driver there, so a difference is an error.
type places struct {
	openDB     int // stdlib.OpenDB(config, options...)
	openPool   int // stdlib.OpenDBFromPool(pool)
	sqlOpen    int // sql.Open(name, dsn)
	rawConn    int // x.(*stdlib.Conn)
	background int // context.Background()
	noContext  int // db.Query(...) and the others that take no context
}

// stdlibTests lists the files of pgx's stdlib suite that touch a pool, with
// the places that version 5.12.0 has.
var stdlibTests = map[string]places{
	"sql_test.go":        {openDB: 4, openPool: 1, sqlOpen: 4, rawConn: 5},
	"sql_go1.27_test.go": {openDB: 1},
}

// contextForms maps the methods without a context to the text that calls the
// same method with one; the arguments follow.
var contextForms = map[string]string{
	"Query":    "QueryContext(routedContext()",
	"QueryRow": "QueryRowContext(routedContext()",
	"Exec":     "ExecContext(routedContext()",
	"Prepare":  "PrepareContext(routedContext()",
	"Ping":     "PingContext(routedContext()",
	"Begin":    "BeginTx(routedContext(), nil",
}

// poolVariables are the names that the suite gives to values of database/sql.
// Values of pgx itself, whose methods have the same names, are called conn.
var poolVariables = []string{"db", "tx", "stmt", "createStmt", "insertStmt", "controllerConn"}

// patchSuite rewrites the stdlib tests in dir so that every pool they open is
// opened by openRouted and its kin, every assertion of the native connection's
// type goes through native, and every statement has the context of
// routedContext. All of them are declared in routed_test.go.txt.
func patchSuite(dir string) error {
	for name, want := range stdlibTests {
		path := filepath.Join(dir, name)
		src, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the suite: %w", err)
		}
		out, got, err := patchFile(name, src)
		if err != nil {
			return err
		}
		// How often a test names a context is no property of the patch; that
		// there are any tells that the rewrite found its names.
		if name == "sql_test.go" && (got.background == 0 || got.noContext == 0) {
			return fmt.Errorf("patch %s: found no statement to give a session to", name)
		}
		got.background, got.noContext = 0, 0
		if got != want {
			return fmt.Errorf("patch %s: found %+v, want %+v: look at what changed in pgx and adapt", name, got, want)
		}
		// The last use of the import may be gone.
		out = append(out, "\nvar _ = stdlib.GetDefaultDriver\n"...)
		if err := os.WriteFile(path, out, 0o600); err != nil {
			return fmt.Errorf("patch %s: %w", name, err)
		}
	}
	return nil
}

// patchFile returns src with the edits of [patchSuite] and how many of each
// kind there were.
func patchFile(name string, src []byte) ([]byte, places, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, places{}, fmt.Errorf("parse %s: %w", name, err)
	}
	var found places
	var edits []edit
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	replace := func(from, to token.Pos, text string) {
		edits = append(edits, edit{offset(from), offset(to), text})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch {
			case isSelector(n.Fun, "stdlib", "OpenDB"):
				found.openDB++
				replace(n.Pos(), n.Lparen+1, "openRouted(t, ")
			case isSelector(n.Fun, "stdlib", "OpenDBFromPool"):
				found.openPool++
				replace(n.Pos(), n.Lparen+1, "openRoutedPool(t, ")
			case isSelector(n.Fun, "sql", "Open"):
				found.sqlOpen++
				replace(n.Pos(), n.Lparen+1, "openRoutedName(t, ")
			case isSelector(n.Fun, "context", "Background"):
				found.background++
				replace(n.Pos(), n.End(), "routedContext()")
			default:
				form, ok := withoutContext(n.Fun)
				if !ok {
					break
				}
				found.noContext++
				if len(n.Args) > 0 {
					form += ", "
				}
				replace(n.Fun.(*ast.SelectorExpr).Sel.Pos(), n.Lparen+1, form)
			}
		case *ast.TypeAssertExpr:
			if star, ok := n.Type.(*ast.StarExpr); ok && isSelector(star.X, "stdlib", "Conn") {
				found.rawConn++
				replace(n.Pos(), n.X.Pos(), "native(")
				replace(n.X.End(), n.End(), ")")
			}
		}
		return true
	})
	out, err := apply(src, edits)
	if err != nil {
		return nil, places{}, fmt.Errorf("patch %s: %w", name, err)
	}
	return out, found, nil
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func withoutContext(e ast.Expr) (form string, ok bool) {
	sel, isSel := e.(*ast.SelectorExpr)
	if !isSel {
		return "", false
	}
	id, isIdent := sel.X.(*ast.Ident)
	if !isIdent || !slices.Contains(poolVariables, id.Name) {
		return "", false
	}
	form, ok = contextForms[sel.Sel.Name]
	return form, ok
}

// apply makes the edits, which may not overlap.
func apply(src []byte, edits []edit) ([]byte, error) {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	at := 0
	for _, e := range edits {
		if e.start < at {
			return nil, errors.New("two edits overlap")
		}
		out = append(out, src[at:e.start]...)
		out = append(out, e.text...)
		at = e.end
	}
	return append(out, src[at:]...), nil
}
