package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func maria(tb testing.TB, text string) core.MariaDBGTID {
	tb.Helper()
	g, err := core.ParseMariaDBGTID(text)
	require.NoErrorf(tb, err, "text %q", text)
	return g
}

var mariaTexts = []struct{ text, canonical string }{
	{"", ""},
	{"0-1-5", "0-1-5"},
	{"1-10-216,2-211-18359", "1-10-216,2-211-18359"},
	{"2-211-18359,1-10-216", "1-10-216,2-211-18359"},
	{"10-1-1,9-1-1", "9-1-1,10-1-1"},
	{" 0-1-5,\n1-1-1,\t2-2-2", "0-1-5,1-1-1,2-2-2"},
	{"00-01-005", "0-1-5"},
	{"0-1-0", "0-1-0"},
	{"0-0-0", "0-0-0"},
	{"4294967295-4294967295-18446744073709551615", "4294967295-4294967295-18446744073709551615"},
	{"0-2-6,0-1-5,2-9-9,2-1-3", "0-1-5,0-2-6,2-1-3,2-9-9"}, // as in @@gtid_binlog_state
}

var mariaBad = []struct {
	text      string
	byMariaDB bool
}{
	{" ", true},
	{",", true},
	{"0-1-5,", true},
	{",0-1-5", true},
	{"0-1-5,,1-1-1", true},
	{"0-1-5 ", true},
	{"0-1-5 ,1-1-1", true},
	{"0 -1-5", true},
	{"0-1-5;1-1-1", true},
	{"0-1", true},
	{"0-1-", true},
	{"0-1-5-6", true},
	{"0-1-5x", true},
	{"0x0-1-5", true},
	{"a", true},
	{"--", true},
	{"-1-5", true},
	{"-0-1-5", true},
	{"0--1-5", true},
	{"0-1-5\x00", true},
	{"0-1-٥", true},
	{"4294967296-1-1", true},
	{"0-4294967296-1", true},
	{"0-1-18446744073709551616", true},
	{uuidA + ":1-5", true},
	{"+0-1-5", false},
	{"0-1-5,0-1-6", false}, // gtid_slave_pos refuses it, MASTER_GTID_WAIT waits for both
	{"0-1-5,1-1-1,0-1-5", false},
}

func TestParseMariaDBGTID(t *testing.T) {
	t.Parallel()
	for _, c := range mariaTexts {
		require.Equal(t, c.canonical, maria(t, c.text).String(), "text %q", c.text)
	}
	for _, c := range mariaBad {
		got, err := core.ParseMariaDBGTID(c.text)
		require.ErrorIs(t, err, core.ErrBadMariaDBGTID, "text %q", c.text)
		require.Zero(t, got)
		require.Less(t, len(err.Error()), 300)
	}
	g := maria(t, "2-1-3,0-1-5,2-9-9")
	require.Equal(t, g, core.NewMariaDBGTID(core.MariaDBEntry{2, 9, 9}, core.MariaDBEntry{2, 1, 3}, core.MariaDBEntry{0, 1, 5}, core.MariaDBEntry{0, 1, 4}))
	require.Equal(t, []core.MariaDBEntry{{0, 1, 5}, {2, 1, 3}, {2, 9, 9}}, slices.Collect(g.Entries()))
	for range g.Entries() {
		break
	}
	sequence, ok := g.Find(2, 1)
	require.Equal(t, []any{uint64(3), true}, []any{sequence, ok})
	for _, absent := range [][2]uint32{{2, 2}, {1, 1}, {3, 1}, {0, 0}, {2, 10}} {
		_, ok = g.Find(absent[0], absent[1])
		require.False(t, ok, "%v", absent)
	}
	head, ok := maria(t, "0-1-5,2-1-30,2-9-9").Head(2)
	require.Equal(t, []any{core.MariaDBEntry{2, 1, 30}, true}, []any{head, ok})
	for _, domain := range []uint32{1, 3} {
		_, ok = g.Head(domain)
		require.False(t, ok)
	}
	_, ok = core.MariaDBGTID{}.Head(0)
	require.False(t, ok)
}

