package readroute_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func testKey(id string) readroute.Key {
	return readroute.Key{ID: id, Secret: []byte(strings.Repeat(id, 32)[:32])}
}

// codecWith returns a codec that signs with the first of the keys.
func codecWith(t testing.TB, ids ...string) *readroute.Codec {
	t.Helper()
	var keys []readroute.Key
	for _, id := range ids {
		keys = append(keys, testKey(id))
	}
	c, err := readroute.NewCodec(readroute.CodecConfig{Keys: keys})
	require.NoError(t, err)
	return c
}

func TestCodecConfig(t *testing.T) {
	good := []readroute.Key{testKey("k1")}
	for name, config := range map[string]readroute.CodecConfig{
		"no Keys, and Unsigned":       {},
		"both Keys and Unsigned":      {Keys: good, Unsigned: true},
		"the ID of Keys[0] has 0":     {Keys: []readroute.Key{{Secret: good[0].Secret}}},
		"the ID of Keys[1] has 5":     {Keys: append(good[:1:1], testKey("12345"))},
		"has the ID \"k1\"":           {Keys: append(good[:1:1], good[0])},
		"the Secret of Keys[0] has 5": {Keys: []readroute.Key{{ID: "k1", Secret: []byte("hello")}}},
		"ClockSkew is -1ns":           {Unsigned: true, ClockSkew: -1},
		"StickyWindow -1ns":           {Unsigned: true, StickyWindow: -1},
		"longer than the MaxAge":      {Unsigned: true, MaxAge: time.Second},
		"MaxAge is 2562047h47m16":     {Unsigned: true, MaxAge: math.MaxInt64},
		"ClockSkew is 87600h0m1s":     {Unsigned: true, ClockSkew: 87600*time.Hour + time.Second},
		"StickyWindow is 2562047":     {Unsigned: true, MaxAge: -1, StickyWindow: math.MaxInt64},
		"CaptureTimeout is 25620":     {Unsigned: true, CaptureTimeout: math.MaxInt64},
		"MaxSize is 95":               {Unsigned: true, MaxSize: 95},
		"MaxSize is 4097":             {Unsigned: true, MaxSize: 4097},
		"Header is \"a b\"":           {Unsigned: true, Header: "a b"},
		"Cookie is \"a;b\"":           {Unsigned: true, Cookie: "a;b"},
	} {
		c, err := readroute.NewCodec(config)
		require.Nil(t, c)
		require.ErrorIs(t, err, readroute.ErrBadConfig)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "hello")
	}
	_, err := readroute.NewCodec(readroute.CodecConfig{MaxSize: 1, Header: "\n"})
	require.ErrorContains(t, err, "MaxSize")
	require.ErrorContains(t, err, "Header", "every problem is named")
	for _, config := range []readroute.CodecConfig{
		{Unsigned: true, MaxAge: 87600 * time.Hour, ClockSkew: 87600 * time.Hour, StickyWindow: 87600 * time.Hour},
		{Unsigned: true}, {Keys: good}, {Keys: good, MaxAge: -1, CaptureTimeout: -1, StickyWindow: time.Hour}, {Keys: good, Cookie: "-"},
	} {
		_, err := readroute.NewCodec(config)
		require.NoError(t, err)
	}
}

// TestCodecKeepsItsKeys: what the caller does to the config afterwards changes nothing.
func TestCodecKeepsItsKeys(t *testing.T) {
	keys := []readroute.Key{testKey("k1")}
	c, err := readroute.NewCodec(readroute.CodecConfig{Keys: keys})
	require.NoError(t, err)
	text := c.Encode(readroute.PrimaryFor(time.Minute))
	clear(keys[0].Secret)
	keys[0].ID = "k2"
	_, err = c.Decode(text)
	require.NoError(t, err)
}

