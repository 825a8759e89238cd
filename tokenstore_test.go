package readroute_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestTokenStoreContract: what every store must do. examples/tokenstore holds a Redis to the same.
func TestTokenStoreContract(t *testing.T) {
	ctx := testContext(t)
	store := readroute.NewMemoryTokenStore(time.Minute)
	load := func(key string) string {
		t.Helper()
		token, err := store.Load(ctx, key)
		require.NoError(t, err)
		return token.String()
	}
	small, large := craft(t, "main", 7, 1, 5), craft(t, "main", 7, 1, 9)
	other := craft(t, "billing", 8, 1, 1)
	require.Empty(t, load("ada"))
	require.NoError(t, store.Clear(ctx, "ada", small))
	require.NoError(t, store.Merge(ctx, "ada", readroute.Token{}))
	require.Empty(t, load("ada"))

	require.NoError(t, store.Merge(ctx, "ada", large))
	require.Equal(t, large.String(), load("ada"))
	require.Empty(t, load("bob"))
	require.NoError(t, store.Merge(ctx, "ada", small))
	require.Equal(t, large.Merge(small).String(), load("ada"), "a smaller one that comes late")
	require.NoError(t, store.Merge(ctx, "ada", other))
	all := large.Merge(small).Merge(other)
	require.Equal(t, all.String(), load("ada"))

	require.NoError(t, store.Clear(ctx, "ada", large))
	require.Equal(t, all.String(), load("ada"), "it is not that any more")
	require.NoError(t, store.Clear(ctx, "ada", all))
	require.Empty(t, load("ada"))

	var wg sync.WaitGroup
	var want readroute.Token
	for worker := range uint64(8) {
		for i := range uint64(50) {
			want = want.Merge(craft(t, fmt.Sprint("c", worker), 7, 1, i))
		}
		wg.Go(func() {
			for i := range uint64(50) {
				if err := store.Merge(ctx, "ada", craft(t, fmt.Sprint("c", worker), 7, 1, 49-i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	kept, err := store.Load(ctx, "ada")
	require.NoError(t, err)
	require.Equal(t, kept.String(), kept.Merge(positionsOnly(t, want)).String(), "none of many that come at once is lost")
}

// positionsOnly returns a token of the same positions, of long ago.
func positionsOnly(t testing.TB, token readroute.Token) readroute.Token {
	t.Helper()
	var list readroute.Token
	for worker := range 8 {
		b := tokenBytes{1, 1}.name(fmt.Sprint("c", worker)).bytes(0, 1).position(1, 49)
		one, err := readroute.ParseToken(b.text())
		require.NoError(t, err)
		list = list.Merge(one)
	}
	require.Equal(t, token.String(), token.Merge(list).String())
	return list
}

// TestMemoryTokenStoreForgets: a token lives for its lifetime from the last merge on, and the memory does not grow.
func TestMemoryTokenStoreForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := readroute.NewMemoryTokenStore(0)
		token := craft(t, "main", 7, 1, 5)
		for range 3 {
			require.NoError(t, store.Merge(ctx, "ada", token))
			time.Sleep(readroute.DefaultMaxTokenAge - time.Second)
			kept, err := store.Load(ctx, "ada")
			require.NoError(t, err)
			require.Equal(t, token.String(), kept.String())
		}
		time.Sleep(2 * time.Second)
		kept, err := store.Load(ctx, "ada")
		require.NoError(t, err)
		require.True(t, kept.IsZero())
		later := craft(t, "billing", 7, 1, 6)
		require.NoError(t, store.Merge(ctx, "ada", later))
		kept, err = store.Load(ctx, "ada")
		require.NoError(t, err)
		require.Equal(t, later.String(), kept.String(), "what is over is not brought back")

		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		var before uint64
		for round := range 100 {
			for i := range 5000 {
				require.NoError(t, store.Merge(ctx, fmt.Sprint(round, "/", i), token))
			}
			time.Sleep(readroute.DefaultMaxTokenAge)
			if round == 4 {
				before = heap()
			}
		}
		require.Less(t, heap(), before+before/2+4<<20)
		runtime.KeepAlive(store)
	})
}

// TestTokenStoreOverACluster: clients without tokens see what they have written from one request to the next, and the store
// forgets it once every replica shows it.
func TestTokenStoreOverACluster(t *testing.T) {
	c := sharedCluster(t)
	codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, CaptureTimeout: 10 * time.Second})
	require.NoError(t, err)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	config.CaptureTimeout = 10 * time.Second
	seen := record(&config)
	db := open(t, config)
	config.Fallback, config.Hooks = readroute.FallbackStale, readroute.Hooks{}
	easy := open(t, config)
	config.Replicas = config.Replicas[:1]
	half := open(t, config)
	config.Name, config.Replicas = "alone", nil
	alone := open(t, config)
	store := &counting{TokenStore: readroute.NewMemoryTokenStore(time.Minute)}
	request := func(key string, write bool, pools ...*readroute.DB) int {
		t.Helper()
		ctx, err := codec.Load(testContext(t), store, key, pools...)
		require.NoError(t, err)
		if write {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
			require.NoError(t, err)
		}
		n := countIn(t, ctx, db, table)
		require.NoError(t, codec.Save(ctx, store, key))
		return n
	}
	kept := func() bool {
		t.Helper()
		token, err := store.TokenStore.Load(testContext(t), "ada")
		require.NoError(t, err)
		return !token.IsZero()
	}
	pauseReplay(t, c)
	require.Equal(t, 1, request("ada", true, db))
	require.Equal(t, 1, request("ada", false, db))
	require.Zero(t, request("bob", false, db), "the replicas stand still")
	require.Equal(t, 1, request("ada", false, easy), "a pool that would serve a stale read does not show it")
	require.Equal(t, 1, store.merged, "what wrote nothing saves nothing")
	require.Zero(t, store.cleared)
	require.True(t, kept())

	require.NoError(t, standbys(c)[0].ResumeReplay(testContext(t)))
	eventually(t, "one replica serves ada", func() bool {
		seen.take()
		require.Equal(t, 1, request("ada", false, db))
		return seen.one(t).Role == readroute.RoleReplica
	})
	require.True(t, kept(), "the other one still does not show it")
	for range 3 {
		require.Equal(t, 1, request("ada", false, half, db))
		require.True(t, kept(), "one pool's replica shows it, the other pool's do not")
	}

	require.NoError(t, standbys(c)[1].ResumeReplay(testContext(t)))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	for range 20 {
		require.Equal(t, 1, request("ada", false))
		require.Equal(t, 1, request("ada", false, alone), "a pool of another cluster can say nothing")
		require.True(t, kept())
	}
	eventually(t, "every replica shows it", func() bool {
		require.Equal(t, 1, request("ada", false, alone, db))
		return !kept()
	})
	require.Equal(t, 1, store.cleared)
	require.Equal(t, 1, request("ada", false, db))

	// What is written in a cluster that no pool here belongs to stays, and so does "the primary for now".
	for _, token := range []readroute.Token{craft(t, "elsewhere", 7, 1, 5), readroute.PrimaryFor(time.Minute)} {
		require.NoError(t, store.Merge(testContext(t), "ada", token))
		for range 3 {
			request("ada", false, alone, db)
		}
		require.True(t, kept())
	}
	// No replica shows nothing.
	ctx, err := codec.Load(testContext(t), store, "carl", alone)
	require.NoError(t, err)
	_, err = alone.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, codec.Save(ctx, store, "carl"))
	_, err = codec.Load(testContext(t), store, "carl", alone)
	require.NoError(t, err)
	token, err := store.Load(testContext(t), "carl")
	require.NoError(t, err)
	require.False(t, token.IsZero())
}

