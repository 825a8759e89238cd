package readroute

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// hostileTexts are bodies of tokens that cost as much to read as their size allows.
func hostileTexts(t testing.TB) map[string][]byte {
	const size = maxTokenText*3/4 - 8
	repeat := func(b []byte, item func(i int) []byte) []byte {
		for i := 0; len(b)+len(item(i)) <= size; i++ {
			b = append(b, item(i)...)
		}
		return b
	}
	count := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	entry := func(i int) []byte { // of two letters: about 500 fit
		return []byte{2, byte(i >> 8), byte(i), tokenHasAt, 77, 0}
	}
	descending := func(i int) []byte { return entry(1000 - i) }
	head := []byte{1, 1, 'm', 0}
	var writers []core.MarkerEntry
	for i := range 650 {
		writers = append(writers, core.MarkerEntry{Writer: fmt.Sprintf("%s%03d", strings.Repeat("w", core.MaxMarkerWriter-3), i), Sequence: 1})
	}
	markers, err := core.NewMarkerSet(writers...)
	require.NoError(t, err)
	uuid := func(i int) []byte { return append(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, 8)...) }
	return map[string][]byte{
		"clusters in order":      repeat(count(500), entry),
		"clusters out of order":  repeat(count(500), descending),
		"one cluster many times": repeat(count(500), func(int) []byte { return entry(0) }),
		"as many as there may be": repeat(count(maxTokenClusters), func(i int) []byte {
			return append(append([]byte{40}, fmt.Sprintf("%040d", i)...), tokenHasAt, 77, 0)
		})[:1+maxTokenClusters*44],
		"rising positions": repeat(append(head, count(250)...), func(i int) []byte {
			return []byte{byte(core.KindPostgres), 0, 0, 0, 0, 0, 0, 0, 7, 1, byte(i % 128)}
		}),
		"many servers":    repeat(append(head, append(count(1), append([]byte{byte(core.KindMySQL)}, count(150)...)...)...), func(i int) []byte { return append(uuid(i), 0, 1, 1, 0) }),
		"many intervals":  repeat(append(head, append(count(1), append(append([]byte{byte(core.KindMySQL)}, count(1)...), append(append(uuid(1), 0), count(1400)...)...)...)...), func(int) []byte { return []byte{2, 0} }),
		"many domains":    repeat(append(head, append(count(1), append([]byte{byte(core.KindMariaDB)}, count(900)...)...)...), func(i int) []byte { return []byte{byte(i >> 8 & 127), byte(i & 127), 1} }),
		"many writers":    markers.AppendBinary(append(head, 1, byte(core.KindMarker), 0, 0, 0, 0, 0, 0, 0, 1)),
		"nothing at all":  repeat(nil, func(int) []byte { return []byte{0} }),
		"numbers at most": repeat(nil, func(int) []byte { return []byte{0xff} }),
	}
}

// TestTokenHostileTextsAreBounded: a text that somebody makes up costs no more than a small multiple of its size.
func TestTokenHostileTextsAreBounded(t *testing.T) {
	codec := unsignedCodec(t, func(c *CodecConfig) { c.MaxAge = -1 })
	for name, body := range hostileTexts(t) {
		plain := base64.RawURLEncoding.EncodeToString(append([]byte{tokenVersion}, body...))
		coded := base64.RawURLEncoding.EncodeToString(append([]byte{codecVersion}, body...))
		require.LessOrEqual(t, len(plain), maxTokenText)
		bytes := min(allocated(func() { _, _ = ParseToken(plain) }), allocated(func() { _, _ = ParseToken(plain) }))
		coding := min(allocated(func() { _, _ = codec.Decode(coded) }), allocated(func() { _, _ = codec.Decode(coded) }))
		t.Log(name, len(plain), bytes, coding)
		require.Less(t, max(bytes, coding), uint64(64*maxTokenText), name)
	}
}

// TestMiddlewareOfHostileTextsIsBounded: nor do as many of them as a request may bring, with all that is done with their session.
func TestMiddlewareOfHostileTextsIsBounded(t *testing.T) {
	codec := unsignedCodec(t, func(c *CodecConfig) { c.MaxAge = -1 })
	requests := map[string][]string{}
	for name, body := range hostileTexts(t) {
		text := base64.RawURLEncoding.EncodeToString(append([]byte{codecVersion}, body...))
		requests[name] = slices.Repeat([]string{text}, maxCarried)
	}
	for i := range maxCarried { // all of them good, and of other clusters each
		var clusters []core.Entry
		for k := range maxTokenClusters {
			clusters = append(clusters, core.Entry{Cluster: fmt.Sprintf("%040d", i*maxTokenClusters+k), At: time.UnixMilli(77)})
		}
		body := tokenOf(clusters...).appendEntries([]byte{codecVersion}, 0, noLimit)
		requests["good ones"] = append(requests["good ones"], base64.RawURLEncoding.EncodeToString(body))
	}
	for name, texts := range requests {
		var session *Session
		handler := codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			session = SessionFrom(r.Context())
			session.Merge(PrimaryFor(time.Minute)) // as a write would
		}))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header[http.CanonicalHeaderKey(codec.config.Header)] = texts
		w := httptest.NewRecorder()
		serve := func() { handler.ServeHTTP(w, r) }
		bytes := min(allocated(serve), allocated(serve))
		t.Log(name, bytes)
		require.Less(t, bytes, uint64(64*maxTokenText*maxCarried), name)
		token, err := session.Token(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, len(token.core.Entries()), maxTokenClusters+1)
		require.True(t, token.core.Entries()[0].Ends().After(time.Now()))
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
