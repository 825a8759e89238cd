// Package fakenode is a scripted PostgreSQL server as the monitor sees it: whatever role, position, delay or fault a test
// gives it, in the words of the real engine. It works inside a testing/synctest bubble. It does not import testing.
package fakenode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
)

// Engine is what a monitor of these nodes must use.
var Engine = postgres.Engine{}

// System is the system identifier of a node that is given no other.
const System = 7

// The errors of a connection that was cut and of a question that no node answers.
var (
	ErrCut     = errors.New("fakenode: connection cut")
	ErrUnknown = errors.New("fakenode: unknown question")
)

// State is what a node answers.
type State struct {
	Replica     bool
	System      uint64 // 0 means System
	Timeline    uint32 // 0 means 1
	Hidden      bool   // a replica that does not tell its timeline, but only that it is on or past Floor
	Floor       uint32
	LSN         core.LSN
	Flush       core.LSN // of a primary; 0 means LSN
	Start       int64    // 0 means 1
	NoSource    bool
	Committing  string        // the transactions that are being committed, with commas between them
	WriterDelay time.Duration // 0 means 200 ms

	DialErr  error // of new connections
	Err      error // of every question
	Delay    time.Duration
	Frozen   bool             // nothing is answered
	Backends map[uint32]int64 // the server sessions there are: their process ids and starts
	// BackendErr is the error of a question for a server session.
	BackendErr error
}

// Node is a scripted server. Its methods may be called from several goroutines.
type Node struct {
	name string

	mu      sync.Mutex
	state   State
	epoch   int // links of an older one are cut
	probes  []time.Time
	dials   []time.Time
	open    int
	flying  int
	most    int
	endings int
}

// New returns a node with a state.
func New(name string, s State) *Node { return &Node{name: name, state: s} }

// Watch returns the node as a monitor takes it.
func (n *Node) Watch() monitor.Node { return monitor.Node{Name: n.name, Weight: 1, Dial: n.dial} }

// Set changes the state.
func (n *Node) Set(f func(*State)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.state)
}

// Cut makes every open connection fail at its next question.
func (n *Node) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch++
}

// Probes returns when the node was asked for its position.
func (n *Node) Probes() []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Time(nil), n.probes...)
}

// Dials returns when connections were asked for.
func (n *Node) Dials() []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Time(nil), n.dials...)
}

// Open returns how many connections are open.
func (n *Node) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// Most returns how many questions were asked at one time, at the most.
func (n *Node) Most() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most
}

// Endings returns how often the node was told to end a server session.
func (n *Node) Endings() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.endings
}

// Forget forgets what was counted so far.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probes, n.dials, n.most = nil, nil, 0
}

func (n *Node) dial(ctx context.Context) (monitor.Link, error) {
	n.mu.Lock()
	n.dials = append(n.dials, time.Now())
	err, frozen := n.state.DialErr, n.state.Frozen
	l := &link{node: n, epoch: n.epoch}
	if err == nil && !frozen {
		n.open++
	}
	n.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

type link struct {
	node   *Node
	epoch  int
	closed bool
}

// Close implements monitor.Link.
func (l *link) Close() error {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.node.open--
	}
	return nil
}

// QueryRow implements monitor.Link. Half of the delay passes before the server looks, half after it.
func (l *link) QueryRow(ctx context.Context, query string) ([]string, error) {
	n := l.node
	n.mu.Lock()
	if query == Engine.ProbeSQL() {
		n.probes = append(n.probes, time.Now())
	}
	n.flying++
	n.most = max(n.most, n.flying)
	delay, frozen := n.state.Delay, n.state.Frozen
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.flying--
		n.mu.Unlock()
	}()
	if frozen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := pause(ctx, delay/2); err != nil {
		return nil, err
	}
	row, err := l.answer(query)
	if err == nil {
		err = pause(ctx, delay/2)
	}
	return row, err
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) answer(query string) ([]string, error) {
	n := l.node
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.state
	switch {
	case l.epoch != n.epoch:
		return nil, ErrCut
	case s.Err != nil:
		return nil, s.Err
	case query == Engine.ProbeSQL():
		return s.row(), nil
	case strings.Contains(query, "pg_locks"):
		return []string{s.Committing}, nil
	case strings.Contains(query, "pg_stat_activity"):
		return n.backend(query)
	}
	return nil, ErrUnknown
}

// backend answers BackendSQL.
func (n *Node) backend(query string) ([]string, error) {
	if n.state.BackendErr != nil {
		return nil, n.state.BackendErr
	}
	for pid, start := range n.state.Backends {
		b := monitor.Backend{PID: pid, Start: start}
		switch query {
		case postgres.BackendSQL(b, false):
			return []string{"1"}, nil
		case postgres.BackendSQL(b, true):
			n.endings++
			delete(n.state.Backends, pid) // gone when it is looked for again
			return []string{"1"}, nil
		}
	}
	return []string{"0"}, nil
}

func (s *State) row() []string {
	or := func(v, zero uint64) uint64 {
		if v == 0 {
			return zero
		}
		return v
	}
	timeline := or(uint64(s.Timeline), 1)
	flush, line, source := core.LSN(or(uint64(s.Flush), uint64(s.LSN))).String(), fmt.Sprintf("%08X", timeline), "0"
	received := ""
	if s.Replica {
		flush, line, received = "", fmt.Sprint(timeline), s.LSN.String()
		if s.Hidden {
			line = fmt.Sprintf("%d+", or(uint64(s.Floor), 1))
		}
		if !s.NoSource {
			source = "1"
		}
	}
	delay := s.WriterDelay
	if delay == 0 {
		delay = 200 * time.Millisecond
	}
	return []string{
		fmt.Sprint(s.Replica), fmt.Sprint(or(s.System, System)), fmt.Sprint(or(uint64(s.Start), 1)), s.LSN.String(), flush, line, source,
		"8192", "16777216", fmt.Sprint(delay.Microseconds()), received,
	}
}
