package readroute_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// headers is a carrier as message brokers have them: a list of pairs.
type headers []struct{ key, value string }

func (h *headers) Get(key string) string {
	for _, pair := range *h {
		if pair.key == key {
			return pair.value
		}
	}
	return ""
}

func (h *headers) Set(key, value string) {
	for i := range *h {
		if (*h)[i].key == key {
			(*h)[i].value = value
			return
		}
	}
	*h = append(*h, struct{ key, value string }{key, value})
}

// TestCarrier: a write in one process is seen in the other that its message comes to, whatever holds the token.
func TestCarrier(t *testing.T) {
	c := sharedCluster(t)
	codec := codecWith(t, "k1")
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	config.CaptureTimeout = 10 * time.Second
	writer, reader := open(t, config), open(t, config)
	slow, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{testKey("k1")}, CaptureTimeout: time.Minute})
	require.NoError(t, err)
	pauseReplay(t, c)
	written := 0
	for name, carrier := range map[string]readroute.Carrier{"HTTP": http.Header{}, "pairs": &headers{{"a", "b"}}} {
		ctx := sessionContext(t)
		slow.Inject(ctx, carrier)
		require.Empty(t, carrier.Get(readroute.DefaultTokenHeader), name)
		_, err := writer.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err)
		written++
		slow.Inject(ctx, carrier)
		require.LessOrEqual(t, len(carrier.Get(readroute.DefaultTokenHeader)), 96)

		arrived := codec.Extract(testContext(t), carrier)
		require.Equal(t, written, countIn(t, arrived, reader, table), name)
		require.Less(t, countIn(t, codec.Extract(testContext(t), http.Header{}), reader, table), written, "the replicas stand still")

		// Nothing to answer until this process has written as well.
		reply := http.Header{}
		require.False(t, slow.Reply(arrived, reply))
		require.Empty(t, reply)
		_, err = reader.ExecContext(arrived, "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err)
		written++
		require.True(t, slow.Reply(context.WithValue(arrived, struct{}{}, 1), reply))
		require.Less(t, countIn(t, ctx, writer, table), written+1)
		codec.Merge(ctx, reply)
		require.Equal(t, written, countIn(t, ctx, writer, table), name)
	}
}

// TestCarrierBatch: the session of several messages needs what each of them asks for.
func TestCarrierBatch(t *testing.T) {
	codec := codecWith(t, "k1")
	var batch []readroute.Carrier
	var want readroute.Token
	for _, lsn := range []uint64{5, 9, 7} {
		token := craft(t, "main", 7, 1, lsn)
		want = want.Merge(token)
		h := http.Header{}
		codec.Inject(readroute.ContextWithSession(testContext(t), readroute.NewSession(token)), h)
		batch = append(batch, h)
	}
	got, err := readroute.SessionFrom(codec.Extract(testContext(t), batch...)).Token(testContext(t))
	require.NoError(t, err)
	require.Equal(t, want.String(), got.String())

	got, err = readroute.SessionFrom(codec.Extract(testContext(t))).Token(testContext(t))
	require.NoError(t, err)
	require.True(t, got.IsZero())
}

// TestK2_06_ExtractLeavesTheParentAlone: a worker's context lives for longer than a message.
func TestK2_06_ExtractLeavesTheParentAlone(t *testing.T) {
	codec := codecWith(t, "k1")
	worker := sessionContext(t)
	h := http.Header{}
	codec.Inject(readroute.ContextWithSession(testContext(t), readroute.NewSession(craft(t, "main", 7, 1, 5))), h)
	first := codec.Extract(worker, h)
	require.NotSame(t, readroute.SessionFrom(worker), readroute.SessionFrom(first))
	for _, ctx := range []context.Context{worker, codec.Extract(worker, http.Header{})} {
		require.True(t, tokenOf(t, ctx).IsZero())
	}
}

