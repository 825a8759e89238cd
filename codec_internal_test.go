package readroute

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func signingCodec(t testing.TB, edit ...func(*CodecConfig)) *Codec {
	config := CodecConfig{Keys: []Key{{ID: "2026", Secret: []byte(strings.Repeat("s", 32))}}}
	for _, f := range edit {
		f(&config)
	}
	c, err := NewCodec(config)
	require.NoError(t, err)
	return c
}

func unsignedCodec(t testing.TB, edit ...func(*CodecConfig)) *Codec {
	config := CodecConfig{Unsigned: true}
	for _, f := range edit {
		f(&config)
	}
	c, err := NewCodec(config)
	require.NoError(t, err)
	return c
}

func tokenOf(entries ...core.Entry) Token {
	return Token{core: core.NewToken(DefaultStickyWindow, entries...)}
}

// lsnToken is what one write leaves behind, with the largest numbers that a token has room for.
func lsnToken(at time.Time) Token {
	return tokenOf(core.Entry{
		Cluster: strings.Repeat("n", 16), At: at,
		Positions: []core.Position{{Kind: core.KindPostgres, System: ^uint64(0), Timeline: 1<<21 - 1, LSN: 1<<63 - 1}},
	})
}

// manyGTIDs is a set of many servers with three intervals each.
func manyGTIDs(t testing.TB, servers int) core.Position {
	var b strings.Builder
	for i := range servers {
		fmt.Fprintf(&b, "%08x-71ca-11e1-9e33-c80aa9429562:1-%d:2000-3000:4000-%d,", i, 1000+i, 5000+i)
	}
	set, err := core.ParseGTIDSet(strings.TrimSuffix(b.String(), ","))
	require.NoError(t, err)
	return core.MySQLPosition(set, 0)
}

// TestCodecSize: 64 characters unsigned and 96 signed for one position of a PostgreSQL cluster, with the largest numbers that a
// server can come to; also for a token that goes on four hours after the write.
func TestCodecSize(t *testing.T) {
	for _, later := range []time.Duration{0, 4 * time.Hour} {
		text := signingCodec(t).Encode(lsnToken(time.Now().Add(-later)))
		require.LessOrEqual(t, len(text), 96)
		t.Log(len(text))
	}
	require.LessOrEqual(t, len(unsignedCodec(t).Encode(lsnToken(time.Now()))), 64)
	fence := lsnToken(time.Time{}) // no write, as of a fence: the delay takes the place of its time
	require.LessOrEqual(t, len(unsignedCodec(t).Encode(fence)), 64)
	require.LessOrEqual(t, len(signingCodec(t).Encode(fence)), 96)
}

// TestCodecSizeOfGTIDs: what the writes of one session leave behind on MySQL or MariaDB has under 200 characters, signed,
// also after two failovers.
func TestCodecSizeOfGTIDs(t *testing.T) {
	set, err := core.ParseGTIDSet("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9223372036854775806," +
		"4e11fa47-71ca-11e1-9e33-c80aa9429562:1-9223372036854775806,5e11fa47-71ca-11e1-9e33-c80aa9429562:1-77:tag:1-5")
	require.NoError(t, err)
	list, err := core.ParseMariaDBGTID("0-1-18446744073709551615,0-2-18446744073709551615,1-4294967295-18446744073709551615")
	require.NoError(t, err)
	for _, p := range []core.Position{core.MySQLPosition(set, 0), core.MariaDBPosition(list, 0)} {
		token := tokenOf(core.Entry{Cluster: strings.Repeat("n", 16), At: time.Now(), Positions: []core.Position{p}})
		text := signingCodec(t).Encode(token)
		require.Less(t, len(text), 200)
		decoded, err := signingCodec(t).Decode(text)
		require.NoError(t, err)
		require.Equal(t, []core.Position{p}, decoded.core.Entries()[0].Positions)
	}
}

