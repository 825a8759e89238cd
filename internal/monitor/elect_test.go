package monitor_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
)

// TestFormerPrimaryWithGTIDsIsNotElectedAgain: where histories have no timelines, the primary of before a failover is known by
// what it does not have: anything of what the last primary has written.
func TestFormerPrimaryWithGTIDsIsNotElectedAgain(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429561", "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	synctest.Test(t, func(t *testing.T) {
		na, nb := &gtidNode{uuid: a, set: a + ":1-10"}, &gtidNode{uuid: b, set: a + ":1-10", replica: true}
		w := watchWith(t, func(c *monitor.Config) {
			c.Engine = gtidEngine{}
			c.Nodes = []monitor.Node{{Name: "a", Weight: 1, Dial: na.dial}, {Name: "b", Weight: 1, Dial: nb.dial}}
		})
		time.Sleep(2 * time.Second)
		w.wantsPrimary(0, true)
		na.change(func(n *gtidNode) { n.down = true })
		nb.change(func(n *gtidNode) { n.replica = false })
		time.Sleep(3 * time.Second)
		w.wantsPrimary(1, true)
		nb.change(func(n *gtidNode) { n.set = a + ":1-10," + b + ":1-5" })
		time.Sleep(2 * time.Second)
		na.change(func(n *gtidNode) { n.down = false; n.set = a + ":1-12" }) // it is back, with writes that are lost
		nb.change(func(n *gtidNode) { n.down = true })
		time.Sleep(10 * time.Second)
		w.wantsPrimary(1, false)
		nb.change(func(n *gtidNode) { n.down = false })
		time.Sleep(3 * time.Second)
		w.wantsPrimary(1, true)

		nb.change(func(n *gtidNode) { n.down = true }) // for good: what it has written is lost, and somebody has decided so
		time.Sleep(40 * time.Second)
		w.wantsPrimary(0, true)
	})
}

// TestFormerPrimaryWithGTIDsOfTheReignThatCounts: a primary that was a replica meanwhile begins anew, for what it wrote before has
// been replicated; and as long as a new primary has written nothing, what the last one wrote counts.
func TestFormerPrimaryWithGTIDsOfTheReignThatCounts(t *testing.T) {
	const a, b, c = "3e11fa47-71ca-11e1-9e33-c80aa9429561", "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"
	for name, again := range map[string]bool{"the same server again": true, "before the next has written": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				na := &gtidNode{uuid: a, set: a + ":1-10"}
				nb, nc := &gtidNode{uuid: b, set: a + ":1-10", down: true}, &gtidNode{uuid: c, set: a + ":1-10", down: true}
				w := watchWith(t, func(c *monitor.Config) {
					c.Engine = gtidEngine{}
					c.Nodes = []monitor.Node{
						{Name: "a", Weight: 1, Dial: na.dial}, {Name: "b", Weight: 1, Dial: nb.dial}, {Name: "c", Weight: 1, Dial: nc.dial},
					}
				})
				time.Sleep(2 * time.Second)
				na.change(func(n *gtidNode) { n.set = a + ":1-20" })
				time.Sleep(2 * time.Second)
				w.wantsPrimary(0, true)
				if again {
					na.change(func(n *gtidNode) { n.set, n.replica = a+":1-20,"+b+":1-5", true }) // b, which cannot be reached, is the primary
					time.Sleep(2 * time.Second)
					na.change(func(n *gtidNode) { n.replica = false })
					time.Sleep(2 * time.Second)
					w.wantsPrimary(0, true)
					na.change(func(n *gtidNode) { n.set = a + ":1-30," + b + ":1-5" })
					time.Sleep(2 * time.Second)
					na.change(func(n *gtidNode) { n.down = true })
					nb.change(func(n *gtidNode) { n.set, n.down = a+":1-20,"+b+":1-7", false })
					time.Sleep(10 * time.Second)
					w.wantsPrimary(0, false)
					return
				}
				na.change(func(n *gtidNode) { n.down = true })
				nb.change(func(n *gtidNode) { n.set, n.down = a+":1-20", false })
				time.Sleep(10 * time.Second)
				w.wantsPrimary(1, true)
				nb.change(func(n *gtidNode) { n.down = true })
				nc.change(func(n *gtidNode) { n.down = false }) // it has nothing of what a wrote
				time.Sleep(10 * time.Second)
				w.wantsPrimary(1, false)
				na.change(func(n *gtidNode) { n.down = false })
				time.Sleep(3 * time.Second)
				w.wantsPrimary(0, true)
			})
		})
	}
}

// TestFormerPrimaryWithGTIDsUnderTheNameOfThePrimary: a connection for writes that leads there is given up, also when the monitor has
// seen that server under the name, and when it has written nothing at all.
func TestFormerPrimaryWithGTIDsUnderTheNameOfThePrimary(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429561", "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, history := range []string{a + ":1-10", ""} {
		synctest.Test(t, func(t *testing.T) {
			na, nb := &gtidNode{uuid: a, set: history}, &gtidNode{uuid: b, set: history, replica: true}
			w := watchWith(t, func(c *monitor.Config) {
				c.Engine = gtidEngine{}
				c.Nodes = []monitor.Node{{Name: "a", Weight: 1, Dial: na.dial}, {Name: "b", Weight: 1, Dial: nb.dial}}
			})
			time.Sleep(2 * time.Second)
			former := w.view(0).Sample
			na.change(func(n *gtidNode) { n.down = true })
			nb.change(func(n *gtidNode) { n.replica = false })
			time.Sleep(3 * time.Second)
			nb.change(func(n *gtidNode) { n.set = strings.TrimPrefix(history+","+b+":1-5", ",") })
			time.Sleep(2 * time.Second)
			w.wantsPrimary(1, true)
			require.False(t, w.Snapshot().Accepts(1, &former))
			nb.change(func(n *gtidNode) { n.uuid, n.set = a, history }) // the name leads there
			time.Sleep(2 * time.Second)
			w.wantsPrimary(1, false)
			require.False(t, w.Snapshot().Accepts(1, &former))
			time.Sleep(40 * time.Second) // it stays, and so somebody has decided for it
			w.wantsPrimary(1, true)
			require.True(t, w.Snapshot().Accepts(1, &former))
		})
	}
}

