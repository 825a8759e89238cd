package readroute_test

import (
	"database/sql"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func mustLSN(tb testing.TB, text string) readroute.LSN {
	tb.Helper()
	l, err := readroute.ParseLSN(text)
	require.NoError(tb, err)
	return l
}

// lsnTexts are texts with a known verdict; the fuzz target and the server oracle start from them.
var lsnTexts = struct{ good, bad []string }{
	good: []string{"0/0", "FFFFFFFF/FFFFFFFF", "ffffffff/ffffffff", "0/A", "0/0000000A", "0/401F780", "0/0401F780", "B/4D000000"},
	bad: []string{
		"", "/1", "1/", "0/G", "0-1", "0/1/2", "+0/1", " 0/1", "0/1 ", "0x0/1", "100000000/0",
		"0/100000000", "000000000/0", "-1/0", "0/-1", "0/1\n", "0//1", "/", "0", "0\\1", "٠/١", "NULL",
	},
}

// What other implementations got wrong, by the numbers of the project's collection of public bug reports.
func TestLSNCases(t *testing.T) {
	t.Parallel()

	t.Run("K5-12 the high half prints in hexadecimal", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "B/4D000000", readroute.LSN(0xB4D000000).String())
	})
	t.Run("K5-13 the high half counts 2^32 bytes", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, int64(1), mustLSN(t, "1/0").Sub(mustLSN(t, "0/FFFFFFFF")))
	})
	t.Run("K5-14 malformed text is an error", func(t *testing.T) {
		t.Parallel()
		for _, text := range lsnTexts.good {
			_, err := readroute.ParseLSN(text)
			require.NoErrorf(t, err, "text %q", text)
		}
		require.Equal(t, mustLSN(t, "0/A"), mustLSN(t, "0/0000000A"))
		for _, text := range lsnTexts.bad {
			got, err := readroute.ParseLSN(text)
			require.ErrorIsf(t, err, readroute.ErrBadLSN, "text %q", text)
			require.Zerof(t, got, "text %q", text)
		}
	})
	t.Run("K5-15 order is numeric", func(t *testing.T) {
		t.Parallel()
		for _, pair := range [][2]string{{"0/9", "0/10"}, {"9/0", "A/0"}, {"A/0", "10/0"}} {
			first, second := mustLSN(t, pair[0]), mustLSN(t, pair[1])
			require.Equalf(t, -1, first.Compare(second), "%v before %v", first, second)
			require.Equal(t, 1, second.Compare(first))
			require.Zero(t, first.Compare(first))
		}
	})
}

func TestLSNCompareSorts(t *testing.T) {
	t.Parallel()

	positions := []readroute.LSN{0x1000000000, 0xA00000000, 0x10, 0x9, 0}
	slices.SortFunc(positions, readroute.LSN.Compare)
	require.Equal(t, []readroute.LSN{0, 0x9, 0x10, 0xA00000000, 0x1000000000}, positions)
}

func TestLSNSub(t *testing.T) {
	t.Parallel()

	const top = readroute.LSN(math.MaxUint64)
	require.Equal(t, int64(0), top.Sub(top))
	require.Equal(t, int64(-1), mustLSN(t, "0/FFFFFFFF").Sub(mustLSN(t, "1/0")))
	require.Equal(t, int64(math.MaxInt64), top.Sub(0), "a distance that does not fit is the largest one")
	require.Equal(t, int64(math.MinInt64), readroute.LSN(0).Sub(top), "and the smallest one")
	require.Equal(t, int64(math.MinInt64), readroute.LSN(0).Sub(1<<63))
	require.Equal(t, int64(math.MinInt64+1), readroute.LSN(0).Sub(1<<63-1))
}

func TestLSNZeroIsNoPosition(t *testing.T) {
	t.Parallel()

	var l readroute.LSN
	require.True(t, l.IsZero())
	require.Equal(t, "0/0", l.String())
	require.False(t, readroute.LSN(1).IsZero())
}

func TestLSNScan(t *testing.T) {
	t.Parallel()

	for name, src := range map[string]any{
		"string": "0/0401F780", "bytes": []byte("0/401F780"), "int64": int64(0x401F780), "uint64": uint64(0x401F780),
	} {
		var l readroute.LSN
		require.NoError(t, l.Scan(src), name)
		require.Equal(t, readroute.LSN(0x401F780), l, name)
	}
	for name, src := range map[string]any{
		"NULL": nil, "negative": int64(-1), "text": "0/1 ", "bytes": []byte("0-1"), "empty": "", "float": 1.5, "bool": true,
	} {
		l := readroute.LSN(7)
		require.ErrorIs(t, l.Scan(src), readroute.ErrBadLSN, name)
		require.Equal(t, readroute.LSN(7), l, "%s: a failed Scan changes nothing", name)
	}

	var absent sql.Null[readroute.LSN]
	require.NoError(t, absent.Scan(nil))
	require.False(t, absent.Valid)
	require.NoError(t, absent.Scan("0/1"))
	require.Equal(t, sql.Null[readroute.LSN]{V: 1, Valid: true}, absent)
}

func TestLSNText(t *testing.T) {
	t.Parallel()

	type row struct {
		At   readroute.LSN
		Seen map[readroute.LSN]bool
	}
	in := row{At: 0xB4D000000, Seen: map[readroute.LSN]bool{1: true}}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, `{"At":"B/4D000000","Seen":{"0/1":true}}`, string(text))
	var out row
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, in, out)

	l := readroute.LSN(7)
	require.ErrorIs(t, l.UnmarshalText([]byte("0/1/2")), readroute.ErrBadLSN)
	require.Equal(t, readroute.LSN(7), l, "a failed UnmarshalText changes nothing")
}

func TestLSNErrorIsShort(t *testing.T) {
	t.Parallel()

	_, err := readroute.ParseLSN(strings.Repeat("9", 1<<20))
	require.ErrorIs(t, err, readroute.ErrBadLSN)
	require.Less(t, len(err.Error()), 300)
}

// serverLSNGrammar restates pg_lsn_in (src/backend/utils/adt/pg_lsn.c) in other means than the parser's.
var serverLSNGrammar = regexp.MustCompile(`\A[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}\z`)

func FuzzParseLSN(f *testing.F) {
	for _, text := range slices.Concat(lsnTexts.good, lsnTexts.bad) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := readroute.ParseLSN(text)
		require.Equal(t, serverLSNGrammar.MatchString(text), err == nil, "accepts exactly what the server's grammar does")
		if err != nil {
			require.ErrorIs(t, err, readroute.ErrBadLSN)
			require.Zero(t, l)
			return
		}
		canonical := l.String()
		again, err := readroute.ParseLSN(canonical)
		require.NoError(t, err)
		require.Equal(t, l, again, "parse(format(x)) == x")
		require.Equal(t, canonical, again.String())

		var scanned, unmarshalled readroute.LSN
		require.NoError(t, scanned.Scan(text))
		require.NoError(t, unmarshalled.UnmarshalText([]byte(text)))
		require.Equal(t, l, scanned)
		require.Equal(t, l, unmarshalled)
	})
}

func BenchmarkParseLSN(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readroute.ParseLSN("16/B374D848"); err != nil {
			b.Fatal(err)
		}
	}
}
