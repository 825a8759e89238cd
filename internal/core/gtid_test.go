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

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "246e88bd-0288-11e8-9cee-230cd2fc765b"
)

func gtids(tb testing.TB, text string) core.GTIDSet {
	tb.Helper()
	s, err := core.ParseGTIDSet(text)
	require.NoErrorf(tb, err, "text %q", text)
	return s
}

// gtidTexts are texts with a known canonical form, or none; the fuzz target and the server oracle start from them.
var gtidTexts = []struct{ text, canonical string }{
	{uuidA + ":1-5", uuidA + ":1-5"},
	{strings.ToUpper(uuidA) + ":1-5", uuidA + ":1-5"},
	{uuidA + ":1-5,\n" + uuidB + ":1-59", uuidB + ":1-59," + uuidA + ":1-5"},
	{" " + uuidA + "\t:\r\n1 - 5 : 7 ", uuidA + ":1-5:7"},
	{uuidA + ":3:1:2", uuidA + ":1-3"},
	{uuidA + ":1-5:3-9:20:10-19", uuidA + ":1-20"},
	{uuidA + ":5-5", uuidA + ":5"},
	{uuidA + ":01-005", uuidA + ":1-5"},
	{uuidA + ":9223372036854775806", uuidA + ":9223372036854775806"},
	{uuidA + ":1-9223372036854775806", uuidA + ":1-9223372036854775806"},
	{uuidA + ":00000000000000000000000001", uuidA + ":1"},
	{uuidA + ":1-5:mysqlsh:1-3:7", uuidA + ":1-5:mysqlsh:1-3:7"},
	{uuidA + ":Tag:1:TAG:2", uuidA + ":tag:1-2"},
	{uuidA + ":b:1:a:2:1-3:c:4", uuidA + ":a:1-3:b:1:c:4"},
	{uuidA + ":a:1:b:1:a:2", uuidA + ":a:1-2:b:1"},
	{uuidA + ":tag:1," + uuidA + ":2", uuidA + ":2:tag:1"},
	{uuidA + ": tag : 1", uuidA + ":tag:1"},
	{uuidA + ":_x9:1", uuidA + ":_x9:1"},
	{uuidA + ":ab:1:a:1:a_:1:a1:1", uuidA + ":a:1:a1:1:a_:1:ab:1"},
	{uuidA + ":" + strings.Repeat("t", 32) + ":1", uuidA + ":" + strings.Repeat("t", 32) + ":1"},
	{"", ""},
	{" \n", ""},
}

// gtidBad is refused; what MySQL refuses, too, is marked.
var gtidBad = []struct {
	text    string
	byMySQL bool
}{
	{"x", true},
	{"0-1-5", true},
	{"0/401F780", true},
	{uuidA[:35], true},
	{uuidA[:35] + "g:1", true},
	{uuidA + ":", true},
	{uuidA + ":0", true},
	{uuidA + ":0-5", true},
	{uuidA + ":+1", true},
	{uuidA + ":-1", true},
	{uuidA + ":-", true},
	{uuidA + ":1-", true},
	{uuidA + ":0x1", true},
	{uuidA + ":1.5", true},
	{uuidA + ":1 5", true},
	{uuidA + ":1-2-3", true},
	{uuidA + ":1-5::7", true},
	{uuidA + ":1-5: :7", true},
	{uuidA + ":1;" + uuidB + ":1", true},
	{uuidA + ":1 " + uuidB + ":1", true},
	{"+" + uuidA + ":1", true},
	{uuidA + ":9223372036854775807", true},
	{uuidA + ":1-9223372036854775807", true},
	{uuidA + ":18446744073709551617", true},
	{uuidA + ":9bad:1", true},
	{uuidA + ":t-g:1", true},
	{uuidA + ":é:1", true},
	{uuidA + ":tag:", true},
	{uuidA + ":tag:0", true},
	{uuidA + ":tag:," + uuidB + ":1", true},
	{uuidA + ":" + strings.Repeat("t", 33) + ":1", true},
	{uuidA + ":1\x00", true},
	{"\x00", true},
	// A set smaller than its text would be reached sooner.
	{uuidA, false},
	{uuidA + "," + uuidB + ":1", false},
	{uuidA + ":tag", false},
	{uuidA + ":1:tag", false},
	{uuidA + ":a:b:1", false},
	{uuidA + ":5-3", false},
	{uuidA + ":5-3:7", false},
	{uuidA + ":1-5,", false},
	{"," + uuidA + ":1-5", false},
	{uuidA + ":1,," + uuidB + ":1", false},
	{",", false},
	// Other spellings of a UUID.
	{strings.ReplaceAll(uuidA, "-", "") + ":1-5", false},
	{"{" + uuidA + "}:1-5", false},
}

