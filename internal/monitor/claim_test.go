package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

// replicator is a server that can replicate and accept writes at once. It is its own link.
type replicator struct {
	self uint64
	slow bool

	mu       sync.Mutex
	start    int64    // guarded by mu
	readOnly bool     // guarded by mu
	from     []uint64 // guarded by mu: 0 is a server that is not told
	stopped  bool     // guarded by mu: its replication
	down     bool     // guarded by mu
	written  int      // guarded by mu
}

func (r *replicator) set(f func(*replicator)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

func (r *replicator) open()  { r.set(func(r *replicator) { r.readOnly = false }) }
func (r *replicator) close() { r.set(func(r *replicator) { r.readOnly = true }) }
func (r *replicator) die()   { r.set(func(r *replicator) { r.down = true }) }

// revive starts it again, as its configuration file has it.
func (r *replicator) revive(readOnly bool) {
	r.set(func(r *replicator) { r.down, r.readOnly, r.start = false, readOnly, r.start+1 })
}

func (r *replicator) QueryRow(context.Context, string) ([]string, error) { return nil, nil }
func (r *replicator) Close() error                                       { return nil }

// replication asks replicators. What it lacks of an engine nobody asks for.
type replication struct{ monitor.Engine }

func (replication) Ask(_ context.Context, link monitor.Link) (core.Sample, error) {
	r := link.(*replicator)
	if r.slow {
		<-time.After(300 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return core.Sample{}, errors.New("down")
	}
	own, err := core.ParseGTIDSet(fmt.Sprintf("00000000-0000-0000-0000-%012d:1-%d", r.self, r.written+1))
	if err != nil {
		return core.Sample{}, err
	}
	s := core.Sample{Start: core.Start{System: r.self, At: r.start}, Self: r.self, Position: core.MySQLPosition(own, 0)}
	s.Own = s.Position
	for _, source := range r.from {
		s.Sources = append(s.Sources, core.Source{Self: source, Active: !r.stopped})
	}
	switch active := len(r.from) > 0 && !r.stopped; {
	case !r.readOnly && !active:
		s.Role = core.RolePrimary
	case !r.readOnly:
		claim := s
		claim.Role = core.RolePrimary
		s.Claim = &claim
		fallthrough
	default:
		s.Role, s.HasSource = core.RoleReplica, active
	}
	return s, nil
}

// replicators makes servers 1, 2, ... of words like "rw", "ro<1", "rw<2<9", the first of which is the configured primary.
func replicators(t *testing.T, words string) (*watched, []*replicator) {
	t.Helper()
	var list []*replicator
	var nodes []monitor.Node
	for i, word := range strings.Fields(words) {
		parts := strings.Split(word, "<")
		r := &replicator{self: uint64(i + 1), readOnly: parts[0] == "ro", down: parts[0] == "down", slow: parts[0] == "slow", start: 1}
		for _, source := range parts[1:] {
			r.from = append(r.from, uint64(source[0]-'0'))
		}
		list = append(list, r)
		nodes = append(nodes, monitor.Node{Name: string(rune('a' + i)), Weight: 1, Dial: func(context.Context) (monitor.Link, error) { return r, nil }})
	}
	return watchWith(t, func(c *monitor.Config) { c.Nodes, c.Engine = nodes, replication{} }), list
}

// TestClaim is who is elected of servers that accept writes while they replicate.
func TestClaim(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		servers string
		then    func(s []*replicator) // a second after the start
		before  int                   // who is the primary at that time
		after   int                   // and ten seconds later
	}{
		"K4-16, a pair of which one is read-only":    {"rw<2 ro<1", func([]*replicator) {}, 0, 0},
		"K4-16, and it dies":                         {"rw<2 ro<1", func(s []*replicator) { s[1].die() }, 0, 0},
		"K4-16, and it was down before":              {"rw<2 down", func([]*replicator) {}, 0, 0},
		"a pair, the other way round":                {"ro<2 rw<1", func([]*replicator) {}, 1, 1},
		"a pair that changes":                        {"rw<2 ro<1", func(s []*replicator) { s[0].close(); s[1].open() }, 0, 1},
		"a pair that changes by a death":             {"rw<2 ro<1", func(s []*replicator) { s[0].die(); s[1].open() }, 0, 1},
		"a pair of which both are writable":          {"rw<2 rw<1", func([]*replicator) {}, 0, 0},
		"a ring of three":                            {"rw<3 ro<1 ro<2", func(s []*replicator) { s[2].open() }, 0, 0},
		"a primary that collects":                    {"rw<9 ro<1", func([]*replicator) {}, 0, 0},
		"a primary that begins to collect":           {"rw ro<1", func(s []*replicator) { s[0].set(func(r *replicator) { r.from = []uint64{9} }) }, 0, 0},
		"a source that is not told":                  {"rw<0 ro<1", func([]*replicator) {}, 0, 0},
		"promoted while it replicates":               {"rw ro<1", func(s []*replicator) { s[0].close(); s[1].open() }, 0, 1},
		"promoted over a dead one":                   {"rw ro<1 ro<1", func(s []*replicator) { s[0].die(); s[1].open() }, 0, 1},
		"promoted before anyone looks":               {"ro rw<1", func([]*replicator) {}, 1, 1},
		"a writable replica":                         {"rw rw<1", func([]*replicator) {}, 0, 0},
		"a writable replica of a dead primary":       {"rw rw<1", func(s []*replicator) { s[0].die() }, 0, none},
		"a writable replica of a read-only one":      {"rw rw<1", func(s []*replicator) { s[0].revive(true) }, 0, none},
		"a writable replica, its primary never seen": {"down rw<1", func([]*replicator) {}, none, none},
		"a replica opened for maintenance":           {"rw ro<1", func(s []*replicator) { s[1].open() }, 0, 0},
		"a replica that restarts writable":           {"rw ro<1", func(s []*replicator) { s[0].die(); s[1].revive(false) }, 0, none},
		"a writable one behind another":              {"rw ro<1 rw<2", func(s []*replicator) { s[0].die() }, 0, none},
		"one that is led to a new primary before it is": {"rw ro<1 rw<1", func(s []*replicator) {
			s[0].die()
			s[1].set(func(r *replicator) { r.from = nil })
			s[2].set(func(r *replicator) { r.from = []uint64{2} })
		}, 0, none},
		"the former primary follows, still writable": {"rw ro<1", func(s []*replicator) {
			s[1].set(func(r *replicator) { r.readOnly, r.from = false, nil })
			s[0].set(func(r *replicator) { r.from = []uint64{2} })
		}, 0, 1},
		"the former primary follows, what is left of a configuration": {"rw ro<1", func(s []*replicator) {
			s[1].set(func(r *replicator) { r.readOnly, r.stopped = false, true })
			s[0].set(func(r *replicator) { r.from = []uint64{2} })
		}, 0, 1},
		"one that collects, and that the others follow":     {"ro<2 rw<9", func([]*replicator) {}, 1, 1},
		"one that collects, and that not all others follow": {"ro<2 rw<9 ro<9", func([]*replicator) {}, none, none},
		"one that collects, and others are not known":       {"ro<2 rw<9 down", func([]*replicator) {}, none, none},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, servers := replicators(t, c.servers)
				is := func(want int) {
					t.Helper()
					s := w.Snapshot()
					require.Equal(t, want != none, s.PrimaryUp, "primary %d", s.Primary)
					if want != none {
						require.Equal(t, want, s.Primary)
						require.Equal(t, core.RolePrimary, s.Nodes[want].Role)
					}
				}
				time.Sleep(2 * time.Second)
				is(c.before)
				c.then(servers)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					if s := w.Snapshot(); s.PrimaryUp {
						require.Contains(t, []int{c.before, c.after}, s.Primary)
					}
				}
				is(c.after)
				for i, s := range servers {
					v := w.view(i)
					require.Equal(t, i != c.after && v.Healthy && !s.readOnly && len(s.from) > 0 && v.Role == core.RoleReplica, v.Writable, "%d", i)
				}
			})
		})
	}
}

