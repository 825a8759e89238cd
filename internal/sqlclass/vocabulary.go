package sqlclass

import (
	"slices"
	"strings"
)

// effect is what a call of a function does, as far as routing is concerned.
type effect uint8

const (
	effectUnknown   effect = iota // nothing is known of it
	effectNone                    // it reads what every node holds
	effectNode                    // its result is of one node; it changes nothing
	effectWrite                   // it changes data, or a replica refuses it
	effectDepends                 // its result depends on state of the session
	effectState                   // it leaves state in the session
	effectTxState                 // it leaves state that ends with the transaction
	effectSetConfig               // the one or the other, by its last argument
)

// place is what a name stands for where it is no call.
type place uint8

const (
	placeUnknown   place = iota // a name as any other
	placeEvery                  // a table or view of the server's own that is the same on every node
	placeNode                   // what shows one node, or what the catalogue says belongs on the primary
	placeSession                // what lives in one session
	placeHidden                 // a name in escapes: it can be any
	placeAttribute              // after a dot, a call of a volatile function of the row
	placeSchema                 // a schema of the server's own: its tables are told apart by their own names
)

// entry is what is known of one word.
type entry struct {
	word     string
	kw       keyword
	keyword  bool // any keyword of the dialect
	rule     bool // no keyword, and yet a rule looks at it
	reserved bool // cannot be the name of a user's function, so a parenthesis after it is no call of one
	infix    bool // a keyword that stands between operands: a parenthesis after it is no call where an operand came before
	operand  bool // a keyword that is a whole operand (NULL, CURRENT_DATE): no expression begins after it
	prefix   bool // a keyword after which an expression begins, although it could be a name
	effect   effect
	place    place
	// read: the user's own function of this name reads only; schemas are those in which it does, none meaning any.
	read    bool
	schemas []string
	// shadowed: a user's function of this name is not known to be harmless, whatever the server's own is.
	shadowed bool

	head, tail uint64
	length     uint64
	index      uint32
}

// vocabulary is what is known of the words of one dialect. It is immutable once it is in use.
type vocabulary struct {
	words     table // keywords and what names stand for: looked up for every word
	functions table // looked up before a parenthesis
	// operators are those that the catalogue calls volatile.
	operators map[string]bool
	// everyName: any name can stand for something that the catalogue tells of.
	everyName bool
}

// table is an open hash table of words in lower case that compares up to sixteen bytes at once.
type table struct {
	entries []entry  // the first stands for every word that is not there
	slots   []uint32 // the index in entries
	mask    uint64
}

// unqualified returns the effect of a call by the name alone. The server's own functions are found first, and a user's
// function of the same name with arguments that fit better is what shadowed stands for.
func (e *entry) unqualified() effect {
	switch {
	case e.effect != effectUnknown && !e.shadowed:
		return e.effect
	case e.effect > effectNone:
		return e.effect
	case e.read && len(e.schemas) == 0:
		return effectNone
	}
	return effectUnknown
}

// qualified returns the effect of a call by the name and a schema, as it stands in the text.
func (e *entry) qualified(schema string) effect {
	folded := foldName(schema)
	switch {
	case folded == "pg_catalog":
		return e.effect
	case e.read && (len(e.schemas) == 0 || slices.Contains(e.schemas, folded)):
		return effectNone
	}
	return effectUnknown
}

// foldName returns a name of the text as the server knows it: unquoted in lower case, quoted as it stands.
func foldName(s string) string {
	if len(s) > 1 && (s[0] == '"' || s[0] == '`') {
		return s[1 : len(s)-1]
	}
	return strings.ToLower(s)
}

// newVocabulary indexes the entries of words.
func newVocabulary(words map[string]*entry) *vocabulary {
	return &vocabulary{
		words: newTable(words, func(e *entry) bool { return e.keyword || e.rule || e.place != placeUnknown }),
		functions: newTable(words, func(e *entry) bool {
			return e.effect != effectUnknown || e.read || e.shadowed
		}),
	}
}

