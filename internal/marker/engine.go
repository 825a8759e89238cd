package marker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/sqlclass"
	"github.com/readroute/readroute/internal/vconn"
)

// Base is what is known of the servers beside their positions.
type Base interface {
	vconn.Engine
	// Name is the kind's name, as its makers write it; Dialect the language of its statements.
	Name() string
	Dialect() sqlclass.Dialect
}

// Options say how a marker table is used.
type Options struct {
	Table   Table
	Writers *Writers
	// StateSQL asks a server for its role, "primary" or "replica", and in a second column, if it has one, for what changes with each
	// run of the server. When it is empty the roles are those of the configuration.
	StateSQL string
}

// Engine asks servers for their positions by a marker table, and for all else what Base asks. Two are equal when they are of
// the same pool and base. It is safe for concurrent use.
type Engine struct {
	Base
	options *Options
}

// New returns the engine of a pool.
func New(base Base, options *Options) Engine { return Engine{base, options} }

// rowsLink is a link that can read more than a row.
type rowsLink interface {
	Query(ctx context.Context, query string) (columns []string, rows [][]string, err error)
}

// Ask implements monitor.Engine. What tells the role is asked before the position, so that a server that is the primary was
// it at the time of the position or later. One without the table has a sample without a position.
func (e Engine) Ask(ctx context.Context, link monitor.Link) (core.Sample, error) {
	s, _, err := e.look(ctx, link)
	return s, err
}

// Capabilities implements the pools' engine.
func (e Engine) Capabilities(ctx context.Context, link monitor.Link) []string {
	s, missing, err := e.look(ctx, link)
	if err != nil || missing == nil {
		return nil // the probe that follows says why
	}
	if s.Role == core.RoleReplica {
		return []string{fmt.Sprintf("the replica does not show the marker table %s (%v), so it serves nothing that must be fresh until it has come there", e.options.Table, missing)}
	}
	return []string{fmt.Sprintf("there is no marker table %s to be read (%v), so sessions are on the sticky window: make it with CreateMarker, "+
		"and let the user read and write it", e.options.Table, missing)}
}

// look asks who the server is and how far it is. missing is why it has no position.
func (e Engine) look(ctx context.Context, link monitor.Link) (s core.Sample, missing, err error) {
	began := time.Now()
	node, _ := link.(*placedLink)
	if node == nil {
		return s, nil, errors.New("ask the server: nobody has said which node it is")
	}
	if s, err = e.state(ctx, node); err != nil {
		return s, nil, err
	}
	s.Began = began
	s.Position, err = e.position(ctx, node)
	if err != nil {
		// A server that still answers does not have the table, or does not let the user read it.
		if _, answers := node.QueryRow(ctx, "SELECT 1"); answers != nil || ctx.Err() != nil {
			return core.Sample{}, nil, err
		}
		missing = err
	}
	s.Reported = s.Position.LSN
	if s.Role == core.RolePrimary {
		s.Flush = s.Position.LSN
	}
	s.Own = e.options.Writers.own(s.Position)
	return s, missing, nil
}

// state asks for role and identity. Without StateSQL the first node of the configuration is the primary, unless its own server
// says that it is not: it is read-only.
func (e Engine) state(ctx context.Context, node *placedLink) (core.Sample, error) {
	var asked core.Sample
	if _, silent := e.Base.(Generic); !silent {
		var err error
		if asked, err = e.Base.Ask(ctx, node.Link); err != nil {
			return core.Sample{}, err
		}
	}
	s := core.Sample{Start: asked.Start, Role: core.RoleReplica}
	if s.Start.IsZero() {
		s.Start = core.Start{System: uint64(node.number) + 1, At: 1} // one run for ever, as far as anybody can tell
	}
	switch {
	case e.options.StateSQL != "":
		row, err := node.QueryRow(ctx, e.options.StateSQL)
		if err != nil {
			return s, fmt.Errorf("ask the server for its role by Marker.StateSQL: %w", err)
		}
		if len(row) != 1 && len(row) != 2 {
			return s, fmt.Errorf("ask the server for its role by Marker.StateSQL: %d columns instead of 1 or 2", len(row))
		}
		switch strings.ToLower(row[0]) {
		case "primary":
			s.Role = core.RolePrimary
		case "replica":
		default:
			return s, fmt.Errorf("ask the server for its role by Marker.StateSQL: the answer is %.40q, neither primary nor replica", row[0])
		}
		if len(row) == 2 && row[1] != "" {
			s.Start.At = hash(row[1])
		}
	case node.number == 0 && (asked.Role != core.RoleReplica || asked.Claim != nil):
		s.Role = core.RolePrimary
	}
	if s.Role == core.RoleReplica {
		s.HasSource, s.SourceUnknown = asked.HasSource, asked.SourceUnknown
		if asked.Role != core.RoleReplica {
			s.SourceUnknown = true // it is fed by something that the server does not know of
		}
		s.SourceLag, s.SourceLagKnown = asked.SourceLag, asked.SourceLagKnown
	}
	return s, nil
}

// position reads the table.
func (e Engine) position(ctx context.Context, node *placedLink) (core.Position, error) {
	var rows [][]string
	if e.Dialect() == sqlclass.PostgreSQL {
		row, err := node.QueryRow(ctx, e.options.Table.ReadTextSQL())
		if err != nil {
			return core.Position{}, err
		}
		if len(row) != 1 {
			return core.Position{}, errors.New("the server gave no answer")
		}
		rows = textRows(row[0])
	} else {
		link, ok := node.Link.(rowsLink)
		if !ok {
			return core.Position{}, errors.New("the connection reads one row only")
		}
		var err error
		if _, rows, err = link.Query(ctx, e.options.Table.ReadSQL()); err != nil {
			return core.Position{}, err
		}
	}
	p, err := Position(rows)
	if err != nil {
		return p, fmt.Errorf("read the marker table %s: %w", e.options.Table, err)
	}
	return p, nil
}

// hash makes a number of a text that tells one run of a server from another.
func hash(text string) int64 {
	h := fnv.New64a()
	h.Write([]byte(text)) //nolint:errcheck // it never fails
	return int64(h.Sum64() | 1)
}

// Committing implements monitor.Engine.
func (e Engine) Committing(ctx context.Context, link monitor.Link) ([]string, error) {
	if node, ok := link.(*placedLink); ok {
		link = node.Link
	}
	return e.Base.Committing(ctx, link)
}

// Gone implements monitor.Engine.
func (e Engine) Gone(ctx context.Context, link monitor.Link, b monitor.Backend, end bool) (bool, error) {
	if node, ok := link.(*placedLink); ok {
		link = node.Link
	}
	return e.Base.Gone(ctx, link, b, end)
}

// Need implements monitor.Engine: what this process has written, or all when it has written nothing.
func (e Engine) Need(_, s core.Sample) core.Position {
	if s.Own.IsZero() {
		return s.Position
	}
	return s.Own
}
