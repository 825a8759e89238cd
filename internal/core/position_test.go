package core_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func TestPositionCoveredBy(t *testing.T) {
	other := at(1, 100)
	other.System = 8
	for name, c := range map[string]struct {
		required, replay core.Position
		want             core.Coverage
	}{
		"equal":                         {at(1, 100), at(1, 100), core.Covered},
		"ahead":                         {at(1, 100), at(1, 101), core.Covered},
		"behind":                        {at(1, 100), at(1, 99), core.NotCovered},
		"largest":                       {at(1, ^core.LSN(0)), at(1, ^core.LSN(0)-1), core.NotCovered},
		"older timeline, ahead":         {at(2, 100), at(1, 500), core.Incomparable},
		"newer timeline, ahead":         {at(1, 100), at(2, 500), core.Incomparable},
		"other timeline, behind":        {at(1, 100), at(2, 5), core.Incomparable},
		"replica's timeline not known":  {at(1, 100), at(0, 500), core.Incomparable},
		"required timeline not known":   {at(0, 100), at(1, 500), core.Incomparable},
		"neither timeline known":        {at(0, 100), at(0, 500), core.Incomparable},
		"other system":                  {at(1, 100), other, core.Incomparable},
		"replica has no position":       {at(1, 100), core.Position{}, core.Incomparable},
		"nothing required, no position": {core.Position{}, core.Position{}, core.Incomparable},
		"nothing required":              {core.Position{}, at(1, 100), core.Incomparable},
	} {
		require.Equal(t, c.want, c.required.CoveredBy(c.replay), name)
	}
}

func TestMergePositions(t *testing.T) {
	set := func(p ...core.Position) []core.Position { return p }
	other := core.Position{Kind: core.KindPostgres, System: 6, Timeline: 9, LSN: 1}
	for name, c := range map[string]struct {
		set  []core.Position
		p    core.Position
		want []core.Position
		full bool
	}{
		"first":              {nil, at(1, 5), set(at(1, 5)), false},
		"no position":        {set(at(1, 5)), core.Position{}, set(at(1, 5)), false},
		"higher":             {set(at(1, 5)), at(1, 6), set(at(1, 6)), false},
		"lower":              {set(at(1, 5)), at(1, 4), set(at(1, 5)), false},
		"newer timeline":     {set(at(1, 5)), at(2, 1), set(at(1, 5), at(2, 1)), false},
		"older timeline":     {set(at(2, 5)), at(1, 9), set(at(1, 9), at(2, 5)), false},
		"other system":       {set(at(1, 5)), other, set(other, at(1, 5)), false},
		"full":               {set(at(1, 1), at(2, 1), at(3, 1), at(4, 1)), at(5, 1), set(at(1, 1), at(2, 1), at(3, 1), at(4, 1)), true},
		"full, known":        {set(at(1, 1), at(2, 1), at(3, 1), at(4, 1)), at(4, 2), set(at(1, 1), at(2, 1), at(3, 1), at(4, 2)), false},
		"timeline not known": {set(at(0, 5), at(1, 5)), at(0, 7), set(at(0, 7), at(1, 5)), false},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.set)
			got, ok := core.MergePositions(c.set, c.p)
			require.Equal(t, c.want, got)
			require.Equal(t, !c.full, ok)
			require.Equal(t, before, c.set, "the argument was changed")
		})
	}
}

func TestSnapshotProof(t *testing.T) {
	sampled, confirmed := fixtureNow, fixtureNow.Add(-time.Second)
	n := core.NodeView{Confirmed: at(0, 90), ConfirmedTimeline: 3, ConfirmedBegan: confirmed}
	n.Sample.Position, n.Sample.Began = at(2, 100), sampled
	p, began := n.Proof()
	require.Equal(t, at(2, 100), p)
	require.Equal(t, sampled, began)

	n.Sample.Position.Timeline = 0
	p, began = n.Proof()
	require.Equal(t, at(3, 90), p)
	require.Equal(t, confirmed, began, "the proof is as old as what it rests on")

	n.ConfirmedTimeline = 0
	p, _ = n.Proof()
	require.Equal(t, core.Incomparable, at(1, 1).CoveredBy(p))
}

func TestSnapshotCoversNothingRequired(t *testing.T) {
	var s core.Snapshot
	require.Equal(t, core.Covered, s.Covers(core.Position{}, nil, fixtureNow), "a session that has not written needs nothing")
	require.Equal(t, core.Incomparable, s.Covers(core.Position{}, []core.Position{at(1, 1)}, fixtureNow))
	require.Equal(t, core.Incomparable, s.Covers(at(1, 5), []core.Position{at(1, 9), at(2, 1)}, fixtureNow),
		"what cannot be compared weighs more than what is behind")
}

// TestReasonTexts: the list is frozen, because the texts end up in dashboards.
func TestReasonTexts(t *testing.T) {
	var texts []string
	for r := range core.NumReasons {
		texts = append(texts, core.Reason(r).String())
	}
	require.Equal(t, []string{
		"none", "no_session", "write", "unknown", "session_state", "tx", "hint", "context", "level", "sticky",
		"capture_pending", "no_replica", "lagging", "covered", "waited", "wait_timeout", "hopeless", "protected",
		"position_lost", "incomparable", "stale", "mode",
	}, texts)
	require.Equal(t, "invalid", core.Reason(200).String())
	require.Equal(t, "invalid", core.Class(200).String())
	require.Equal(t, "invalid", core.Fallback(200).String())
	require.Equal(t, "invalid", core.Level(-9).String())
	require.True(t, core.Level(1).Valid())
	require.False(t, core.Level(-6).Valid())
	require.True(t, core.LevelPrimary.Valid())
}

func TestCapture(t *testing.T) {
	hurried := 0
	c := core.NewCapture(func() { hurried++ })
	require.Nil(t, c.Result())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Wait(ended), context.Canceled)
	require.Equal(t, 1, hurried)
	c.Complete(core.CaptureResult{Position: at(1, 5)})
	<-c.Done()
	require.NoError(t, c.Wait(ended), "a result is a result, also for whoever has no time")
	require.Equal(t, 1, hurried)
	require.Panics(t, func() { c.Complete(core.CaptureResult{}) })
}

func TestOptions(t *testing.T) {
	require.Nil(t, core.FromContext(t.Context()))
	ctx := core.NewContext(t.Context(), &core.Options{Node: "b"})
	require.Equal(t, "b", core.FromContext(ctx).Node)
	require.False(t, core.FromContext(ctx).Plain())
	type key struct{}
	wrapped := context.WithValue(ctx, key{}, 1)
	require.Same(t, core.FromContext(ctx), core.FromContext(wrapped))
	changed := core.With(wrapped, func(o *core.Options) { o.Node = "" })
	require.True(t, core.FromContext(changed).Plain())
	require.Equal(t, "b", core.FromContext(ctx).Node, "options in a context do not change")
	require.Equal(t, 1, changed.Value(key{}))
}