// TestK5_19_TooLargeAsksForThePrimary: what does not fit asks for the primary; it never asks for nothing, and what fits
// stays exact.
func TestK5_19_TooLargeAsksForThePrimary(t *testing.T) {
	c := signingCodec(t)
	now := time.Now()
	huge := core.Entry{Cluster: "billing", At: now, Positions: []core.Position{manyGTIDs(t, 120)}}
	small := core.Entry{Cluster: "main", At: now, Positions: lsnToken(now).core.Entries()[0].Positions}
	require.Greater(t, len(tokenOf(huge).binary()), 3000)

	text := c.Encode(tokenOf(huge, small))
	require.LessOrEqual(t, len(text), DefaultMaxTokenSize)
	decoded, err := c.Decode(text)
	require.NoError(t, err)
	entries := decoded.core.Entries()
	require.Len(t, entries, 2)
	require.Equal(t, small.Positions, entries[1].Positions)
	require.True(t, entries[1].Ends().IsZero())
	require.Empty(t, entries[0].Positions)
	require.WithinDuration(t, now.Add(DefaultStickyWindow+DefaultClockSkew), entries[0].Ends(), time.Second)
	require.WithinDuration(t, now, entries[0].At, time.Millisecond)

	// So many clusters that their names alone do not fit.
	var clusters []core.Entry
	longest := now.Add(4 * time.Minute)
	for i := range 200 {
		clusters = append(clusters, core.Entry{Cluster: fmt.Sprintf("cluster-%03d", i), At: now, Until: longest, Positions: small.Positions})
	}
	text = c.Encode(tokenOf(clusters...))
	require.LessOrEqual(t, len(text), DefaultMaxTokenSize)
	decoded, err = c.Decode(text)
	require.NoError(t, err)
	require.Len(t, decoded.core.Entries(), 1)
	require.Equal(t, everyCluster, decoded.core.Entries()[0].Cluster)
	require.WithinDuration(t, longest.Add(DefaultClockSkew), decoded.core.Entries()[0].Ends(), time.Second)

	smallest := signingCodec(t, func(c *CodecConfig) { c.MaxSize = minTokenSize })
	for _, token := range []Token{tokenOf(huge), tokenOf(clusters...), PrimaryFor(time.Hour)} {
		decoded, err := signingCodec(t, func(c *CodecConfig) { c.MaxAge = time.Hour }).Decode(smallest.Encode(token))
		require.NoError(t, err)
		require.False(t, decoded.IsZero())
		require.True(t, decoded.core.Entries()[0].UntilLatest.After(now))
	}
}

// randomEntry is what sessions can come to need.
func randomEntry(t testing.TB, r *rand.Rand, cluster string, now time.Time) core.Entry {
	e := core.Entry{Cluster: cluster}
	for range r.IntN(core.MaxPositions + 1) {
		p := core.Position{Kind: core.KindPostgres, System: r.Uint64(), Timeline: 1 + r.Uint32N(5), LSN: core.LSN(r.Uint64())}
		switch r.IntN(4) {
		case 0:
			p = manyGTIDs(t, 1+r.IntN(3))
		case 1:
			p = core.MariaDBPosition(core.NewMariaDBGTID(core.MariaDBEntry{Domain: r.Uint32(), Server: r.Uint32(), Sequence: r.Uint64()}), 0)
		}
		e.Positions, _ = core.MergePositions(e.Positions, p)
	}
	if r.IntN(2) == 0 {
		e.At = now.Add(-time.Duration(r.Int64N(int64(10 * time.Minute)))).Truncate(time.Millisecond)
	}
	if r.IntN(4) == 0 {
		e.Until = now.Add(time.Duration(r.Int64N(int64(4 * time.Minute)))).Truncate(time.Millisecond)
	}
	return e
}

// TestCodecRoundTrip: a token comes back as it was, whatever it is made of, signed or not.
func TestCodecRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	roomy := func(c *CodecConfig) { c.MaxSize = maxTokenText }
	for range 5000 {
		now := time.Now()
		var entries []core.Entry
		for i := range 1 + r.IntN(3) {
			if e := randomEntry(t, r, fmt.Sprintf("c%d", i), now); !e.IsZero() {
				entries = append(entries, e)
			}
		}
		token := tokenOf(entries...)
		for _, c := range []*Codec{signingCodec(t, roomy), unsignedCodec(t, roomy)} {
			decoded, err := c.Decode(c.Encode(token))
			require.NoError(t, err)
			require.Equal(t, token.String(), decoded.String())
		}
	}
}

