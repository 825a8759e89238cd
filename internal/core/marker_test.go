package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func markers(t testing.TB, text string) core.MarkerSet {
	t.Helper()
	s, err := core.ParseMarkerSet(text)
	require.NoError(t, err)
	return s
}

func TestParseMarkerSet(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"a:1":                          "a:1",
		"b:2,a:1":                      "a:1,b:2",
		"a:9223372036854775807":        "a:9223372036854775807",
		"web-1.k3_v9:17":               "web-1.k3_v9:17",
		"ab:1,a:2":                     "a:2,ab:1",
		strings.Repeat("x", 64) + ":1": strings.Repeat("x", 64) + ":1",
	} {
		s, err := core.ParseMarkerSet(text)
		require.NoError(t, err, text)
		require.Equal(t, want, s.String())
		require.Equal(t, text == "", s.IsZero())
	}
	for _, text := range []string{
		"a", "a:", ":1", "a:0", "a:01", "a:+1", "a:-1", "a: 1", " a:1", "a:1 ", "a:1,", ",a:1", "a:1,,b:1", "a:1,a:1", "a:1,a:2",
		"a:9223372036854775808", "a b:1", "ä:1", "a:1:2", "a'b:1", strings.Repeat("x", 65) + ":1", "a:1x",
	} {
		_, err := core.ParseMarkerSet(text)
		require.ErrorIs(t, err, core.ErrBadMarkerSet, "%q", text)
	}
	_, err := core.ParseMarkerSet(strings.Repeat("x", core.MaxMarkerText+1))
	require.ErrorIs(t, err, core.ErrBadMarkerSet)
	require.Less(t, len(err.Error()), 200)
}

func TestNewMarkerSet(t *testing.T) {
	s, err := core.NewMarkerSet(core.MarkerEntry{Writer: "b", Sequence: 1}, core.MarkerEntry{Writer: "a", Sequence: 2}, core.MarkerEntry{Writer: "b", Sequence: 3})
	require.NoError(t, err)
	require.Equal(t, "a:2,b:3", s.String())
	require.Equal(t, markers(t, "b:3,a:2"), s, "equal sets are equal with ==")
	for _, e := range []core.MarkerEntry{{"", 1}, {"a", 0}, {"a", 1 << 63}, {"a,b", 1}, {"a:b", 1}} {
		_, err := core.NewMarkerSet(e)
		require.ErrorIs(t, err, core.ErrBadMarkerSet)
	}
}

func TestMarkerSetAlgebra(t *testing.T) {
	for _, c := range []struct {
		required, shown string
		want            core.Coverage
		behind          bool
		missing         uint64
	}{
		{"a:1", "a:1", core.Covered, false, 0},
		{"a:1", "a:2,b:1", core.Covered, false, 0},
		{"a:2", "a:1", core.NotCovered, true, 1},
		{"a:5", "b:9", core.NotCovered, false, 5}, // not there yet, or forgotten: the primary cannot tell
		{"a:1,b:4", "a:1,b:3", core.NotCovered, true, 1},
		{"a:1,b:4", "b:4", core.NotCovered, false, 1},
		{"a:1", "", core.NotCovered, false, 1},
		{"", "a:1", core.Incomparable, false, 0},
		{"", "", core.Incomparable, false, 0},
	} {
		required, shown := markers(t, c.required), markers(t, c.shown)
		require.Equal(t, c.want, required.CoveredBy(shown), "%q by %q", c.required, c.shown)
		require.Equal(t, c.behind, required.Behind(shown), "%q by %q", c.required, c.shown)
		require.Equal(t, c.missing, required.Missing(shown), "%q by %q", c.required, c.shown)
	}
	require.Equal(t, "a:2,b:3,c:1", markers(t, "a:2,b:1").Union(markers(t, "a:1,b:3,c:1")).String())
	require.Equal(t, ^uint64(0), markers(t, "a:9223372036854775807,b:9223372036854775807,c:9").Total(), "it does not go round")
}

func TestMarkerPosition(t *testing.T) {
	at := func(table uint64, text string) core.Position { return core.MarkerPosition(table, markers(t, text), 0) }
	require.True(t, at(0, "a:1").IsZero())
	require.True(t, at(7, "").IsZero())
	require.Equal(t, "7/a:1", at(7, "a:1").String())
	require.Equal(t, core.Covered, at(7, "a:1").CoveredBy(at(7, "a:2")))
	require.Equal(t, core.Incomparable, at(7, "a:1").CoveredBy(at(8, "a:2")), "another table")
	require.Equal(t, core.Incomparable, at(7, "a:1").CoveredBy(core.Position{}), "no table yet")
	merged, ok := core.MergePositions([]core.Position{at(7, "a:1,b:2")}, at(7, "b:1,c:1"))
	require.True(t, ok)
	require.Equal(t, []core.Position{at(7, "a:1,b:2,c:1")}, merged)
	p, q := at(7, "a:3"), at(7, "a:1,b:1")
	require.False(t, p.ReachedBy(&q))
	require.EqualValues(t, 2, p.Missing(&q))
}

func TestMarkerSetAllocatesNothing(t *testing.T) {
	required, shown := markers(t, "m:3"), markers(t, "a:1,b:1,m:3,z:9")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if required.CoveredBy(shown) != core.Covered || required.Missing(shown) != 0 {
			t.Error("not covered")
		}
	}))
}