// TestCarrierOfSeveralTokens: all that a carrier holds counts, in several values or in one that a proxy has joined, in what comes in as in
// an answer; a bad one among them is a bad token, and so is what is too much.
func TestCarrierOfSeveralTokens(t *testing.T) {
	codec := codecWith(t, "k1")
	first, second := craft(t, "main", 7, 1, 5), craft(t, "other", 7, 1, 9)
	a, b := codec.Encode(first), codec.Encode(second)
	for name, c := range map[string]struct {
		values []string
		bad    bool
	}{
		"two values":           {[]string{a, b}, false},
		"one value of two":     {[]string{a + ", " + b}, false},
		"empty ones":           {[]string{"", ", ,", a, "", b + ","}, false},
		"a bad one":            {[]string{a, b, "bad"}, true},
		"a bad one in between": {[]string{a + ",bad," + b}, true},
		"sixty-four":           {append(slices.Repeat([]string{a}, 63), b), false},
		"sixty-five":           {append([]string{b}, slices.Repeat([]string{a}, 64)...), true},
		"a million in one":     {[]string{b + "," + strings.Repeat(a+",", 1_000_000)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			carrier := http.Header{http.CanonicalHeaderKey(codec.Header()): c.values}
			answered := sessionContext(t)
			codec.Merge(answered, carrier)
			for _, ctx := range []context.Context{codec.Extract(testContext(t), carrier), answered} {
				got := tokenOf(t, ctx)
				require.Equal(t, got.String(), got.Merge(first).Merge(second).String())
				sticky := got.Merge(readroute.PrimaryFor(time.Second)).String() == got.String()
				require.Equal(t, c.bad, sticky)
			}
			r := httptest.NewRequestWithContext(testContext(t), http.MethodGet, "/", nil)
			r.Header = carrier
			codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got := tokenOf(t, r.Context())
				require.Equal(t, got.String(), got.Merge(first).Merge(second).String())
				require.Equal(t, c.bad, got.Merge(readroute.PrimaryFor(time.Second)).String() == got.String())
			})).ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

// TestCarrierExtractedTwice: what OpenTelemetry, or a second library, takes out of the same message, or one within it, joins the
// session that the answer is about: its tokens count, nothing is answered because of them, and what is written is.
func TestCarrierExtractedTwice(t *testing.T) {
	codec := codecWith(t, "k1")
	carrying := func(lsn uint64) http.Header {
		h := http.Header{}
		codec.Inject(readroute.ContextWithSession(testContext(t), readroute.NewSession(craft(t, "main", 7, 1, lsn))), h)
		return h
	}
	bad := http.Header{}
	bad.Set(readroute.DefaultTokenHeader, "bad")
	loaded, err := codec.Load(testContext(t), readroute.NewMemoryTokenStore(0), "key")
	require.NoError(t, err)
	for name, arrived := range map[string]context.Context{
		"Extract": codec.Extract(testContext(t), carrying(5)),
		"Load":    loaded,
	} {
		t.Run(name, func(t *testing.T) {
			want := craft(t, "main", 7, 1, 9)
			within := http.Header{}
			within.Set(readroute.DefaultTokenHeader, codec.Encode(want))
			inner := codec.Extract(context.WithValue(arrived, struct{}{}, 1), within, bad)
			require.Same(t, readroute.SessionFrom(arrived), readroute.SessionFrom(inner))
			require.Equal(t, tokenOf(t, arrived).String(), tokenOf(t, arrived).Merge(want).String())
			require.False(t, codec.Reply(arrived, http.Header{}), "it was told nothing but what it has brought")
			readroute.SessionFrom(inner).Merge(readroute.PrimaryFor(time.Hour))
			require.True(t, codec.Reply(arrived, http.Header{}))

			// Whoever makes a session of his own within it, has one.
			own := readroute.WithSession(arrived)
			require.NotSame(t, readroute.SessionFrom(own), readroute.SessionFrom(codec.Extract(own, carrying(5))))
		})
	}
	// Within the middleware, where the cookies are what nobody else takes out.
	brought := craft(t, "main", 7, 1, 7)
	cookie := &http.Cookie{Name: "readroute-1", Value: codec.Encode(brought)}
	for _, writes := range []bool{true, false} {
		answer := serveOnce(t, codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ctx := codec.Extract(r.Context(), r.Header, bad)
			token, err := readroute.SessionFrom(ctx).Token(ctx)
			if err != nil || token.Merge(brought).String() != token.String() {
				t.Error("the cookie's token is gone", err)
			}
			if writes {
				readroute.SessionFrom(ctx).Merge(readroute.PrimaryFor(time.Hour))
			}
		})), cookie)
		require.Equal(t, writes, answer.Header.Get(readroute.DefaultTokenHeader) != "")
		require.Len(t, answer.Cookies(), map[bool]int{true: 2, false: 0}[writes], "one is set, one is deleted")
	}
}

// TestCarrierWithoutSession: there is nothing to say, and nobody to tell.
func TestCarrierWithoutSession(t *testing.T) {
	codec := codecWith(t, "k1")
	h := http.Header{}
	codec.Inject(testContext(t), h)
	require.False(t, codec.Reply(testContext(t), h))
	codec.Merge(testContext(t), h)
	codec.Merge(testContext(t), nil)
	require.Empty(t, h)

	// A session that did not come from Extract answers with whatever it needs.
	require.True(t, codec.Reply(readroute.ContextWithSession(testContext(t), readroute.NewSession(craft(t, "main", 7, 1, 5))), h))
	require.NotEmpty(t, h)
}

// TestCarrierBadToken: it is what OnBadToken makes of it, in what comes in and in answers; a lost answer is not.
func TestCarrierBadToken(t *testing.T) {
	bad := http.Header{}
	bad.Set("Route", "bad")
	for name, c := range map[string]struct {
		config readroute.CodecConfig
		sticky bool
	}{
		"by default": {readroute.CodecConfig{Unsigned: true, Header: "Route"}, true},
		"ignored": {readroute.CodecConfig{Unsigned: true, Header: "route", OnBadToken: func(context.Context, error) readroute.Token {
			return readroute.Token{}
		}}, false},
	} {
		codec, err := readroute.NewCodec(c.config)
		require.NoError(t, err)
		token := func(ctx context.Context) string {
			token, err := readroute.SessionFrom(ctx).Token(ctx)
			require.NoError(t, err)
			return token.String()
		}
		require.Equal(t, c.sticky, token(codec.Extract(testContext(t), bad)) != "", name)
		ctx := sessionContext(t)
		codec.Merge(ctx, bad)
		require.Equal(t, c.sticky, token(ctx) != "", name)
		ctx = sessionContext(t)
		codec.Merge(ctx, nil)
		require.NotEmpty(t, token(ctx), name)
	}
}
