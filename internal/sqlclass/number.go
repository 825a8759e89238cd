package sqlclass

// number reads a numeric literal. Letters directly after one are an error in PostgreSQL from 15 on and a new word before; MySQL and
// MariaDB read 1a as a name, 1.5a as a number and a word.
func (l *lexer) number(t *token) {
	s, start := l.s, l.pos
	i := digitsEnd(s, start)
	if i > start && (i == len(s) || s[i] != '.' && !wordPart[s[i]]) { // most of them
		l.pos = i
		t.set(number, start, i)
		return
	}
	i = start
	if s[i] == '0' && i+2 < len(s) && isBasedNumber(s[i+1], s[i+2]) {
		i += 2
		for i < len(s) && (isHex(s[i]) || s[i] == '_' && l.dialect == PostgreSQL) {
			i++
		}
		l.numberUpTo(t, start, i, true)
		return
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
		if isDigit(s[exp]) {
			i = l.digits(exp)
			integer = false
		}
	}
	l.numberUpTo(t, start, i, integer)
	return
}

// numberUpTo ends the literal at end. nameable: with letters after it, it would be a name in MySQL and MariaDB.
func (l *lexer) numberUpTo(t *token, start, end int, nameable bool) {
	if end < len(l.s) && wordPart[l.s[end]] {
		if l.dialect == PostgreSQL {
			l.bad(t, start)
			return
		}
		if nameable {
			l.word(t, wordEnd(l.s, end))
			return
		}
	}
	l.pos = end
	t.set(number, start, end)
	return
}

func (l *lexer) digits(i int) int {
	for i < len(l.s) && (isDigit(l.s[i]) || l.s[i] == '_' && l.dialect == PostgreSQL) {
		i++
	}
	return i
}

// digitsEnd returns the position after the digits that begin at i.
func digitsEnd(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
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