func TestCodecRotation(t *testing.T) {
	token := readroute.PrimaryFor(time.Minute)
	before, both, moved, after := codecWith(t, "k1"), codecWith(t, "k1", "k2"), codecWith(t, "k2", "k1"), codecWith(t, "k2")
	for name, step := range map[string]struct {
		from, to *readroute.Codec
		good     bool
	}{
		"added, old to new":   {before, both, true},
		"added, new to old":   {both, before, true},
		"moved, old to new":   {both, moved, true},
		"moved, new to old":   {moved, both, true},
		"removed, old to new": {moved, after, true},
		"removed, new to old": {after, moved, true},
		"all at once":         {before, after, false},
		"and back":            {after, before, false},
	} {
		decoded, err := step.to.Decode(step.from.Encode(token))
		if step.good {
			require.NoError(t, err, name)
			require.Equal(t, token.String(), decoded.String())
		} else {
			require.ErrorIs(t, err, readroute.ErrTokenForged, name)
		}
	}
	_, err := codecWith(t, "k3").Decode(before.Encode(token))
	require.ErrorIs(t, err, readroute.ErrTokenForged)
	same, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "k1", Secret: testKey("k2").Secret}}})
	require.NoError(t, err)
	_, err = same.Decode(before.Encode(token))
	require.ErrorIs(t, err, readroute.ErrTokenForged, "the ID of a key is not the key")
}

func unsigned(t testing.TB) *readroute.Codec {
	t.Helper()
	c, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true})
	require.NoError(t, err)
	return c
}

func TestCodecUnsignedOnlyWhenAskedFor(t *testing.T) {
	token := readroute.PrimaryFor(time.Minute)
	_, err := codecWith(t, "k1").Decode(unsigned(t).Encode(token))
	require.ErrorIs(t, err, readroute.ErrTokenForged)
	_, err = unsigned(t).Decode(codecWith(t, "k1").Encode(token))
	require.ErrorIs(t, err, readroute.ErrTokenForged, "nobody here can say whose it is")
	_, err = codecWith(t, "k1").Decode(token.String())
	require.ErrorIs(t, err, readroute.ErrBadToken)
	_, err = unsigned(t).Decode(token.String())
	require.ErrorIs(t, err, readroute.ErrBadToken)
}

func TestCodecZero(t *testing.T) {
	require.Empty(t, unsigned(t).Encode(readroute.Token{}))
	token, err := codecWith(t, "k1").Decode("")
	require.NoError(t, err)
	require.True(t, token.IsZero())
}

// TestCodecEveryBitCounts: no bit of a signed token can be changed, and none of any token can be left out or added.
func TestCodecEveryBitCounts(t *testing.T) {
	c := codecWith(t, "k1")
	text := c.Encode(craft(t, "main", 7, 1, 8192))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range text {
		for bit := range 6 {
			other := alphabet[strings.IndexByte(alphabet, text[i])^1<<bit]
			_, err := c.Decode(text[:i] + string(other) + text[i+1:])
			require.ErrorIs(t, err, readroute.ErrBadToken)
		}
		_, err := c.Decode(text[:i])
		require.Equal(t, i > 0, errors.Is(err, readroute.ErrBadToken))
	}
	for _, more := range []string{"A", "AAAA", "=", " ", "\n"} {
		for _, c := range []*readroute.Codec{c, unsigned(t)} {
			text := c.Encode(craft(t, "main", 7, 1, 8192))
			_, err := c.Decode(text + more)
			require.ErrorIs(t, err, readroute.ErrBadToken)
			_, err = c.Decode(more + text)
			require.ErrorIs(t, err, readroute.ErrBadToken)
		}
	}
	_, err := c.Decode(strings.Repeat("A", 1<<20))
	require.ErrorIs(t, err, readroute.ErrBadToken)
}

