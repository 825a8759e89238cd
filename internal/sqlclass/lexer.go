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

// ringSize is how many tokens are held at a time; a power of two. Of them behind stay when others are read ahead of the current one.
const (
	ringSize = 16
	behind   = 4
)

// ring holds the current token, the ones before it, and those that were read ahead.
type ring [ringSize]token

// fill writes up to n tokens to r, from place at on, and returns the place after the last one. Less than n end with endOfText or bad: then
// the text is at its end. Reading many in one go keeps what this takes in registers.
func (l *lexer) fill(r *ring, at, n uint8) uint8 {
	s, i := l.s, l.pos
	a, single, words, part := l.vocab.alphabet, &l.vocab.single, &l.vocab.words, &asciiWordPart
	for last := at + n; at != last; {
		t := &r[at%ringSize]
		if i+8 > len(s) {
			l.pos = i
			isToken := l.late(t)
			if i = l.pos; isToken {
				if at++; t.kind == endOfText || t.kind == bad {
					return at
				}
			}
			continue
		}
		w := s[i : i+8]
		class := a.class[w[0]]
		if class == charBlank {
			i++
			continue
		}
		switch {
		case class == charWord && part[w[1]]:
			// The shortest way for most words of most texts: no calls, and few branches on what cannot be predicted.
			n := shortWord(w, part)
			if n == 0 {
				l.pos = i
				l.longWord(t)
				i = l.pos
				if at++; t.kind == bad {
					return at
				}
				continue
			}
			if after := a.after[w[n&7]]; after != afterGlued {
				head := (load8(s[i:]) | lower) & firstBytes[n] // of w, the compiler would not make one load
				c := words.short(head)
				t.start, t.end = uint32(i), uint32(i+n)
				t.look = c.look
				at++
				if i += n; after == afterBlank {
					i++
				}
				if head&0xffffff == pgPrefix && c.look.known == 0 {
					l.strange(t)
				}
				continue
			}
		case class == charWord && a.after[w[1]] != afterGlued, class == charSelf, class <= charLastPair && !a.second[w[1]]:
			t.start, t.end = uint32(i), uint32(i+1)
			t.look = single[w[0]]
			at++
			if i++; w[1] == ' ' {
				i++
			}
			continue
		}
		if class == charDigit {
			if end := digitsEnd(s, i+1); end < len(s) && s[end] != '.' && !wordPart[s[end]] {
				t.set(number, i, end)
				at++
				i = end
				continue
			}
		}
		l.pos = i
		isToken := l.begins(t, class)
		if i = l.pos; isToken {
			if at++; t.kind == bad {
				return at
			}
		}
	}
	l.pos = i
	return at
}

// late reads one of the last few tokens of the text. False: there is none here.
func (l *lexer) late(t *token) bool {
	if l.pos < len(l.s) {
		return l.begins(t, l.vocab.alphabet.class[l.s[l.pos]])
	}
	if l.inVersioned {
		l.bad(t, len(l.s)) // the executable comment is not closed
	} else {
		t.set(endOfText, len(l.s), len(l.s))
	}
	return true
}

// pgPrefix is "pg_" as the head of a folded word.
const pgPrefix = 'p' | 'g'<<8 | ('_'|0x20)<<16

// begins reads what begins with a character of this class. False: a blank, or a comment, which is skipped.
func (l *lexer) begins(t *token, class charClass) bool {
	s := l.s
	if class == charName { // most of what comes here
		l.name(t, l.pos, s[l.pos])
		return true
	}
	var second byte // 0 is in no text that lexes
	if l.pos+1 < len(s) {
		second = s[l.pos+1]
	}
	switch class {
	case charDigit:
		l.number(t)
		return true
	case charString:
		l.quoted(t, l.pos, l.pos+1, '\'', l.reading&backslashInSingle != 0, str)
		return true
	case charDouble:
		if l.reading&doubleIsName != 0 {
			l.name(t, l.pos, '"')
		} else {
			l.quoted(t, l.pos, l.pos+1, '"', l.reading&backslashInDouble != 0, str)
			t.kw = kwHeed // it can be a name under another reading
		}
		return true
	case charBlank:
		l.pos++
		return false
	case charWord, charNotASCII:
		l.word(t, wordEnd(s, l.pos+1))
		return true
	case charDot:
		if isDigit(second) && (l.pos == 0 || !wordPart[s[l.pos-1]]) {
			l.number(t)
			return true
		}
	case charDash:
		if second == '-' && l.dashComment() {
			return false
		}
	case charHash:
		l.lineComment(l.pos + 1)
		return false
	case charSlash:
		if second != '*' {
			break
		}
		if l.blockComment() {
			return false
		}
		l.bad(t, l.pos)
		return true
	case charDollar:
		if l.dialect == SQLite {
			l.sqliteParam(t)
		} else {
			l.dollar(t)
		}
		return true
	case charColon:
		switch {
		case second == ':' && l.dialect == PostgreSQL:
			l.pair(t, colonColon)
			return true
		case second == '=':
			l.pair(t, assign)
			t.kw = kwHeed
			return true
		}
	case charEqual:
		if second == '>' {
			l.pair(t, arrow)
			return true
		}
	case charAt:
		l.variable(t)
		return true
	case charStar:
		if second == '/' && l.inVersioned {
			l.inVersioned = false
			l.pos += 2
			return false
		}
	case charBackslash: // \N is NULL; nothing else begins with a backslash
		if second == 'N' {
			l.take(t, number, 2)
			return true
		}
		l.bad(t, l.pos)
		return true
	case charBad:
		l.bad(t, l.pos)
		return true
	case charSelf, charName:
	}
	t.start, t.end = uint32(l.pos), uint32(l.pos+1)
	t.look = l.vocab.single[s[l.pos]]
	l.pos++
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

// mayPrefix reports that a word of one letter before c may be the prefix of a string or of a quoted name.
func mayPrefix(c byte) bool { return c == '\'' || c == '&' }

// word reads an unquoted word up to end, or the string or quoted name of which it is the prefix.
func (l *lexer) word(t *token, end int) {
	s, start := l.s, l.pos
	l.pos = end
	if end < len(s) && end == start+1 && mayPrefix(s[end]) && l.prefixed(t, start, end) {
		return
	}
	head, tail := ends(s, start, end)
	l.look(t, start, end, head, tail)
}

// longWord reads an unquoted word that has no end in the eight bytes from pos on.
func (l *lexer) longWord(t *token) {
	s, start := l.s, l.pos
	end := wordEnd(s, start+8)
	head, tail := load8(s[start:])|lower, uint64(0)
	if end > start+8 {
		tail = load8(s[end-8:]) | lower
	}
	l.pos = end
	l.look(t, start, end, head, tail)
}

// look makes t the word s[start:end] whose ends are head and tail.
func (l *lexer) look(t *token, start, end int, head, tail byteLanes) {
	t.start, t.end = uint32(start), uint32(end)
	t.look = l.vocab.words.cell(head, tail, l.s[start:end]).look
	if t.known == 0 && (end-start > 16 || (head|tail)&high != 0 || head&0xffffff == pgPrefix) {
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
