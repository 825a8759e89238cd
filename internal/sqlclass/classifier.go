package sqlclass

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// DefaultCacheBytes bounds the cache of answers.
	DefaultCacheBytes = 4 << 20
	// LearnedBytes bounds what is remembered of texts that a replica has refused.
	LearnedBytes = 1 << 20
)

// Options configure a [Classifier].
type Options struct {
	// Dialect is the language of all texts. There is no default.
	Dialect Dialect
	// ReadFunctions are names of the user's functions that only read, as the server knows them (unquoted names in lower case),
	// each alone or with its schema. A name alone stands for calls with any schema and without one; with a schema it stands
	// for calls with that schema.
	ReadFunctions []string
	// CacheBytes bounds the cache of answers. 0 means DefaultCacheBytes; negative means no cache.
	CacheBytes int
	// Server is what is known of the settings that change how a text is read.
	Server Server
}

// Stats are the counters of a [Classifier].
type Stats struct {
	// Entries and Bytes are what the cache of answers holds now.
	Entries, Bytes int64
	// Hits and Misses count the texts that were, and were not, in the cache.
	Hits, Misses int64
	// Learned counts the texts that a replica has refused, LearnedHits how often one of them came again. LearnedEntries and
	// LearnedBytes are what is remembered of them now.
	Learned, LearnedHits, LearnedEntries, LearnedBytes int64
}

// Classifier classifies statements of one dialect and remembers the answers. It is safe for concurrent use; what it
// remembers is bounded in bytes, and looking it up takes no lock and allocates nothing.
type Classifier struct {
	dialect Dialect
	server  Server
	base    *vocabulary // the dialect's own with ReadFunctions
	vocab   atomic.Pointer[vocabulary]
	answers *cache
	learned *cache
	learnt  atomic.Int64

	mu        sync.Mutex // guards catalogue
	catalogue uint64     // a hash over the rows that vocab was made of; 0 before there were any
}

// New returns a Classifier. It refuses a dialect that it does not know and a name in ReadFunctions that no text could match.
func New(o Options) (*Classifier, error) {
	base := words(o.Dialect)
	if base == nil {
		return nil, fmt.Errorf("classify statements: the dialect %v is not known", o.Dialect)
	}
	var problems []error
	base = base.with(func(get func(string) *entry) {
		for _, f := range o.ReadFunctions {
			schema, name, qualified := strings.Cut(f, ".")
			if !qualified {
				schema, name = "", schema
			}
			if name == "" || qualified && schema == "" || strings.ContainsAny(f, "\"`( ") || strings.Contains(name, ".") || f != strings.ToLower(f) {
				problems = append(problems, fmt.Errorf("classify statements: %q in ReadFunctions: want a name in lower case, alone or with its schema", f))
				continue
			}
			get(name).allow(schema)
		}
	})
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c := &Classifier{dialect: o.Dialect, server: o.Server, base: base, learned: newCache(LearnedBytes)}
	c.vocab.Store(base)
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.CacheBytes > 0 {
		c.answers = newCache(int64(o.CacheBytes))
	}
	return c, nil
}

// allow adds a schema in which the user's function only reads, or all of them.
func (e *entry) allow(schema string) {
	switch {
	case schema == "":
		e.schemas = nil
	case !e.read || e.schemas != nil:
		e.schemas = append(e.schemas[:len(e.schemas):len(e.schemas)], schema)
	}
	e.read = true
}

// Classify classifies a text. What it returns holds on to the text only in Token.
func (c *Classifier) Classify(query string) Statement {
	h := hash(query)
	if c.answers != nil {
		if st := c.answers.get(h, query); st != nil {
			return *st
		}
	}
	if c.learned.entries.Load() > 0 {
		if st := c.learned.get(h, query); st != nil {
			return *st
		}
	}
	v := c.vocab.Load()
	st := classify(c.dialect, v, c.server, query)
	if c.answers != nil && c.answers.missed(h, len(query)) {
		c.answers.put(h, query, func(kept string) Statement { return classify(c.dialect, v, c.server, kept) })
		if c.vocab.Load() != v {
			c.answers.forget() // the catalogue has changed in the meantime
		}
	}
	return st
}

// LearnWrite remembers that a replica refused this text as a write, so that it goes to the primary at once next time.
func (c *Classifier) LearnWrite(query string) {
	c.learnt.Add(1)
	h := hash(query)
	v := c.vocab.Load()
	c.learned.put(h, query, func(kept string) Statement {
		st := classify(c.dialect, v, c.server, kept)
		st.Class, st.MayWrite, st.Token = Write, true, "refused by a replica"
		return st
	})
	if c.answers != nil {
		c.answers.remove(h, query)
	}
}

// Stats returns the counters.
func (c *Classifier) Stats() Stats {
	st := Stats{
		Learned: c.learnt.Load(), LearnedHits: c.learned.hits.sum(),
		LearnedEntries: c.learned.entries.Load(), LearnedBytes: c.learned.bytes.Load(),
	}
	if c.answers != nil {
		st.Entries, st.Bytes = c.answers.entries.Load(), c.answers.bytes.Load()
		st.Hits, st.Misses = c.answers.hits.sum(), c.answers.misses.sum()
	}
	return st
}

// ClassifyText classifies a text without any cache.
func ClassifyText(d Dialect, query string) Statement {
	return classify(d, words(d), Server{}, query)
}

// words returns the vocabulary of a dialect, or nil.
func words(d Dialect) *vocabulary {
	switch d {
	case PostgreSQL:
		return postgresWords()
	case MySQL:
		return mysqlWords()
	case MariaDB:
		return mariadbWords()
	}
	return nil
}