func TestParseGTIDSet(t *testing.T) {
	t.Parallel()
	for _, c := range gtidTexts {
		require.Equal(t, c.canonical, gtids(t, c.text).String(), "text %q", c.text)
	}
	for _, c := range gtidBad {
		got, err := core.ParseGTIDSet(c.text)
		require.ErrorIs(t, err, core.ErrBadGTIDSet, "text %q", c.text)
		require.NotErrorIs(t, err, core.ErrGTIDTooLong)
		require.Zero(t, got)
		require.Less(t, len(err.Error()), 300, "an error does not repeat a long text")
	}
	require.Equal(t, "at "+uuidA+":1", string(gtids(t, uuidA+":1").Append([]byte("at "))))
}

// What others got wrong, by the numbers of the project's collection of public bug reports.
func TestGTIDSetCases(t *testing.T) {
	t.Parallel()
	t.Run("K5-01 a UUID listed twice", func(t *testing.T) {
		s := gtids(t, uuidA+":100-200,"+uuidA+":300-400")
		require.Equal(t, gtids(t, uuidA+":100-200:300-400"), s)
		require.True(t, s.Contains(gtids(t, uuidA+":150")))
		require.True(t, s.Contains(gtids(t, uuidA+":350")))
		require.False(t, s.Contains(gtids(t, uuidA+":250")))
	})
	t.Run("K5-02 line breaks, blanks, a trailing comma, upper case", func(t *testing.T) {
		want := uuidB + ":1-59," + uuidA + ":1-5"
		for _, text := range []string{
			uuidA + ":1-5,\n" + uuidB + ":1-59", uuidA + ":1-5, " + uuidB + ":1-59", uuidA + ":1-5\t,\r\n" + uuidB + ":1-59\n",
			strings.ToUpper(uuidA) + ":1-5," + strings.ToUpper(uuidB) + ":1-59",
		} {
			require.Equal(t, want, gtids(t, text).String(), "text %q", text)
		}
		_, err := core.ParseGTIDSet(uuidA + ":1-5,")
		require.ErrorIs(t, err, core.ErrBadGTIDSet, "the text may have been cut off there")
	})
	t.Run("K5-04 adjacent and overlapping intervals", func(t *testing.T) {
		need := gtids(t, uuidA+":1-10")
		require.Equal(t, core.Covered, need.CoveredBy(gtids(t, uuidA+":1-5:6-10")))
		require.Equal(t, core.Covered, need.CoveredBy(gtids(t, uuidA+":1-7:5-10")))
		require.Equal(t, core.NotCovered, need.CoveredBy(gtids(t, uuidA+":1-5:7-10")))
	})
	t.Run("K5-05 tags", func(t *testing.T) {
		s := gtids(t, uuidA+":1-5:mysqlsh:1-3:7")
		require.True(t, s.Contains(gtids(t, uuidA+":mysqlsh:7")))
		require.False(t, s.Contains(gtids(t, uuidA+":7")), "a UUID with a tag is a stream of its own")
		require.False(t, s.Contains(gtids(t, uuidA+":mysqlsh:4")))
		require.False(t, s.Contains(gtids(t, uuidA+":other:1")))
		require.Equal(t, uuidA+":tag_1:1", gtids(t, uuidA+":tag_1:1").String())
		for _, text := range []string{uuidA + ":9bad:1", uuidA + ":t!:1", uuidA + ":1-5:mysqlsh", uuidA + "#1:2"} {
			_, err := core.ParseGTIDSet(text)
			require.ErrorIs(t, err, core.ErrBadGTIDSet, "text %q", text)
		}
	})
	t.Run("K5-10 a position of the other flavour", func(t *testing.T) {
		_, err := core.ParseGTIDSet("0-1-5")
		require.ErrorIs(t, err, core.ErrBadGTIDSet)
		_, err = core.ParseMariaDBGTID(uuidA + ":1-5")
		require.ErrorIs(t, err, core.ErrBadMariaDBGTID)
	})
	t.Run("K5-16 a position from the future", func(t *testing.T) {
		forged, primary := gtids(t, uuidA+":1-9223372036854775806"), gtids(t, uuidA+":1-1000")
		require.False(t, primary.Contains(forged), "which is how it is found out")
		require.Equal(t, core.NotCovered, forged.CoveredBy(primary))
		require.Equal(t, uuidA+":1001-9223372036854775806", forged.Difference(primary).String())
	})
	t.Run("K5-19 only what moved", func(t *testing.T) {
		var texts []string
		for i := range 120 {
			texts = append(texts, fmt.Sprintf("%08x-71ca-11e1-9e33-c80aa9429562:1-1000:2000-3000:4000-5000", i))
		}
		before := gtids(t, strings.Join(texts, ","))
		after := before.Union(gtids(t, "00000007-71ca-11e1-9e33-c80aa9429562:5001"))
		require.Greater(t, len(after.String()), 7000)
		moved := after.MovedSince(before)
		require.Equal(t, "00000007-71ca-11e1-9e33-c80aa9429562:1-1000:2000-3000:4000-5001", moved.String())
	})
}

