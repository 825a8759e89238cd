package simulation

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"time"
)

// endpoint is an address: what a node's name in a configuration leads to. It is guarded by cluster.mu.
type endpoint struct {
	name    string
	targets []*server // a new connection goes to one of them by chance; none: it is refused
	pooled  bool      // a pooler keeps its clients' connections whatever its servers do
	led     time.Time // when it was seen last to lead to the primary
}

// network is how one process reaches one endpoint. It is guarded by cluster.mu.
type network struct {
	c      *cluster
	to     *endpoint
	seed   uint64
	delay  time.Duration // one way, beside what is usual
	hole   bool          // nothing passes, and nobody says so
	holes  chan struct{} // closed when something passes
	loses  float64       // how many answers are lost, with their connections
	conns  []*conn
	opened uint64 // connections for no operation
	// prepares: the driver runs no text that has arguments, but wants it prepared.
	prepares bool
}

func newNetwork(c *cluster, to *endpoint, seed uint64) *network {
	n := &network{c: c, to: to, seed: mix(seed), holes: make(chan struct{})}
	close(n.holes)
	return n
}

// draw is what chance says of a message of a connection: a number that depends on nothing but the seed, the moment and whose
// message it is. What happens at one moment happens in an order that nobody knows, and must not depend on it.
func (k *conn) draw(op int, what uint64) uint64 {
	x := k.net.seed ^ uint64(time.Now().UnixNano()) ^ what<<56
	if op >= 0 {
		x ^= mix(uint64(op))
	} else {
		x ^= mix(k.number << 32)
	}
	return mix(x)
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// The things that chance decides of a message.
const (
	outward uint64 = iota
	backward
	rowsBack
	isLost
	arrives
	delayed
	commits
	conflicts
	target
	again
	half
)

// chance says yes with probability p.
func (k *conn) chance(op int, what uint64, p float64) bool {
	return float64(k.draw(op, what)>>11)/(1<<53) < p
}

func (k *conn) between(op int, what uint64, least, most time.Duration) time.Duration {
	return least + time.Duration(k.draw(op, what)%uint64(most-least))
}

// latency is how long a message takes one way. No two are alike, so that what happens is ordered by time alone.
func (k *conn) latency(op int, way uint64) time.Duration {
	x := k.draw(op, way)
	d := k.net.delay + time.Duration(50_000+x%400_000)
	if x>>32%100 == 0 {
		d += time.Duration(x >> 40 % uint64(20*time.Millisecond))
	}
	return d
}

// fall makes a hole of the network, or ends that.
func (n *network) fall(on bool) {
	switch {
	case on && !n.hole:
		n.hole, n.holes = true, make(chan struct{})
	case !on && n.hole:
		n.hole = false
		close(n.holes)
	}
}

// cut breaks every connection. What is on its way may still arrive.
func (n *network) cut() {
	for _, k := range n.conns {
		k.sever()
	}
	n.conns = nil
}

var (
	errRefused = errors.New("simulation: connection refused")
	errCut     = io.ErrUnexpectedEOF
)

// Connector opens connections of one process to one endpoint.
type Connector struct {
	net      *network
	readOnly bool
}

var _ driver.Connector = (*Connector)(nil)

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return simulated{} }

// ReadOnly returns the connector for sessions that refuse writes from their first moment. PostgreSQL's drivers have one.
func (c *Connector) ReadOnly() driver.Connector { return &Connector{net: c.net, readOnly: true} }

type simulated struct{}

// Open implements driver.Driver.
func (simulated) Open(string) (driver.Conn, error) {
	return nil, errors.New("simulation: has no names")
}

// Connect implements driver.Connector.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	n := c.net
	k := &conn{net: n, readOnly: c.readOnly, cut: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	k.timer.Stop()
	n.c.mu.Lock()
	op := operation(ctx)
	if k.number = uint64(op); op < 0 {
		n.opened++
		k.number = 1<<31 + n.opened
	}
	out, back := k.latency(op, outward), k.latency(op, backward)
	n.c.mu.Unlock()
	if err := k.travel(ctx, out); err != nil {
		return nil, err
	}
	if err := k.accept(ctx); err != nil {
		return nil, err
	}
	if err := k.travel(ctx, back); err != nil {
		k.shut()
		return nil, err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if k.severed {
		return nil, errCut
	}
	n.c.open++
	k.counted = true
	if k.number%4 != 0 {
		return binder{k}, nil
	}
	return k, nil
}

// accept lets the server at the other end begin a session.
func (k *conn) accept(ctx context.Context) error {
	for {
		c := k.net.c
		c.mu.Lock()
		if k.s == nil && len(k.net.to.targets) > 0 {
			k.s = k.net.to.targets[k.draw(-1, target)%uint64(len(k.net.to.targets))]
		}
		s := k.s
		if !k.net.to.pooled && (s == nil || !s.running) {
			c.mu.Unlock()
			return errRefused
		}
		if k.net.to.pooled || !s.frozen {
			if !k.net.to.pooled {
				k.session = s.open(k)
			}
			k.net.conns = append(k.net.conns, k)
			c.mu.Unlock()
			return nil
		}
		thawed := s.thawed
		c.mu.Unlock()
		if err := k.await(ctx, thawed); err != nil {
			return err
		}
	}
}

// travel is a message on its way: it takes d, and as long as the network is a hole.
func (k *conn) travel(ctx context.Context, d time.Duration) error {
	k.timer.Reset(d)
	select {
	case <-k.timer.C:
	case <-ctx.Done():
		k.timer.Stop()
		return ctx.Err()
	case <-k.cut:
		k.timer.Stop()
		return errCut
	}
	for {
		k.net.c.mu.Lock()
		hole, holes := k.net.hole, k.net.holes
		k.net.c.mu.Unlock()
		if !hole {
			return nil
		}
		if err := k.await(ctx, holes); err != nil {
			return err
		}
	}
}

// await waits for something that has no time.
func (k *conn) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-k.cut:
		return errCut
	}
}
