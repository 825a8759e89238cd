package readroute

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// TokenStore keeps the tokens of clients that cannot carry one, by a key that names the client: a user's id, an API key.
// [Codec.Load] and [Codec.Save] use it. Its methods are called concurrently; they return errors of their own, and that of ctx
// when it ends first. A store that forgets a token early lets a client read what is older than his own writes.
type TokenStore interface {
	// Load returns what is kept for key; the zero Token when that is nothing.
	Load(ctx context.Context, key string) (Token, error)
	// Merge keeps, in one step, the token that covers both t and what is kept for key, for the store's lifetime from now on.
	// So a smaller token that comes late replaces nothing, and of two that come at once none is lost. The lifetime is longer
	// than any replica that serves may be behind (MaxLag).
	Merge(ctx context.Context, key string, t Token) error
	// Clear forgets what is kept for key, in one step, if that is still t.
	Clear(ctx context.Context, key string, t Token) error
}

// Load returns a context with a new session that needs what the store keeps for key. When the store cannot say, the session
// reads from the primary for StickyWindow plus ClockSkew, and the error says why; the context is good all the same. What every
// replica of the pools shows already, and needs no session any more, is cleared from the store; pools are to be all that this
// process has, several of one cluster too. What has no position is never cleared, nor is anything without pools: the store's lifetime
// is the end of a token then.
func (c *Codec) Load(ctx context.Context, store TokenStore, key string, pools ...*DB) (context.Context, error) {
	t, err := store.Load(ctx, key)
	if err != nil {
		err = fmt.Errorf("readroute: load a token: %w", err)
		t = PrimaryFor(c.window())
	} else if !t.IsZero() && shownByAll(ctx, t, pools) {
		if err = store.Clear(ctx, key, t); err != nil {
			err = fmt.Errorf("readroute: clear a token: %w", err)
		}
	}
	return c.arrived(ctx, NewSession(t)), err
}

// Save merges what the session of ctx needs into what the store keeps for key; ctx is one that [Codec.Load] has returned, or
// one made from it. It does nothing when the session has not come to need more since then. Call it before the client is
// answered. It waits for the positions of the session's writes as [Codec.Inject] does, and then for the store. On error the
// client must not be told that his write has been done: his next read may be older than it.
func (c *Codec) Save(ctx context.Context, store TokenStore, key string) error {
	t, ok := c.answer(ctx)
	if !ok {
		return nil
	}
	if err := store.Merge(ctx, key, t); err != nil {
		return fmt.Errorf("readroute: save a token: %w", err)
	}
	return nil
}

// shownByAll reports that every replica of every pool of every cluster that t is about shows what t asks for. No replica can be
// asked for a write that has no position.
func shownByAll(ctx context.Context, t Token, pools []*DB) bool {
	for _, e := range t.core.Entries() {
		of := func(db *DB) bool { return db.config.Name == e.Cluster }
		if len(e.Positions) == 0 || !slices.ContainsFunc(pools, of) {
			return false
		}
		one := Token{core: core.NewToken(DefaultStickyWindow, e)}
		if slices.ContainsFunc(pools, func(db *DB) bool { return of(db) && !db.showsOnAll(ctx, one) }) {
			return false
		}
	}
	return true
}

// showsOnAll reports that every replica shows what t asks for, as far as this process knows now. Nothing is shown by no
// replica, and nothing is known of servers that share an address.
func (db *DB) showsOnAll(ctx context.Context, t Token) bool {
	ctx = WithLevel(WithWait(ContextWithSession(ctx, NewSession(t)), 0), LevelSession)
	replicas := 0
	for _, n := range db.Nodes() {
		if n.Primary {
			continue
		}
		replicas++
		d, err := db.Explain(WithNode(ctx, n.Name), "SELECT 1")
		if err != nil || d.WouldWait || n.SharedEndpoint || d.Node != n.Name || d.Reason != ReasonContext {
			return false
		}
	}
	return replicas > 0
}

// NewMemoryTokenStore returns a store in this process's memory: for a service that has one process, and for tests. It keeps a
// token for at least lifetime after it has been merged; 0 and less mean 5 minutes. It starts no goroutine, and has room for
// the keys of about two lifetimes.
func NewMemoryTokenStore(lifetime time.Duration) TokenStore {
	if lifetime <= 0 {
		lifetime = DefaultMaxTokenAge
	}
	return &memoryTokenStore{lifetime: lifetime, kept: map[string]keptToken{}, sweep: minSweep}
}

// minSweep is how many keys may be kept before expired ones are looked for.
const minSweep = 1024

type memoryTokenStore struct {
	lifetime time.Duration

	mu    sync.Mutex
	kept  map[string]keptToken // guarded by mu
	sweep int                  // guarded by mu: expired keys are dropped when there are so many
}

type keptToken struct {
	token Token
	until time.Time
}

// Load implements TokenStore.
func (s *memoryTokenStore) Load(_ context.Context, key string) (Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loadLocked(key, time.Now()), nil
}

func (s *memoryTokenStore) loadLocked(key string, now time.Time) Token {
	if k := s.kept[key]; k.until.After(now) {
		return k.token
	}
	return Token{}
}

// Merge implements TokenStore.
func (s *memoryTokenStore) Merge(_ context.Context, key string, t Token) error {
	if t.IsZero() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.kept[key] = keptToken{token: s.loadLocked(key, now).Merge(t), until: now.Add(s.lifetime)}
	if len(s.kept) < s.sweep {
		return nil
	}
	for key, k := range s.kept {
		if !k.until.After(now) {
			delete(s.kept, key)
		}
	}
	s.sweep = max(minSweep, 2*len(s.kept))
	return nil
}

// Clear implements TokenStore.
func (s *memoryTokenStore) Clear(_ context.Context, key string, t Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.kept[key].token.binary(), t.binary()) {
		delete(s.kept, key)
	}
	return nil
}