func newTable(words map[string]*entry, choose func(*entry) bool) table {
	t := table{entries: make([]entry, 1)}
	for word, e := range words {
		if e.word = word; choose(e) {
			e.head, e.tail = ends(word, 0, len(word))
			e.length, e.index = uint64(len(word)), uint32(len(t.entries))
			t.entries = append(t.entries, *e)
		}
	}
	size := 256
	for size < 4*len(t.entries) {
		size *= 2
	}
	t.slots, t.mask = make([]uint32, size), uint64(size-1)
	for n := 1; n < len(t.entries); n++ {
		e := &t.entries[n]
		i := slot(e.head, e.tail, e.length)
		for t.slots[i&t.mask] != 0 {
			i++
		}
		t.slots[i&t.mask] = uint32(n)
	}
	return t
}

// with returns a vocabulary with the entries that change makes or changes.
func (v *vocabulary) with(change func(get func(word string) *entry)) *vocabulary {
	words := make(map[string]*entry, len(v.words.entries)+len(v.functions.entries))
	for _, t := range []table{v.words, v.functions} {
		for _, e := range t.entries[1:] {
			words[e.word] = &e
		}
	}
	change(getter(words))
	w := newVocabulary(words)
	w.operators, w.everyName = v.operators, v.everyName
	return w
}

// lower folds the case of ASCII letters, eight bytes at a time. Among the bytes that a word can have it joins nothing else.
const lower = 0x2020202020202020

// ends returns the first eight bytes of the word s[start:end], folded, and the last eight if it has more: with the length they tell
// words of up to 16 bytes apart. It has few branches: how long the next word is cannot be predicted.
func ends(s string, start, end int) (head, tail uint64) {
	n := end - start
	switch {
	case n > 8:
		return load8(s[start:]) | lower, load8(s[end-8:]) | lower
	case start+8 <= len(s):
		return (load8(s[start:]) | lower) & first[n], 0
	}
	for i := end - 1; i >= start; i-- {
		head = head<<8 | uint64(s[i]|0x20)
	}
	return head, 0
}

// first masks the first bytes of eight.
var first = [9]uint64{
	0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, 0xffffffffffffffff,
}

func load8(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func slot(head, tail, n uint64) uint64 {
	h := (head ^ tail*0x9e3779b97f4a7c15 ^ n<<56) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// short looks a word of at most eight bytes up by its folded bytes.
func (t *table) short(head, length uint64) *entry {
	i := slot(head, 0, length)
	e := &t.entries[t.slots[i&t.mask]]
	if e.index == 0 || e.head == head && e.length == length {
		return e
	}
	return t.search(head, 0, length, i)
}

// search goes on where another word was in the slot.
func (t *table) search(head, tail, length, i uint64) *entry {
	for {
		i++
		if e := &t.entries[t.slots[i&t.mask]]; e.index == 0 || e.head == head && e.tail == tail && e.length == length {
			return e
		}
	}
}

// find looks the unquoted word s[start:end] up, without regard to the case of its ASCII letters.
func (t *table) find(s string, start, end int) *entry {
	head, tail := ends(s, start, end)
	n := uint64(end - start)
	for i := slot(head, tail, n); ; i++ {
		e := &t.entries[t.slots[i&t.mask]]
		if e.index == 0 || e.head == head && e.tail == tail && e.length == n && (n <= 16 || strings.EqualFold(e.word, s[start:end])) {
			return e
		}
	}
}

// findQuoted looks the text of a quoted name up, without regard to the case of its letters. It may hold any byte, so all of
// it is compared.
func (t *table) findQuoted(s string, start, end int) *entry {
	head, tail := ends(s, start, end)
	for i := slot(head, tail, uint64(end-start)); ; i++ {
		e := &t.entries[t.slots[i&t.mask]]
		if e.index == 0 || len(e.word) == end-start && strings.EqualFold(e.word, s[start:end]) {
			return e
		}
	}
}

// lines calls f with every line of a list that is not empty and not a comment.
func lines(list string, f func(string)) {
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			f(line)
		}
	}
}
