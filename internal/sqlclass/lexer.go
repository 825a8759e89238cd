package sqlclass

import (
	"unicode/utf8"
)

// reading says how a text is to be understood where the answer depends on the server's settings or version.
type reading uint8

const (
	// backslashInSingle: a backslash escapes the next character inside '...'. The default of MySQL and MariaDB
	// (off under NO_BACKSLASH_ESCAPES); in PostgreSQL only with standard_conforming_strings off.
	backslashInSingle reading = 1 << iota
	// backslashInDouble: the same inside "...", where that is a string.
	backslashInDouble
	// doubleIsName: "..." quotes a name. Always in PostgreSQL; under ANSI_QUOTES in MySQL and MariaDB.
	doubleIsName
	// versionedIsComment: /*!NNNNN ... */ is a comment (the server's version is below NNNNN, or it is the other server).
	versionedIsComment
)

// lexer yields the tokens of one text, under one reading. It allocates nothing.
type lexer struct {
	s       string
	pos     int
	dialect Dialect
	reading reading
	vocab   *vocabulary

	hint Hint
	// ambiguous: some quote of the text is preceded by a backslash inside a string, so the text reads differently under
	// another setting of the server.
	ambiguous bool
	// versioned counts the executable comments (/*!, /*M!) seen; inVersioned: the lexer is inside one that it reads as code.
	versioned   int
	inVersioned bool
}

// next writes the next token to t. After endOfText or bad it must not be called again.
func (l *lexer) next(t *token) {
	s, i := l.s, l.pos
	for i < len(s) {
		c := s[i]
		class := charClass[c]
		if class == charBlank {
			i++
			continue
		}
		l.pos = i
		switch class {
		case charWord:
			end := i + 1
			for end < len(s) && wordPart[s[end]] {
				end++
			}
			if end-i <= 8 && i+8 <= len(s) && !(end-i == 1 && l.mayPrefix(s, end)) {
				// The shortest way for most words of most texts: no calls, and few branches on what cannot be predicted.
				head := (load8(s[i:]) | lower) & first[end-i]
				l.pos = end
				e := l.vocab.words.short(head, uint64(end-i))
				t.start, t.end, t.known, t.kind, t.char, t.kw, t.place = uint32(i), uint32(end), e.index, word, 0, e.kw, e.place
				if e.index == 0 && (head&high != 0 || c|0x20 == 'p') {
					l.strange(t)
				}
				return
			}
			l.word(t, end)
			return
		case charOther:
			if c != '*' && c != '\\' && c != '{' && c != '}' && c != '[' && c != ']' {
				break
			}
			if l.dialect == PostgreSQL {
				if c != '*' && c != '[' && c != ']' {
					l.bad(t, i)
					return
				}
				break
			}
			switch {
			case c == '[' || c == ']': // quotes of names under MariaDB's sql_mode=MSSQL, else nothing
				l.bad(t, i)
				return
			case c == '*' && l.inVersioned && i+1 < len(s) && s[i+1] == '/':
				l.inVersioned = false
				i += 2
				continue
			case c == '\\': // \N is NULL; nothing else begins with a backslash
				if i+1 < len(s) && s[i+1] == 'N' {
					l.take(t, number, 2)
				} else {
					l.bad(t, i)
				}
				return
			}
		case charDot:
			if i+1 < len(s) && charClass[s[i+1]] == charDigit && (i == 0 || !wordPart[s[i-1]]) {
				l.number(t)
				return
			}
		default:
			if l.special(t, class) {
				if l.pos != i && t.kind == comment {
					i = l.pos
					continue
				}
				return
			}
		}
		l.pos = i + 1
		t.start, t.end, t.known, t.kind, t.char, t.kw, t.place = uint32(i), uint32(i+1), 0, punct, c, kwNone, placeUnknown
		return
	}
	l.pos = len(s)
	if l.inVersioned {
		l.bad(t, len(s)) // the executable comment is not closed
		return
	}
	t.set(endOfText, len(s), len(s))
}

