package core_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// dice draws small numbers from fuzzed bytes, so that every byte changes one thing.
type dice struct {
	bytes []byte
}

func (d *dice) of(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

func (d *dice) chance() bool { return d.of(2) == 1 }

func (d *dice) duration() time.Duration { return time.Duration(d.of(9)-4) * 50 * time.Millisecond }

func (d *dice) position() core.Position {
	if d.of(16) == 15 {
		return core.Position{}
	}
	return core.Position{
		Kind: core.KindPostgres, System: 7 + uint64(d.of(8)/7), Timeline: uint32(d.of(3)), LSN: core.LSN(0x100 + d.of(8)),
	}
}

func (d *dice) required() core.Position {
	p := d.position()
	p.Kind, p.Timeline = core.KindPostgres, max(1, p.Timeline)
	return p
}

func (d *dice) snapshot() *core.Snapshot {
	s := &core.Snapshot{PrimaryUp: d.chance()}
	for range d.of(5) {
		n := core.NodeView{
			Zone: d.of(3), Role: core.Role(d.of(3)), Healthy: d.of(4) > 0, Stopped: d.of(4) == 3,
			Lag: d.duration(), LagKnown: d.of(4) > 0, Behind: max(0, d.duration()), Delay: max(0, d.duration()), Rate: float64(d.of(3) * 40),
			Confirmed: d.position(), ConfirmedTimeline: uint32(d.of(3)),
		}
		n.Sample = core.Sample{
			Began: fixtureNow.Add(d.duration()), Role: n.Role, Position: d.position(),
			Flush: core.LSN(d.of(2) * (0x100 + d.of(8))), FlushDelay: max(0, d.duration()),
		}
		n.Sample.Reported = n.Sample.Position.LSN
		n.Sample.Start.At = int64(d.of(2))
		if n.Shared = d.of(8) == 7; d.of(4) > 0 {
			n.AsOf = fixtureNow.Add(d.duration())
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.Primary = d.of(len(s.Nodes) + 1) // one past the end is not a node
	return s
}

func (d *dice) input(nodes int) *core.Input {
	in := &core.Input{
		Class: core.Class(d.of(5)), Hint: core.Hint(d.of(3)), Held: core.Held(max(0, d.of(8)-4)), Level: -core.Level(d.of(6)),
		HasSession: d.of(4) > 0, Fallback: core.Fallback(d.of(4)), MaxLag: d.duration(),
		Strategy: core.Strategy{Sticky: d.of(4) == 3, Window: d.duration(), Wait: max(0, d.duration())},
		Node:     max(core.AnyNode, d.of(nodes+5)-5), Replica: max(core.AnyNode, d.of(nodes+5)-5), Exclude: uint64(d.of(8) & d.of(8)),
		PrimaryAll: d.of(8) == 7, Waited: d.chance(), NoCapture: d.chance(), Budget: d.duration(), Now: fixtureNow,
	}
	if d.chance() {
		in.Class = core.ClassRead
	}
	if d.of(4) == 3 {
		in.Level = core.Level(1 + max(0, d.duration()))
	}
	in.Asked, in.Barred = d.chance(), uint64(d.of(8)&d.of(8))
	for range d.of(6) / 2 {
		f := &core.Floor{Place: &core.Place{Node: d.of(nodes + 1)}, Start: core.Start{At: int64(d.of(2))}}
		if f.Place.Node < nodes {
			in.Need.Floors = append(in.Need.Floors, f)
		}
	}
	for range d.of(3) {
		in.Need.Positions = append(in.Need.Positions, d.required())
	}
	if d.chance() {
		in.Need.CapturedAt = fixtureNow.Add(d.duration())
	}
	if d.of(4) == 3 {
		in.Need.Until = fixtureNow.Add(d.duration())
	}
	if d.of(4) == 3 {
		in.Need.LastWrite = fixtureNow.Add(d.duration())
	}
	if d.of(4) == 3 {
		in.Need.Pending = core.NewCapture(nil)
	}
	in.Need.Open = d.of(8) == 7
	return in
}

// shows says in its own words whether a node is proven to show p.
func shows(s *core.Snapshot, n *core.NodeView, p core.Position, capturedAt time.Time) bool {
	replay := n.Sample.Position
	if replay.Timeline == 0 {
		if n.ConfirmedTimeline == 0 {
			return false
		}
		replay = n.Confirmed
		replay.Timeline = n.ConfirmedTimeline
	}
	if replay.Kind == core.KindNone || replay.Kind != p.Kind || replay.System != p.System || replay.Timeline != p.Timeline {
		return false
	}
	if replay.LSN >= p.LSN {
		return true
	}
	if capturedAt.IsZero() || s.Primary >= len(s.Nodes) {
		return false
	}
	w := &s.Nodes[s.Primary]
	sure := w.Sample.FlushDelay > 0 && !w.Sample.Began.Before(capturedAt.Add(w.Sample.FlushDelay))
	return w.Role == core.RolePrimary && sure && w.Sample.Position.System == p.System && w.Sample.Position.Timeline == p.Timeline &&
		w.Sample.Reported >= p.LSN && w.Sample.Flush > 0 && replay.LSN >= w.Sample.Flush
}

func checkDecision(t *testing.T, data []byte) {
	t.Helper()
	d := &dice{bytes: data}
	s := d.snapshot()
	in := d.input(len(s.Nodes))
	before := *in
	got := core.Decide(in, s)
	require.Equal(t, got, core.Decide(in, s), "the same question, another answer")
	require.Equal(t, before, *in, "the input was changed")
	require.NotEqual(t, core.ReasonNone, got.Reason)

	mustPrimary := in.Class != core.ClassRead && (in.Class != core.ClassUnknown || in.Hint != core.HintReplica) ||
		in.Held != core.HeldNothing || in.PrimaryAll || in.Hint == core.HintPrimary || in.Level == core.LevelPrimary ||
		!in.HasSession && (in.Level == core.LevelUnset || in.Level == core.LevelSession || in.Level == core.LevelCausal)
	if mustPrimary {
		require.Equal(t, core.GoPrimary, got.Action)
		require.False(t, got.FellBack)
	}
	bounded := in.Level > 0
	eventual := in.Level == core.LevelEventual || bounded
	floored := len(in.Need.Floors) > 0 && (in.Level == core.LevelCausal || in.Level == core.LevelGlobal)
	recent := !in.Need.LastWrite.IsZero() && in.Now.Sub(in.Need.LastWrite) < in.Strategy.Window
	unknown := in.Need.Until.After(in.Now) || in.Need.Open || in.Need.Pending != nil && !in.Strategy.Sticky ||
		recent && (in.Strategy.Sticky || len(in.Need.Positions) == 0)
	switch got.Action {
	case core.GoReplica, core.WaitReplica:
		require.NotZero(t, got.Nodes)
		require.Zero(t, got.Nodes>>len(s.Nodes), "a node that does not exist")
		stale := got.Reason == core.ReasonStale
		require.False(t, stale && in.Fallback != core.FallbackStale)
		require.False(t, unknown && !eventual && !stale, "what the session wrote is not known")
		for i := range s.Nodes {
			if got.Nodes&(1<<i) == 0 {
				continue
			}
			n := &s.Nodes[i]
			require.True(t, n.Role == core.RoleReplica && n.Healthy && !n.Stopped && (in.Exclude|in.Barred)&(1<<i) == 0)
			if !stale && got.Action == core.GoReplica {
				require.True(t, !floored || len(in.Need.Floors) == 1 && in.Need.Floors[0].Place.Node == i && in.Need.Floors[0].Start == n.Sample.Start,
					"what the session has read is not known to be there")
				require.True(t, in.Level != core.LevelGlobal || in.Asked)
				require.False(t, in.Strategy.Sticky && (bounded || in.Level == core.LevelGlobal), "nothing can prove it")
			}
			if bounded && !in.Asked && !stale {
				require.True(t, got.Action == core.GoReplica && !n.Shared && !n.AsOf.Before(fixtureNow.Add(-time.Duration(in.Level))))
			}
			require.True(t, (in.Node == core.AnyNode || in.Node == i) && (in.Replica == core.AnyNode || in.Replica == i))
			if !stale && in.MaxLag >= 0 {
				require.True(t, n.LagKnown && n.Lag <= in.MaxLag || !n.LagKnown && !s.PrimaryUp)
			}
			if got.Action == core.WaitReplica || stale || eventual && !(bounded && in.Asked) || in.Strategy.Sticky {
				continue
			}
			for _, p := range in.Need.Positions {
				require.True(t, shows(s, n, p, in.Need.CapturedAt), "node %d does not show %s", i, p)
			}
		}
		if got.Action == core.WaitReplica {
			require.Positive(t, in.Budget)
			require.False(t, eventual && !(bounded && in.Asked) || in.Strategy.Sticky)
		}
	case core.GoPrimary:
		require.False(t, got.FellBack && in.Fallback == core.FallbackError)
	case core.WaitCapture:
		require.NotNil(t, in.Need.Pending)
		require.False(t, in.NoCapture || in.Budget <= 0)
	case core.AskFloor:
		require.True(t, floored && !in.NoCapture)
	case core.AskNow:
		require.True(t, in.Level == core.LevelGlobal && !in.Asked && !in.NoCapture)
	case core.AskSince:
		require.True(t, bounded && !in.Asked && !in.NoCapture)
	case core.AskPrimary:
		require.False(t, in.NoCapture)
		require.True(t, s.PrimaryUp)
		require.NotEmpty(t, in.Need.Positions)
	case core.Refuse:
		require.Equal(t, core.FallbackError, in.Fallback)
	}
}

// FuzzDecide holds every decision to what may never happen: a read on a replica that is not proven to show what the
// session needs, unless the caller asked for just that.
func FuzzDecide(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkDecision(t, data) })
}

// TestDecideProperties runs FuzzDecide's property over many random cases.
func TestDecideProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 200)
	for range 30_000 {
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkDecision(t, data)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	type question struct {
		in *core.Input
		s  *core.Snapshot
	}
	var questions []question
	for range 1000 {
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		d := &dice{bytes: data}
		s := d.snapshot()
		questions = append(questions, question{d.input(len(s.Nodes)), s})
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, q := range questions {
			core.Decide(q.in, q.s)
		}
	}))
}