// TestK5_18_Times: what is dated too far in the future is refused, what is too old as well, and what a clock that is
// ahead says of a write becomes now.
func TestK5_18_Times(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		write := func(at time.Time) Token {
			return tokenOf(core.Entry{Cluster: "main", At: at, Positions: []core.Position{{Kind: core.KindPostgres, System: 7, Timeline: 1, LSN: 9}}})
		}
		fence := write(time.Time{})
		day := signingCodec(t, func(c *CodecConfig) { c.MaxAge = 24 * time.Hour })
		text := day.Encode(fence)
		time.Sleep(24*time.Hour + DefaultClockSkew)
		_, err := day.Decode(text)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, err = day.Decode(text)
		require.ErrorIs(t, err, ErrTokenExpired)
		require.ErrorIs(t, err, ErrBadToken)
		_, err = signingCodec(t, func(c *CodecConfig) { c.MaxAge = -1 }).Decode(text)
		require.NoError(t, err)

		for _, c := range []*Codec{signingCodec(t), unsignedCodec(t)} {
			now = time.Now()
			_, err = c.Decode(c.Encode(write(now.AddDate(10, 0, 0))))
			require.ErrorIs(t, err, ErrTokenFuture)
			require.ErrorIs(t, err, ErrBadToken)
			_, err = c.Decode(c.Encode(write(now.Add(DefaultClockSkew + time.Second))))
			require.ErrorIs(t, err, ErrTokenFuture)
			forLonger := func(config *CodecConfig) { config.MaxAge = 48 * time.Hour }
			text := signingCodec(t, forLonger).Encode(PrimaryFor(24 * time.Hour))
			if c.config.Unsigned {
				text = unsignedCodec(t, forLonger).Encode(PrimaryFor(24 * time.Hour))
			}
			_, err = c.Decode(text)
			require.ErrorIs(t, err, ErrTokenFuture, "nobody asks for the primary for longer than a token lives")
			capped, err := c.Decode(c.Encode(PrimaryFor(24 * time.Hour)))
			require.NoError(t, err)
			require.True(t, capped.core.Entries()[0].Ends().Equal(now.Add(DefaultMaxTokenAge+DefaultClockSkew)))

			ahead, err := c.Decode(c.Encode(write(now.Add(DefaultClockSkew))))
			require.NoError(t, err)
			require.True(t, ahead.core.Entries()[0].At.Equal(now))

			// It is the age of the text that counts, not that of the write: a job may have written long ago.
			text = c.Encode(write(now.Add(-time.Hour)))
			time.Sleep(DefaultMaxTokenAge)
			old, err := c.Decode(text)
			require.NoError(t, err)
			require.True(t, old.core.Entries()[0].At.Equal(now.Add(-time.Hour)))
			time.Sleep(DefaultClockSkew + time.Second)
			_, err = c.Decode(text)
			require.ErrorIs(t, err, ErrTokenExpired)
		}
	})
}

// TestK5_18_TwoClocks: whichever clock is behind, by as much as they may differ, "the primary until" lasts as long as it was to, and
// a write counts as not older than it is. What goes on from there does not last longer for it.
func TestK5_18_TwoClocks(t *testing.T) {
	const skew, window = 20 * time.Second, 15 * time.Second
	write := time.Now().Truncate(time.Millisecond)
	carry := map[string]func(token Token, out, in time.Duration) Token{
		"unsigned": func(token Token, out, in time.Duration) Token {
			c := unsignedCodec(t, func(c *CodecConfig) { c.ClockSkew = skew })
			decoded, err := c.decodeAt(c.encodeAt(token, write.Add(out)), write.Add(in))
			require.NoError(t, err)
			return decoded
		},
		"signed": func(token Token, out, in time.Duration) Token {
			c := signingCodec(t, func(c *CodecConfig) { c.ClockSkew = skew })
			decoded, err := c.decodeAt(c.encodeAt(token, write.Add(out)), write.Add(in))
			require.NoError(t, err)
			return decoded
		},
		"text": func(token Token, _, in time.Duration) Token {
			decoded, err := parseTokenAt(token.String(), write.Add(in))
			require.NoError(t, err)
			return decoded
		},
	}
	for name, carry := range carry {
		for _, differ := range []time.Duration{-skew, 0, skew} { // what the reader's clock is ahead of the writer's
			t.Run(fmt.Sprint(name, " ", differ), func(t *testing.T) {
				e := core.Entry{Cluster: "main", At: write, Until: write.Add(window)}
				got := carry(tokenOf(e), 0, differ).core.Entries()[0]
				end := write.Add(window + differ) // by the reader's clock
				require.False(t, got.Ends().Before(end))
				require.False(t, got.Wrote().Add(window).Before(end), "where time alone counts, with the reader's own window")
				require.False(t, got.Wrote().After(write.Add(max(0, differ))), "it was before it arrived")

				onward := carry(tokenOf(got), differ, 0).core.Entries()[0]
				require.Equal(t, got.Ends(), onward.Ends())
				require.False(t, onward.Wrote().Add(window).Before(write.Add(window)))
				require.False(t, carry(tokenOf(onward), 0, differ).core.Entries()[0].Ends().After(got.Ends()))
			})
		}
	}
}

