package readroute_test

import (
	"context"
	"net/http"
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
	for _, ctx := range []context.Context{worker, codec.Extract(worker, http.Header{}), codec.Extract(first, http.Header{})} {
		token, err := readroute.SessionFrom(ctx).Token(ctx)
		require.NoError(t, err)
		require.True(t, token.IsZero())
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
