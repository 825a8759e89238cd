package monitor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/readroute/readroute/internal/core"
)

const (
	// captureInterval is the least time between two captures that nobody waits for. It doubles with every captureUnseen of them in a row
	// that no session has looked at, up to captureIntervalMax: whoever only writes has no use for them, and a read that comes all the same
	// has its capture at once.
	captureInterval    = 20 * time.Millisecond
	captureIntervalMax = 80 * time.Millisecond
	captureUnseen      = 8
	// captureRetry is how long a capture that failed waits, doubled each time up to captureRetryMax.
	captureRetry    = 10 * time.Millisecond
	captureRetryMax = time.Second
)

// Captures reads positions on the primary. Reads are coalesced: one is in flight at a time, and it serves everyone who
// joined before it began. Its one goroutine ends with Close.
type Captures struct {
	// OnVerdict is that of every capture. It may be nil, and is set before anybody joins.
	OnVerdict func(core.Verdict)

	m      *Monitor
	cancel context.CancelCauseFunc
	ctx    context.Context
	wg     sync.WaitGroup
	wake   chan struct{} // capacity 1

	seen atomic.Bool                  // somebody has looked at a capture, or waits for one, since the last one began
	next atomic.Pointer[core.Capture] // joined and not begun; nil when nobody has joined. It is changed with mu

	mu      sync.Mutex
	urgent  bool      // guarded by mu: somebody waits for next
	deep    bool      // guarded by mu: next is to say what is being committed
	unknown []unknown // guarded by mu; the one that was looked for last is at the end
	looking int       // guarded by mu: how many are out of unknown while they are looked for
	closed  bool      // guarded by mu

	// Owned by run:
	link   Link
	linked int       // the node that link leads to
	since  time.Time // before link was opened
	batch  []*core.Capture
	over   []unknown // of a run that is over, unless it answers the next capture all the same
	looked time.Time // when unknown writes were looked for
}

// StartCaptures begins to serve captures on m's primary.
func StartCaptures(m *Monitor) *Captures {
	c := &Captures{m: m, wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.wg.Go(c.run)
	return c
}

// Close ends every capture with ErrClosed and waits for the goroutine. It may be called twice.
func (c *Captures) Close() {
	c.cancel(ErrClosed)
	c.wg.Wait()
}

// Join returns the capture that begins next, which is after this call. It does not block.
func (c *Captures) Join() *core.Capture {
	if next := c.next.Load(); next != nil {
		return next // it begins after serve has taken it, and so after this
	}
	return c.join()
}

// join is Join where nobody has joined yet.
//
//go:noinline
func (c *Captures) join() *core.Capture {
	c.mu.Lock()
	next := c.next.Load()
	first := next == nil
	if next == nil {
		next = core.NewCapture(func() { c.hurry(next) })
		next.OnVerdict, next.Seen = c.OnVerdict, &c.seen
		if c.closed {
			next.Complete(core.CaptureResult{Err: ErrClosed, At: time.Now()})
		} else {
			c.next.Store(next)
			c.m.awaited.Add(1)
		}
	}
	c.mu.Unlock()
	if first {
		c.signal() // run knows of it from then on
	}
	return next
}

// JoinCommitting is Join for a capture that says as well what is being committed.
func (c *Captures) JoinCommitting() *core.Capture {
	capture := c.Join()
	c.mu.Lock()
	joined := c.next.Load() == capture
	c.deep = c.deep || joined
	c.mu.Unlock()
	if !joined && capture.Result() == nil {
		return c.JoinCommitting() // it has begun in between
	}
	return capture
}

// hurry asks for a capture that has not begun. One that is in flight cannot be hurried.
func (c *Captures) hurry(capture *core.Capture) {
	c.mu.Lock()
	waits := c.next.Load() == capture
	c.urgent = c.urgent || waits
	c.mu.Unlock()
	if waits {
		c.seen.Store(true)
		c.signal()
	}
}

func (c *Captures) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run serves captures until Close.
func (c *Captures) run() {
	defer c.finish()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last, notBefore time.Time
	retry, unseen := captureRetry, 0
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		work, unknowns, urgent := c.pending()
		if !work && unknowns == 0 {
			continue
		}
		at := notBefore
		if c.seen.Load() || unknowns > 0 {
			unseen = 0
		}
		if next := last.Add(pace(unseen)); !urgent && next.After(at) {
			at = next
		}
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			continue
		}
		last, notBefore = time.Now(), time.Time{}
		c.seen.Store(false)
		unseen++
		err := c.serve()
		switch {
		case c.ctx.Err() != nil:
			return
		case err != nil:
			pause := jitter(retry)
			notBefore = time.Now().Add(pause)
			timer.Reset(pause)
			retry = min(2*retry, captureRetryMax)
		default:
			retry = captureRetry
			if unknowns > 0 {
				timer.Reset(backendPoll)
			}
		}
	}
}

