package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// switchFile is added to the package that all others import. The variable says which guard is off; 0 is none.
const (
	switchFile = "internal/core/mutant.go"
	switchText = `package core

import (
	"os"
	"strconv"
)

// Mutant is the guard that is off.
var Mutant, _ = strconv.Atoi(os.Getenv("` + switchVariable + `"))
`
	switchVariable = "READROUTE_MUTANT"
	switchImport   = `import mutants "github.com/readroute/readroute/internal/core"`
)

// numbered is a guard with its number, from 1 on.
type numbered struct {
	number int
	*guard
}

// weave returns the text of a file in which every guard can be switched off while it runs, so that one build does for all of
// them: the function that has a guard is there a second time without it, and the first one begins by asking which is meant.
func weave(text string, list []numbered) (string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	variable, imported := "mutants.Mutant", switchImport
	if file.Name.Name == "core" {
		variable, imported = "Mutant", ""
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	asks := map[int]string{} // by where they go
	var copies strings.Builder
	for _, g := range list {
		if _, err := g.mutate(text); err != nil {
			return "", fmt.Errorf("%s: %w", g.name, err)
		}
		where := strings.Index(text, g.old)
		f := enclosing(file, func(n ast.Node) bool { return at(n.Pos()) <= where && where+len(g.old) <= at(n.End()) })
		if f == nil {
			return "", fmt.Errorf("%s: %q is in no function", g.name, g.old)
		}
		source := func(n ast.Node) string { return text[at(n.Pos()):at(n.End())] }
		name := fmt.Sprintf("%sMutant%d", f.Name.Name, g.number)
		fmt.Fprintf(&copies, "\n%s%s%s\n", text[at(f.Pos()):at(f.Name.Pos())], name,
			strings.Replace(text[at(f.Name.End()):at(f.End())], g.old, g.new, 1))
		call := fmt.Sprintf("%s%s(%s)", receiver(f, source), name, arguments(f, source))
		if f.Type.Results == nil {
			call += "; return"
		} else {
			call = "return " + call
		}
		asks[at(f.Body.Lbrace)+1] += fmt.Sprintf(" if %s == %d { %s };", variable, g.number, call)
	}
	var b strings.Builder
	asks[at(file.Name.End())] = "\n" + imported
	for i := range len(text) {
		b.WriteString(asks[i])
		b.WriteByte(text[i])
	}
	b.WriteString(copies.String())
	return b.String(), nil
}

// enclosing is the function that contains something.
func enclosing(file *ast.File, contains func(ast.Node) bool) *ast.FuncDecl {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && contains(f) {
			return f
		}
	}
	return nil
}

// receiver is what a method's copy is called on.
func receiver(f *ast.FuncDecl, source func(ast.Node) string) string {
	if f.Recv == nil {
		return ""
	}
	r := f.Recv.List[0]
	if len(r.Names) == 0 || r.Names[0].Name == "_" {
		return "(*new(" + source(r.Type) + "))."
	}
	return r.Names[0].Name + "."
}

// arguments hand on what a function was called with.
func arguments(f *ast.FuncDecl, source func(ast.Node) string) string {
	var list []string
	for _, p := range f.Type.Params.List {
		_, variadic := p.Type.(*ast.Ellipsis)
		for _, n := range p.Names {
			switch {
			case n.Name == "_":
				list = append(list, "*new("+source(p.Type)+")")
			case variadic:
				list = append(list, n.Name+"...")
			default:
				list = append(list, n.Name)
			}
		}
		if len(p.Names) == 0 {
			list = append(list, "*new("+source(p.Type)+")")
		}
	}
	return strings.Join(list, ", ")
}
