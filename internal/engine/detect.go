package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/mysql"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/sqlclass"
	"github.com/readroute/readroute/internal/vconn"
)

// Engine is how servers of one kind are treated.
type Engine interface {
	vconn.Engine
	// Name is the kind's name, as its makers write it.
	Name() string
	// Dialect is the language of its statements.
	Dialect() sqlclass.Dialect
}

var (
	_ Engine = postgres.Engine{}
	_ Engine = mysql.Engine{}
)

// ErrUnsupported is matched by the error for a server of a kind that is not served.
var ErrUnsupported = mysql.ErrUnsupported

// versionSQL is understood by every server that is served, and by others that may be mistaken for one.
const versionSQL = "SELECT VERSION()"

// Detect asks a server what it is.
func Detect(ctx context.Context, link monitor.Link) (Engine, error) {
	row, err := link.QueryRow(ctx, versionSQL)
	if err != nil {
		return nil, fmt.Errorf("ask the server for its version: %w", err)
	}
	if len(row) != 1 {
		return nil, errors.New("ask the server for its version: it gave no answer")
	}
	return Of(row[0])
}

// Of reads what VERSION() says: "PostgreSQL 16.3 on x86_64 ...", "8.4.2", "10.11.19-MariaDB-log".
func Of(version string) (Engine, error) {
	name, _, _ := strings.Cut(version, " ")
	switch {
	case name == "PostgreSQL" && !strings.Contains(version, "Redshift"):
		return postgres.Engine{}, nil
	case name == "PostgreSQL" || strings.HasPrefix(name, "Cockroach"):
		return nil, fmt.Errorf("%w: %q speaks PostgreSQL's protocol and has no log positions of its kind", ErrUnsupported, version)
	}
	return mysql.EngineOf(version)
}