// pace is the least time between captures that nobody waits for when nobody has looked at so many.
func pace(unseen int) time.Duration {
	d := captureInterval
	for ; unseen >= captureUnseen && d < captureIntervalMax; unseen -= captureUnseen {
		d *= 2
	}
	return d
}

func (c *Captures) pending() (work bool, unknowns int, urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next.Load() != nil || len(c.batch) > 0 || len(c.over) > 0, len(c.unknown), c.urgent
}

// serve runs one position read for everyone who has joined. When it fails they stay for the next.
func (c *Captures) serve() error {
	ctx, cancel := context.WithTimeout(c.ctx, c.m.cfg.ProbeTimeout)
	defer cancel()
	if err := c.dial(ctx); err != nil {
		return err
	}
	if time.Since(c.looked) >= backendPoll/2 {
		c.looked = time.Now()
		if err := c.lookForUnknown(ctx); err != nil {
			c.hangUp()
			return err
		}
	}
	c.mu.Lock()
	if next := c.next.Swap(nil); next != nil {
		c.batch = append(c.batch, next)
	}
	deep := c.deep
	c.urgent, c.deep = false, false
	c.mu.Unlock()
	if len(c.batch) == 0 && len(c.over) == 0 {
		return nil
	}
	asked, err := Ask(ctx, c.link, c.m.cfg.Engine)
	s := c.m.Snapshot().Judge(c.linked, asked)
	s.Since = c.since
	if err == nil && s.Role != core.RolePrimary {
		err = fmt.Errorf("read a position on node %q: it is a %s", c.m.cfg.Nodes[c.linked].Name, s.Role)
	}
	if err == nil && !c.m.Snapshot().Accepts(c.linked, &s) {
		err = fmt.Errorf("read a position on node %q: it is not the primary that is known there", c.m.cfg.Nodes[c.linked].Name)
	}
	var committing []string
	if err == nil && deep {
		committing, err = c.m.cfg.Engine.Committing(ctx, c.link)
	}
	if err != nil {
		c.mu.Lock()
		c.deep = c.deep || deep // those who want to know stay
		c.mu.Unlock()
		c.hangUp()
		c.m.Kick(c.linked)
		return err
	}
	asked.Since = c.since
	c.m.Observe(c.linked, asked)
	r := core.CaptureResult{
		Position: s.Position, Reported: s.Reported, Recovered: s.Recovered, Since: s.Since, Saw: s.Saw(), Committing: committing, Need: c.m.cfg.Engine.Need(c.m.base(), s), History: s.History,
		Start: s.Start, At: s.Ended,
	}
	for _, w := range c.batch {
		c.complete(w, r)
	}
	clear(c.batch)
	c.batch = c.batch[:0]
	c.completeOver(r)
	return nil
}

// complete gives a capture that somebody has joined its result.
func (c *Captures) complete(capture *core.Capture, r core.CaptureResult) {
	c.m.awaited.Add(-1)
	capture.Complete(r)
}

// dial leads the link to the node that is the primary now.
func (c *Captures) dial(ctx context.Context) error {
	primary := c.m.Snapshot().Primary
	if c.link != nil && c.linked == primary {
		return nil
	}
	c.hangUp()
	c.since = time.Now()
	link, err := c.m.cfg.Nodes[primary].Dial(ctx)
	if err != nil {
		return err
	}
	c.link, c.linked = link, primary
	return nil
}

func (c *Captures) hangUp() {
	if c.link != nil {
		_ = c.link.Close() // the connection is given up whatever it says
		c.link = nil
	}
}

// finish gives up whatever is left.
func (c *Captures) finish() {
	c.hangUp()
	c.mu.Lock()
	c.closed = true
	left := c.batch
	if next := c.next.Swap(nil); next != nil {
		left = append(left, next)
	}
	for _, u := range append(c.unknown, c.over...) {
		left = append(left, u.capture)
	}
	c.unknown, c.batch, c.over = nil, nil, nil
	c.mu.Unlock()
	for _, w := range left {
		c.complete(w, core.CaptureResult{Err: ErrClosed, At: time.Now()})
	}
}