// counting counts what a store is asked to do.
type counting struct {
	readroute.TokenStore
	merged, cleared int
}

func (c *counting) Merge(ctx context.Context, key string, t readroute.Token) error {
	c.merged++
	return c.TokenStore.Merge(ctx, key, t)
}

func (c *counting) Clear(ctx context.Context, key string, t readroute.Token) error {
	before, _ := c.Load(ctx, key)
	err := c.TokenStore.Clear(ctx, key, t)
	if after, _ := c.Load(ctx, key); !before.IsZero() && after.IsZero() {
		c.cleared++
	}
	return err
}

// TestTokenStoreThatFails: who cannot be asked means "written just now", and what cannot be kept is an error.
func TestTokenStoreThatFails(t *testing.T) {
	broken := errors.New("the store is away")
	codec := unsigned(t)
	ctx, err := codec.Load(testContext(t), brokenStore{broken}, "ada")
	require.ErrorIs(t, err, broken)
	token, tokenErr := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, tokenErr)
	require.Equal(t, token.String(), token.Merge(readroute.PrimaryFor(readroute.DefaultStickyWindow)).String())

	require.NoError(t, codec.Save(ctx, brokenStore{broken}, "ada"), "nothing was written")
	readroute.SessionFrom(ctx).Merge(craft(t, "main", 7, 1, 5))
	require.ErrorIs(t, codec.Save(ctx, brokenStore{broken}, "ada"), broken)
	require.NoError(t, codec.Save(testContext(t), brokenStore{broken}, "ada"), "there is no session")
}

type brokenStore struct{ err error }

func (f brokenStore) Load(context.Context, string) (readroute.Token, error) {
	return readroute.Token{}, f.err
}
func (f brokenStore) Merge(context.Context, string, readroute.Token) error { return f.err }
func (f brokenStore) Clear(context.Context, string, readroute.Token) error { return f.err }
