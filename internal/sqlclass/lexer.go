package sqlclass

import (
	"strings"
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

// next returns the next token. After endOfText or bad it must not be called again.
func (l *lexer) next() token {
	s := l.s
	for l.pos < len(s) {
		c := s[l.pos]
		switch charClass[c] {
		case charBlank:
			l.pos++
			continue
		case charWord:
			return l.word()
		case charDigit:
			return l.number()
		case charQuote:
			return l.quoted(l.pos, l.pos+1, '\'', l.reading&backslashInSingle != 0, str)
		case charDouble:
			if l.reading&doubleIsName != 0 {
				return l.name(l.pos, '"')
			}
			return l.quoted(l.pos, l.pos+1, '"', l.reading&backslashInDouble != 0, str)
		case charTick:
			if l.dialect == PostgreSQL {
				break // an operator character
			}
			return l.name(l.pos, '`')
		case charDash:
			if l.pos+1 < len(s) && s[l.pos+1] == '-' && l.dashComment() {
				continue
			}
		case charHash:
			if l.dialect != PostgreSQL {
				l.lineComment(l.pos + 1)
				continue
			}
		case charSlash:
			if l.pos+1 < len(s) && s[l.pos+1] == '*' {
				if !l.blockComment() {
					return l.bad(l.pos)
				}
				continue
			}
		case charDollar:
			return l.dollar()
		case charQuestion:
			if l.dialect != PostgreSQL {
				return l.take(param, 1)
			}
		case charColon:
			if l.pos+1 < len(s) {
				switch {
				case s[l.pos+1] == ':' && l.dialect == PostgreSQL:
					return l.pair(colonColon)
				case s[l.pos+1] == '=':
					return l.pair(assign)
				}
			}
		case charEqual:
			if l.pos+1 < len(s) && s[l.pos+1] == '>' && l.dialect == PostgreSQL {
				return l.pair(arrow)
			}
		case charDot:
			if l.pos+1 < len(s) && charClass[s[l.pos+1]] == charDigit && (l.pos == 0 || !wordPart[s[l.pos-1]]) {
				return l.number()
			}
		case charAt:
			if l.dialect != PostgreSQL {
				return l.variable()
			}
		case charBad:
			return l.bad(l.pos)
		case charOther:
			if l.dialect != PostgreSQL {
				switch c {
				case '*':
					if l.inVersioned && l.pos+1 < len(s) && s[l.pos+1] == '/' {
						l.inVersioned = false
						l.pos += 2
						continue
					}
				case '\\': // \N is NULL; nothing else begins with a backslash
					if l.pos+1 < len(s) && s[l.pos+1] == 'N' {
						return l.take(number, 2)
					}
					return l.bad(l.pos)
				}
			} else if c == '\\' || c == '{' || c == '}' {
				return l.bad(l.pos)
			}
		}
		t := token{kind: punct, char: c, start: l.pos, end: l.pos + 1}
		l.pos++
		return t
	}
	if l.inVersioned {
		return l.bad(l.pos) // the executable comment is not closed
	}
	return token{kind: endOfText, start: len(s), end: len(s)}
}

func (l *lexer) bad(at int) token {
	l.pos = len(l.s)
	return token{kind: bad, start: at, end: len(l.s)}
}

func (l *lexer) take(k kind, n int) token {
	t := token{kind: k, start: l.pos, end: l.pos + n}
	l.pos += n
	return t
}

func (l *lexer) pair(char byte) token {
	t := token{kind: punct, char: char, start: l.pos, end: l.pos + 2}
	l.pos += 2
	return t
}

// word reads an unquoted word, or the string or quoted name of which it is the prefix.
func (l *lexer) word() token {
	s, start := l.s, l.pos
	end, high := start+1, s[start]
	for end < len(s) && wordPart[s[end]] {
		high |= s[end]
		end++
	}
	l.pos = end
	if end < len(s) {
		switch c := s[end]; {
		case c == '\'':
			if t, ok := l.prefixed(start, end); ok {
				return t
			}
		case c == '"' && l.dialect != PostgreSQL && s[start] == '_' && l.reading&doubleIsName == 0:
			// _charset"...": the word is a token, the string is read next
		case c == '&' && end == start+1 && s[start]|0x20 == 'u' && end+1 < len(s) && l.dialect == PostgreSQL:
			switch s[end+1] {
			case '\'':
				// No backslash in U&'...' ever escapes a quote; the server refuses it without standard_conforming_strings.
				return l.quoted(start, end+2, '\'', false, str)
			case '"':
				// The name can be written in escapes, so it is not compared with anything: kw and known stay empty.
				return l.quoted(start, end+2, '"', false, quotedName)
			}
		}
	}
	t := token{kind: word, start: start, end: end}
	if t.known = l.vocab.find(s[start:end]); t.known != nil {
		t.kw = t.known.kw
	} else if high >= utf8.RuneSelf && !utf8.ValidString(s[start:end]) {
		return l.bad(start)
	}
	return t
}

// prefixed reads a string with a prefix letter, if s[start:end] is one. The quote is at end.
func (l *lexer) prefixed(start, end int) (token, bool) {
	if end-start != 1 {
		return token{}, false
	}
	switch l.s[start] | 0x20 {
	case 'e':
		if l.dialect == PostgreSQL {
			return l.quoted(start, end+1, '\'', true, str), true
		}
	case 'b', 'x':
		return l.quoted(start, end+1, '\'', l.dialect != PostgreSQL && l.reading&backslashInSingle != 0, str), true
	case 'n':
		return l.quoted(start, end+1, '\'', l.reading&backslashInSingle != 0, str), true
	}
	return token{}, false
}

// quoted reads up to the closing quote; from is the position after the opening one. A doubled quote stands for itself.
// PostgreSQL joins literals that only blanks with a line end separate, and goes on in the form of the first one.
func (l *lexer) quoted(start, from int, quote byte, backslash bool, k kind) token {
	s := l.s
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			if i+1 < len(s) && s[i+1] == quote {
				i++
				continue
			}
			if i > from && s[i-1] == '\\' && k == str {
				l.ambiguous = l.ambiguous || !backslash || l.dialect != PostgreSQL // in E'...' it is clear
			}
			l.pos = i + 1
			if k == str && l.dialect == PostgreSQL {
				if again := l.continued(); again > 0 {
					i = again - 1
					continue
				}
			}
			return token{kind: k, start: start, end: l.pos}
		case c == '\\' && k == str:
			if i+1 < len(s) && s[i+1] == quote {
				l.ambiguous = l.ambiguous || !backslash || l.dialect != PostgreSQL // in E'...' it is clear
			}
			if backslash {
				i++
			}
		case c == 0:
			if l.dialect == PostgreSQL {
				return l.bad(start)
			}
		case c >= utf8.RuneSelf:
			n := validRune(s[i:])
			if n == 0 {
				return l.bad(start)
			}
			i += n - 1
		}
	}
	return l.bad(start)
}

