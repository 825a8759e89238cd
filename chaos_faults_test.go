package readroute_test

import (
	"context"
	"slices"
	"time"

	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/simulation"
)

// fault is something that can go wrong.
type fault uint8

// The faults. All of them come, in some order, before one comes again: a fault that cannot come now is left for later.
const (
	pauseNode fault = iota
	freezeNode
	killNode
	stopNode
	cutConnections
	makeHole
	slowDown
	loseAnswer
	leadAstray
	restoreBackup
	stopPrimary
	killPrimary
	freezePrimary
	leavePrimary
	numFaults
)

// strike makes something go wrong.
func (c *chaos[N]) strike() {
	if len(c.deck) == 0 {
		for _, f := range c.rng.Perm(int(numFaults)) {
			c.deck = append(c.deck, fault(f))
		}
	}
	for i, f := range c.deck {
		rest := slices.Delete(slices.Clone(c.deck), i, i+1)
		c.next = nil
		if c.comes(f) {
			c.deck = append(c.next, rest...)
			return
		}
	}
	c.deck = nil // nothing of what is left can come
}

// comes makes a fault come, and reports whether it can.
func (c *chaos[N]) comes(f fault) bool {
	switch f {
	case stopPrimary, killPrimary, freezePrimary, leavePrimary:
		return c.failover(f)
	case cutConnections, makeHole, slowDown, loseAnswer, leadAstray:
		return slices.ContainsFunc(c.rng.Perm(len(c.proxies)), func(p int) bool { return c.disturbs(f, p) })
	case restoreBackup:
		if i := slices.IndexFunc(c.wrong, func(w broken) bool { return w.backup == 1+len(c.promotions) }); i >= 0 {
			return c.befalls(f, i)
		}
	}
	return slices.ContainsFunc(c.rng.Perm(len(c.nodes)), func(i int) bool { return c.befalls(f, i) })
}

// befalls makes a fault come to a node.
func (c *chaos[N]) befalls(f fault, i int) bool {
	n, w := c.nodes[i], &c.wrong[i]
	replica := i != c.primary && !w.former && !w.misplaced
	free := !w.down && !w.frozen && !w.former
	switch f {
	case pauseNode:
		if !free || !replica || w.paused {
			return false
		}
		w.paused = c.do("pause the replay of", i, n.PauseReplay)
		w.resume = c.after(50*time.Millisecond, 1500*time.Millisecond)
	case freezeNode:
		if w.down || w.frozen {
			return false
		}
		w.frozen = c.do("freeze", i, n.Freeze)
		w.thaw = c.after(10*time.Millisecond, 1500*time.Millisecond)
	case killNode, stopNode:
		if !free || f == stopNode && c.waitsForFrozen(i) {
			return false
		}
		if f == stopNode {
			c.do("stop", i, n.StopFast)
		} else {
			c.do("kill", i, n.Kill)
		}
		w.down = !n.IsRunning()
		w.start, w.paused = c.after(10*time.Millisecond, time.Second), false
	default: // restoreBackup; of another timeline it would be that of a node which has been away for too long, and there are those
		if !free || !replica {
			return false
		}
		if w.backup != 1+len(c.promotions) {
			if c.do("back up", i, n.Backup) {
				w.backup = 1 + len(c.promotions)
			}
			c.next = []fault{f} // it comes back to that
			return true
		}
		c.do("restore an older backup of", i, n.Restore)
		w.down = !n.IsRunning()
		w.paused, w.backup, w.misplaced, w.judge = false, 0, true, c.after(300*time.Millisecond, time.Second)
	}
	c.stirred(i)
	return true
}

// waitsForFrozen reports that a node would not stop in order: a primary of PostgreSQL sends its log first, to standbys that are frozen too.
func (c *chaos[N]) waitsForFrozen(i int) bool {
	return i == c.primary && slices.ContainsFunc(c.wrong, func(w broken) bool { return w.frozen })
}

// disturbs makes something go wrong on a way to a node.
func (c *chaos[N]) disturbs(f fault, p int) bool {
	proxy, i := c.proxies[p], p%len(c.nodes)
	if !c.mended[p].IsZero() {
		return false
	}
	count := func(what string) {
		c.tell("%s %s", what, c.nodes[i].Name())
		c.done[what]++
	}
	switch f {
	case cutConnections:
		count("cut connections to")
		proxy.Cut()
	case makeHole:
		count("make a hole before")
		proxy.Stall(true)
		c.mended[p] = c.after(10*time.Millisecond, time.Second)
	case slowDown:
		count("slow down")
		proxy.SetDelay(c.between(time.Millisecond, 60*time.Millisecond))
		c.mended[p] = c.after(100*time.Millisecond, 2*time.Second)
	case loseAnswer:
		what := []string{"INSERT", "COMMIT", "SELECT v"}[c.rng.IntN(3)]
		proxy.OnClientData(dbtest.Once(what, []dbtest.Verdict{dbtest.CutBefore, dbtest.CutAfter, dbtest.CutAfter}[c.rng.IntN(3)]))
		count("lose the answer to " + what + " of")
	default: // another replica answers under this one's name
		other := c.rng.IntN(len(c.nodes))
		if i == other || i == c.primary || other == c.primary || c.wrong[i].former || c.wrong[other].former {
			return false
		}
		count("lead to another")
		proxy.SetTarget(c.nodes[other].Addr())
		proxy.Cut()
		c.astray[p], c.mended[p] = true, c.after(100*time.Millisecond, 2*time.Second)
	}
	c.stirred(i)
	return true
}

