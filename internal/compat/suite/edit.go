package suite

import (
	"cmp"
	"errors"
	"go/ast"
	"go/token"
	"slices"
)

// Edits are changes of one source file that has been parsed.
type Edits struct {
	fset  *token.FileSet
	edits []edit
}

// An edit replaces the bytes from start to end.
type edit struct {
	start, end int
	text       string
}

// NewEdits returns none, for a file of fset.
func NewEdits(fset *token.FileSet) *Edits { return &Edits{fset: fset} }

// Replace replaces what is between two positions. An empty range inserts.
func (e *Edits) Replace(from, to token.Pos, text string) {
	e.edits = append(e.edits, edit{e.fset.Position(from).Offset, e.fset.Position(to).Offset, text})
}

// Apply returns src, which the positions are of, with the edits made. They may
// not overlap.
func (e *Edits) Apply(src []byte) ([]byte, error) {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	at := 0
	for _, e := range e.edits {
		if e.start < at {
			return nil, errors.New("two edits overlap")
		}
		out = append(out, src[at:e.start]...)
		out = append(out, e.text...)
		at = e.end
	}
	return append(out, src[at:]...), nil
}

// IsSelector reports that an expression is pkg.name.
func IsSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}