// TestSessionMarked: a write whose position is known needs no capture, and a session that writes often waits for none.
func TestSessionMarked(t *testing.T) {
	var s core.Session
	now := time.Now()
	at := func(text string) core.Position { return core.MarkerPosition(7, markers(t, text), 0) }
	for i := range 40 {
		s.Marked("main", at([]string{"a:1", "b:1", "a:2"}[i%3]), now.Add(time.Duration(i)), time.Hour)
	}
	n, v := s.View("main", time.Now)
	require.Equal(t, core.VerdictNone, v)
	require.Equal(t, []core.Position{at("a:2,b:1")}, n.Positions)
	require.Nil(t, n.Pending)
	require.Zero(t, n.Until)
	require.Equal(t, now.Add(39), n.LastWrite)
	require.Equal(t, now.Add(39), n.CapturedAt)
	require.EqualValues(t, 40, s.Grown())

	for table := range uint64(4) {
		s.Marked("main", core.MarkerPosition(table+10, markers(t, "a:1"), 0), now, time.Hour)
	}
	n, _ = s.View("main", time.Now)
	require.Zero(t, n.CapturedAt, "of several tables")
	require.Equal(t, now.Add(time.Hour), n.Until, "there is no room for a fifth table")
}

// FuzzMarkerSet: what is read is written in one way only, as text and in bytes, and the algebra is that of sets.
func FuzzMarkerSet(f *testing.F) {
	for _, seed := range []string{"", "a:1", "b:2,a:1", "web1.k3v9:17,web1.k3v9.1:4", "a:01", "a:1,a:1", "x:9223372036854775807"} {
		f.Add(seed, "a:3,b:1", []byte{1, 1, 0, 'a', 5})
	}
	f.Fuzz(func(t *testing.T, text, other string, binary []byte) {
		if set, rest, err := core.CutMarkerSet(binary); err == nil {
			// A token as a whole refuses numbers that are longer than they need be.
			require.LessOrEqual(t, len(set.AppendBinary(nil)), len(binary)-len(rest), "two forms in bytes for one set")
			again, err := core.ParseMarkerSet(set.String())
			require.NoError(t, err)
			require.Equal(t, set, again)
		}
		s, err := core.ParseMarkerSet(text)
		if err != nil {
			return
		}
		again, err := core.ParseMarkerSet(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
		cut, rest, err := core.CutMarkerSet(append(s.AppendBinary(nil), 'x'))
		require.NoError(t, err)
		require.Equal(t, []byte{'x'}, rest)
		require.Equal(t, s, cut)
		o, err := core.ParseMarkerSet(other)
		if err != nil {
			return
		}
		u := s.Union(o)
		require.Equal(t, u, o.Union(s))
		require.True(t, u.Contains(s) && u.Contains(o))
		require.Equal(t, s.Contains(o), o.Missing(s) == 0)
		if !s.IsZero() {
			require.Equal(t, o.Contains(s), s.CoveredBy(o) == core.Covered)
		}
		if s.Behind(o) {
			require.False(t, o.Contains(s))
		}
	})
}

// TestSessionJudgedByMarkers: a row that the primary has shown and does not show any more is lost; one that only a token tells of may be
// newer than the primary.
func TestSessionJudgedByMarkers(t *testing.T) {
	at := func(text string) core.Position { return core.MarkerPosition(7, markers(t, text), 0) }
	for name, c := range map[string]struct {
		required, primary string
		here              bool
		later             time.Duration
		want              core.Verdict
	}{
		"written here and there":             {"a:2", "a:2", true, time.Second, core.VerdictNone},
		"written here and behind":            {"a:2", "a:1", true, time.Second, core.VerdictLost},
		"written here and unknown":           {"a:1", "b:1", true, time.Second, core.VerdictLost},
		"written here long ago and behind":   {"a:2", "a:1", true, 25 * time.Hour, core.VerdictLost},
		"written here long ago and pruned":   {"a:1", "b:1", true, 25 * time.Hour, core.VerdictReplaced},
		"written here, an older row pruned":  {"old:4,a:2", "a:2,b:1", true, time.Second, core.VerdictReplaced},
		"written here, and an older row too": {"old:4,a:2", "b:1", true, time.Second, core.VerdictLost},
		"token and there":                    {"a:2", "a:3", false, time.Second, core.VerdictNone},
		"token and behind":                   {"a:2", "a:1", false, time.Second, core.VerdictLost},
		"token and unknown":                  {"a:1", "b:1", false, time.Second, core.VerdictNone},
	} {
		var s core.Session
		now := time.Now()
		if c.here {
			if _, last, several := strings.Cut(c.required, ","); several {
				s.Marked("main", at(c.required), now.Add(-48*time.Hour), time.Hour)
				s.Marked("main", at(last), now, time.Hour)
			} else {
				s.Marked("main", at(c.required), now, time.Hour)
			}
		} else {
			s.Require(core.Entry{Cluster: "main", Positions: []core.Position{at(c.required)}, At: now}, time.Hour)
		}
		capture := core.NewCapture(nil)
		s.Judge("main", now, []core.Position{at(c.required)}, capture, time.Hour)
		capture.Complete(core.CaptureResult{Position: at(c.primary), At: now.Add(c.later)})
		need, v := s.View("main", time.Now)
		require.Equal(t, c.want, v, name)
		if v != core.VerdictNone {
			require.Equal(t, []core.Position{at(c.primary)}, need.Positions, "%s: and it waits for nothing that will not come", name)
		}
	}
}
