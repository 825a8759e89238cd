// Package tokenstore is an example of a readroute.TokenStore in Redis, for services of several processes whose clients
// cannot carry tokens.
package tokenstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/readroute/readroute"
)

// Redis keeps tokens in a Redis, one string a key. What makes Redis lose a write it has acknowledged makes a client read
// what is older than his own writes: give it persistence (appendfsync always) or let the lifetime of such a read be your
// risk.
type Redis struct {
	client   redis.UniversalClient
	prefix   string
	lifetime time.Duration
}

var _ readroute.TokenStore = (*Redis)(nil)

// NewRedis returns a store whose keys begin with prefix. A token is kept for lifetime after it was merged; that is longer
// than any replica that serves may be behind (MaxLag).
func NewRedis(client redis.UniversalClient, prefix string, lifetime time.Duration) *Redis {
	return &Redis{client: client, prefix: prefix, lifetime: lifetime}
}

// Load implements readroute.TokenStore.
func (r *Redis) Load(ctx context.Context, key string) (readroute.Token, error) {
	text, err := r.text(ctx, key)
	if err != nil {
		return readroute.Token{}, err
	}
	return readroute.ParseToken(text)
}

func (r *Redis) text(ctx context.Context, key string) (string, error) {
	text, err := r.client.Get(ctx, r.prefix+key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// swap replaces a value if it is still what it was, in one step.
var swap = redis.NewScript(`
	local now = redis.call('GET', KEYS[1]) or ''
	if now ~= ARGV[1] then return 0 end
	if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
	return 1`)

func (r *Redis) swap(ctx context.Context, key, from, to string) (bool, error) {
	return swap.Run(ctx, r.client, []string{r.prefix + key}, from, to, r.lifetime.Milliseconds()).Bool()
}

// Merge implements readroute.TokenStore. Two that come at once do not wait for each other: the later one takes in what the
// other has put there, and tries again.
func (r *Redis) Merge(ctx context.Context, key string, t readroute.Token) error {
	for {
		text, err := r.text(ctx, key)
		if err != nil {
			return err
		}
		kept, err := readroute.ParseToken(text)
		if err != nil {
			kept = readroute.PrimaryFor(r.lifetime) // what is there is none of ours, and stands in nobody's way
		}
		if done, err := r.swap(ctx, key, text, kept.Merge(t).String()); done || err != nil {
			return err
		}
	}
}

// Clear implements readroute.TokenStore.
func (r *Redis) Clear(ctx context.Context, key string, t readroute.Token) error {
	_, err := r.swap(ctx, key, t.String(), "")
	return err
}
