package readroute_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestCodecOnEveryEngine: what a session has written travels signed, and through a store, whatever its position is made of; the store
// forgets it when every replica shows it.
func TestCodecOnEveryEngine(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		codec, err := readroute.NewCodec(readroute.CodecConfig{
			Keys: []readroute.Key{testKey("k1")}, CaptureTimeout: 10 * time.Second, MaxAge: time.Hour,
		})
		require.NoError(t, err)
		config := c.config()
		config.Strategy, config.CaptureTimeout = readroute.PositionWait(0), 10*time.Second
		seen := record(&config)
		db := open(t, config)
		table := c.table(t, "id int PRIMARY KEY")
		resume := []func(){c.pause(t, 1), c.pause(t, 2)}
		write := func(ctx context.Context, id int) {
			t.Helper()
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ("+fmtInt(id)+")")
			require.NoError(t, err)
		}

		ctx := sessionContext(t)
		write(ctx, 1)
		header := http.Header{}
		codec.Inject(ctx, header)
		text := header.Get(readroute.DefaultTokenHeader)
		decoded, err := codec.Decode(text)
		require.NoError(t, err)
		require.Equal(t, tokenOf(t, ctx).String(), decoded.String(), "not a position of it is lost")
		seen.take()
		require.Equal(t, 1, rowsOf(t, codec.Extract(testContext(t), header), db, table, 1))
		require.Equal(t, readroute.RolePrimary, seen.one(t).Role)

		store := readroute.NewMemoryTokenStore(time.Hour)
		request := func(f func(ctx context.Context)) {
			t.Helper()
			ctx, err := codec.Load(testContext(t), store, "ada", db)
			require.NoError(t, err)
			f(ctx)
			require.NoError(t, codec.Save(ctx, store, "ada"))
		}
		kept := func() bool {
			t.Helper()
			token, err := store.Load(testContext(t), "ada")
			require.NoError(t, err)
			return !token.IsZero()
		}
		request(func(ctx context.Context) { write(ctx, 2) })
		request(func(ctx context.Context) { require.Equal(t, 1, rowsOf(t, ctx, db, table, 2)) })
		require.True(t, kept(), "no replica shows it")
		for _, f := range resume {
			f()
		}
		require.NoError(t, c.caught(testContext(t)))
		eventually(t, "every replica shows it", func() bool {
			request(func(ctx context.Context) { require.Equal(t, 1, rowsOf(t, ctx, db, table, 2)) })
			return !kept()
		})
		seen.take()
		require.Equal(t, 1, rowsOf(t, codec.Extract(testContext(t), header), db, table, 1))
		require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
	})
}
