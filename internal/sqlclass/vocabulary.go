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
	index      uint32
}

// vocabulary is what is known of the words of one dialect. It is immutable once it is in use.
type vocabulary struct {
	alphabet  *alphabet
	single    [256]look // of tokens of one character, and of words of one letter
	words     table     // keywords and what names stand for: looked up for every word
	functions table     // looked up before a parenthesis
	// operators are those that the catalogue calls volatile.
	operators map[string]bool
	// everyName: any name can stand for something that the catalogue tells of.
	everyName bool
}

// table is an open hash table of words in lower case that compares up to sixteen bytes at once.
type table struct {
	entries []entry // the first stands for every word that is not there
	cells   []cell  // a power of two of them
	shift   uint8   // of a hash, to the number of a cell
}

// cell is a place for a word in a table. The bytes of a word are never 0, so its head tells its length where that is at most eight; a
// longer one has a tail.
type cell struct {
	head, tail uint64
	taken      uint64 // all ones, or 0 in an empty cell
	look       look
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
func newVocabulary(a *alphabet, words map[string]*entry) *vocabulary {
	v := &vocabulary{
		alphabet: a,
		single:   a.self,
		words:    newTable(words, func(e *entry) bool { return e.keyword || e.rule || e.place != placeUnknown }),
		functions: newTable(words, func(e *entry) bool {
			return e.effect != effectUnknown || e.read || e.shadowed
		}),
	}
	for c, class := range a.class {
		if class == charWord {
			v.single[c] = v.words.short(uint64(c) | 0x20).look
		}
	}
	return v
}

func newTable(words map[string]*entry, choose func(*entry) bool) table {
	t := table{entries: make([]entry, 1)}
	for word, e := range words {
		if e.word = word; choose(e) {
			e.head, e.tail = ends(word, 0, len(word))
			e.index = uint32(len(t.entries))
			t.entries = append(t.entries, *e)
		}
	}
	for t.shift = 64 - 8; 1<<(64-t.shift) < 4*len(t.entries); t.shift-- {
	}
	t.cells = make([]cell, 1<<(64-t.shift))
	for i := range t.cells {
		t.cells[i].look = look{kind: word}
	}
	for n := range t.entries[1:] {
		e := &t.entries[n+1]
		i := t.place(e.head, e.tail)
		for t.cells[i].head != 0 {
			i = t.next(i)
		}
		t.cells[i] = cell{e.head, e.tail, ^uint64(0), look{known: e.index, kind: word, kw: e.kw, place: e.place}}
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
	w := newVocabulary(v.alphabet, words)
	w.operators, w.everyName = v.operators, v.everyName
	return w
}

// ends returns the first eight bytes of the word s[start:end], folded, and the last eight if it has more: with the length they tell
// words of up to 16 bytes apart. It has few branches: how long the next word is cannot be predicted.
func ends(s string, start, end int) (head, tail uint64) {
	n := end - start
	switch {
	case n > 8:
		return load8(s[start:]) | lower, load8(s[end-8:]) | lower
	case start+8 <= len(s):
		return (load8(s[start:]) | lower) & firstBytes[n], 0
	}
	for i := end - 1; i >= start; i-- {
		head = head<<8 | uint64(s[i]|0x20)
	}
	return head, 0
}

// place returns the number of the cell in which a word is, unless another one was there first.
func (t *table) place(head, tail uint64) uint64 {
	return (head ^ tail*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd >> (t.shift & 63)
}

// next returns the number of the cell to try after another.
func (t *table) next(i uint64) uint64 { return (i + 1) & uint64(len(t.cells)-1) }

// short looks a word of at most eight bytes up by its folded bytes.
func (t *table) short(head uint64) *cell {
	i := t.place(head, 0)
	c := &t.cells[i]
	for (c.head^head)&c.taken|c.tail != 0 { // one branch for words that are there and words that are not
		i = t.next(i)
		c = &t.cells[i]
	}
	return c
}

// cell looks an unquoted word of any length up by its ends, without regard to the case of its ASCII letters.
func (t *table) cell(head, tail uint64, text string) *cell {
	for i := t.place(head, tail); ; i = t.next(i) {
		c := &t.cells[i]
		if c.head == 0 {
			return c
		}
		if c.head == head && c.tail == tail {
			if e := &t.entries[c.look.known]; len(e.word) == len(text) && (len(text) <= 16 || strings.EqualFold(e.word, text)) {
				return c
			}
		}
	}
}

// find returns the entry of the unquoted word s[start:end].
func (t *table) find(s string, start, end int) *entry {
	if n := end - start; n <= 8 && start+8 <= len(s) {
		return &t.entries[t.short((load8(s[start:])|lower)&firstBytes[n]).look.known]
	}
	head, tail := ends(s, start, end)
	return &t.entries[t.cell(head, tail, s[start:end]).look.known]
}

// findQuoted looks the text of a quoted name up, without regard to the case of its letters. It may hold any byte, so all of
// it is compared.
func (t *table) findQuoted(s string, start, end int) *entry {
	e := t.find(s, start, end)
	if e.index != 0 && !strings.EqualFold(e.word, s[start:end]) {
		return &t.entries[0]
	}
	return e
}

// lines calls f with every line of a list that is not empty and not a comment.
func lines(list string, f func(string)) {
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			f(line)
		}
	}
}
