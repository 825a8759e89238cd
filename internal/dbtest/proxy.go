package dbtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Verdict is what a Proxy does with data of a client.
type Verdict int

const (
	// Forward passes the data on.
	Forward Verdict = iota
	// CutBefore cuts the connection and does not pass the data on: the server never sees it.
	CutBefore
	// CutAfter passes the data on, waits for the server's answer, and cuts the connection instead of delivering it: the
	// server has done what it was asked to, and the client cannot know.
	CutAfter
)

// Proxy is a TCP proxy on 127.0.0.1 that can misbehave. Its settings may be changed at any time and from any goroutine.
type Proxy struct {
	port   int
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the proxy

	mu       sync.Mutex    // guards the fields below
	listener net.Listener  // nil while connections are refused
	targets  []string      // never empty
	accepted int           // connections so far; also picks the target
	delay    time.Duration // one way
	flows    chan struct{} // closed while data flows, open while it is stalled
	onData   func([]byte) Verdict
	links    map[*link]struct{}
}

// NewProxy starts a proxy for target, a host and port. The caller closes it.
func NewProxy(target string) (*Proxy, error) {
	p := &Proxy{targets: []string{target}, flows: make(chan struct{}), links: map[*link]struct{}{}}
	close(p.flows)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for try := 0; ; try++ {
		var err error
		if p.port, err = pickPort(); err == nil {
			err = p.Refuse(false)
		}
		if err == nil {
			return p, nil
		}
		if try == 10 {
			p.cancel()
			return nil, err
		}
	}
}

// Addr is the host and port that clients dial.
func (p *Proxy) Addr() string { return localAddr(p.port) }

// SetTarget re-points the proxy: new connections go to the targets in turn, those that exist stay where they are.
// Without an argument nothing changes.
func (p *Proxy) SetTarget(targets ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(targets) > 0 {
		p.targets, p.accepted = slices.Clone(targets), 0
	}
}

// SetDelay makes everything that arrives from now on leave d later, in both directions: a round trip takes 2d longer.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Stall makes the proxy a black hole while on: it accepts connections and bytes and passes nothing on, the end of a
// connection included. Off, everything held back is delivered.
func (p *Proxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flows:
		if on {
			p.flows = make(chan struct{})
		}
	default:
		if !on {
			close(p.flows)
		}
	}
}

// Refuse makes new connections fail as if no server listened there, while on. Existing connections stay. The error, when
// it is turned off, says that the port has been taken meanwhile.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		if p.listener != nil {
			p.listener.Close()
			p.listener = nil
		}
		return nil
	}
	if p.listener != nil || p.ctx.Err() != nil {
		return nil
	}
	listener, err := net.Listen("tcp", localAddr(p.port))
	if err != nil {
		return fmt.Errorf("dbtest: proxy: %w", err)
	}
	p.listener = listener
	p.wg.Go(func() { p.accept(listener) })
	return nil
}

// Cut closes all connections that exist.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cancel()
	}
}

// OnClientData sets a function that judges whatever clients send, before it is passed on; nil passes everything on. It
// sees what one read has returned, which for a short statement is the whole of it. It is called from several
// goroutines at a time and must not keep the slice.
func (p *Proxy) OnClientData(judge func(data []byte) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onData = judge
}

// Once returns a function for OnClientData that gives the verdict on the first data that contains text, in any case, and
// forwards everything else.
func Once(text string, verdict Verdict) func(data []byte) Verdict {
	var fired atomic.Bool
	lower := bytes.ToLower([]byte(text))
	return func(data []byte) Verdict {
		if bytes.Contains(bytes.ToLower(data), lower) && fired.CompareAndSwap(false, true) {
			return verdict
		}
		return Forward
	}
}

// Accepted is the number of connections since the start or the last SetTarget.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Live is the number of connections that exist.
func (p *Proxy) Live() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close cuts all connections, stops listening and waits until nothing of the proxy is left.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.Refuse(true)
	p.wg.Wait()
	return err
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // a connection that is gone before it is accepted
		}
		p.mu.Lock()
		l := &link{proxy: p, client: client, target: p.targets[p.accepted%len(p.targets)]}
		l.ctx, l.cancel = context.WithCancel(p.ctx)
		p.accepted++
		p.links[l] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(l.serve)
	}
}

// link is one connection of a client with its connection to the server.
type link struct {
	proxy    *Proxy
	target   string
	client   net.Conn
	server   net.Conn
	ctx      context.Context // ends when the link is cut
	cancel   context.CancelFunc
	cutReply atomic.Bool // cut instead of delivering what the server says next
}

func (l *link) serve() {
	defer func() {
		l.cancel()
		l.client.Close()
		l.proxy.mu.Lock()
		defer l.proxy.mu.Unlock()
		delete(l.proxy.links, l)
	}()
	stop := context.AfterFunc(l.ctx, func() { l.client.Close() })
	defer stop()
	if !l.waitFlow() {
		return
	}
	server, err := new(net.Dialer).DialContext(l.ctx, "tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	stopServer := context.AfterFunc(l.ctx, func() { server.Close() })
	defer stopServer()
	l.server = server

	var wg sync.WaitGroup
	wg.Go(func() { l.pump(l.client, l.server, l.judge) })
	wg.Go(func() {
		l.pump(l.server, l.client, func([]byte) Verdict {
			if l.cutReply.Load() {
				return CutBefore
			}
			return Forward
		})
	})
	wg.Wait()
}

func (l *link) judge(data []byte) Verdict {
	l.proxy.mu.Lock()
	judge := l.proxy.onData
	l.proxy.mu.Unlock()
	if judge == nil {
		return Forward
	}
	verdict := judge(data)
	if verdict == CutAfter {
		l.cutReply.Store(true)
	}
	return verdict
}

// waitFlow waits while the proxy is stalled, and reports whether the link still stands.
func (l *link) waitFlow() bool {
	for {
		l.proxy.mu.Lock()
		flows := l.proxy.flows
		l.proxy.mu.Unlock()
		select {
		case <-flows:
			return l.ctx.Err() == nil
		case <-l.ctx.Done():
			return false
		}
	}
}

// chunk is what one read has returned; without data it is the end of the stream.
type chunk struct {
	data []byte
	due  time.Time
}

// pump carries one direction of the link until its end. Reading goes on while earlier data waits for its time, so that
// a delay delays and does not throttle; and what a client has sent is delivered although it has hung up since.
func (l *link) pump(from, to net.Conn, judge func([]byte) Verdict) {
	chunks := make(chan chunk, 256)
	l.proxy.wg.Go(func() {
		defer close(chunks)
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			l.proxy.mu.Lock()
			due := time.Now().Add(l.proxy.delay)
			l.proxy.mu.Unlock()
			if n > 0 && !l.queue(chunks, chunk{bytes.Clone(buf[:n]), due}) {
				return
			}
			if err != nil {
				l.queue(chunks, chunk{nil, due})
				return
			}
		}
	})
	failed := false
	for c := range chunks {
		if !l.waitUntil(c.due) || !l.waitFlow() {
			return
		}
		if c.data == nil {
			break
		}
		if failed {
			continue
		}
		if judge(c.data) == CutBefore {
			l.cancel()
			return
		}
		if _, err := to.Write(c.data); err != nil {
			failed = true // the reader of the other direction sees the end of this connection
		}
	}
	if half, ok := to.(*net.TCPConn); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

func (l *link) queue(chunks chan<- chunk, c chunk) bool {
	select {
	case chunks <- c:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (l *link) waitUntil(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}