func TestMariaDBGTIDCases(t *testing.T) {
	t.Parallel()
	none := core.MariaDBGTID{}
	t.Run("K5-06 several domains", func(t *testing.T) {
		need := maria(t, "1-10-216,2-211-18359")
		require.Equal(t, core.Covered, need.CoveredBy(maria(t, "1-10-216,2-211-18359"), none))
		require.Equal(t, core.Covered, need.CoveredBy(maria(t, "2-211-18360,0-1-1,1-10-216"), none))
		require.Equal(t, core.NotCovered, need.CoveredBy(maria(t, "1-10-216,2-211-18358"), none))
		require.Equal(t, core.NotCovered, need.CoveredBy(maria(t, "1-10-215,2-211-18359"), none))
		require.Equal(t, core.Incomparable, need.CoveredBy(maria(t, "1-10-216"), none))
	})
	t.Run("K5-07 order and aliasing", func(t *testing.T) {
		a, b := maria(t, "2-1-5,1-1-3"), maria(t, "1-1-3,2-1-5")
		require.Equal(t, a, b)
		require.True(t, a == b)
		merged := a.Union(maria(t, "1-1-9,3-1-1"))
		require.Equal(t, "1-1-9,2-1-5,3-1-1", merged.String())
		require.Equal(t, b, a, "merging does not change what was merged")
		require.Equal(t, "1-1-9,2-1-5,3-1-1", merged.Union(a).String())
	})
	t.Run("the order of a domain hides a loss", func(t *testing.T) {
		// Server 1 wrote 105, crashed before server 2 had it, and server 2 wrote on after 104.
		need, position := maria(t, "0-1-105"), maria(t, "0-2-106")
		require.Equal(t, core.Incomparable, need.CoveredBy(position, none))
		require.Equal(t, core.Incomparable, need.CoveredBy(position, maria(t, "0-1-104,0-2-106")))
		require.Equal(t, "0-1-105", need.Difference(maria(t, "0-1-104,0-2-106")).String(), "what is lost")
		// Server 2 had it.
		history := maria(t, "0-1-105,0-2-106")
		require.Equal(t, core.Covered, need.CoveredBy(position, history))
		require.True(t, need.Difference(history).IsZero())
		require.Equal(t, core.NotCovered, need.CoveredBy(maria(t, "0-1-104"), history))
		// A session that wrote on both keeps both.
		require.Equal(t, "0-1-105,0-2-106", need.Union(position).String())
		require.Equal(t, core.Incomparable, need.Union(position).CoveredBy(position, maria(t, "0-1-104,0-2-106")))
		require.Equal(t, core.Covered, need.Union(position).CoveredBy(maria(t, "0-2-107"), maria(t, "0-1-105,0-2-107")))
		require.Equal(t, core.NotCovered, need.Union(position).CoveredBy(maria(t, "0-1-105"), history))
	})
}

func TestMariaDBGTIDCoveredBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		need, position, history string
		want                    core.Coverage
	}{
		{"", "", "", core.Incomparable},
		{"", "0-1-5", "0-1-5", core.Incomparable},
		{"0-1-5", "", "", core.Incomparable},
		{"0-1-5", "1-1-5", "0-1-5,1-1-5", core.Incomparable},
		{"0-1-5", "0-1-5", "", core.Covered},
		{"0-1-5", "0-1-6", "0-2-9", core.Covered},
		{"0-1-5", "0-1-4", "0-1-5", core.NotCovered},
		{"0-1-5,1-1-1", "0-1-4", "", core.Incomparable},
		{"0-1-5", "0-1-4,0-2-9", "0-1-5,0-2-9", core.Covered},
		{"0-1-5", "0-1-4,0-2-9", "0-1-5,0-2-8", core.Incomparable},
		{"0-2-110", "0-1-120", "0-1-105,0-2-110", core.Incomparable}, // a line of writes of its own, which the primary lost
		{"0-2-110", "0-1-120", "0-1-120,0-2-110", core.Covered},
		{"0-1-5", "0-1-4,0-2-9", "", core.Incomparable},
		{"0-1-0", "0-2-9", "0-1-0,0-2-9", core.Covered},
		{"4294967295-1-5", "4294967295-1-18446744073709551615", "", core.Covered},
	} {
		require.Equal(t, c.want, maria(t, c.need).CoveredBy(maria(t, c.position), maria(t, c.history)), "%+v", c)
	}
}

