package core

import (
	"context"
	"sync/atomic"
	"time"
)

// Capture is one position read on the primary that serves every write that joined it before it began. It is a future:
// sessions hold it, and nobody keeps a list of them.
type Capture struct {
	order  uint64 // of two captures that anybody may join, the one with the higher order begins later
	asked  time.Time
	done   chan struct{}
	result atomic.Pointer[CaptureResult]
	hurry  func()
	// OnVerdict hears what the result tells of a session's write or position, on the goroutine that looks first, once for each session.
	// It may be nil, must not block, and is set before anybody joins.
	OnVerdict func(Verdict)
	// Seen is set when a session looks at the result. It may be nil, and is set before anybody joins.
	Seen *atomic.Bool
}

// captureOrder counts captures.
var captureOrder atomic.Uint64

// CaptureResult is what a position read found. Role, identity and position come from one statement.
type CaptureResult struct {
	Position Position // rounded down at a page boundary
	// Need is what a write asks of later reads that this read covers; zero when that is Position.
	Need  Position
	Since time.Time // before the connection was opened that it was read on
	Saw   Position  // all that a read could see before it is at or below
	// Committing names all transactions that may be in the log and that reads on the primary do not see yet, among others, if
	// the capture was asked for them. A replica may show them already.
	Committing []string
	History    MariaDBGTID // MariaDB: what the server has logged or replayed, by domain and server
	Reported   LSN         // as the server said it
	Recovered  LSN         // as in Sample
	// TimelineFloor is a timeline that Position is on or past, when its own is not known.
	TimelineFloor uint32
	Start         Start     // of the server that answered
	At            time.Time // when its answer had come: whatever is at or below Position was written before
	Err           error     // the capture was given up
}

func (r *CaptureResult) need() Position {
	if r.Need.IsZero() {
		return r.Position
	}
	return r.Need
}

// NewCapture returns a capture that has not begun. hurry asks its owner to run it at once; it must not block.
func NewCapture(hurry func()) *Capture {
	return &Capture{order: captureOrder.Add(1), asked: time.Now(), done: make(chan struct{}), hurry: hurry}
}

// Complete publishes the result. It must be called once.
func (c *Capture) Complete(r CaptureResult) {
	c.result.Store(&r)
	close(c.done)
}

// Result returns the result, or nil while there is none.
func (c *Capture) Result() *CaptureResult { return c.result.Load() }

// look returns the result for a session, or nil while there is none.
func (c *Capture) look() *CaptureResult {
	r := c.result.Load()
	if r != nil && c.Seen != nil && !c.Seen.Load() {
		c.Seen.Store(true)
	}
	return r
}

// Asked returns when it was asked for.
func (c *Capture) Asked() time.Time { return c.asked }

// Done is closed when there is a result.
func (c *Capture) Done() <-chan struct{} { return c.done }

// Wait asks for the capture to run at once and waits for its result or the end of ctx.
func (c *Capture) Wait(ctx context.Context) error {
	if r := c.result.Load(); r != nil {
		return r.Err
	}
	if c.hurry != nil {
		c.hurry()
	}
	select {
	case <-c.done:
		return c.result.Load().Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
