package core_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func TestParseLSN(t *testing.T) {
	t.Parallel()

	good := map[string]core.LSN{
		"0/0":               0,
		"0/A":               0xA,
		"0/a":               0xA,
		"0/0000000A":        0xA,
		"00000000/0000000A": 0xA,
		"0/401F780":         0x401F780,
		"0/0401F780":        0x401F780,
		"B/4D000000":        0xB4D000000,
		"1/0":               1 << 32,
		"FFFFFFFF/FFFFFFFF": math.MaxUint64,
		"ffffffff/FFFFffff": math.MaxUint64,
	}
	for text, want := range good {
		got, err := core.ParseLSN(text)
		require.NoErrorf(t, err, "text %q", text)
		require.Equalf(t, want, got, "text %q", text)
	}

	bad := []string{
		"", "/", "0", "0/", "/0", "/1", "1/", "0/G", "G/0", "0-1", "0/1/2", "+0/1", "-0/1", "0/+1", "0/-1", " 0/1", "0/1 ", "0 /1",
		"0/ 1", "0x0/1", "0/0x1", "0_0/1", "100000000/0", "000000000/0", "0/000000000", "0/100000000", "0/1\n", "0/1\x00", "0//1",
		"٠/1", "0／1", strings.Repeat("0", 1<<16) + "/0", "0/" + strings.Repeat("0", 1<<16), strings.Repeat("/", 1<<16),
	}
	for _, text := range bad {
		got, err := core.ParseLSN(text)
		require.ErrorIsf(t, err, core.ErrBadLSN, "text %.40q", text)
		require.Zerof(t, got, "text %.40q", text)
		require.Lessf(t, len(err.Error()), 300, "an error does not repeat a long text")
	}
}

func TestLSNStringIsCanonical(t *testing.T) {
	t.Parallel()

	for _, l := range []core.LSN{0, 1, 0xF, 0x10, 0x401F780, 0xB4D000000, math.MaxUint32, 1 << 32, 0x1000000010000000, math.MaxUint64} {
		require.Equal(t, fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l)), l.String())
		back, err := core.ParseLSN(l.String())
		require.NoError(t, err)
		require.Equal(t, l, back)
	}
	require.Equal(t, "at 0/A", string(core.LSN(10).Append([]byte("at "))))
}

func TestParseLSNAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := core.ParseLSN("16/B374D848"); err != nil {
			panic(err)
		}
	}))
}

// Positions from PostgreSQL 15: an idle standby reports the page boundary, the primary's insert position lies past the
// header of the page that comes next.
func TestRoundDownAtPageBoundary(t *testing.T) {
	t.Parallel()

	const page, segment = core.LSN(8192), core.LSN(16 << 20)
	const middle = 3*segment + 5*page // the start of a page that is not the first of its segment
	const first = 3 * segment         // the start of a segment

	cases := []struct{ in, want core.LSN }{
		{0, 0},
		{middle - 1, middle - 1},
		{middle, middle},
		{middle + 1, middle},
		{middle + 23, middle},
		{middle + 24, middle},
		{middle + 25, middle + 25},
		{middle + 40, middle + 40},
		{middle + 8191, middle + 8191},
		{first - 1, first - 1},
		{first, first},
		{first + 24, first},
		{first + 32, first},
		{first + 40, first},
		{first + 41, first + 41},
		{1<<32 + 40, 1 << 32},
		{math.MaxUint64, math.MaxUint64},
	}
	for _, c := range cases {
		require.Equalf(t, c.want, c.in.RoundDown(0, 0), "position %v with default sizes", c.in)
		require.Equalf(t, c.want, c.in.RoundDown(8192, 16<<20), "position %v", c.in)
	}
}

func TestRoundDownFollowsTheServersSizes(t *testing.T) {
	t.Parallel()

	// A block of 32 kB (configure --with-wal-blocksize=32): 8 kB is the middle of a page.
	require.Equal(t, core.LSN(8192+24), core.LSN(8192+24).RoundDown(32768, 0))
	require.Equal(t, core.LSN(3*32768), core.LSN(3*32768+24).RoundDown(32768, 0))
	// A segment of 1 MB (initdb --wal-segsize=1): every MB starts with a long header.
	require.Equal(t, core.LSN(5<<20), core.LSN(5<<20+40).RoundDown(0, 1<<20))
	require.Equal(t, core.LSN(5<<20+40), core.LSN(5<<20+40).RoundDown(0, 16<<20))
}

func BenchmarkParseLSN(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := core.ParseLSN("16/B374D848"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLSNString(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = core.LSN(0x16B374D848).String()
	}
}
