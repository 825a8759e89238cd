package suite

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEditsAreMadeInTheOrderOfTheText(t *testing.T) {
	src := []byte("package p\n\nvar a, b = 1, 2\n")
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", src, 0)
	require.NoError(t, err)
	at := func(offset int) token.Pos { return file.FileStart + token.Pos(offset) }

	e := NewEdits(fset)
	e.Replace(at(22), at(23), "10")
	e.Replace(at(15), at(16), "x")
	e.Replace(at(26), at(26), "0")
	out, err := e.Apply(src)
	require.NoError(t, err)
	require.Equal(t, "package p\n\nvar x, b = 10, 20\n", string(out))

	e.Replace(at(14), at(16), "")
	_, err = e.Apply(src)
	require.Error(t, err)
}
