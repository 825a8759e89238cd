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
	placeUnknown place = iota // a name as any other
	placeEvery                // a table or view of the server's own that is the same on every node
	placeNode                 // what shows one node, or what the catalogue says belongs on the primary
	placeSession              // what lives in one session
	placeSchema               // a schema of the server's own: its tables are told apart by their own names
)

// entry is what is known of one word.
type entry struct {
	word     string
	kw       keyword
	keyword  bool // any keyword of the dialect
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
}

// vocabulary is the words of one dialect, in lower case: an open hash table that compares up to sixteen bytes at once.
// It is immutable once it is in use.
type vocabulary struct {
	entries []*entry
	slots   []uint16 // 1 + the index in entries
	mask    uint64
	// operators are those that the catalogue calls volatile.
	operators map[string]bool
}

// unqualified returns the effect of a call by the name alone. The server's own functions are found first, and a user's
// function of the same name with arguments that fit better is what shadowed stands for.
func (e *entry) unqualified() effect {
	switch {
	case e == nil:
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
	if e == nil {
		return effectUnknown
	}
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
	size := 1024
	for size < 4*len(words) {
		size *= 2
	}
	v := &vocabulary{slots: make([]uint16, size), mask: uint64(size - 1)}
	for word, e := range words {
		if len(v.entries) == 1<<16-1 {
			break // what is not in the vocabulary is unknown
		}
		e.word = word
		e.head, e.tail = ends(word)
		v.entries = append(v.entries, e)
		i := slot(e.head, e.tail, len(word))
		for v.slots[i&v.mask] != 0 {
			i++
		}
		v.slots[i&v.mask] = uint16(len(v.entries))
	}
	return v
}

// with returns a vocabulary that also has the changed copies of entries that change makes.
func (v *vocabulary) with(change func(get func(word string) *entry)) *vocabulary {
	words := make(map[string]*entry, len(v.entries))
	for _, e := range v.entries {
		words[e.word] = e
	}
	changed := make(map[string]bool)
	change(func(word string) *entry {
		if !changed[word] {
			e := new(entry)
			if old := words[word]; old != nil {
				*e = *old
			}
			words[word], changed[word] = e, true
		}
		return words[word]
	})
	for word, e := range words { // indexing writes to them
		if !changed[word] {
			c := *e
			words[word] = &c
		}
	}
	return newVocabulary(words)
}

// lower folds the case of ASCII letters, eight bytes at a time. Among the bytes that a word can have it joins nothing else.
const lower = 0x2020202020202020

// ends returns the first and last bytes of a word, folded: with the length they tell words of up to 16 bytes apart.
func ends(s string) (head, tail uint64) {
	switch n := len(s); {
	case n >= 8:
		return load8(s) | lower, load8(s[n-8:]) | lower
	case n >= 4:
		return (load4(s) | load4(s[n-4:])<<32) | lower, 0
	case n > 0:
		return uint64(s[0]|0x20) | uint64(s[n/2]|0x20)<<8 | uint64(s[n-1]|0x20)<<16, 0
	}
	return 0, 0
}

func load8(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func load4(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func slot(head, tail uint64, n int) uint64 {
	h := (head ^ tail*0x9e3779b97f4a7c15 ^ uint64(n)<<56) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// find looks an unquoted word up, without regard to the case of its ASCII letters.
func (v *vocabulary) find(s string) *entry {
	head, tail := ends(s)
	for i := slot(head, tail, len(s)); ; i++ {
		n := v.slots[i&v.mask]
		if n == 0 {
			return nil
		}
		if e := v.entries[n-1]; e.head == head && e.tail == tail && len(e.word) == len(s) && (len(s) <= 16 || strings.EqualFold(e.word, s)) {
			return e
		}
	}
}

// findQuoted looks the text of a quoted name up. It may hold any byte, so all of it is compared.
func (v *vocabulary) findQuoted(s string, fold bool) *entry {
	head, tail := ends(s)
	for i := slot(head, tail, len(s)); ; i++ {
		n := v.slots[i&v.mask]
		if n == 0 {
			return nil
		}
		if e := v.entries[n-1]; e.word == s || fold && len(e.word) == len(s) && strings.EqualFold(e.word, s) {
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
