package sqlclass

import (
	"cmp"
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
	// Among stands in the place of Dialect while it is not known: it is one of these. [Classifier.Settle] says which.
	Among []Dialect
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
	server  Server
	among   []language
	lang    language                   // set before vocab
	vocab   atomic.Pointer[vocabulary] // lang's own, or with the catalogue; nil until the language is settled
	answers *cache
	learned *cache
	learnt  atomic.Int64

	mu        sync.Mutex // guards catalogue, and the writing of lang
	catalogue uint64     // a hash over the rows that vocab was made of; 0 before there were any
}

// language is a dialect and its own vocabulary with ReadFunctions.
type language struct {
	dialect Dialect
	base    *vocabulary
}

// New returns a Classifier. It refuses a dialect that it does not know and a name in ReadFunctions that no text could match.
func New(o Options) (*Classifier, error) {
	dialects := o.Among
	if len(dialects) == 0 {
		dialects = []Dialect{o.Dialect}
	}
	c := &Classifier{server: o.Server, learned: newCache(LearnedBytes)}
	for _, d := range dialects {
		base, err := wordsWith(d, o.ReadFunctions)
		if err != nil {
			return nil, err
		}
		c.among = append(c.among, language{d, base})
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.CacheBytes > 0 {
		c.answers = newCache(int64(o.CacheBytes))
	}
	if len(dialects) == 1 {
		c.Settle(dialects[0])
	}
	return c, nil
}

// Settle says which of Among it is. The first call counts.
func (c *Classifier) Settle(d Dialect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vocab.Load() != nil {
		return
	}
	for _, l := range c.among {
		if l.dialect == d {
			c.lang = l
			c.vocab.Store(l.base)
		}
	}
}

// wordsWith returns the vocabulary of a dialect with the user's functions that only read.
func wordsWith(d Dialect, readFunctions []string) (*vocabulary, error) {
	base := words(d)
	if base == nil {
		return nil, fmt.Errorf("classify statements: the dialect %v is not known", d)
	}
	var problems []error
	base = base.with(func(get func(string) *entry) {
		for _, f := range readFunctions {
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
	return base, errors.Join(problems...)
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
func (c *Classifier) Classify(query string) Statement { return c.ClassifyFor(0, query) }

// ClassifyFor is Classify for one of many callers. They count apart when they give different numbers, and do not wait for each
// other's cache lines.
func (c *Classifier) ClassifyFor(caller uint32, query string) Statement {
	return c.ClassifyInto(new(Recent), caller, query)
}

// ClassifyInto is ClassifyFor, and keeps the answer in r.
func (c *Classifier) ClassifyInto(r *Recent, caller uint32, query string) Statement {
	h := hash(query)
	if c.answers != nil {
		if a := c.answers.get(h, query, caller); a != nil {
			if len(query) <= recentBytes {
				r.answer = a
			}
			return a.st
		}
	}
	if c.learned.entries.Load() > 0 {
		if a := c.learned.get(h, query, caller); a != nil {
			return a.st
		}
	}
	v := c.vocab.Load()
	if v == nil {
		return c.careful(query)
	}
	st := classify(c.lang.dialect, v, c.server, query)
	if c.answers != nil && c.answers.missed(h, len(query), caller) {
		c.answers.put(h, query, func(kept string) Statement { return classify(c.lang.dialect, v, c.server, kept) })
		if c.vocab.Load() != v {
			c.answers.forget() // the catalogue has changed in the meantime
		}
	}
	return st
}

// careful classifies a text whose language is one of several.
func (c *Classifier) careful(query string) Statement {
	st := classify(c.among[0].dialect, c.among[0].base, c.server, query)
	for _, l := range c.among[1:] {
		st = either(st, classify(l.dialect, l.base, c.server, query))
	}
	return st
}

// either is what is known of a text that is a or b: when they differ, that it is no read, and may do what either does.
func either(a, b Statement) Statement {
	if a.Token = cmp.Or(a.Token, b.Token); a.Token != "" {
		b.Token = a.Token
	}
	if a == b {
		return a
	}
	st := Statement{
		Token:          cmp.Or(a.Token, "a text that the kinds of servers read differently"),
		LeavesState:    a.LeavesState || b.LeavesState,
		TxState:        a.TxState || b.TxState,
		DependsState:   a.DependsState || b.DependsState,
		MayWrite:       a.MayWrite || b.MayWrite,
		CommitsOnError: a.CommitsOnError || b.CommitsOnError,
		EndsTx:         a.EndsTx || b.EndsTx,
		MayEndTx:       a.MayEndTx || b.MayEndTx,
		BeginsTx:       a.BeginsTx || b.BeginsTx,
		Unlogged:       a.Unlogged || b.Unlogged,
		Multi:          a.Multi || b.Multi,
	}
	switch {
	case a.Class == b.Class && a.Class != Read:
		st.Class = a.Class
	case a.Class == SessionState || b.Class == SessionState:
		st.Class = SessionState
	case a.Class == Write || b.Class == Write:
		st.Class = Write
	}
	if a.Hint == HintPrimary || b.Hint == HintPrimary {
		st.Hint = HintPrimary
	}
	return st
}

// LearnWrite remembers that a replica refused this text as a write, so that it goes to the primary at once next time.
func (c *Classifier) LearnWrite(query string) {
	c.learnt.Add(1)
	h := hash(query)
	v := c.vocab.Load()
	if v == nil {
		return // no replica has been asked yet
	}
	c.learned.put(h, query, func(kept string) Statement {
		st := classify(c.lang.dialect, v, c.server, kept)
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
	case SQLite:
		return sqliteWords()
	}
	return nil
}