// stirred is called when something has happened to a node.
func (c *chaos[N]) stirred(i int) {
	if n := len(c.promotions); n > 0 && i == c.primary && c.rec.Now() < c.promotions[n-1].ready+chaosPatience {
		c.promotions[n-1].calm = false
	}
}

// straighten makes a proxy lead where it should.
func (c *chaos[N]) straighten(p int) {
	if c.astray[p] {
		c.astray[p] = false
		c.proxies[p].SetTarget(c.nodes[p%len(c.nodes)].Addr())
		c.proxies[p].Cut()
	}
}

// receives reports that a node is connected to its source. A receiver of MySQL or MariaDB that connects to a frozen server cannot be stopped
// for so long, and its node not be promoted.
func (c *chaos[N]) receives(i int) bool {
	n, ok := any(c.nodes[i]).(*dbtest.MySQLNode)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	status, err := n.ReplicaStatus(ctx)
	return err == nil && (status["Slave_IO_Running"] == "Yes" || status["Replica_IO_Running"] == "Yes")
}

// failover makes another node the primary. It reports whether it can.
func (c *chaos[N]) failover(f fault) bool {
	var candidates []int
	for i, w := range c.wrong {
		if i == c.primary {
			if w.down || w.frozen {
				return false // one thing at a time, for the truth must be known
			}
			continue
		}
		if !w.down && !w.frozen && !w.former && !w.misplaced && (f != freezePrimary || c.receives(i)) {
			candidates = append(candidates, i)
		}
	}
	if len(candidates) == 0 || c.split >= 0 || !c.splits && f >= freezePrimary || f == stopPrimary && c.waitsForFrozen(c.primary) {
		return false
	}
	next, old := candidates[c.rng.IntN(len(candidates))], c.primary
	former := &c.wrong[old]
	switch f {
	case stopPrimary:
		c.do("stop for good", old, c.nodes[old].StopFast)
		former.down = !c.nodes[old].IsRunning()
	case killPrimary:
		c.do("kill for good", old, c.nodes[old].Kill)
		former.down = !c.nodes[old].IsRunning()
	case freezePrimary:
		former.frozen = c.do("freeze for a failover", old, c.nodes[old].Freeze)
	default:
		c.tell("leave %s", c.nodes[old].Name())
		c.done["leave the primary as it is"]++
	}
	if f <= killPrimary && !former.down {
		return true // it has not ended
	}
	for p := range c.proxies {
		c.straighten(p) // who has written what is known by the names
	}
	c.pause(c.between(time.Millisecond, 500*time.Millisecond))
	p := promotion{node: c.nodes[next].Name(), at: c.rec.Now()}
	if f >= freezePrimary {
		c.split = p.at
	}
	*former = broken{
		down: former.down, frozen: former.frozen, former: true, misplaced: true, returns: true,
		start: time.Now().Add(time.Hour), thaw: c.after(50*time.Millisecond, time.Second), follow: c.after(time.Millisecond, 2*time.Second),
	}
	if !c.nodes[next].IsRunning() { // a server may die of the chaos, and comes back like one that was killed
		c.do("start after a crash of its own", next, c.nodes[next].Start)
	}
	if !c.do("promote", next, c.nodes[next].Promote) {
		c.t.Fatalf("no primary can be made:\n%s", c.tale(0))
	}
	c.primary, c.wrong[next] = next, broken{}
	// MySQL and MariaDB do not tell which of two primaries is the newer: one that thaws in time is still taken for the primary.
	p.ready, p.calm = c.rec.Now(), f <= killPrimary || c.engine == simulation.Postgres
	for i, at := range c.mended {
		p.calm = p.calm && (at.IsZero() || i%len(c.nodes) != next)
	}
	p.has, p.seen = c.versions(next), c.rec.Now()
	c.promotions = append(c.promotions, p)
	for i := range c.wrong {
		if i != next && i != old {
			c.wrong[i].follow, c.wrong[i].misplaced = c.after(0, time.Second), true
		}
	}
	return true
}
