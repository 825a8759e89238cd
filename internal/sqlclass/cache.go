package sqlclass

import (
	"strings"
	"sync"
	"sync/atomic"
)

// cache remembers answers by text, in two generations: when the young one has grown to half of the budget, it becomes
// the old one and the old one is forgotten. What is asked for moves into the young one. Reading takes no lock.
type cache struct {
	budget int64 // bytes
	gen    atomic.Pointer[generations]
	mu     sync.Mutex // serializes the change of generations
}

type generations struct {
	young, old *generation
}

type generation struct {
	entries sync.Map // string to *Statement
	bytes   atomic.Int64
	count   atomic.Int64
}

// entryOverhead is roughly what an entry costs beside its text.
const entryOverhead = 200

func newCache(budget int64) *cache {
	c := &cache{budget: budget}
	c.gen.Store(&generations{young: new(generation), old: new(generation)})
	return c
}

func (c *cache) get(text string) *Statement {
	g := c.gen.Load()
	if v, ok := g.young.entries.Load(text); ok {
		return v.(*Statement)
	}
	if v, ok := g.old.entries.Load(text); ok {
		st := v.(*Statement)
		c.put(text, *st)
		return st
	}
	return nil
}

// put remembers an answer. A text that would fill a good part of the cache by itself is not kept.
func (c *cache) put(text string, st Statement) {
	size := int64(len(text)+len(st.Token)) + entryOverhead
	if size > c.budget/16 {
		return
	}
	g := c.gen.Load()
	st.Token = strings.Clone(st.Token) // it may be a part of a text that is not ours to keep
	if _, there := g.young.entries.LoadOrStore(strings.Clone(text), &st); there {
		return
	}
	g.young.count.Add(1)
	if g.young.bytes.Add(size) <= c.budget/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gen.Load() == g {
		c.gen.Store(&generations{young: new(generation), old: g.young})
	}
}

func (c *cache) size() (entries, bytes int64) {
	g := c.gen.Load()
	return g.young.count.Load() + g.old.count.Load(), g.young.bytes.Load() + g.old.bytes.Load()
}
