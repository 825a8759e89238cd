package sqlclass

import (
	"strings"
	"unicode/utf8"
)

// quoted reads up to the closing quote; from is the position after the opening one. A doubled quote stands for itself.
// PostgreSQL joins literals that only blanks with a line end separate, and goes on in the form of the first one.
func (l *lexer) quoted(t *token, start, from int, quote byte, backslash bool, k kind) {
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
			t.set(k, start, l.pos)
			return
		case c == '\\' && k == str:
			if i+1 < len(s) && s[i+1] == quote {
				l.ambiguous = l.ambiguous || !backslash || l.dialect != PostgreSQL // in E'...' it is clear
			}
			if backslash {
				i++
			}
		case c == 0:
			if l.dialect == PostgreSQL {
				l.bad(t, start)
				return
			}
		case c >= utf8.RuneSelf:
			n := validRune(s[i:])
			if n == 0 {
				l.bad(t, start)
				return
			}
			i += n - 1
		default:
			i = plainEnd(s, i+1, quote) - 1
		}
	}
	l.bad(t, start)
}

// continued returns the position after the quote with which a PostgreSQL literal goes on, or 0. Line comments count as blanks.
func (l *lexer) continued() int {
	newline := false
	for i := l.pos; i < len(l.s); i++ {
		switch c := l.s[i]; {
		case c == '\n' || c == '\r':
			newline = true
		case isBlank(c):
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

// name reads a quoted name.
func (l *lexer) name(t *token, start int, quote byte) {
	s, i := l.s, start+1
	for i < len(s) && asciiWordPart[s[i]] {
		i++
	}
	if i < len(s) && s[i] != quote { // few of them have other characters
		i = plainEnd(s, i, quote)
	}
	if i < len(s) && s[i] == quote && (i+1 == len(s) || s[i+1] != quote) {
		l.pos = i + 1
		t.set(quotedName, start, i+1)
	} else if l.quoted(t, start, start+1, quote, false, quotedName); t.kind != quotedName {
		return
	}
	if l.dialect != PostgreSQL {
		if e := l.vocab.words.find(s, start+1, int(t.end)-1); e.index != 0 && strings.EqualFold(e.word, s[start+1:t.end-1]) {
			t.known, t.place = e.index, e.place
			if e.kw == kwHeed {
				t.kw = kwHeed
			}
		}
		return
	}
	if t.place = postgresPlace(s[start+1 : t.end-1]); t.place != placeUnknown || l.vocab.everyName {
		if e := l.vocab.words.findQuoted(s, start+1, int(t.end)-1); e.index != 0 {
			t.place = e.place
		}
	}
}

// dollar reads what begins with a dollar sign in PostgreSQL: a parameter or a dollar-quoted string.
func (l *lexer) dollar(t *token) {
	s, start := l.s, l.pos
	i := start + 1
	if i < len(s) && isDigit(s[i]) {
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		l.pos = i
		t.set(param, start, i)
		return
	}
	if i < len(s) && beginsWord(s[i]) {
		for i < len(s) && wordPart[s[i]] && s[i] != '$' {
			i++
		}
	}
	if i >= len(s) || s[i] != '$' {
		l.bad(t, start)
		return
	}
	tag := s[start : i+1]
	n := strings.Index(s[i+1:], tag)
	if n < 0 {
		l.bad(t, start)
		return
	}
	body := s[i+1 : i+1+n]
	if strings.IndexByte(body, 0) >= 0 || !utf8.ValidString(body) {
		l.bad(t, start)
		return
	}
	l.pos = i + 1 + n + len(tag)
	t.set(str, start, l.pos)
	return
}
