package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
)

const (
	// backendPoll is how often a server session of unknown outcome is looked for, and backendPatience how long it may
	// go on before it is ended.
	backendPoll     = 20 * time.Millisecond
	backendPatience = time.Second
	// backendTries is how often the server may fail to say whether a session is gone before that cannot be found out.
	backendTries = 3
	// backendBatch is how many are looked for between two captures, so that captures go on while there are many.
	backendBatch = 16
	// maxUnknown bounds how many writes of unknown outcome are looked after at once.
	maxUnknown = 1000
)

// unknown is a write whose outcome is unknown until its server session is gone.
type unknown struct {
	backend Backend
	writer  core.Start
	until   time.Time // then the session is ended
	tries   int       // how often the server could not say
	capture *core.Capture
}

// JoinWhenGone returns a capture that begins only after the server session b is gone, so that it covers a write whose
// outcome is unknown. ok is false when that cannot be found out.
func (c *Captures) JoinWhenGone(b Backend, writer core.Start) (capture *core.Capture, ok bool) {
	if writer.IsZero() || b.PID == 0 {
		return nil, false
	}
	capture = core.NewCapture(nil)
	capture.OnVerdict = c.OnVerdict
	c.mu.Lock()
	if c.closed || len(c.unknown)+c.looking >= maxUnknown {
		c.mu.Unlock()
		return nil, false
	}
	c.m.awaited.Add(1)
	c.unknown = append(c.unknown, unknown{backend: b, writer: writer, until: time.Now().Add(backendPatience), capture: capture})
	c.mu.Unlock()
	c.signal()
	return capture, true
}

// completeOver gives the writes of runs that are over the result. One whose run has given it goes on being looked for: another server
// had answered under the name.
func (c *Captures) completeOver(r core.CaptureResult) {
	for _, u := range c.over {
		if u.writer != r.Start {
			c.complete(u.capture, r)
			continue
		}
		c.mu.Lock()
		c.unknown = append(c.unknown, u)
		c.mu.Unlock()
	}
	clear(c.over)
	c.over = c.over[:0]
}

// lookForUnknown moves the writes whose server sessions are gone into the batch. One of which the server does not say
// it is given up: it must not keep the others from their captures.
func (c *Captures) lookForUnknown(ctx context.Context) error {
	c.mu.Lock()
	c.looking = min(len(c.unknown), backendBatch)
	list := c.unknown[:c.looking]
	c.unknown = c.unknown[c.looking:]
	c.mu.Unlock()
	var left []unknown
	var firstErr error
	asked := false // the one that failed
	for _, u := range list {
		if firstErr == nil && c.isOver(u) {
			c.over = append(c.over, u)
			continue
		}
		gone := false
		if firstErr == nil {
			gone, firstErr = c.m.cfg.Engine.Gone(ctx, c.link, u.backend, time.Now().After(u.until))
		}
		if firstErr != nil && !asked {
			asked = true
			u.tries++
		}
		switch {
		case gone:
			c.batch = append(c.batch, u.capture)
		case u.tries >= backendTries:
			c.complete(u.capture, core.CaptureResult{Err: fmt.Errorf("look for a server session: %w", firstErr), At: time.Now()})
		default:
			left = append(left, u)
		}
	}
	c.mu.Lock()
	c.unknown, c.looking = append(c.unknown, left...), 0
	c.mu.Unlock()
	return firstErr
}

// isOver reports that the server's run which took a write is over, as it seems, and its sessions with it.
func (c *Captures) isOver(u unknown) bool {
	start := c.m.Snapshot().Nodes[c.linked].Sample.Start
	return !start.IsZero() && start != u.writer
}
