package router_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/fakenode"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/router"
)

// TestQuickSaysWhatRouteSays: what is kept of a read is what would be found out anew, whatever has happened since. read compares the two.
func TestQuickSaysWhatRouteSays(t *testing.T) {
	quick := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := route(t, nil, 100, newNodes(1+int(seed%3))...)
			lsn := core.LSN(0x5000)
			sessions := []*core.Session{new(core.Session), new(core.Session), new(core.Session)}
			for range 300 {
				s := sessions[random.IntN(len(sessions))]
				ctx := core.NewContext(timeout(t, time.Minute), &core.Options{Session: s})
				node := r.nodes[random.IntN(len(r.nodes))]
				switch random.IntN(16) {
				case 0:
					lsn += 0x100
					r.nodes[0].Set(func(s *fakenode.State) { s.LSN = lsn })
					r.wrote(s)
				case 1:
					s.Require(core.Entry{Cluster: cluster, At: time.Now(), Positions: []core.Position{position(1, lsn)}}, window)
				case 2:
					node.Set(func(s *fakenode.State) { s.LSN = lsn })
				case 3:
					node.Set(func(s *fakenode.State) { s.Frozen = !s.Frozen && s.Replica })
				case 4:
					node.Set(func(s *fakenode.State) { s.NoSource = !s.NoSource })
				case 5:
					s.Unprovable(cluster, time.Now(), time.Now().Add(time.Second))
				case 6:
					s.Require(core.Entry{Cluster: core.EveryCluster, Until: time.Now().Add(time.Second)}, window)
				case 7:
					r.SetShare(float64(random.IntN(2)))
				case 8:
					r.SetMode(router.Mode(random.IntN(3)))
				case 9:
					*s = core.Session{}
				case 10:
					s.Open(cluster)
					r.read(ctx)
					s.Close(cluster)
				case 11:
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
				default:
					r.SetMode(router.ModeRoute)
					r.SetShare(1)
				}
				if random.IntN(8) == 0 {
					ctx = core.NewContext(ctx, &core.Options{Session: s, Level: []core.Level{core.LevelCausal, core.LevelEventual, core.Level(time.Second)}[random.IntN(3)]})
				}
				r.read(ctx)
				r.read(ctx)
			}
			quick += r.quick
		})
	}
	require.Greater(t, quick, 1000, "of some 6,000 reads it is to have an answer for a good part")
}

// TestQuickEndsWithWhatItRestsOn: each fact that an answer rests on ends it.
func TestQuickEndsWithWhatItRestsOn(t *testing.T) {
	for name, change := range map[string]func(*routed, *core.Session) core.Options{
		"another snapshot": func(r *routed, s *core.Session) core.Options {
			r.nodes[1].Set(func(s *fakenode.State) { s.Err = errRefused })
			<-time.After(2 * time.Second)
			return core.Options{Session: s}
		},
		"the session has written": func(r *routed, s *core.Session) core.Options {
			r.wrote(s)
			return core.Options{Session: s}
		},
		"the session has learned more": func(_ *routed, s *core.Session) core.Options {
			s.Require(core.Entry{Cluster: cluster, At: time.Now(), Positions: []core.Position{position(1, 0x9000)}}, window)
			return core.Options{Session: s}
		},
		"a token of another cluster that must have the primary": func(_ *routed, s *core.Session) core.Options {
			s.Require(core.Entry{Cluster: core.EveryCluster, Until: time.Now().Add(time.Hour)}, window)
			return core.Options{Session: s}
		},
		"another level": func(_ *routed, s *core.Session) core.Options {
			return core.Options{Session: s, Level: core.LevelPrimary}
		},
		"a node by name": func(_ *routed, s *core.Session) core.Options { return core.Options{Session: s, Node: "a"} },
		"no session":     func(*routed, *core.Session) core.Options { return core.Options{} },
		"the mode": func(r *routed, s *core.Session) core.Options {
			r.SetMode(router.ModePrimary)
			return core.Options{Session: s}
		},
		"the share": func(r *routed, s *core.Session) core.Options {
			r.SetShare(0)
			return core.Options{Session: s}
		},
	} {
		for kind, positions := range map[string][]core.Position{"clean": nil, "with a position": {position(1, 0x5000)}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := route(t, nil, 100, newNodes(1)...)
					s, ctx := session(t.Context(), positions...)
					if positions == nil {
						s = new(core.Session)
						ctx = core.NewContext(t.Context(), &core.Options{Session: s})
					}
					r.read(ctx)
					node, _, _, _ := r.Quick(core.FromContext(ctx))
					require.Equal(t, 1, node)
					o := change(r, s)
					node, _, _, _ = r.Quick(core.FromContext(core.NewContext(t.Context(), &o)))
					require.Equal(t, -1, node)
				})
			})
		}
	}
}

// TestQuickOfManyNodes: a cluster whose nodes do not fit is routed all the same.
func TestQuickOfManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(8)...)
		_, ctx := session(t.Context())
		d, _ := r.read(ctx)
		require.Equal(t, core.RoleReplica, d.Role)
		d, _ = r.read(ctx)
		require.Equal(t, core.RoleReplica, d.Role)
		require.Zero(t, r.quick)
	})
}

// TestQuickWrite: a write goes to the primary of the newest snapshot.
func TestQuickWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := route(t, nil, 100, newNodes(1)...)
		_, ctx := session(t.Context())
		o := core.FromContext(ctx)
		for range 2 {
			require.Equal(t, 0, r.QuickWrite(o))
		}
		r.nodes[0].Set(func(s *fakenode.State) { s.Err = errRefused })
		r.nodes[1].Set(func(s *fakenode.State) { s.Replica, s.Timeline = false, 2 })
		time.Sleep(3 * time.Second)
		for range 2 {
			require.Equal(t, 1, r.QuickWrite(o))
		}
		require.Equal(t, -1, r.QuickWrite(core.FromContext(core.NewContext(ctx, &core.Options{Node: "b"}))))
		r.SetMode(router.ModeShadow)
		require.Equal(t, -1, r.QuickWrite(o), "the decision says where else it would have gone")
	})
}

// TestTally: what is counted apart is counted once, whoever asks and whenever its caller goes elsewhere.
func TestTally(t *testing.T) {
	r := router.New(router.Config{Cluster: cluster}, new(monitor.Monitor), new(monitor.Captures), []string{"a", "b"})
	var reads, writes router.Tally
	r.OpenTally(&reads, core.ReasonCovered)
	r.OpenTally(&writes, core.ReasonWrite)
	require.Equal(t, -1, reads.Node())
	r.MoveTally(&reads, 1)
	r.MoveTally(&writes, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 1000 {
			r.MoveTally(&reads, i%2)
			reads.Add()
		}
	}()
	var last [2]uint64
	for i := range 2000 {
		n := r.Count(i%2, core.ReasonCovered)
		require.GreaterOrEqual(t, n, last[i%2], "a count does not go back")
		last[i%2] = n
	}
	<-done
	writes.Add()
	require.Equal(t, []uint64{500, 500, 1, 0}, []uint64{
		r.Count(0, core.ReasonCovered), r.Count(1, core.ReasonCovered), r.Count(0, core.ReasonWrite), r.Count(1, core.ReasonWrite),
	})
	require.EqualValues(t, 1001, r.Tallied())
	r.CloseTally(&reads)
	r.CloseTally(&writes)
	require.EqualValues(t, 500, r.Count(1, core.ReasonCovered))
	require.EqualValues(t, 1001, r.Tallied())
}
