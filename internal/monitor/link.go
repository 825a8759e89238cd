package monitor

import (
	"context"

	"github.com/readroute/readroute/internal/core"
)

// Link is a connection of the monitor's own to one node.
type Link interface {
	// QueryRow runs a statement without arguments and returns its one row as text. It must honour ctx.
	QueryRow(ctx context.Context, query string) ([]string, error)
	// Close closes the connection.
	Close() error
}

// Wire is what can be asked of one connection of a driver without asking the server.
type Wire interface {
	// Link returns a way to ask on the connection, without leaving a trace in its session.
	Link() Link
	// OwnLink returns a way to ask on a connection that nobody else uses: it may leave prepared statements in its session.
	OwnLink() Link
	// InTx reports whether it has an open transaction. known is false when that cannot be told.
	InTx() (open, known bool)
	// Broken reports that it is known to be of no use any more.
	Broken() bool
	// HungUp reports that the server has ended it while it was idle, as far as that can be told without sending.
	HungUp() bool
	// Interrupt makes whatever waits for an answer on it fail, which breaks it. It is called while another goroutine
	// uses the connection.
	Interrupt()
}

// Dialer opens a Link. It must honour ctx.
type Dialer func(ctx context.Context) (Link, error)

// Backend names one server-side session on one run of a server. The zero Backend cannot be looked for.
type Backend struct {
	PID   uint32
	Start int64 // when it began, in the server's own measure
}

// Engine is how servers of one kind are asked.
type Engine interface {
	// Ask reads identity, role and position of the server at the other end, these in one statement. Began and Ended are the
	// caller's to fill in.
	Ask(ctx context.Context, link Link) (core.Sample, error)
	// Committing names all transactions that may be in the primary's log and that reads there do not see yet, among others; none
	// when the server does not tell.
	Committing(ctx context.Context, link Link) ([]string, error)
	// Need returns what a write asks of later reads that the primary's sample s covers, when base is the first sample of
	// the primary that this process took; the zero Position when that is the whole of s.Position.
	Need(base, s core.Sample) core.Position
	// Gone reports that the server session b is over, so that nothing that it was doing goes on; with end it is ended first, which
	// may take until the next call. b is not zero. The link must be one to the server of b.
	Gone(ctx context.Context, link Link, b Backend, end bool) (bool, error)
}
