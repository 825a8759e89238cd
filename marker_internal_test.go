package readroute

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func markerToken(t testing.TB, cluster string, writers int) Token {
	var entries []core.MarkerEntry
	for i := range writers {
		entries = append(entries, core.MarkerEntry{Writer: fmt.Sprintf("web-7f9c64d8b5.k3v9q2m7.%d", i), Sequence: uint64(1000 + i)})
	}
	set, err := core.NewMarkerSet(entries...)
	require.NoError(t, err)
	return tokenOf(core.Entry{
		Cluster: cluster, At: time.UnixMilli(1_796_000_000_000), Positions: []core.Position{core.MarkerPosition(1<<62+7, set, 0)},
	})
}

func TestMarkerTokenTravels(t *testing.T) {
	for writers := 1; writers < 50; writers *= 3 {
		token := markerToken(t, "main", writers)
		parsed, err := ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token.core.Entries()[0].Positions, parsed.core.Entries()[0].Positions)
		require.Equal(t, token.String(), parsed.String())
		if writers == 1 {
			require.LessOrEqual(t, len(token.String()), 80)
		}
		codec := signingCodec(t, func(c *CodecConfig) { c.MaxAge = -1 })
		decoded, err := codec.Decode(codec.Encode(token))
		require.NoError(t, err)
		require.Equal(t, token.core.Entries()[0].Positions, decoded.core.Entries()[0].Positions)
	}
	merged := markerToken(t, "main", 1).Merge(markerToken(t, "main", 3))
	require.Equal(t, markerToken(t, "main", 3), merged)
}

// TestMarkerTokenIsRefusedWhenMalformed: each byte of a token is changed in turn; what is still read is written as it came.
func TestMarkerTokenIsRefusedWhenMalformed(t *testing.T) {
	text := []byte(markerToken(t, "main", 2).String())
	for i := range text {
		for _, c := range []byte("A_z9") {
			changed := append([]byte(nil), text...)
			changed[i] = c
			parsed, err := ParseToken(string(changed))
			if err != nil {
				require.ErrorIs(t, err, ErrBadToken)
				continue
			}
			require.Equal(t, string(changed), parsed.String())
		}
		if i > 0 {
			_, err := ParseToken(string(text[:i]))
			require.ErrorIs(t, err, ErrBadToken)
		}
	}
}

// TestMarkerTokenOfManyWritersStaysSmall: what a fence needs of a large fleet does not fit into a cookie, and asks for the
// primary instead.
func TestMarkerTokenOfManyWritersStaysSmall(t *testing.T) {
	codec := signingCodec(t, func(c *CodecConfig) { c.MaxAge = -1 })
	text := codec.Encode(markerToken(t, "main", 2000))
	require.LessOrEqual(t, len(text), 4096)
	decoded, err := codec.Decode(text)
	require.NoError(t, err)
	e := decoded.core.Entries()[0]
	require.Empty(t, e.Positions)
	require.True(t, e.UntilLatest.After(time.Now()))
}