func TestGTIDSetTooLong(t *testing.T) {
	t.Parallel()
	gaps := func(size int) string {
		var b strings.Builder
		b.WriteString(uuidA)
		for i := 1; b.Len() < size; i += 2 {
			fmt.Fprintf(&b, ":%d", i)
		}
		return b.String()[:size]
	}
	_, err := core.ParseGTIDSet(gaps(1 << 20))
	require.ErrorIs(t, err, core.ErrBadGTIDSet)
	require.ErrorIs(t, err, core.ErrGTIDTooLong)
	require.Less(t, len(err.Error()), 300)
	_, err = core.ParseMariaDBGTID(strings.Repeat("0-1-5,", 1<<20/6))
	require.ErrorIs(t, err, core.ErrBadMariaDBGTID)
	require.ErrorIs(t, err, core.ErrGTIDTooLong)

	text := gaps(core.MaxGTIDText)
	text = text[:strings.LastIndexByte(text, ':')]
	require.Greater(t, len(text), core.MaxGTIDText-10)
	require.True(t, text == gtids(t, text).String())
}

func TestGTIDSetMovedSince(t *testing.T) {
	t.Parallel()
	before := gtids(t, uuidA+":1-5:8:tag:1-9,"+uuidB+":1-100")
	after := gtids(t, uuidA+":1-6:8:tag:1-9,"+uuidB+":1-100")
	own, ok := core.ParseUUID(strings.ToUpper(uuidB))
	require.True(t, ok)
	require.Equal(t, uuidB, own.String())

	require.Equal(t, uuidA+":1-6:8", after.MovedSince(before).String(), "the whole of what moved, and of one tag only")
	require.Equal(t, uuidB+":1-100", before.MovedSince(before, own).String(), "a write that changed nothing still leaves something")
	require.Equal(t, uuidB+":1-100,"+uuidA+":1-6:8", after.MovedSince(before, own).String())
	require.True(t, before.MovedSince(before).IsZero())
	require.Equal(t, after, after.MovedSince(core.GTIDSet{}))
	_, ok = core.ParseUUID("{" + uuidB[:34] + "}")
	require.False(t, ok)
}

func TestGTIDSetCoveredBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		need, have string
		want       core.Coverage
	}{
		{"", "", core.Incomparable},
		{"", uuidA + ":1-5", core.Incomparable},
		{uuidA + ":1", "", core.Incomparable},
		{uuidA + ":1", uuidB + ":1-5", core.Incomparable},
		{uuidA + ":9," + uuidB + ":1", uuidA + ":1-5", core.Incomparable},
		{uuidA + ":tag:1", uuidA + ":1-5", core.NotCovered},
		{uuidA + ":1", uuidA + ":tag:1-5", core.NotCovered},
		{uuidA + ":1-6", uuidA + ":1-5", core.NotCovered},
		{uuidA + ":1-5", uuidA + ":1-5", core.Covered},
		{uuidA + ":1-5," + uuidB + ":7", uuidA + ":1-50," + uuidB + ":3-9", core.Covered},
	} {
		require.Equal(t, c.want, gtids(t, c.need).CoveredBy(gtids(t, c.have)), "%q by %q", c.need, c.have)
	}
}

// model is a set of transactions as a map, to judge GTIDSet by.
type model map[string]bool

var modelStreams = []string{uuidA + ":", uuidB + ":", uuidA + ":a:", uuidA + ":ab:", uuidB + ":b:"}

func randomModel(random *rand.Rand) model {
	m := model{}
	for range random.IntN(4) {
		stream, first := modelStreams[random.IntN(len(modelStreams))], 1+random.IntN(12)
		for i := range random.IntN(6) {
			m[fmt.Sprint(stream, first+i)] = true
		}
	}
	return m
}

// set makes a GTIDSet by way of a text in which nothing is in order.
func (m model) set(tb testing.TB, random *rand.Rand) core.GTIDSet {
	tb.Helper()
	var texts []string
	for text := range m {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	return gtids(tb, strings.Join(texts, ","))
}

func (m model) filter(keep func(string) bool) model {
	kept := model{}
	for text := range m {
		if keep(text) {
			kept[text] = true
		}
	}
	return kept
}

// The laws of sets, and the verdicts of the model.
func TestGTIDSetLaws(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 7))
	outcomes := map[string]int{}
	for range 5000 {
		ma, mb, mc := randomModel(random), randomModel(random), randomModel(random)
		if random.IntN(3) == 0 {
			mb = ma.filter(func(string) bool { return random.IntN(4) > 0 })
		}
		a, b, c := ma.set(t, random), mb.set(t, random), mc.set(t, random)
		both := ma.filter(func(string) bool { return true })
		for text := range mb {
			both[text] = true
		}
		minus := ma.filter(func(text string) bool { return !mb[text] })
		contained := len(mb.filter(func(text string) bool { return !ma[text] })) == 0

		require.Equal(t, both.set(t, random), a.Union(b))
		require.Equal(t, minus.set(t, random), a.Difference(b))
		require.Equal(t, contained, a.Contains(b), "%v contains %v", a, b)
		require.Equal(t, len(ma) == 0, a.IsZero())

		require.Equal(t, a.Union(b), b.Union(a))
		require.Equal(t, a.Union(b).Union(c), a.Union(b.Union(c)))
		require.Equal(t, a, a.Union(a))
		require.Equal(t, a, a.Union(core.GTIDSet{}))
		require.Equal(t, a, a.Difference(core.GTIDSet{}))
		require.True(t, a.Difference(a).IsZero())
		require.True(t, a.Union(b).Contains(a) && a.Union(b).Contains(b) && a.Contains(core.GTIDSet{}))
		require.Equal(t, a.Union(b), b.Union(a.Difference(b)))
		require.Equal(t, a.Difference(b).Difference(c), a.Difference(b.Union(c)))
		require.Equal(t, a.Union(b).Difference(c), a.Difference(c).Union(b.Difference(c)))
		require.Equal(t, a.Difference(b).IsZero(), b.Contains(a))
		require.Equal(t, a.Contains(b) && b.Contains(a), a == b)
		if a.Contains(b) && b.Contains(c) {
			require.True(t, a.Contains(c))
		}
		require.True(t, a.Contains(a.MovedSince(b)))
		require.True(t, a.MovedSince(b).Contains(a.Difference(b)), "what moved has what is new")

		order, ok := a.Compare(b)
		back, backOK := b.Compare(a)
		require.Equal(t, []any{-order, ok}, []any{back, backOK})
		require.Equal(t, ok && order >= 0, a.Contains(b))
		require.Equal(t, ok && order == 0, a == b)
		outcomes[fmt.Sprint(order, ok)]++

		coverage := b.CoveredBy(a)
		require.Equal(t, contained && !b.IsZero(), coverage == core.Covered)
		outcomes[fmt.Sprint("coverage ", coverage)]++

		// No value has changed since.
		require.Equal(t, ma.set(t, random), a)
		require.Equal(t, mb.set(t, random), b)
	}
	require.Len(t, outcomes, 7, "all outcomes were seen: %v", outcomes)
}

