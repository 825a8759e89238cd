package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/readroute/readroute/internal/compat/suite"
)

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
	checkout   int // a test of oneCheckout
	sockets    int // db.Stats() where sockets are counted
}

// stdlibTests lists the files of pgx's stdlib suite that touch a pool, with
// the places that version 5.12.0 has.
var stdlibTests = map[string]places{
	"sql_test.go":        {openDB: 4, openPool: 1, sqlOpen: 4, rawConn: 5, checkout: 8, sockets: 1},
	"sql_go1.27_test.go": {openDB: 1},
}

// oneCheckout lists the tests that make a temporary table in one statement on
// the pool and use it in another, which works while nobody else uses the pool.
// Session state ends with the checkout on the routed pool, so that these tests
// keep one: their statements run on a *sql.Conn.
var oneCheckout = []string{
	"TestConnExec",
	"TestConnQueryJSONIntoByteSlice",
	"TestConnExecInsertByteSliceIntoJSON",
	"TestTransactionLifeCycle",
	"TestStmtExecContextSuccess",
	"TestStmtExecContextCancel",
	"TestConnQueryRowConstraintErrors",
	"TestRowsColumnTypeLength",
}

// ownConnection lists the tests that look at what is on the connection that
// their statements have run on: prepared statements, the log of its config. With
// a session the statements and the look go to two servers, or not, as replay has
// come just so far; so these have none.
var ownConnection = []string{"TestConnMultiplePrepareAndDeallocate", "TestRegisterConnConfig"}

// Two tests look at sockets through the settings and the statistics of the
// pool, which on the routed pool are those of virtual connections.
const (
	countsSockets = "TestCheckIdleConn"            // the last time, when one is to be left
	keepsNoSocket = "TestOptionBeforeAfterConnect" // it sets the idle limit to 0
)

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
	p := patch{edits: suite.NewEdits(fset)}
	for _, decl := range file.Decls {
		p.test, p.onCheckout = "", false
		if f, ok := decl.(*ast.FuncDecl); ok {
			p.test = f.Name.Name
			p.onCheckout = slices.Contains(oneCheckout, p.test)
		}
		ast.Inspect(decl, p.visit)
	}
	out, err := p.edits.Apply(src)
	if err != nil {
		return nil, places{}, fmt.Errorf("patch %s: %w", name, err)
	}
	return out, p.found, nil
}

// patch collects the edits of one file.
type patch struct {
	test       string // the function that is visited
	onCheckout bool   // its statements run on one checkout
	found      places
	edits      *suite.Edits
}

func (p *patch) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		p.visitCall(n)
	case *ast.TypeAssertExpr:
		if star, ok := n.Type.(*ast.StarExpr); ok && suite.IsSelector(star.X, "stdlib", "Conn") {
			p.found.rawConn++
			p.edits.Replace(n.Pos(), n.X.Pos(), "native(")
			p.edits.Replace(n.X.End(), n.End(), ")")
		}
	case *ast.DeferStmt: // the pool is open
		if id, ok := n.Call.Fun.(*ast.Ident); ok && p.onCheckout && id.Name == "closeDB" {
			p.found.checkout++
			p.edits.Replace(n.End(), n.End(), "; kept := checkout(t, db)")
		}
	case *ast.FuncLit: // it is given the pool
		if params := n.Type.Params.List; p.onCheckout && len(params) == 2 && params[1].Names[0].Name == "db" {
			p.found.checkout++
			p.edits.Replace(n.Body.Lbrace+1, n.Body.Lbrace+1, " kept := checkout(t, db)")
		}
	}
	return true
}

func (p *patch) visitCall(n *ast.CallExpr) {
	switch {
	case suite.IsSelector(n.Fun, "stdlib", "OpenDB"):
		p.found.openDB++
		open := "openRouted(t, "
		if p.test == keepsNoSocket {
			open = "openRoutedOnce(t, "
		}
		p.edits.Replace(n.Pos(), n.Lparen+1, open)
	case suite.IsSelector(n.Fun, "stdlib", "OpenDBFromPool"):
		p.found.openPool++
		p.edits.Replace(n.Pos(), n.Lparen+1, "openRoutedPool(t, ")
	case suite.IsSelector(n.Fun, "sql", "Open"):
		p.found.sqlOpen++
		p.edits.Replace(n.Pos(), n.Lparen+1, "openRoutedName(t, ")
	case suite.IsSelector(n.Fun, "context", "Background"):
		p.found.background++
		p.edits.Replace(n.Pos(), n.End(), p.context("routedContext()"))
	case suite.IsSelector(n.Fun, "require", "EqualValues"):
		p.visitSocketCount(n)
	default:
		p.visitStatement(n)
	}
}

// visitSocketCount finds require.EqualValues(t, 1, db.Stats()...).
func (p *patch) visitSocketCount(n *ast.CallExpr) {
	if p.test != countsSockets || len(n.Args) != 3 {
		return
	}
	if one, ok := n.Args[1].(*ast.BasicLit); !ok || one.Value != "1" {
		return
	}
	ast.Inspect(n.Args[2], func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && suite.IsSelector(call.Fun, "db", "Stats") {
			p.found.sockets++
			p.edits.Replace(call.Pos(), call.End(), "sockets(db)")
		}
		return true
	})
}

// visitStatement finds the methods that take no context, and those of a pool
// whose test keeps one checkout.
func (p *patch) visitStatement(n *ast.CallExpr) {
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	on, ok := sel.X.(*ast.Ident)
	if !ok || !slices.Contains(poolVariables, on.Name) {
		return
	}
	form, noContext := contextForms[sel.Sel.Name]
	if p.onCheckout && on.Name == "db" && (noContext || sel.Sel.Name == "PrepareContext") {
		p.edits.Replace(on.Pos(), on.End(), "kept")
	}
	if !noContext {
		return
	}
	p.found.noContext++
	if len(n.Args) > 0 {
		form += ", "
	}
	p.edits.Replace(sel.Sel.Pos(), n.Lparen+1, p.context(form))
}

// context is a text with the context of the test that is visited.
func (p *patch) context(text string) string {
	if slices.Contains(ownConnection, p.test) {
		return strings.Replace(text, "routedContext()", "ownContext()", 1)
	}
	return text
}
