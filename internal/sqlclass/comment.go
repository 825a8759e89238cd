package sqlclass

import "strings"

// dashComment skips the comment that begins with the two dashes at pos. In MySQL and MariaDB two dashes begin one only
// before a blank, a control character or the end of the text; otherwise they are two minus signs.
func (l *lexer) dashComment() bool {
	from := l.pos + 2
	if l.dialect != PostgreSQL && l.dialect != SQLite && from < len(l.s) && l.s[from] > ' ' && l.s[from] != 0x7f {
		return false
	}
	l.lineComment(from)
	return true
}

// lineComment skips to the end of the line. PostgreSQL ends a line at a carriage return as well.
func (l *lexer) lineComment(from int) {
	rest := l.s[from:]
	n := strings.IndexByte(rest, '\n')
	if n < 0 {
		n = len(rest)
	}
	if l.dialect == PostgreSQL {
		if cr := strings.IndexByte(rest[:n], '\r'); cr >= 0 {
			n = cr
		}
	}
	l.hints(rest[:n])
	l.pos = from + n
}

// blockComment skips the comment that begins at pos, or enters it when it is executable. False: it is not closed.
func (l *lexer) blockComment() bool {
	s, from := l.s, l.pos+2
	if l.dialect == PostgreSQL {
		end, ok := nestedEnd(s, from)
		if ok {
			l.hints(s[from : end-2])
			l.pos = end
		}
		return ok
	}
	if code, ok := l.versionedCode(from); ok && l.dialect != SQLite {
		l.versioned++
		if l.inVersioned {
			return false // neither server defines one inside another
		}
		if l.reading&versionedIsComment == 0 {
			l.pos, l.inVersioned = code, true
			return true
		}
		// A server that skips it skips plain comments inside it as well, one level deep.
		for i := code; i+1 < len(s); i++ {
			switch {
			case s[i] == '*' && s[i+1] == '/':
				l.pos = i + 2
				return true
			case s[i] == '/' && s[i+1] == '*':
				n := strings.Index(s[i+2:], "*/")
				if n < 0 {
					return false
				}
				i += n + 3
			}
		}
		return false
	}
	n := strings.Index(s[from:], "*/")
	if n < 0 {
		return false
	}
	l.hints(s[from : from+n])
	l.pos = from + n + 2
	return true
}

// versionedCode returns where the code of an executable comment begins: after /*!, or /*M!, and the version if there is one.
func (l *lexer) versionedCode(from int) (int, bool) {
	s := l.s
	if from < len(s) && (s[from] == 'M' || s[from] == 'm') && from+1 < len(s) && s[from+1] == '!' {
		from++
	}
	if from >= len(s) || s[from] != '!' {
		return 0, false
	}
	from++
	digits := from
	for digits < len(s) && isDigit(s[digits]) {
		digits++
	}
	if n := digits - from; n == 5 || n == 6 {
		return digits, true
	} else if n > 6 {
		return from + 6, true
	}
	return from, true
}

// nestedEnd returns the position after the comment whose text begins at from; PostgreSQL nests them.
func nestedEnd(s string, from int) (int, bool) {
	depth := 1
	for i := from; i+1 < len(s); i++ {
		switch {
		case s[i] == '*' && s[i+1] == '/':
			i++
			if depth--; depth == 0 {
				return i + 1, true
			}
		case s[i] == '/' && s[i+1] == '*':
			i++
			depth++
		case s[i] == 0:
			return 0, false
		}
	}
	return 0, false
}

// hints looks for a hint in the text of a comment: one of the hint words, standing alone between blanks, commas or semicolons.
func (l *lexer) hints(text string) {
	for len(text) > 0 {
		i := 0
		for i < len(text) && !separatesHints(text[i]) {
			i++
		}
		switch h := hintOf(text[:i]); {
		case h == HintPrimary, h == HintReplica && l.hint == HintNone:
			l.hint = h
		}
		if i == len(text) {
			return
		}
		text = text[i+1:]
	}
}

func separatesHints(c byte) bool {
	return isBlank(c) || c == ',' || c == ';' || c == '+' || c == '*'
}

func hintOf(s string) Hint {
	if len(s) < len("FORCE_SLAVE") || len(s) > len("route:primary") {
		return HintNone
	}
	switch {
	case strings.EqualFold(s, "route:primary"), strings.EqualFold(s, "FORCE_MASTER"):
		return HintPrimary
	case strings.EqualFold(s, "route:replica"), strings.EqualFold(s, "FORCE_SLAVE"):
		return HintReplica
	}
	return HintNone
}