// special reads what begins with a character that can mean more than itself. False: it is itself. A comment is skipped, and t is
// one only for the caller to see that.
func (l *lexer) special(t *token, class uint8) bool {
	s := l.s
	var second byte // 0 is in no text that lexes
	if l.pos+1 < len(s) {
		second = s[l.pos+1]
	}
	switch class {
	case charDigit:
		l.number(t)
	case charQuote:
		l.quoted(t, l.pos, l.pos+1, '\'', l.reading&backslashInSingle != 0, str)
	case charDouble:
		if l.reading&doubleIsName != 0 {
			l.name(t, l.pos, '"')
		} else {
			l.quoted(t, l.pos, l.pos+1, '"', l.reading&backslashInDouble != 0, str)
		}
	case charTick:
		if l.dialect == PostgreSQL {
			return false // an operator character
		}
		l.name(t, l.pos, '`')
	case charDash:
		if second != '-' || !l.dashComment() {
			return false
		}
		t.kind = comment
	case charHash:
		if l.dialect == PostgreSQL {
			return false
		}
		l.lineComment(l.pos + 1)
		t.kind = comment
	case charSlash:
		if second != '*' {
			return false
		}
		if t.kind = comment; !l.blockComment() {
			l.bad(t, l.pos)
		}
	case charDollar:
		l.dollar(t)
	case charQuestion:
		if l.dialect == PostgreSQL {
			return false
		}
		l.take(t, param, 1)
	case charColon:
		switch {
		case second == ':' && l.dialect == PostgreSQL:
			l.pair(t, colonColon)
		case second == '=':
			l.pair(t, assign)
		default:
			return false
		}
	case charEqual:
		if second != '>' || l.dialect != PostgreSQL {
			return false
		}
		l.pair(t, arrow)
	case charAt:
		if l.dialect == PostgreSQL {
			return false
		}
		l.variable(t)
	case charBad:
		l.bad(t, l.pos)
	}
	return true
}

func (l *lexer) bad(t *token, at int) {
	l.pos = len(l.s)
	t.set(bad, at, len(l.s))
}

func (l *lexer) take(t *token, k kind, n int) {
	t.set(k, l.pos, l.pos+n)
	l.pos += n
}

func (l *lexer) pair(t *token, char byte) {
	l.take(t, punct, 2)
	t.char = char
}

// high marks the bytes above 0x7f.
const high = 0x8080808080808080

// mayPrefix reports that the one-letter word before end may be the prefix of a string or of a quoted name.
func (l *lexer) mayPrefix(s string, end int) bool { return s[end] == '\'' || s[end] == '&' }

// word reads an unquoted word up to end, or the string or quoted name of which it is the prefix.
func (l *lexer) word(t *token, end int) {
	s, start := l.s, l.pos
	l.pos = end
	if end < len(s) && end == start+1 && l.mayPrefix(s, end) && l.prefixed(t, start, end) {
		return
	}
	e := l.vocab.words.find(s, start, end)
	t.start, t.end, t.known, t.kind, t.char, t.kw, t.place = uint32(start), uint32(end), e.index, word, 0, e.kw, e.place
	if e.index == 0 {
		l.strange(t)
	}
}

// strange looks at a word that is not in the vocabulary: it must be UTF-8.
func (l *lexer) strange(t *token) {
	text := l.s[t.start:t.end]
	if !utf8.ValidString(text) {
		l.bad(t, int(t.start))
	} else if l.dialect == PostgreSQL {
		t.place = postgresPlace(text)
	}
}

// prefixed reads a string or name whose prefix is the letter at start. False: it is none. After the letter, at end, is a quote or &.
func (l *lexer) prefixed(t *token, start, end int) bool {
	letter := l.s[start] | 0x20
	if l.s[end] == '&' {
		if letter != 'u' || l.dialect != PostgreSQL || end+1 == len(l.s) {
			return false
		}
		switch l.s[end+1] {
		case '\'':
			// No backslash in U&'...' ever escapes a quote; the server refuses it without standard_conforming_strings.
			l.quoted(t, start, end+2, '\'', false, str)
		case '"':
			// The name can be written in escapes, so it is not compared with anything.
			if l.quoted(t, start, end+2, '"', false, quotedName); t.kind == quotedName {
				t.place = placeHidden
			}
		default:
			return false
		}
		return true
	}
	switch letter {
	case 'e':
		if l.dialect != PostgreSQL {
			return false
		}
		l.quoted(t, start, end+1, '\'', true, str)
	case 'b', 'x':
		l.quoted(t, start, end+1, '\'', l.dialect != PostgreSQL && l.reading&backslashInSingle != 0, str)
	case 'n':
		l.quoted(t, start, end+1, '\'', l.reading&backslashInSingle != 0, str)
	default:
		return false
	}
	return true
}

// validRune returns the length of the UTF-8 sequence at the start of s, or 0. A text that is not UTF-8 is not lexed: in other
// encodings the second byte of a character can be a quote or a backslash.
func validRune(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n <= 1 {
		return 0
	}
	return n
}
