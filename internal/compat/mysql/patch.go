package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"

	"github.com/readroute/readroute/internal/compat/suite"
)

const driverModule = "github.com/go-sql-driver/mysql"

// The suite is a part of the driver's package. What it opens pools with cannot
// import the library, which imports that package, and is in two files: one is
// inside the package, the other outside.
var (
	//go:embed opening_test.go.txt
	openingTest []byte
	//go:embed routed_test.go.txt
	routedTest []byte
)

// places counts what was rewritten in one file. The counts are part of the
// program: when a new version of the driver opens a pool in one more place, the
// suite would silently test the bare driver there, so a difference is an error.
type places struct {
	sqlOpen  int // sql.Open(name, dsn)
	openDB   int // sql.OpenDB(connector)
	rawConn  int // conn.(T), where conn is what Raw hands out
	dial     int // a context of dialsItself
	conn     int // db.Conn(ctx) in dialsItself
	checkout int // a statement of oneCheckout
	dsn      int // the data source name of staleTest
	connErr  int // hijack.connErr
	canceled int // the first err != context.Canceled in losesAnswer
}

// suiteTests lists the files of the driver's suite that touch a pool, with the
// places that version 1.10.1 has. Benchmarks are not run.
var suiteTests = map[string]places{
	"driver_test.go":    {sqlOpen: 13, openDB: 4, rawConn: 4, dial: 5, conn: 1, checkout: 2, connErr: 1, canceled: 4},
	"conncheck_test.go": {dsn: 1},
}

// untouched lists the files that may open pools and are left alone.
var untouched = []string{"benchmark_test.go"}

// dialsItself lists the tests that dial with a function of their own, which
// knows of no connections but those that the test asks for. The library has
// some for itself; the context tells which is which.
var dialsItself = []string{
	"testDialError",
	"TestCustomDial",
	"TestConnectorObeysDialTimeouts",
	"TestConnectorTimeoutsDuringOpen",
	"TestConnectorTimeoutsWatchCancel",
}

// losesAnswer lists the tests that cancel a write which is under way, and then
// may try another. Nobody can say whether the first stands, and the library's
// error says so, over the driver's.
var losesAnswer = []string{
	"TestContextCancelExec",
	"TestContextCancelQuery",
	"TestContextCancelStmtExec",
	"TestContextCancelStmtQuery",
}

const (
	// oneCheckout sets a session to read-only in one statement on the pool and
	// looks for that in another, which works while nobody else uses the pool.
	// Session state ends with the checkout on the routed pool, so that these
	// statements run on a *sql.Conn.
	oneCheckout = "TestRejectReadOnly"
	// staleTest looks at what becomes of a connection that the server has
	// closed, and so lets the server close it by a session setting. That would end
	// with the checkout, too, and is made one of every connection of the pool.
	staleTest = "TestStaleConnectionChecks"
)

// prepare copies the driver twice, and edits one copy.
func prepare(ctx context.Context, work string) (bareDir, routedDir string, err error) {
	checkout, version, err := suite.Checkout(ctx)
	if err != nil {
		return "", "", err
	}
	source, err := suite.Source(ctx, checkout, driverModule)
	if err != nil {
		return "", "", err
	}
	bareDir, routedDir = filepath.Join(work, "bare"), filepath.Join(work, "routed")
	for _, dir := range []string{bareDir, routedDir} {
		if err := suite.CopyTree(dir, source); err != nil {
			return "", "", fmt.Errorf("copy the driver: %w", err)
		}
	}
	if err := patchSuite(routedDir); err != nil {
		return "", "", err
	}
	for name, text := range map[string][]byte{"opening_test.go": openingTest, "routed_test.go": routedTest} {
		if err := os.WriteFile(filepath.Join(routedDir, name), text, 0o600); err != nil {
			return "", "", err
		}
	}
	// The language and the defaults are those of the go.mod: the same for both.
	if _, err := suite.Output(ctx, bareDir, "", "go", "mod", "edit", "-go="+version); err != nil {
		return "", "", err
	}
	return bareDir, routedDir, suite.RequireRouted(ctx, routedDir, checkout, version)
}