// TestClaimAfterOpening goes on where a replica was opened for writes.
func TestClaimAfterOpening(t *testing.T) {
	t.Run("its primary dies later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, s := replicators(t, "rw ro<1")
			time.Sleep(2 * time.Second)
			s[1].open()
			time.Sleep(2 * time.Second)
			s[0].die()
			time.Sleep(time.Minute)
			w.wantsPrimary(0, false)
			require.Contains(t, w.happened("b"), monitor.EventWritable, "it is told")
			require.True(t, w.view(1).Writable)

			require.NotContains(t, w.happened("a"), monitor.EventTwoPrimaries, "b does not call itself one")
			s[1].close() // it is a replica like any, and can be promoted
			time.Sleep(2 * time.Second)
			require.False(t, w.view(1).Writable)
			s[1].open()
			time.Sleep(2 * time.Second)
			w.wantsPrimary(1, true)
		})
	})
	t.Run("its replication is stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, s := replicators(t, "rw rw<1")
			time.Sleep(2 * time.Second)
			s[0].die()
			time.Sleep(5 * time.Second)
			w.wantsPrimary(0, false)
			s[1].set(func(r *replicator) { r.stopped = true })
			time.Sleep(2 * time.Second)
			w.wantsPrimary(1, true)
		})
	})
	t.Run("the one that it was promoted over comes back writable", func(t *testing.T) {
		for _, wrote := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w, s := replicators(t, "rw ro<1")
				time.Sleep(2 * time.Second)
				s[0].die()
				time.Sleep(2 * time.Second)
				s[1].open()
				time.Sleep(2 * time.Second)
				w.wantsPrimary(1, true)
				if wrote {
					s[1].set(func(r *replicator) { r.written++ })
					time.Sleep(2 * time.Second)
				}
				w.happened("b")
				s[0].revive(false)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					w.wantsPrimary(1, true)
				}
				require.Contains(t, w.happened("b"), monitor.EventTwoPrimaries)
				s[1].revive(false) // it comes back as what it was
				time.Sleep(2 * time.Second)
				w.wantsPrimary(1, true)
			})
		}
	})
	t.Run("the new primary answers after the former one, which follows it and is writable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := replicators(t, "rw<2 slow")
			for range 20 {
				time.Sleep(10 * time.Millisecond)
				w.wantsPrimary(0, false)
			}
			time.Sleep(2 * time.Second)
			w.wantsPrimary(1, true)
		})
	})
	t.Run("unseen, and the one that it was promoted over comes back writable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, s := replicators(t, "rw<2 down")
			time.Sleep(2 * time.Second)
			w.wantsPrimary(0, true)
			s[0].set(func(r *replicator) { r.written++ })
			time.Sleep(2 * time.Second)
			s[1].revive(false)
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				w.wantsPrimary(0, true)
			}
		})
	})
}
