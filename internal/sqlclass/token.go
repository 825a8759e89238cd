package sqlclass

// kind is the kind of a token. Comments and blanks are not tokens.
type kind uint8

const (
	endOfText  kind = iota
	word            // an unquoted identifier or keyword
	quotedName      // "name" in PostgreSQL and under ANSI_QUOTES, `name` in MySQL and MariaDB
	str             // a string literal of any form
	number
	param   // $1, ?
	userVar // @name in MySQL and MariaDB
	sysVar  // @@ in MySQL and MariaDB; the words after it are tokens of their own
	comment // skipped: no token has this kind for long
	punct   // one character, or one of :: := =>
	bad     // the text does not lex: nothing after this token is to be trusted
)

// token is one token of the text. It is kept small and without pointers: walking over tokens is most of the work.
type token struct {
	start, end uint32
	known      uint32 // of a word: the index of its entry in the vocabulary, 0 if it has none
	kind       kind
	char       byte // of punct; colonColon, assign and arrow stand for their two characters
	kw         keyword
	place      place // what a name stands for where it is no call
}

// set makes t a token that is neither a word nor punctuation.
func (t *token) set(k kind, start, end int) {
	t.start, t.end, t.known, t.kind, t.char, t.kw, t.place = uint32(start), uint32(end), 0, k, 0, kwNone, placeUnknown
}

// maxText is the longest text that is lexed.
const maxText = 1 << 30

const (
	colonColon byte = 1 // ::
	assign     byte = 2 // :=
	arrow      byte = 3 // =>
)

// isName reports whether the token can be the name of a function or relation.
func (t *token) isName() bool { return t.kind == word || t.kind == quotedName }

// Character classes of the lexers.
const (
	charOther = iota
	charBlank
	charWord // begins or continues a word
	charDigit
	charQuote  // '
	charDouble // "
	charTick   // `
	charDollar
	charAt
	charHash
	charDash
	charSlash
	charColon
	charEqual
	charQuestion
	charDot
	charBad // control characters, NUL
)

var charClass = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = charBlank
		case c < ' ' || c == 0x7f:
			t[c] = charBad
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80:
			t[c] = charWord
		case c >= '0' && c <= '9':
			t[c] = charDigit
		}
	}
	for c, class := range map[byte]uint8{
		'\'': charQuote, '"': charDouble, '`': charTick, '$': charDollar, '@': charAt, '#': charHash, '-': charDash,
		'/': charSlash, ':': charColon, '=': charEqual, '?': charQuestion, '.': charDot,
	} {
		t[c] = class
	}
	return t
}()

// wordPart marks what continues a word in every dialect: letters, digits, _, $ and every byte above 0x7f.
var wordPart = func() (t [256]bool) {
	for c := range t {
		t[c] = charClass[c] == charWord || charClass[c] == charDigit || c == '$'
	}
	return t
}()

// notPlain marks what a string or a quoted name cannot be skipped over without a look at it.
var notPlain = func() (t [256]bool) {
	for c := range t {
		t[c] = c == 0 || c >= 0x80 || c == '\'' || c == '"' || c == '`' || c == '\\'
	}
	return t
}()