func TestMariaDBGTIDMovedSince(t *testing.T) {
	t.Parallel()
	before, after := maria(t, "0-1-5,1-1-7,2-1-9"), maria(t, "0-1-6,1-1-7,2-1-9,3-1-1")
	require.Equal(t, "0-1-6,3-1-1", after.MovedSince(before).String())
	require.Equal(t, "0-1-6,2-1-9,3-1-1", after.MovedSince(before, 2, 7).String())
	require.Equal(t, "2-1-9", before.MovedSince(before, 2).String(), "a write that changed nothing still leaves something")
	require.Equal(t, "0-2-5", maria(t, "0-2-5").MovedSince(maria(t, "0-1-5")).String())
	require.True(t, before.MovedSince(before).IsZero())
}

// mariaModel holds, for each domain and server, every sequence number from 0 to the last.
type mariaModel map[[3]int]bool

func randomMariaModel(random *rand.Rand) mariaModel {
	m := mariaModel{}
	for range random.IntN(4) {
		domain, server := random.IntN(3), random.IntN(3)
		for i := range random.IntN(6) {
			m[[3]int{domain, server, i}] = true
		}
	}
	return m
}

func (m mariaModel) list(random *rand.Rand) core.MariaDBGTID {
	var entries []core.MariaDBEntry
	for e := range m {
		entries = append(entries, core.MariaDBEntry{Domain: uint32(e[0]), Server: uint32(e[1]), Sequence: uint64(e[2])})
	}
	random.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	return core.NewMariaDBGTID(entries...)
}

func TestMariaDBGTIDFurthest(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"", "", ""},
		{"0-1-5", "", "0-1-5"},
		{"", "0-1-5", "0-1-5"},
		{"0-1-5", "0-1-6", "0-1-6"},
		{"0-1-5", "0-77-6", "0-77-6"},
		{"0-1-6", "0-77-5", "0-1-6"},
		{"0-1-5", "0-77-5", "0-1-5"}, // two lines of writes: the first counts
		{"0-1-5,1-2-9", "0-77-6,2-2-1", "0-77-6,1-2-9,2-2-1"},
		{"0-1-5,0-2-7,1-1-1", "0-3-6", "0-2-7,1-1-1"},
	} {
		require.Equal(t, c[2], maria(t, c[0]).Furthest(maria(t, c[1])).String(), "%v", c)
	}
}

