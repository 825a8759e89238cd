package core_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// randomToken draws from few values, so that tokens meet in clusters and histories. There are not more histories than
// a set may hold.
func randomToken(r *rand.Rand) core.Token {
	var entries []core.Entry
	for range r.IntN(4) {
		e := core.Entry{Cluster: string(rune('a' + r.IntN(3)))}
		for range r.IntN(3) {
			p := at(1+r.Uint32N(2), core.LSN(1+r.IntN(5)))
			p.System = 7 + uint64(r.IntN(2))
			e.Positions, _ = core.MergePositions(e.Positions, p)
		}
		if r.IntN(2) == 0 {
			e.At = fixtureNow.Add(time.Duration(r.IntN(5)) * time.Second)
		}
		if r.IntN(2) == 0 {
			e.Until = fixtureNow.Add(time.Duration(r.IntN(5)) * time.Second)
		}
		if r.IntN(2) == 0 {
			e.Arrived(fixtureNow.Add(time.Duration(r.IntN(5))*time.Second), time.Second)
		}
		entries = append(entries, e)
	}
	return core.NewToken(window, entries...)
}

// TestTokenMergeLaws: the order in which tokens arrive, and how often, makes no difference, and nothing is lost.
func TestTokenMergeLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 4_000 {
		a, b, c := randomToken(r), randomToken(r), randomToken(r)
		ab := a.Merge(b, window)
		require.Equal(t, ab, b.Merge(a, window), "commutative")
		require.Equal(t, ab.Merge(c, window), a.Merge(b.Merge(c, window), window), "associative")
		require.Equal(t, a, a.Merge(a, window), "idempotent")
		require.Equal(t, ab, ab.Merge(a, window), "what is in it adds nothing")
		require.Equal(t, a, a.Merge(core.Token{}, window))
		require.Equal(t, a, core.Token{}.Merge(a, window))
		for _, e := range a.Entries() {
			require.True(t, covers(ab, e), "%+v is not in %+v", e, ab)
		}
		names := ab.Entries()
		for i := 1; i < len(names); i++ {
			require.Less(t, names[i-1].Cluster, names[i].Cluster)
		}

		var s, o core.Session
		s.Merge(a, window)
		s.Merge(b, window)
		o.Merge(ab, window)
		mine, err := s.Token(t.Context(), clock, window)
		require.NoError(t, err)
		other, err := o.Token(t.Context(), clock, window)
		require.NoError(t, err)
		require.Equal(t, ab, mine, "a session merges as tokens do")
		require.Equal(t, mine, other)
	}
}

// covers reports whether t asks for at least what e asks for.
func covers(t core.Token, e core.Entry) bool {
	for _, o := range t.Entries() {
		if o.Cluster != e.Cluster {
			continue
		}
		for _, p := range e.Positions {
			found := false
			for _, q := range o.Positions {
				found = found || q.SameHistory(p) && q.LSN >= p.LSN
			}
			if !found {
				return false
			}
		}
		return !o.At.Before(e.At) && !o.Until.Before(e.Until) && !o.AtLatest.Before(e.AtLatest) && !o.UntilLatest.Before(e.UntilLatest)
	}
	return false
}

// TestTokenMergeChangesNothing: a token is a value; what is merged into another is still what it was.
func TestTokenMergeChangesNothing(t *testing.T) {
	a := core.NewToken(window, core.Entry{Cluster: "m", Positions: []core.Position{at(1, 1), at(2, 1)}})
	b := core.NewToken(window, core.Entry{Cluster: "m", Positions: []core.Position{at(1, 9)}}, core.Entry{Cluster: "a", At: fixtureNow})
	a.Merge(b, window)
	require.Equal(t, core.NewToken(window, core.Entry{Cluster: "m", Positions: []core.Position{at(1, 1), at(2, 1)}}), a)
}

func TestTokenDropsEmptyEntries(t *testing.T) {
	require.True(t, core.NewToken(window, core.Entry{Cluster: "m"}).IsZero())
	require.True(t, core.NewToken(window).IsZero())
}

// TestTokenTooManyHistories: more histories than a set may hold are not dropped in silence.
func TestTokenTooManyHistories(t *testing.T) {
	e := core.Entry{Cluster: "m", At: fixtureNow}
	for i := range core.MaxPositions {
		e = e.Merge(core.Entry{Cluster: "m", Positions: []core.Position{at(uint32(i+1), 5)}}, window)
	}
	require.Len(t, e.Positions, core.MaxPositions)
	require.True(t, e.Until.IsZero())
	more := e.Merge(core.Entry{Cluster: "m", Positions: []core.Position{at(9, 5)}}, window)
	require.Equal(t, e.Positions, more.Positions)
	require.Equal(t, fixtureNow.Add(window), more.Until)
	more = e.Merge(core.Entry{Cluster: "m", Positions: []core.Position{at(2, 6)}}, window)
	require.True(t, more.Until.IsZero(), "a history that is known has room")

	e.At = time.Time{}
	more = e.Merge(core.Entry{Cluster: "m", Positions: []core.Position{at(9, 5)}}, window)
	require.True(t, more.Until.IsZero(), "without a time of the write there is no term that could be told")
}

// TestEntryTimesOfOtherClocks: what another process has told of times holds by this process's clock for as long as the clocks may
// differ by, and that is added once, however far it travels.
func TestEntryTimesOfOtherClocks(t *testing.T) {
	const skew = 2 * time.Minute
	e := core.Entry{Cluster: cluster, At: fixtureNow.Add(-time.Hour), Until: fixtureNow}
	require.Equal(t, fixtureNow, e.Ends())
	require.Equal(t, fixtureNow.Add(skew), e.EndsElsewhere(skew))

	told := core.Entry{Cluster: cluster, At: e.At, Until: e.EndsElsewhere(skew)}
	told.Arrived(fixtureNow, skew)
	require.Equal(t, e.At.Add(skew), told.Wrote())
	require.Equal(t, fixtureNow.Add(skew), told.Ends())
	require.Equal(t, fixtureNow.Add(skew), told.EndsElsewhere(skew), "it is in there already")
	require.Equal(t, e.At, told.At, "what goes on is what came")

	merged := told.Merge(core.Entry{Cluster: cluster, Until: fixtureNow.Add(time.Second)}, window)
	require.Equal(t, fixtureNow.Add(skew), merged.Ends())
	require.Equal(t, fixtureNow.Add(skew+time.Second), merged.EndsElsewhere(skew))

	recent := core.Entry{Cluster: cluster, At: fixtureNow.Add(-time.Second)}
	recent.Arrived(fixtureNow, skew)
	require.Equal(t, fixtureNow, recent.Wrote(), "nothing was written after it was told")

	var zero core.Entry
	zero.Arrived(fixtureNow, skew)
	require.True(t, zero.IsZero())
	require.Zero(t, zero.EndsElsewhere(skew))

	var s core.Session
	s.Require(told, window)
	need := view(t, &s, core.VerdictNone)
	require.Equal(t, told.Ends(), need.Until)
	require.Equal(t, told.Wrote(), need.LastWrite)
	token, err := s.Token(t.Context(), clock, window)
	require.NoError(t, err)
	require.Equal(t, []core.Entry{told}, token.Entries())
}
