package marker

import (
	"context"
	"database/sql/driver"

	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/vconn"
)

// placed is the engine of one node: what is asked on a connection of its Wire is asked of that node.
type placed struct {
	vconn.Engine
	number int
}

// At returns the engine of a node by its number in the configuration, 0 being the primary. engine leads to an Engine.
func At(engine vconn.Engine, number int) vconn.Engine { return placed{engine, number} }

// Wire implements vconn.Engine.
func (p placed) Wire(conn driver.Conn) monitor.Wire { return placedWire{p.Engine.Wire(conn), p.number} }

type placedWire struct {
	monitor.Wire
	number int
}

// Link implements monitor.Wire.
func (w placedWire) Link() monitor.Link { return &placedLink{w.Wire.Link(), w.number} }

// OwnLink implements monitor.Wire.
func (w placedWire) OwnLink() monitor.Link { return &placedLink{w.Wire.OwnLink(), w.number} }

// placedLink is a link that knows its node.
type placedLink struct {
	monitor.Link
	number int
}

// Query lets through what the link can.
func (l *placedLink) Query(ctx context.Context, query string) (columns []string, rows [][]string, err error) {
	if r, ok := l.Link.(rowsLink); ok {
		return r.Query(ctx, query)
	}
	row, err := l.QueryRow(ctx, query)
	if row != nil {
		rows = [][]string{row}
	}
	return nil, rows, err
}