func TestMariaDBGTIDLaws(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(10, 11))
	outcomes := map[string]int{}
	for range 5000 {
		ma, mb, mc := randomMariaModel(random), randomMariaModel(random), randomMariaModel(random)
		a, b, c := ma.list(random), mb.list(random), mc.list(random)
		both, contained := mariaModel{}, true
		for e := range ma {
			both[e] = true
		}
		for e := range mb {
			both[e] = true
			contained = contained && ma[e]
		}
		require.Equal(t, both.list(random), a.Union(b))
		require.Equal(t, contained, a.Contains(b), "%v contains %v", a, b)
		require.Equal(t, len(ma) == 0, a.IsZero())
		require.Equal(t, a, maria(t, a.String()))

		require.Equal(t, a.Union(b), b.Union(a))
		require.Equal(t, a.Union(b).Union(c), a.Union(b.Union(c)))
		require.Equal(t, a, a.Union(a))
		require.Equal(t, a, a.Union(core.MariaDBGTID{}))
		require.Equal(t, a, a.Difference(core.MariaDBGTID{}))
		require.True(t, a.Union(b).Contains(a) && a.Union(b).Contains(b) && a.Contains(core.MariaDBGTID{}))
		require.Equal(t, a.Union(b), b.Union(a.Difference(b)))
		require.True(t, a.Contains(a.Difference(b)))
		require.Equal(t, a.Difference(b).Difference(c), a.Difference(b.Union(c)))
		require.Equal(t, a.Difference(b).IsZero(), b.Contains(a))
		require.Equal(t, a.Contains(b) && b.Contains(a), a == b)
		require.True(t, a.MovedSince(b).Contains(a.Difference(b)))

		order, ok := a.Compare(b)
		back, backOK := b.Compare(a)
		require.Equal(t, []any{-order, ok}, []any{back, backOK})
		require.Equal(t, ok && order >= 0, a.Contains(b))
		outcomes[fmt.Sprint(order, ok)]++

		coverage := a.CoveredBy(b, c)
		outcomes[fmt.Sprint("coverage ", coverage)]++
		require.Equal(t, mariaDBWait(a, b) == core.Covered, a.CoveredBy(b, a.Union(b)) == core.Covered, "with the history known, MariaDB's own order")
		if coverage != core.Incomparable {
			require.Equal(t, mariaDBWait(a, b), coverage, "%v by %v", a, b)
		}
		if !a.IsZero() && b.Contains(a) {
			require.Equal(t, core.Covered, coverage)
		}
	}
	require.Len(t, outcomes, 7, "all outcomes were seen: %v", outcomes)
}

// mariaDBWait is MASTER_GTID_WAIT in other words: domains and sequence numbers alone.
func mariaDBWait(need, position core.MariaDBGTID) core.Coverage {
	if need.IsZero() {
		return core.Incomparable
	}
	last := map[uint32]uint64{}
	known := map[uint32]bool{}
	for e := range position.Entries() {
		last[e.Domain] = max(last[e.Domain], e.Sequence)
		known[e.Domain] = true
	}
	for e := range need.Entries() {
		if !known[e.Domain] || last[e.Domain] < e.Sequence {
			return core.NotCovered
		}
	}
	return core.Covered
}

func FuzzParseMariaDBGTID(f *testing.F) {
	for _, c := range mariaTexts {
		f.Add(c.text)
	}
	for _, c := range mariaBad {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := core.ParseMariaDBGTID(text)
		if err != nil {
			require.ErrorIs(t, err, core.ErrBadMariaDBGTID)
			require.Zero(t, g)
			return
		}
		canonical := g.String()
		require.Equal(t, strings.Count(text, ","), strings.Count(canonical, ","), "nothing is left out")
		require.Empty(t, strings.Trim(canonical, "0123456789-,"))
		again, err := core.ParseMariaDBGTID(canonical)
		require.NoError(t, err)
		require.Equal(t, g, again, "parse(format(x)) == x")
		require.Equal(t, canonical, again.String())
		require.Equal(t, g, core.NewMariaDBGTID(slices.Collect(g.Entries())...))
	})
}

func TestMariaDBGTIDCoveredByAllocatesNothing(t *testing.T) {
	need, position, history := maria(t, "0-1-5,1-1-7"), maria(t, "0-2-9,1-1-8,2-1-1"), maria(t, "0-1-5,0-2-9,1-1-8,2-1-1")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if need.CoveredBy(position, history) != core.Covered || !history.Contains(need) {
			panic("not covered")
		}
	}))
}

func BenchmarkMariaDBGTIDCoveredBy(b *testing.B) {
	need, position, history := maria(b, "0-1-5"), maria(b, "0-2-9,1-1-8,2-1-1"), maria(b, "0-1-5,0-2-9,1-1-8,2-1-1")
	b.ReportAllocs()
	for b.Loop() {
		_ = need.CoveredBy(position, history)
	}
}

func BenchmarkParseMariaDBGTID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := core.ParseMariaDBGTID("0-1-123456789"); err != nil {
			b.Fatal(err)
		}
	}
}
