package readroute

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// TestTokenSize: 64 characters are what a token may take in a header or a cookie.
func TestTokenSize(t *testing.T) {
	largest := core.Position{Kind: core.KindPostgres, System: ^uint64(0), Timeline: 1<<21 - 1, LSN: 1<<63 - 1}
	e := core.Entry{Cluster: strings.Repeat("n", 16), At: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), Positions: []core.Position{largest}}
	text := Token{core: core.NewToken(DefaultStickyWindow, e)}.String()
	require.Len(t, text, 64)
	parsed, err := ParseToken(text)
	require.NoError(t, err)
	require.Equal(t, text, parsed.String())
}

// TestTokenRoundTrip: positions travel exactly, times to the millisecond, and the primary's term never ends early.
func TestTokenRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	instant := func() time.Time { return time.Unix(r.Int64N(1<<34), r.Int64N(1e9)) }
	for range 10_000 {
		e := core.Entry{Cluster: strings.Repeat("c", r.IntN(20))}
		for range r.IntN(core.MaxPositions + 1) {
			p := core.Position{Kind: core.KindPostgres, System: r.Uint64(), Timeline: 1 + r.Uint32N(5), LSN: core.LSN(r.Uint64())}
			e.Positions, _ = core.MergePositions(e.Positions, p)
		}
		if r.IntN(2) == 0 {
			e.At = instant()
		}
		if r.IntN(2) == 0 {
			e.Until = instant()
		}
		if e.IsZero() {
			continue
		}
		text := Token{core: core.NewToken(DefaultStickyWindow, e)}.String()
		parsed, err := ParseToken(text)
		require.NoError(t, err)
		require.Len(t, parsed.core.Entries(), 1)
		got := parsed.core.Entries()[0]
		require.Equal(t, e.Cluster, got.Cluster)
		require.Equal(t, e.Positions, got.Positions)
		require.Equal(t, e.At.IsZero(), got.At.IsZero())
		require.Equal(t, e.Until.IsZero(), got.Until.IsZero())
		if !e.At.IsZero() {
			require.InDelta(t, 0, e.At.Sub(got.At), float64(time.Millisecond))
		}
		if !e.Until.IsZero() {
			require.False(t, got.Until.Before(e.Until))
			require.Less(t, got.Until.Sub(e.Until), time.Millisecond)
		}
	}
}
