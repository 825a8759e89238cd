package sqlclass

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
)

// cache remembers answers by text: a table of fixed size of which every slot is an atomic pointer to an immutable answer. Reading
// takes no lock and writes nothing but a counter and, now and then, a mark. A text is kept from the second time on that it
// is asked for, so an endless stream of texts that each come once leaves what is in the cache alone. When the budget is used
// up, a hand goes round and drops what was not asked for since it last came by.
type cache struct {
	budget  int64 // bytes
	slots   []atomic.Pointer[answer]
	mask    uint64
	seen    []atomic.Uint32 // parts of the hashes of texts that were asked for once
	entries atomic.Int64
	bytes   atomic.Int64
	hits    counter
	misses  counter

	mu   sync.Mutex // guards writing to slots, hand, entries and bytes
	hand uint64
}

// answer is an immutable entry of a cache, but for its marks.
type answer struct {
	hash  uint64
	text  string
	marks atomic.Uint32
	st    Statement
}

// The marks of an answer.
const (
	markUsed = 1 << iota // asked for since the hand came by
	markGone             // dropped
)

// use marks an answer as asked for.
func (a *answer) use() {
	if a.marks.Load()&markUsed == 0 {
		a.marks.Or(markUsed)
	}
}

const (
	// answerOverhead is roughly what an answer costs beside its text: itself, its slots, the allocator.
	answerOverhead = 256
	// ways is how many slots a text can be in.
	ways = 4
	// largest is the part of the budget that one answer may take.
	largest = 16
)

var seed = maphash.MakeSeed()

func hash(text string) uint64 { return maphash.String(seed, text) }

func newCache(budget int64) *cache {
	size := uint64(64)
	for int64(size)*answerOverhead < budget {
		size *= 2
	}
	return &cache{budget: budget, slots: make([]atomic.Pointer[answer], size), mask: size - 1, seen: make([]atomic.Uint32, size)}
}

// get returns the answer for a text, or nil.
func (c *cache) get(h uint64, text string, caller uint32) *answer {
	for i := range uint64(ways) {
		a := c.slots[(h+i)&c.mask].Load()
		if a != nil && a.hash == h && a.text == text {
			a.use()
			c.hits.add(caller)
			return a
		}
	}
	return nil
}

// missed counts a miss. It reports whether the text should be kept: it was asked for before, and it is not too large.
func (c *cache) missed(h uint64, length int, caller uint32) bool {
	c.misses.add(caller)
	if c.tooLarge(length) {
		return false
	}
	mark := uint32(h>>32) | 1
	s := &c.seen[h&c.mask]
	if s.Load() == mark {
		return true
	}
	s.Store(mark)
	return false
}

func (c *cache) tooLarge(length int) bool { return int64(length)+answerOverhead > c.budget/largest }

// put keeps the answer that classify gives for a copy of the text: neither holds on to memory of the caller's.
func (c *cache) put(h uint64, text string, classify func(string) Statement) {
	if c.tooLarge(len(text)) {
		return
	}
	a := &answer{hash: h, text: strings.Clone(text)}
	a.st = classify(a.text)
	c.mu.Lock()
	defer c.mu.Unlock()
	free := -1
	for i := range ways {
		old := c.slots[(h+uint64(i))&c.mask].Load()
		switch {
		case old == nil:
			if free < 0 {
				free = i
			}
		case old.hash == h && old.text == text:
			c.drop((h + uint64(i)) & c.mask)
			free = i
		}
	}
	if free < 0 { // all are taken: one that was not asked for lately, else any
		free = int(h>>60) % ways
		for i := range ways {
			if c.slots[(h+uint64(i))&c.mask].Load().marks.Load()&markUsed == 0 {
				free = i
				break
			}
		}
		c.drop((h + uint64(free)) & c.mask)
	}
	size := a.size()
	for c.bytes.Load()+size > c.budget {
		c.sweep()
	}
	c.slots[(h+uint64(free))&c.mask].Store(a)
	c.bytes.Add(size)
	c.entries.Add(1)
}

func (a *answer) size() int64 { return int64(len(a.text)) + answerOverhead }

// drop empties a slot. mu is held.
func (c *cache) drop(slot uint64) {
	if a := c.slots[slot].Swap(nil); a != nil {
		a.marks.Or(markGone)
		c.bytes.Add(-a.size())
		c.entries.Add(-1)
	}
}

// sweep moves the hand by one slot: an answer that was asked for gets another round. mu is held.
func (c *cache) sweep() {
	slot := c.hand & c.mask
	c.hand++
	a := c.slots[slot].Load()
	if a != nil && a.marks.And(^uint32(markUsed))&markUsed == 0 {
		c.drop(slot)
	}
}

// remove drops the answer for a text.
func (c *cache) remove(h uint64, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range uint64(ways) {
		if a := c.slots[(h+i)&c.mask].Load(); a != nil && a.hash == h && a.text == text {
			c.drop((h + i) & c.mask)
		}
	}
}

// forget drops everything.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot := range c.slots {
		c.drop(uint64(slot))
	}
}

// counter is a counter that many processors can add to without waiting for each other's cache lines.
type counter struct {
	stripes [16]struct {
		n atomic.Int64
		_ [56]byte
	}
}

func (c *counter) add(caller uint32) { c.stripes[caller&15].n.Add(1) }

func (c *counter) sum() (n int64) {
	for i := range c.stripes {
		n += c.stripes[i].n.Load()
	}
	return n
}
