// Package mysql knows how MySQL and MariaDB servers are asked for their identity, role and position, and what their errors
// mean to a router. It does not import database/sql.
//
// Nothing here asks for more than the rights of an application's own user. What such a user is not told, how healthy a
// replica is, is said in words (Report.Missing) and counts as not healthy.
package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Engine asks servers of one kind. The zero Engine is MySQL's. It is a value, and safe for concurrent use.
type Engine struct {
	// MariaDB says that the servers are MariaDB, 10.6 or later, and not MySQL, 8.0 or later.
	MariaDB bool
}

// Name is the kind's name, as its makers write it.
func (e Engine) Name() string {
	if e.MariaDB {
		return "MariaDB"
	}
	return "MySQL"
}

// Dialect is the language of its statements.
func (e Engine) Dialect() sqlclass.Dialect {
	if e.MariaDB {
		return sqlclass.MariaDB
	}
	return sqlclass.MySQL
}

// Kind is that of its positions.
func (e Engine) Kind() core.Kind {
	if e.MariaDB {
		return core.KindMariaDB
	}
	return core.KindMySQL
}

// ErrUnsupported is returned, wrapped, for a server that this package does not know how to treat.
var ErrUnsupported = errors.New("readroute: server not supported")

// versionSQL tells what a server is. A proxy may have its own answer to it, which is then what its clients are to believe.
const versionSQL = "SELECT VERSION()"

// Detect asks a server what it is. A data source name does not tell.
func Detect(ctx context.Context, link monitor.Link) (Engine, error) {
	row, err := link.QueryRow(ctx, versionSQL)
	if err != nil {
		return Engine{}, fmt.Errorf("ask the server for its version: %w", err)
	}
	if len(row) != 1 {
		return Engine{}, errors.New("ask the server for its version: it gave no answer")
	}
	return EngineOf(row[0])
}

// EngineOf reads what VERSION() says: "8.4.2", "10.11.19-MariaDB-log", or "5.5.5-10.11.19-MariaDB", which is MariaDB before
// clients that know of no version above 5.
func EngineOf(version string) (Engine, error) {
	e := Engine{MariaDB: strings.Contains(version, "MariaDB")}
	number := version
	if e.MariaDB {
		number = strings.TrimPrefix(number, "5.5.5-")
	}
	major, minor, ok := majorMinor(number)
	switch {
	case !ok:
		return Engine{}, fmt.Errorf("%w: its version %q does not begin with a number", ErrUnsupported, version)
	case strings.Contains(version, "TiDB"):
		return Engine{}, fmt.Errorf("%w: TiDB (version %q) has no GTIDs", ErrUnsupported, version)
	case e.MariaDB && (major < 10 || major == 10 && minor < 6):
		return Engine{}, fmt.Errorf("%w: MariaDB %d.%d is older than 10.6", ErrUnsupported, major, minor)
	case !e.MariaDB && major < 8:
		return Engine{}, fmt.Errorf("%w: MySQL %d.%d is older than 8.0", ErrUnsupported, major, minor)
	}
	return e, nil
}

func majorMinor(version string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(second)
	return major, minor, err1 == nil && err2 == nil
}

var _ monitor.Engine = Engine{}
