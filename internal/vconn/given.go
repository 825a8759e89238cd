package vconn

import (
	"database/sql/driver"
	"reflect"
	"slices"
)

// given are the arguments of a statement that goes the short way, for when it has to go the long one. Where the driver may be asked
// twice to take the same ones, they are those that are bound: a copy of all costs as much as many another step.
type given struct {
	bound []driver.NamedValue
	copy  *arguments
}

// again binds the arguments as database/sql does.
//
//go:noinline
func (g *given) again(p *physical) ([]driver.NamedValue, error) { return bind(p, nil, g.fresh()) }

// drop forgets the copy, which belongs to the virtual connection.
func (g *given) drop() {
	if g.copy != nil {
		*g.copy = arguments{}
	}
}

// fresh returns them as they were given, or as good.
func (g *given) fresh() []driver.NamedValue {
	if g.copy != nil {
		return g.copy.fresh(nil)
	}
	return slices.Clone(g.bound)
}

// rebinds reports that a driver takes an argument that it has bound as it took it before: pgx leaves all as they are, and what
// go-sql-driver/mysql makes of one it makes of that again. A wrapper may do otherwise.
func rebinds(native driver.Conn) bool { return isOf(native, pgxStdlib) || isOf(native, goSQLDriver) }

const (
	pgxStdlib   = "github.com/jackc/pgx/v5/stdlib"
	goSQLDriver = "github.com/go-sql-driver/mysql"
)

// isOf reports that a connection is a driver's own, and not a wrapper of it.
func isOf(native driver.Conn, path string) bool {
	t := reflect.TypeOf(native)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == path
}