func FuzzParseGTIDSet(f *testing.F) {
	for _, c := range gtidTexts {
		f.Add(c.text)
	}
	for _, c := range gtidBad {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := core.ParseGTIDSet(text)
		if err != nil {
			require.ErrorIs(t, err, core.ErrBadGTIDSet)
			require.Zero(t, s)
			return
		}
		canonical := s.String()
		require.LessOrEqual(t, len(canonical), len(text))
		require.Equal(t, strings.ToLower(canonical), canonical)
		require.NotContains(t, canonical, " ")
		again, err := core.ParseGTIDSet(canonical)
		require.NoError(t, err)
		require.Equal(t, s, again, "parse(format(x)) == x")
		require.Equal(t, canonical, again.String())
		twice, err := core.ParseGTIDSet(text + "," + text)
		if !s.IsZero() && 2*len(text) < core.MaxGTIDText {
			require.NoError(t, err)
			require.Equal(t, s, twice)
		}
	})
}

// FuzzGTIDSetLaws takes two texts for sets: what holds for small random sets holds for whatever parses.
func FuzzGTIDSetLaws(f *testing.F) {
	for i, c := range gtidTexts {
		f.Add(c.text, gtidTexts[len(gtidTexts)-1-i].text)
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		a, err := core.ParseGTIDSet(x)
		if err != nil {
			return
		}
		b, err := core.ParseGTIDSet(y)
		if err != nil {
			return
		}
		union := a.Union(b)
		require.Equal(t, union, b.Union(a))
		require.True(t, union.Contains(a) && union.Contains(b))
		require.Equal(t, union, b.Union(a.Difference(b)))
		require.Equal(t, a.Difference(b).IsZero(), b.Contains(a))
		require.Equal(t, a.Difference(b), union.Difference(b))
		require.True(t, a.Contains(a.Difference(b)))
	})
}

// thousandGaps is what a parallel applier without commit order, or a purged history, leaves at worst.
func thousandGaps(tb testing.TB) core.GTIDSet {
	tb.Helper()
	var b strings.Builder
	for u := range 4 {
		if u > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%08x-71ca-11e1-9e33-c80aa9429562", u)
		for i := range 250 {
			fmt.Fprintf(&b, ":%d-%d", 1000*i+1, 1000*i+900)
		}
	}
	return gtids(tb, b.String())
}

func TestGTIDSetContainsAllocatesNothing(t *testing.T) {
	have, need := thousandGaps(t), gtids(t, "00000002-71ca-11e1-9e33-c80aa9429562:100001-100900")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !have.Contains(need) || need.CoveredBy(have) != core.Covered {
			panic("not contained")
		}
	}))
}

func BenchmarkGTIDSetContains(b *testing.B) {
	have := thousandGaps(b)
	for name, text := range map[string]string{
		"token":         "00000002-71ca-11e1-9e33-c80aa9429562:100001-100900",
		"token of two":  "00000001-71ca-11e1-9e33-c80aa9429562:1-900,00000003-71ca-11e1-9e33-c80aa9429562:249001-249899",
		"not contained": "00000002-71ca-11e1-9e33-c80aa9429562:100001-100901",
	} {
		need := gtids(b, text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = need.CoveredBy(have)
			}
		})
	}
}

func BenchmarkParseGTIDSet(b *testing.B) {
	for name, text := range map[string]string{"token": uuidA + ":1-123456789", "thousand": thousandGaps(b).String()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := core.ParseGTIDSet(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGTIDSetUnion(b *testing.B) {
	have, need := thousandGaps(b), gtids(b, uuidA+":1-123456789")
	b.ReportAllocs()
	for b.Loop() {
		_ = have.Union(need)
	}
}