func TestDecideManyNodes(t *testing.T) {
	s := &core.Snapshot{PrimaryUp: true}
	for i := range 64 {
		n := core.NodeView{Role: core.RoleReplica, Healthy: true, LagKnown: true}
		n.Sample.Position = core.Position{Kind: core.KindPostgres, System: 7, Timeline: 1, LSN: core.LSN(i)}
		s.Nodes = append(s.Nodes, n)
	}
	s.Nodes[0].Role = core.RolePrimary
	in := &core.Input{
		Class: core.ClassRead, Level: core.LevelSession, HasSession: true, Node: core.AnyNode, Replica: core.AnyNode,
		Need: core.Need{Positions: []core.Position{s.Nodes[63].Sample.Position}},
	}
	d := core.Decide(in, s)
	require.Equal(t, core.Decision{Action: core.GoReplica, Nodes: 1 << 63, Reason: core.ReasonCovered}, d)
	in.Exclude = 1 << 63
	require.Equal(t, core.GoPrimary, core.Decide(in, s).Action)
}

// TestDecideForeign: a replica of another system serves nothing, also when anything would do and the primary is down.
func TestDecideForeign(t *testing.T) {
	p := core.Position{Kind: core.KindPostgres, System: 7, Timeline: 1, LSN: 0x500}
	for _, up := range []bool{true, false} {
		s := &core.Snapshot{PrimaryUp: up, Nodes: []core.NodeView{
			{Role: core.RolePrimary, Healthy: up},
			{Role: core.RoleReplica, Healthy: true, LagKnown: true, Sample: core.Sample{Position: p}},
		}}
		for _, in := range []core.Input{
			{Level: core.LevelEventual}, {Level: core.LevelSession, HasSession: true},
			{Level: core.LevelSession, HasSession: true, Fallback: core.FallbackStale},
		} {
			in.Class, in.Node, in.Replica = core.ClassRead, core.AnyNode, core.AnyNode
			s.Nodes[1].Foreign = false
			require.Equal(t, core.GoReplica, core.Decide(&in, s).Action)
			s.Nodes[1].Foreign = true
			require.Equal(t, core.GoPrimary, core.Decide(&in, s).Action)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	p := core.Position{Kind: core.KindPostgres, System: 7, Timeline: 1, LSN: 0x500}
	s := &core.Snapshot{PrimaryUp: true, Nodes: make([]core.NodeView, 4)}
	for i := range s.Nodes {
		s.Nodes[i] = core.NodeView{Role: core.RoleReplica, Healthy: true, LagKnown: true, Sample: core.Sample{Position: p}}
	}
	s.Nodes[0].Role = core.RolePrimary
	in := &core.Input{
		Class: core.ClassRead, Level: core.LevelSession, HasSession: true, Node: core.AnyNode, Replica: core.AnyNode,
		Need: core.Need{Positions: []core.Position{p}},
	}
	b.ReportAllocs()
	for b.Loop() {
		core.Decide(in, s)
	}
}
