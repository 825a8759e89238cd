package sqlclass

import "math/bits"

// charClass is what a character can begin in a text.
type charClass uint8

const (
	charSelf charClass = iota // a token of one character, whatever follows
	charDot                   // from here on to charLastPair: a token of one character unless a certain one follows
	charDash
	charSlash
	charColon
	charEqual
	charStar
	charBlank    // nothing
	charWord     // begins a word
	charNotASCII // begins a word that must be UTF-8
	charDigit
	charString // '
	charName   // the quote of names
	charDouble // " where the reading says what it quotes
	charDollar
	charAt
	charHash
	charBackslash
	charBad // no text that lexes has it outside quotes

	charLastPair = charStar
)

// alphabet is what the characters of a dialect are.
type alphabet struct {
	class [256]charClass
	self  [256]look // of a character that is a token by itself
	// second marks what can be the second of a pair of characters, whatever the first.
	second [256]bool
	after  [256]uint8
}

// What a character is after a short word or a token of one character.
const (
	afterOther = iota
	afterBlank // to be passed by
	afterGlued // it makes more than a short word of one
)

var postgresAlphabet = newAlphabet("\\{}", map[byte]charClass{'"': charName, '$': charDollar, '=': charEqual})

// In brackets, names stand under MariaDB's sql_mode=MSSQL, else nothing. MySQL gives $tag$ the meaning that it has in PostgreSQL from
// 8.0.34 on, and MariaDB never does.
var mysqlAlphabet = newAlphabet("[]$", map[byte]charClass{
	'`': charName, '"': charDouble, '@': charAt, '#': charHash, '*': charStar, '\\': charBackslash,
})

func newAlphabet(bad string, special map[byte]charClass) *alphabet {
	a := new(alphabet)
	for i := range a.class {
		c := byte(i)
		a.self[c] = look{kind: punct, char: c}
		switch {
		case isBlank(c):
			a.after[c] = afterBlank
		case mayPrefix(c), c >= 0x80:
			a.after[c] = afterGlued
		}
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			a.class[c] = charBlank
		case c < ' ' || c == 0x7f:
			a.class[c] = charBad
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_':
			a.class[c] = charWord
		case c >= 0x80:
			a.class[c] = charNotASCII
		case isDigit(c):
			a.class[c] = charDigit
		}
	}
	for c, class := range map[byte]charClass{'\'': charString, '-': charDash, '/': charSlash, ':': charColon, '.': charDot} {
		a.class[c] = class
	}
	for c, class := range special {
		a.class[c] = class
	}
	for _, c := range []byte("0123456789-*/:=>") {
		a.second[c] = true
	}
	for _, c := range []byte(bad) {
		a.class[c] = charBad
	}
	for _, c := range []byte("();") {
		a.self[c].kw = kwHeed
	}
	if special['`'] == charName { // MySQL and MariaDB
		a.self['?'] = looks[param]
		a.self['%'].kw = kwHeed
	}
	return a
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func isBlank(c byte) bool { return c == ' ' || c-'\t' <= '\r'-'\t' }

// beginsWord: a word of every dialect can begin with a letter, _ and every byte above 0x7f.
func beginsWord(c byte) bool { return c|0x20-'a' <= 'z'-'a' || c == '_' || c >= 0x80 }

// wordPart marks what continues a word in every dialect: letters, digits, _, $ and every byte above 0x7f.
var wordPart = func() (t [256]bool) {
	for i := range t {
		c := byte(i)
		t[c] = beginsWord(c) || isDigit(c) || c == '$'
	}
	return t
}()

// asciiWordPart is wordPart without what must be UTF-8.
var asciiWordPart = func() (t [256]bool) {
	copy(t[:0x80], wordPart[:0x80])
	return t
}()

// Eight bytes of a text at a time are a number, the first byte lowest.
const (
	ones byteLanes = 0x0101010101010101
	high byteLanes = 0x8080808080808080 // marks the bytes above 0x7f
	// lower folds the case of ASCII letters. Among the bytes that a word can have it joins nothing else.
	lower byteLanes = 0x2020202020202020
)

type byteLanes = uint64

func load8(s string) byteLanes {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// firstBytes masks the first bytes of eight.
var firstBytes = [9]byteLanes{
	0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, 0xffffffffffffffff,
}

// shortWord returns the length of the word of two or more at the beginning of eight bytes, or 0 if it is longer than seven.
func shortWord(w string, part *[256]bool) int {
	_ = w[7]
	switch {
	case !part[w[2]]:
		return 2
	case !part[w[3]]:
		return 3
	case !part[w[4]]:
		return 4
	case !part[w[5]]:
		return 5
	case !part[w[6]]:
		return 6
	case !part[w[7]]:
		return 7
	}
	return 0
}

// firstMarked returns the number of the first byte that is marked.
func firstMarked(marks byteLanes) int { return bits.TrailingZeros64(marks) / 8 }

// wordEnd returns the position after the part of a word that begins at i.
func wordEnd(s string, i int) int {
	for i < len(s) && wordPart[s[i]] {
		i++
	}
	return i
}

// plainEnd returns the position of the first byte from i on that a string or a quoted name cannot be skipped over without a look at it: the
// quote, a backslash, NUL, what is not ASCII.
func plainEnd(s string, i int, quote byte) int {
	quotes := uint64(quote) * ones
	for ; i+8 <= len(s); i += 8 {
		b := load8(s[i:])
		// Taking one from a zero sets its highest bit. A borrow can mark bytes after the first zero, so only the first mark counts.
		q, backslash := b^quotes, b^'\\'*ones
		if marks := ((q-ones)&^q | (backslash-ones)&^backslash | (b-ones)&^b | b) & high; marks != 0 {
			return i + firstMarked(marks)
		}
	}
	for i < len(s) && s[i] != quote && s[i] != '\\' && s[i] != 0 && s[i] < 0x80 {
		i++
	}
	return i
}