// TestFormerPrimaryWithGTIDsWhenNobodySawTheNextWrite: the new primary has taken a write and dies before anything was seen of it.
func TestFormerPrimaryWithGTIDsWhenNobodySawTheNextWrite(t *testing.T) {
	for _, wrote := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429561", "3e11fa47-71ca-11e1-9e33-c80aa9429562"
			na, nb := &gtidNode{uuid: a, set: a + ":1-10"}, &gtidNode{uuid: b, set: a + ":1-10", replica: true}
			w := watchWith(t, func(c *monitor.Config) {
				c.Engine = gtidEngine{}
				c.Nodes = []monitor.Node{{Name: "a", Weight: 1, Dial: na.dial}, {Name: "b", Weight: 1, Dial: nb.dial}}
			})
			captures := monitor.StartCaptures(w.Monitor)
			defer captures.Close()
			time.Sleep(2 * time.Second)
			require.NoError(t, captures.Join().Wait(t.Context()))
			na.change(func(n *gtidNode) { n.down = true })
			nb.change(func(n *gtidNode) { n.replica = false })
			time.Sleep(3 * time.Second)
			w.wantsPrimary(1, true)
			nb.change(func(n *gtidNode) { n.down = true })
			if wrote {
				captures.Join()
			}
			na.change(func(n *gtidNode) { n.down = false })
			time.Sleep(10 * time.Second)
			if !wrote {
				w.wantsPrimary(0, true)
				return
			}
			w.wantsPrimary(1, false)
			time.Sleep(30 * time.Second)
			w.wantsPrimary(0, true)
		})
	}
}

// TestPrimaryUnderANameThatHasMoved: a name has led to the server that is the primary now, and the monitor's connection still does.
// Whoever dials it comes to another server. So it is not the name of the primary.
func TestPrimaryUnderANameThatHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		c := fakenode.New("c", replicaAt(0x5000))
		var moved atomic.Bool
		w := watchWith(t, func(config *monitor.Config) {
			config.Nodes[2].Dial = func(ctx context.Context) (monitor.Link, error) {
				if moved.Load() {
					return c.Watch().Dial(ctx)
				}
				return b.Watch().Dial(ctx)
			}
		}, a, b, c)
		time.Sleep(time.Second)
		moved.Store(true)
		w.Shared(1) // a is the primary, b has been seen as several servers, and of c nobody knows
		a.Set(func(s *fakenode.State) { s.Err = errRefused })
		b.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
		time.Sleep(3 * time.Second)
		w.wantsPrimary(1, true)
		require.Equal(t, core.RoleReplica, w.view(2).Role)
	})
}

// TestPrimaryWhoseNameWasElsewhere: what the name of the primary leads to is taken for the primary made anew. When it leads back, to a
// replica of the system of before, that one's primary is elected.
func TestPrimaryWhoseNameWasElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		w := watch(t, a, b)
		time.Sleep(time.Second)
		a.Set(func(s *fakenode.State) { s.System, s.Start = 99, 2 })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(0, true)
		b.Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(0, true)
		a.Set(func(s *fakenode.State) { s.System, s.Start, s.Replica, s.Timeline = fakenode.System, 1, true, 2 })
		time.Sleep(2 * time.Second)
		w.wantsPrimary(1, true)
		require.False(t, w.view(0).Foreign)
	})
}

// gtidNode is a scripted MySQL server.
type gtidNode struct {
	mu            sync.Mutex
	uuid, set     string
	replica, down bool
}

func (n *gtidNode) change(f func(*gtidNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

func (n *gtidNode) dial(context.Context) (monitor.Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errRefused
	}
	return n, nil
}

func (n *gtidNode) QueryRow(context.Context, string) ([]string, error) { return nil, nil }
func (n *gtidNode) Close() error                                       { return nil }

// gtidEngine asks gtidNodes.
type gtidEngine struct{ monitor.Engine }

func (gtidEngine) Need(_, s core.Sample) core.Position { return s.Position }

func (gtidEngine) Ask(_ context.Context, link monitor.Link) (core.Sample, error) {
	n := link.(*gtidNode)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return core.Sample{}, errRefused
	}
	set, err := core.ParseGTIDSet(n.set)
	if err != nil {
		return core.Sample{}, err
	}
	own, _ := core.ParseUUID(n.uuid)
	system := uint64(own[15])
	s := core.Sample{
		Start: core.Start{System: system, At: 1}, Role: core.RolePrimary, Position: core.MySQLPosition(set, 1),
		Own: core.MySQLPosition(set.MovedSince(set, own), 1), HasSource: n.replica,
	}
	if n.replica {
		s.Role = core.RoleReplica
	}
	return s, nil
}
