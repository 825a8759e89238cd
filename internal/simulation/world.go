package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/readroute/readroute"
)

// world is a cluster with the addresses and networks that lead to it.
type world struct {
	c         *cluster
	layout    Layout
	endpoints []*endpoint
	networks  []*network // of all processes
	led       *server    // the primary that the addresses lead to, or are about to
	alien     *server    // of another system
}

func newWorld(c *cluster, layout Layout) *world {
	w := &world{c: c, layout: layout, led: c.truth}
	count := len(c.servers)
	if layout == Shared {
		count = 2
	}
	for i := range count {
		e := &endpoint{name: string(rune('a' + i)), pooled: layout == Pooled}
		w.endpoints = append(w.endpoints, e)
	}
	w.alien = newServer(c, 60, "alien")
	w.alien.system = c.system + 1
	log := &branch{timeline: 1, start: 9 * segmentSize}
	w.alien.at, w.alien.received = place{log, 0}, place{log, 0}
	w.alien.primary = c.engine == Postgres && layout == Direct && c.chance(0.5)
	w.alien.fenced = !w.alien.primary
	log.append(record{at: time.Now(), flushed: time.Now(), gtid: gtid{60, 1}}, 100, false)
	w.alien.at.n, w.alien.received.n = 1, 1
	w.settleEndpoints()
	return w
}

// nodes are the nodes of a routed pool of a new process.
func (w *world) nodes(seed uint64) []readroute.Node {
	var nodes []readroute.Node
	for i, e := range w.endpoints {
		n := newNetwork(w.c, e, seed+uint64(i))
		n.prepares = seed>>8%3 == 0 && !e.pooled // a pooler knows no prepared statement
		w.networks = append(w.networks, n)
		node := readroute.Node{Name: e.name, Connector: connectorFor(n), Pooled: e.pooled}
		node.SharedEndpoint = w.layout == Shared && i == 1 && seed%2 == 0 // else it is found out
		nodes = append(nodes, node)
	}
	return nodes
}

// settleEndpoints makes every address lead where it should. cluster.mu is held.
func (w *world) settleEndpoints() {
	switch w.layout {
	case Direct, Pooled:
		for i, e := range w.endpoints {
			e.targets = []*server{w.c.servers[i]}
		}
	case Moving:
		rest := 1
		w.endpoints[0].targets = []*server{w.c.truth}
		for _, s := range w.c.servers {
			if s != w.c.truth {
				w.endpoints[rest].targets = []*server{s}
				rest++
			}
		}
	case Shared:
		w.endpoints[0].targets, w.endpoints[1].targets = []*server{w.c.truth}, nil
		for _, s := range w.c.servers {
			if s != w.c.truth {
				w.endpoints[1].targets = append(w.endpoints[1].targets, s)
			}
		}
	}
}

// recall ends connections that lead where their address does not lead any more. cluster.mu is held.
func (w *world) recall() {
	for _, n := range w.networks {
		for _, k := range slices.Clone(n.conns) {
			if k.session != nil && !slices.Contains(n.to.targets, k.s) {
				k.session.end()
			}
		}
	}
}

// lead lets the addresses follow the primary, some time after it has changed. cluster.mu is held.
func (w *world) lead() {
	if w.led == w.c.truth {
		return
	}
	w.led = w.c.truth
	if w.alien.primary { // its address may be that of the new primary
		w.alien.endSessions()
		for i, e := range w.endpoints {
			if slices.Contains(e.targets, w.alien) {
				e.targets = []*server{w.c.servers[i]}
			}
		}
	}
	if w.layout == Moving || w.layout == Shared {
		time.AfterFunc(w.c.between(0, time.Second), func() {
			w.c.mu.Lock()
			defer w.c.mu.Unlock()
			w.settleEndpoints()
		})
	}
}

// move makes an address lead to another server. cluster.mu is held.
func (w *world) move(rng *rand.Rand) {
	e := w.endpoints[rng.IntN(len(w.endpoints))]
	e.targets = []*server{w.c.servers[rng.IntN(len(w.c.servers))]}
	if rng.IntN(2) == 0 { // or to several
		e.targets = append(e.targets, w.c.servers[rng.IntN(len(w.c.servers))])
	}
}

// stranger makes an address lead to a server of another system. One that is a primary never takes an address that leads to the
// primary, or did a while ago: that would be a primary that was made anew. cluster.mu is held.
func (w *world) stranger(rng *rand.Rand) {
	e := w.endpoints[rng.IntN(len(w.endpoints))]
	if !w.alien.primary || time.Since(e.led) > 30*time.Second {
		e.targets = []*server{w.alien}
	}
}

// watchLed writes down which addresses lead to the primary that counts. cluster.mu is held.
func (w *world) watchLed() {
	for _, e := range w.endpoints {
		if slices.Contains(e.targets, w.c.truth) {
			e.led = time.Now()
		}
	}
}

// state says where everything is, in one line. cluster.mu is held.
func (w *world) state() string {
	var b strings.Builder
	for _, s := range w.c.servers {
		is := "replica"
		switch {
		case s == w.c.truth:
			is = "PRIMARY"
		case s.primary:
			is = "former primary"
		}
		fmt.Fprintf(&b, " | %s %s tl%d@%s", s.name, is, s.tli(), s.at.lsn())
		if !s.primary {
			source := "nobody"
			if s.source != nil {
				source = s.source.name
			}
			fmt.Fprintf(&b, " got %s from %s", s.received.lsn(), source)
			if s.source != nil && !s.canFollow() {
				b.WriteString(" diverged")
			}
		}
		for _, word := range []struct {
			text string
			on   bool
		}{{"down", !s.running}, {"frozen", s.frozen}, {"paused", s.paused}} {
			if word.on {
				b.WriteString(" " + word.text)
			}
		}
	}
	b.WriteString(" |")
	for _, e := range w.endpoints {
		fmt.Fprintf(&b, " %s->", e.name)
		for _, s := range e.targets {
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// String is state for whoever has no lock.
func (w *world) String() string {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.settle(time.Now())
	return w.state()
}
