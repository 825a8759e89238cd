package sqlclass

import (
	"fmt"
	"strings"
	"sync/atomic"
)

const (
	// DefaultCacheBytes bounds the cache of answers.
	DefaultCacheBytes = 4 << 20
	// learnedBytes bounds what is remembered of texts that a replica has refused.
	learnedBytes = 1 << 20
)

// Options configure a [Classifier].
type Options struct {
	// Dialect is the language of all texts. Only PostgreSQL is known so far.
	Dialect Dialect
	// ReadFunctions are names of the user's functions that only read, in lower case and without a schema.
	ReadFunctions []string
	// CacheBytes bounds the cache of answers. 0 means DefaultCacheBytes.
	CacheBytes int
}

// Stats are the counters of a [Classifier].
type Stats struct {
	Entries, Bytes, Hits, Misses, Learned, LearnedHits int64
}

// Classifier classifies statements of one dialect and remembers the answers. It is safe for concurrent use; what it
// remembers is bounded in bytes, and looking it up takes no lock.
type Classifier struct {
	dialect   Dialect
	functions map[string]bool
	answers   *cache
	learned   *cache

	hasLearned                       atomic.Bool
	hits, misses, learnt, learntHits atomic.Int64
}

// New returns a Classifier. It refuses a dialect that it does not know and a function's name that no text could match.
func New(o Options) (*Classifier, error) {
	if o.Dialect != PostgreSQL {
		return nil, fmt.Errorf("classify statements: the dialect %v is not known", o.Dialect)
	}
	c := &Classifier{dialect: o.Dialect, functions: make(map[string]bool), learned: newCache(learnedBytes)}
	for _, f := range o.ReadFunctions {
		if f == "" || f != strings.ToLower(f) || strings.ContainsAny(f, `."( `) {
			return nil, fmt.Errorf("classify statements: %q in ReadFunctions: want a name in lower case without a schema", f)
		}
		c.functions[f] = true
	}
	budget := int64(o.CacheBytes)
	if budget <= 0 {
		budget = DefaultCacheBytes
	}
	c.answers = newCache(budget)
	return c, nil
}

// Classify classifies a text.
func (c *Classifier) Classify(query string) Statement {
	if c.hasLearned.Load() {
		if st := c.learned.get(query); st != nil {
			c.learntHits.Add(1)
			return *st
		}
	}
	if st := c.answers.get(query); st != nil {
		c.hits.Add(1)
		return *st
	}
	c.misses.Add(1)
	st := classify(c.dialect, query, c.functions)
	c.answers.put(query, st)
	return st
}

// LearnWrite remembers that a replica refused this text as a write, so that it goes to the primary at once next time.
func (c *Classifier) LearnWrite(query string) {
	c.learnt.Add(1)
	st := classify(c.dialect, query, c.functions)
	st.Class, st.MayWrite, st.Token = Write, true, "refused by a replica"
	c.learned.put(query, st)
	c.hasLearned.Store(true)
}

// Stats returns the counters.
func (c *Classifier) Stats() Stats {
	entries, bytes := c.answers.size()
	return Stats{
		Entries: entries, Bytes: bytes,
		Hits: c.hits.Load(), Misses: c.misses.Load(), Learned: c.learnt.Load(), LearnedHits: c.learntHits.Load(),
	}
}

// ClassifyText classifies a text without any cache.
func ClassifyText(d Dialect, query string) Statement { return classify(d, query, nil) }

func classify(d Dialect, query string, functions map[string]bool) Statement {
	if d != PostgreSQL {
		return Statement{MayWrite: true, CommitsOnError: true, Token: "a dialect that is not known"}
	}
	return postgres(query, functions)
}