// TestCodecMalformed: what no token can contain is refused in a codec's token as well, also when the times are good.
func TestCodecMalformed(t *testing.T) {
	codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, MaxAge: -1})
	require.NoError(t, err)
	good := 0
	for name, text := range malformedTokens() {
		b, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || strings.HasSuffix(text, "\n") || len(b) == 0 || b[0] != 1 {
			continue
		}
		good++
		for _, head := range [][]byte{{2}, {2 | 1<<6, 0x80, 0x80, 0x80, 0x80, 0x04}} { // the second says: 34 years later
			_, err := codec.Decode(base64.RawURLEncoding.EncodeToString(append(head, b[1:]...)))
			require.ErrorIs(t, err, readroute.ErrBadToken, name)
		}
	}
	require.Greater(t, good, 20)
	_, err = codec.Decode(tokenBytes{2, 1}.name("main").bytes(1, 77, 0).text())
	require.NoError(t, err)
	_, err = codec.Decode(tokenBytes{2 | 1<<6, 7, 1}.name("main").bytes(1, 77, 0).text())
	require.NoError(t, err)
	for name, b := range map[string]tokenBytes{
		"a delay of nothing":   tokenBytes{2 | 1<<6, 0, 1}.name("main").bytes(1, 77, 0),
		"no time at all":       tokenBytes{2, 1}.name("main").bytes(0, 1).position(1, 5),
		"a delay out of range": tokenBytes{2 | 1<<6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1}.name("main").bytes(1, 77, 0),
		"an unknown flag":      tokenBytes{2 | 1<<5, 1}.name("main").bytes(1, 77, 0),
		"another version":      tokenBytes{3, 1}.name("main").bytes(1, 77, 0),
		"a head alone":         {2},
	} {
		_, err := codec.Decode(b.text())
		require.ErrorIs(t, err, readroute.ErrBadToken, name)
	}
}

