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
	look
}

// look is what a token is, wherever it stands. It comes out of a table in one piece of eight bytes.
type look struct {
	known uint32 // of a name: the index of its entry in the vocabulary, 0 if it has none; not of quoted ones in PostgreSQL
	kind  kind
	char  byte // of punct; colonColon, assign and arrow stand for their two characters
	kw    keyword
	place place // what a name stands for where it is no call
}

// looks are those of the kinds that have only one.
var looks = [...]look{
	endOfText:  {kind: endOfText, kw: kwHeed},
	quotedName: {kind: quotedName},
	str:        {kind: str},
	number:     {kind: number},
	param:      {kind: param},
	userVar:    {kind: userVar, kw: kwHeed},
	sysVar:     {kind: sysVar, kw: kwHeed},
	punct:      {kind: punct},
	bad:        {kind: bad, kw: kwHeed},
}

// set makes t a token that is neither a word nor punctuation.
func (t *token) set(k kind, start, end int) {
	t.start, t.end = uint32(start), uint32(end)
	t.look = looks[k]
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