// TestPrimaryFor: "written just now" speaks for every cluster.
func TestPrimaryFor(t *testing.T) {
	require.True(t, PrimaryFor(0).IsZero())
	require.True(t, PrimaryFor(-time.Second).IsZero())
	require.Equal(t, everyCluster, PrimaryFor(time.Second).core.Entries()[0].Cluster)
	merged := PrimaryFor(time.Minute).Merge(PrimaryFor(time.Hour)).Merge(PrimaryFor(time.Second))
	require.WithinDuration(t, time.Now().Add(time.Hour), merged.core.Entries()[0].Ends(), time.Second)
}

// seal is the tag of bytes that Encode need not have made.
func seal(c *Codec, body []byte) []byte {
	s := c.take()
	defer c.put(s)
	return append([]byte(nil), s.tag(0, body)...)
}

// FuzzCodecDecode: whatever is sent, signed with a good key or not, the answer is a typed error or a token that is within
// the limits and survives the way out and back.
func FuzzCodecDecode(f *testing.F) {
	signed, unsigned := signingCodec(f), unsignedCodec(f)
	now := time.Now()
	for _, token := range []Token{lsnToken(now), PrimaryFor(time.Minute), tokenOf(core.Entry{Cluster: "main", Positions: []core.Position{manyGTIDs(f, 3)}})} {
		for _, c := range []*Codec{signed, unsigned} {
			b, err := base64.RawURLEncoding.DecodeString(c.Encode(token))
			require.NoError(f, err)
			f.Add(b, false)
			f.Add(b[:len(b)-tagSize], true)
		}
	}
	f.Add([]byte{codecVersion}, false)
	f.Add([]byte{codecVersion | codecSigned, 4, '2', '0', '2', '6'}, true)
	f.Fuzz(func(t *testing.T, body []byte, sign bool) {
		if sign {
			body = append(body[:len(body):len(body)], seal(signed, body)...)
		}
		text := base64.RawURLEncoding.EncodeToString(body)
		for _, c := range []*Codec{signed, unsigned} {
			token, err := c.Decode(text)
			if err != nil {
				require.ErrorIs(t, err, ErrBadToken)
				require.True(t, token.IsZero())
				require.Less(t, len(err.Error()), 200)
				continue
			}
			if text == "" {
				continue
			}
			if c == signed {
				end := len(body) - tagSize
				require.Equal(t, seal(c, body[:end]), body[end:], "nobody has signed it")
			}
			require.False(t, token.IsZero())
			latest := time.Now().Add(DefaultClockSkew + time.Second)
			for _, e := range token.core.Entries() {
				require.False(t, e.At.After(latest))
				require.False(t, e.UntilLatest.After(latest.Add(DefaultMaxTokenAge+DefaultClockSkew)))
				require.LessOrEqual(t, len(e.Positions), core.MaxPositions)
			}
			again, err := c.Decode(c.Encode(token))
			require.NoError(t, err)
			require.False(t, again.IsZero())
			if len(c.Encode(token)) <= DefaultMaxTokenSize && len(token.String()) < DefaultMaxTokenSize-64 {
				require.Equal(t, token.String(), again.String())
			}
		}
	})
}