// TestCodecForgedTokensLeaveNothing: a million of them take no time to speak of, and no memory, not even for a moment. The race
// detector drops what a pool keeps: make bench-check runs it without.
func TestCodecForgedTokensLeaveNothing(t *testing.T) {
	c := codecWith(t, "k1")
	good := c.Encode(craft(t, "main", 7, 1, 8192))
	var forged []string
	for i := range 1000 {
		forged = append(forged, fmt.Sprintf("%s%06x%s", good[:20], i, good[26:]))
	}
	forged = append(forged, strings.Repeat("_", 4096), codecWith(t, "k2").Encode(readroute.PrimaryFor(time.Minute)))
	memory := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	decode := func(c *readroute.Codec, texts []string, times int) (each time.Duration, allocated, left int64) {
		before, goroutines, began := memory(), runtime.NumGoroutine(), time.Now()
		for i := range times {
			if _, err := c.Decode(texts[i%len(texts)]); !errors.Is(err, readroute.ErrBadToken) {
				t.Fatal(err)
			}
		}
		each = time.Since(began) / time.Duration(times)
		after := memory()
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
		return each, int64(after.TotalAlloc-before.TotalAlloc) / int64(times), int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	times, slow := 1_000_000, time.Duration(1)
	if raceEnabled() {
		times, slow = 100_000, 20
	}
	each, allocated, left := decode(c, forged, times)
	t.Log("signed:", each, "and", allocated, "bytes each;", left, "bytes left")
	require.Less(t, each, slow*10*time.Microsecond)
	require.Less(t, left, int64(256<<10))
	if !raceEnabled() {
		require.Less(t, allocated, int64(64))
	}

	// Without a signature a text is read as far as it makes sense: here to the end, whose time is 34 years away.
	set := tokenBytes{2 | 1<<6, 0x80, 0x80, 0x80, 0x80, 0x04, 1}.name("main").bytes(1, 77, 1, 2, 0x80|22, 1)
	for i := range byte(150) {
		set = set.bytes(append(make([]byte, 15), i, 0, 1, 1, 0)...)
	}
	costly := []string{set.text()}
	_, err := unsigned(t).Decode(costly[0])
	require.ErrorIs(t, err, readroute.ErrTokenExpired)
	each, allocated, left = decode(unsigned(t), costly, times/50)
	t.Log("unsigned:", each, "and", allocated, "bytes each;", left, "bytes left")
	require.Less(t, each, slow*time.Millisecond)
	require.Less(t, allocated, int64(256<<10))
	require.Less(t, left, int64(256<<10))
}

// TestCodecAllocations: an LSN token out and back in, signed, takes at most four.
func TestCodecAllocations(t *testing.T) {
	if raceEnabled() {
		t.Skip("the race detector drops what a pool keeps: make bench-check runs it without")
	}
	c := codecWith(t, "k1")
	for _, cluster := range []string{"main", "a_cluster_of_16_"} {
		token := craft(t, cluster, 7, 1, 1<<40)
		allocs := testing.AllocsPerRun(1000, func() {
			if _, err := c.Decode(c.Encode(token)); err != nil {
				t.Fatal(err)
			}
		})
		t.Log(cluster, allocs)
		require.LessOrEqual(t, allocs, 4.0)
	}
}

// TestCodecCost: an LSN token out and back in, signed, takes less than 1.5 us; on a slower machine, less than three times what the two
// tags and the base64 of it take alone. Other programs only add, so the quietest of many rounds counts.
func TestCodecCost(t *testing.T) {
	if raceEnabled() {
		t.Skip("the race detector costs more than the code: make bench-check runs it without")
	}
	c := codecWith(t, "k1")
	token := craft(t, "main", 7, 1, 1<<40)
	mac := hmac.New(sha256.New, testKey("k1").Secret)
	body, text := make([]byte, 50), make([]byte, 0, 128)
	var sum []byte
	baseline := func() {
		for range 2 {
			mac.Reset()
			mac.Write(body)
			sum = mac.Sum(sum[:0])
		}
		text = base64.RawURLEncoding.AppendEncode(text[:0], body)
		if _, err := base64.RawURLEncoding.Decode(body, text); err != nil {
			t.Fatal(err)
		}
	}
	codec := func() {
		if _, err := c.Decode(c.Encode(token)); err != nil {
			t.Fatal(err)
		}
	}
	const turn = 200
	quiet := func(f func()) time.Duration {
		began := time.Now()
		for range turn {
			f()
		}
		return time.Since(began) / turn
	}
	alone, whole := time.Hour, time.Hour
	for range 500 {
		alone, whole = min(alone, quiet(baseline)), min(whole, quiet(codec))
	}
	t.Logf("%v, %v of it cryptography and base64", whole, alone)
	require.Less(t, whole, max(1500*time.Nanosecond, 3*alone))
}

func BenchmarkTokenCodec(b *testing.B) {
	for name, c := range map[string]*readroute.Codec{"signed": codecWith(b, "k1"), "unsigned": unsigned(b)} {
		token := craft(b, "main", 7, 1, 1<<40)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Decode(c.Encode(token)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("forged", func(b *testing.B) {
		c, text := codecWith(b, "k1"), codecWith(b, "k2", "k1").Encode(readroute.PrimaryFor(time.Minute))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(text); err == nil {
				b.Fatal("taken in")
			}
		}
	})
}

// TestCodecDefaultsAreDocumented holds the last line of each field's doc to the constants.
func TestCodecDefaultsAreDocumented(t *testing.T) {
	source := string(readFile(t, "codec.go"))
	for field, value := range map[string]string{
		"MaxAge":         spoken(readroute.DefaultMaxTokenAge),
		"ClockSkew":      spoken(readroute.DefaultClockSkew),
		"StickyWindow":   spoken(readroute.DefaultStickyWindow),
		"MaxSize":        fmt.Sprint(readroute.DefaultMaxTokenSize),
		"CaptureTimeout": spoken(readroute.DefaultCaptureTimeout),
		"Header":         fmt.Sprintf("%q", readroute.DefaultTokenHeader),
		"Cookie":         fmt.Sprintf("%q", readroute.DefaultTokenCookie),
	} {
		doc, _, found := strings.Cut(source, "\t"+field+" ")
		require.True(t, found, field)
		require.Contains(t, doc[strings.LastIndex(doc, "\t// Defaults to "):], "Defaults to "+value+".", field)
	}
}

// raceEnabled reports that this test runs with -race.
func raceEnabled() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