// patchSuite rewrites the tests in dir so that every pool they open is opened
// by openRouted or openRoutedConnector, every assertion of the native
// connection's type goes through Unwrap, and the tests named above ask for what
// they need. All of it is declared in opening_test.go.txt.
func patchSuite(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err
	}
	found := 0
	for _, path := range names {
		name := filepath.Base(path)
		if slices.Contains(untouched, name) {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the suite: %w", err)
		}
		out, got, err := patchFile(name, src)
		if err != nil {
			return err
		}
		want, listed := suiteTests[name]
		if got != want {
			return fmt.Errorf("patch %s: found %+v, want %+v: look at what changed in the driver and adapt", name, got, want)
		}
		if listed {
			found++
		}
		if bytes.Equal(src, out) {
			continue
		}
		if err := os.WriteFile(path, out, 0o600); err != nil {
			return fmt.Errorf("patch %s: %w", name, err)
		}
	}
	if found != len(suiteTests) {
		return fmt.Errorf("patch the suite: %d of its %d files are not there", len(suiteTests)-found, len(suiteTests))
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
		p.test, p.canceled = "", false
		if f, ok := decl.(*ast.FuncDecl); ok {
			p.test = f.Name.Name
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
	test     string // the function that is visited
	canceled bool   // its first such comparison is found
	found    places
	edits    *suite.Edits
}

func (p *patch) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		p.visitCall(n)
	case *ast.BinaryExpr:
		p.visitComparison(n)
	case *ast.TypeAssertExpr:
		if id, ok := n.X.(*ast.Ident); ok && id.Name == "conn" {
			p.found.rawConn++
			p.edits.Replace(n.X.Pos(), n.X.End(), "Unwrap(conn)")
		}
	}
	return true
}

func (p *patch) visitCall(n *ast.CallExpr) {
	dials := slices.Contains(dialsItself, p.test)
	switch {
	case suite.IsSelector(n.Fun, "sql", "Open"):
		p.found.sqlOpen++
		p.edits.Replace(n.Pos(), n.Lparen+1, "openRouted(t, ")
	case suite.IsSelector(n.Fun, "sql", "OpenDB"):
		p.found.openDB++
		p.edits.Replace(n.Pos(), n.Lparen+1, "openRoutedConnector(t, ")
	case dials && suite.IsSelector(n.Fun, "context", "Background"):
		p.found.dial++
		p.edits.Replace(n.Pos(), n.End(), "dialContext()")
	case dials && suite.IsSelector(n.Fun, "db", "Exec"):
		p.found.dial++
		p.edits.Replace(n.Pos(), n.Lparen+1, "db.ExecContext(dialContext(), ")
	case dials && suite.IsSelector(n.Fun, "db", "Conn"):
		// A checkout has no connection before its first statement.
		p.found.conn++
		p.edits.Replace(n.Pos(), n.Lparen+1, "db.ExecContext(")
		p.edits.Replace(n.Rparen, n.Rparen, `, "DO 1"`)
	case p.test == oneCheckout && isPoolMethod(n.Fun, "Exec"):
		p.found.checkout++
		p.edits.Replace(n.Pos(), n.Lparen+1, "checkout(dbt).ExecContext(context.Background(), ")
	case p.test == staleTest && isName(n.Fun, "runTestsParallel") && len(n.Args) > 1 && isName(n.Args[1], "dsn"):
		p.found.dsn++
		p.edits.Replace(n.Args[1].End(), n.Args[1].End(), ` + "&wait_timeout=2"`)
	}
}

func (p *patch) visitComparison(n *ast.BinaryExpr) {
	switch {
	case n.Op != token.NEQ:
	case suite.IsSelector(n.X, "hijack", "connErr"):
		// The library does not take a connector that it cannot see through, so that
		// this one is never asked. What it would see is the error of the statement.
		p.found.connErr++
		p.edits.Replace(n.X.Pos(), n.X.End(), "err")
	case !p.canceled && slices.Contains(losesAnswer, p.test) && isName(n.X, "err") && suite.IsSelector(n.Y, "context", "Canceled"):
		p.canceled = true
		p.found.canceled++
		p.edits.Replace(n.Pos(), n.End(), "!isCanceled(err)")
	}
}

// isPoolMethod reports that an expression is dbt.db.name.
func isPoolMethod(e ast.Expr, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name && suite.IsSelector(sel.X, "dbt", "db")
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