// continued returns the position after the quote with which a PostgreSQL literal goes on, or 0. Line comments count as blanks.
func (l *lexer) continued() int {
	newline := false
	for i := l.pos; i < len(l.s); i++ {
		switch c := l.s[i]; {
		case c == '\n' || c == '\r':
			newline = true
		case charClass[c] == charBlank:
		case c == '-' && i+1 < len(l.s) && l.s[i+1] == '-':
			for i+1 < len(l.s) && l.s[i+1] != '\n' && l.s[i+1] != '\r' {
				i++
			}
		case c == '\'' && newline:
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// name reads a quoted name and looks it up under its own case rules.
func (l *lexer) name(start int, quote byte) token {
	t := l.quoted(start, start+1, quote, false, quotedName)
	if t.kind == quotedName {
		text := l.s[start+1 : t.end-1]
		if l.dialect == PostgreSQL {
			t.known = l.vocab.findQuoted(text, false)
		} else {
			t.known = l.vocab.findQuoted(text, true)
		}
	}
	return t
}

// number reads a numeric literal. Letters directly after one are an error in PostgreSQL from 15 on and a new word before; MySQL and
// MariaDB read 1a as a name, 1.5a as a number and a word.
func (l *lexer) number() token {
	s, start := l.s, l.pos
	i := start
	if s[i] == '0' && i+2 < len(s) && isBasedNumber(s[i+1], s[i+2]) {
		i += 2
		for i < len(s) && (isHex(s[i]) || s[i] == '_' && l.dialect == PostgreSQL) {
			i++
		}
		return l.numberUpTo(start, i, true)
	}
	i = l.digits(i)
	integer := i > start && (i == len(s) || s[i] != '.')
	if i < len(s) && s[i] == '.' && !(i+1 < len(s) && s[i+1] == '.') {
		i = l.digits(i + 1)
	}
	if i+1 < len(s) && s[i]|0x20 == 'e' {
		exp := i + 1
		if (s[exp] == '+' || s[exp] == '-') && exp+1 < len(s) {
			exp++
		}
		if charClass[s[exp]] == charDigit {
			i = l.digits(exp)
			integer = false
		}
	}
	return l.numberUpTo(start, i, integer)
}

// numberUpTo ends the literal at end. nameable: with letters after it, it would be a name in MySQL and MariaDB.
func (l *lexer) numberUpTo(start, end int, nameable bool) token {
	if end < len(l.s) && wordPart[l.s[end]] {
		if l.dialect == PostgreSQL {
			return l.bad(start)
		}
		if nameable {
			return l.word()
		}
	}
	l.pos = end
	return token{kind: number, start: start, end: end}
}

func (l *lexer) digits(i int) int {
	for i < len(l.s) && (charClass[l.s[i]] == charDigit || l.s[i] == '_' && l.dialect == PostgreSQL) {
		i++
	}
	return i
}

func isBasedNumber(base, digit byte) bool {
	switch base {
	case 'x', 'X':
		return isHex(digit)
	case 'b', 'B', 'o', 'O':
		return digit >= '0' && digit <= '7'
	}
	return false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// dollar reads what begins with a dollar sign: a parameter or a dollar-quoted string in PostgreSQL. MySQL gives $tag$ the same
// meaning from 8.0.34 on and MariaDB never does, so there the text does not lex.
func (l *lexer) dollar() token {
	s, start := l.s, l.pos
	if l.dialect != PostgreSQL {
		return l.bad(start)
	}
	i := start + 1
	if i < len(s) && charClass[s[i]] == charDigit {
		for i < len(s) && charClass[s[i]] == charDigit {
			i++
		}
		l.pos = i
		return token{kind: param, start: start, end: i}
	}
	if i < len(s) && charClass[s[i]] == charWord {
		for i < len(s) && wordPart[s[i]] && s[i] != '$' {
			i++
		}
	}
	if i >= len(s) || s[i] != '$' {
		return l.bad(start)
	}
	tag := s[start : i+1]
	n := strings.Index(s[i+1:], tag)
	if n < 0 {
		return l.bad(start)
	}
	body := s[i+1 : i+1+n]
	if strings.IndexByte(body, 0) >= 0 || !utf8.ValidString(body) {
		return l.bad(start)
	}
	l.pos = i + 1 + n + len(tag)
	return token{kind: str, start: start, end: l.pos}
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
