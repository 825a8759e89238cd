package tokenstore_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/examples/tokenstore"
)

const testTimeout = 60 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// redisProgram returns a Redis server and the name that it must be called by: Debian's redis-tools has it under another one.
func redisProgram(t testing.TB) (path, name string) {
	t.Helper()
	for _, program := range []string{"redis-server", "redis-check-rdb", "valkey-server"} {
		if path, err := exec.LookPath(program); err == nil {
			if program == "redis-check-rdb" {
				return path, "redis-server"
			}
			return path, program
		}
	}
	if os.Getenv("READROUTE_REQUIRE_SERVERS") != "" {
		require.Fail(t, "there is no Redis: apt-get install redis-tools, or brew install redis")
	}
	t.Skip("there is no Redis: apt-get install redis-tools, or brew install redis")
	return "", ""
}

// startRedis starts a private Redis and returns a client.
func startRedis(t testing.TB) *redis.Client {
	t.Helper()
	path, name := redisProgram(t)
	socket := filepath.Join(t.TempDir(), "redis")
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, path)
	server.Args = []string{name, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", filepath.Dir(socket)}
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		cancel()
		_ = server.Wait() // it was killed
	})
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.Eventually(t, func() bool { return client.Ping(testContext(t)).Err() == nil }, 20*time.Second, 5*time.Millisecond)
	return client
}

// token is one of a position, by the layout of its text.
func token(t testing.TB, cluster string, lsn uint64) readroute.Token {
	t.Helper()
	b := append([]byte{1, 1, byte(len(cluster))}, cluster...)
	b = append(b, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 7, 1)
	b = binary.AppendUvarint(b, lsn)
	parsed, err := readroute.ParseToken(base64.RawURLEncoding.EncodeToString(b))
	require.NoError(t, err)
	return parsed
}

// TestTokenStoreContract is what readroute's own store is held to.
func TestTokenStoreContract(t *testing.T) {
	client := startRedis(t)
	ctx := testContext(t)
	store := tokenstore.NewRedis(client, "rr:", time.Minute)
	load := func(key string) string {
		t.Helper()
		kept, err := store.Load(ctx, key)
		require.NoError(t, err)
		return kept.String()
	}
	small, large, other := token(t, "main", 5), token(t, "main", 9), token(t, "billing", 1)
	require.Empty(t, load("ada"))
	require.NoError(t, store.Clear(ctx, "ada", small))
	require.NoError(t, store.Merge(ctx, "ada", readroute.Token{}))
	require.Empty(t, load("ada"))

	require.NoError(t, store.Merge(ctx, "ada", large))
	require.NoError(t, store.Merge(ctx, "ada", small))
	require.Equal(t, large.String(), load("ada"), "a smaller one that comes late")
	require.Empty(t, load("bob"))
	require.NoError(t, store.Merge(ctx, "ada", other))
	all := large.Merge(other)
	require.Equal(t, all.String(), load("ada"))
	left, err := client.PTTL(ctx, "rr:ada").Result()
	require.NoError(t, err)
	require.Greater(t, left, 50*time.Second)

	require.NoError(t, store.Clear(ctx, "ada", large))
	require.Equal(t, all.String(), load("ada"), "it is not that any more")
	require.NoError(t, store.Clear(ctx, "ada", all))
	require.Empty(t, load("ada"))

	var wg sync.WaitGroup
	var want readroute.Token
	for worker := range 8 {
		cluster := fmt.Sprint("c", worker)
		want = want.Merge(token(t, cluster, 50))
		wg.Go(func() {
			for i := range uint64(50) {
				if err := store.Merge(ctx, "ada", token(t, cluster, 50-i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, want.String(), load("ada"), "none of many that come at once is lost")
}

// TestRedisOfOthers: what is no token is replaced, and asks for the primary meanwhile.
func TestRedisOfOthers(t *testing.T) {
	client := startRedis(t)
	ctx := testContext(t)
	store := tokenstore.NewRedis(client, "", time.Minute)
	require.NoError(t, client.Set(ctx, "ada", "hello", 0).Err())
	_, err := store.Load(ctx, "ada")
	require.ErrorIs(t, err, readroute.ErrBadToken)
	require.NoError(t, store.Merge(ctx, "ada", token(t, "main", 5)))
	kept, err := store.Load(ctx, "ada")
	require.NoError(t, err)
	require.Equal(t, kept.String(), kept.Merge(token(t, "main", 5)).Merge(readroute.PrimaryFor(time.Second)).String())
}

// TestRedisAway: a Redis that does not answer is an error, and the session reads from the primary.
func TestRedisAway(t *testing.T) {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(t.TempDir(), "none"), MaxRetries: -1})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	store := tokenstore.NewRedis(client, "", time.Minute)
	codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true})
	require.NoError(t, err)
	ctx, err := codec.Load(testContext(t), store, "ada")
	require.Error(t, err)
	got, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.False(t, got.IsZero())
	require.Error(t, store.Merge(testContext(t), "ada", token(t, "main", 5)))
	require.Error(t, store.Clear(testContext(t), "ada", token(t, "main", 5)))
	ended, cancel := context.WithCancel(testContext(t))
	cancel()
	require.True(t, errors.Is(store.Merge(ended, "ada", token(t, "main", 5)), context.Canceled))
}
