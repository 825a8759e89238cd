package readroute

import (
	"encoding/json"
	"fmt"
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

// TestTokenSizeOfGTIDs: what a session's writes leave behind, also after a failover, is a short text.
func TestTokenSizeOfGTIDs(t *testing.T) {
	set, err := core.ParseGTIDSet("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9223372036854775806," +
		"4e11fa47-71ca-11e1-9e33-c80aa9429562:1-9223372036854775806,5e11fa47-71ca-11e1-9e33-c80aa9429562:1-77:tag:1-5")
	require.NoError(t, err)
	list, err := core.ParseMariaDBGTID("0-1-18446744073709551615,0-2-18446744073709551615,1-4294967295-18446744073709551615")
	require.NoError(t, err)
	for _, p := range []core.Position{core.MySQLPosition(set, 1), core.MariaDBPosition(list, 1)} {
		e := core.Entry{Cluster: strings.Repeat("n", 16), At: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), Positions: []core.Position{p}}
		require.Less(t, len(Token{core: core.NewToken(DefaultStickyWindow, e)}.String()), 200)
	}
}

// TestK5_19_EveryTextCanBeRead: what String makes ParseToken takes, however large the token is; what does not fit asks for the primary, and
// what fits stays exact.
func TestK5_19_EveryTextCanBeRead(t *testing.T) {
	now := time.Now()
	small := core.Entry{Cluster: "small", At: now, Positions: lsnToken(now).core.Entries()[0].Positions}
	for servers := 1; servers < 400; servers += 7 {
		huge := core.Entry{Cluster: "huge", At: now, Positions: []core.Position{manyGTIDs(t, servers)}}
		token := tokenOf(huge, small)
		text := token.String()
		require.LessOrEqual(t, len(text), maxTokenText)
		parsed, err := ParseToken(text)
		require.NoError(t, err, servers)
		require.Equal(t, text, parsed.String())
		entries := parsed.core.Entries()
		require.Len(t, entries, 2)
		require.Equal(t, small.Positions, entries[1].Positions)
		require.Zero(t, entries[1].Ends())
		if len(entries[0].Positions) == 0 {
			require.Greater(t, len(token.binary()), maxTokenText*3/4)
			require.WithinRange(t, entries[0].Ends(), now.Add(DefaultStickyWindow+DefaultClockSkew), time.Now().Add(DefaultStickyWindow+DefaultClockSkew+time.Millisecond))
		} else {
			require.Equal(t, huge.Positions, entries[0].Positions)
		}

		marshalled, err := json.Marshal(token)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(marshalled, new(Token)))
	}

	var clusters []core.Entry
	for i := range 3 * maxTokenClusters {
		clusters = append(clusters, core.Entry{Cluster: fmt.Sprintf("%03d", i), At: now})
		parsed, err := ParseToken(tokenOf(clusters...).String())
		require.NoError(t, err)
		if n := len(parsed.core.Entries()); i < maxTokenClusters {
			require.Equal(t, i+1, n)
		} else {
			require.Equal(t, everyCluster, parsed.core.Entries()[0].Cluster)
			require.True(t, parsed.core.Entries()[0].Ends().After(now))
		}
	}
}

// TestTokenRoundTrip: positions travel exactly, times to the millisecond, and the primary's term never ends early.
func TestTokenRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	instant := func() time.Time { return time.Unix(r.Int64N(1<<34), r.Int64N(1e9)) }
	for range 10_000 {
		e := core.Entry{Cluster: strings.Repeat("c", r.IntN(20))}
		for range r.IntN(core.MaxPositions + 1) {
			p := core.Position{Kind: core.KindPostgres, System: r.Uint64(), Timeline: 1 + r.Uint32N(5), LSN: core.LSN(r.Uint64())}
			switch r.IntN(4) {
			case 0:
				set, err := core.ParseGTIDSet(fmt.Sprintf("3e11fa47-71ca-11e1-9e33-c80aa942956%x:1-%d:%d", r.IntN(16), 1+r.IntN(50), 60+r.IntN(9)))
				require.NoError(t, err)
				p = core.MySQLPosition(set, 0)
			case 1:
				p = core.MariaDBPosition(core.NewMariaDBGTID(core.MariaDBEntry{Domain: r.Uint32(), Server: r.Uint32(), Sequence: r.Uint64()}), 0)
			}
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
		require.Zero(t, got.Until)
		require.Equal(t, e.Until.IsZero(), got.UntilLatest.IsZero())
		if !e.At.IsZero() {
			require.InDelta(t, 0, e.At.Sub(got.At), float64(time.Millisecond))
		}
		if !e.Until.IsZero() {
			until := e.Until.Add(DefaultClockSkew)
			require.False(t, got.UntilLatest.Before(until))
			require.Less(t, got.UntilLatest.Sub(until), time.Millisecond)
		}
	}
}
