package sqlclass

// variable reads @name, @'name', @"name", @`name`, or @@. A lone @ (as in app@localhost) is a user variable too: nothing that
// is a read has one.
func (l *lexer) variable() token {
	s, start := l.s, l.pos
	l.pos++
	if l.pos == len(s) {
		return token{kind: userVar, start: start, end: l.pos}
	}
	switch c := s[l.pos]; {
	case c == '@':
		l.pos++
		return token{kind: sysVar, start: start, end: l.pos}
	case c == '\'' || c == '"' || c == '`':
		backslash := c == '\'' && l.reading&backslashInSingle != 0 || c == '"' && l.reading&backslashInDouble != 0
		k := str
		if c == '`' {
			k, backslash = quotedName, false
		}
		t := l.quoted(start, l.pos+1, c, backslash, k)
		if t.kind != bad {
			t.kind = userVar
		}
		return t
	}
	for l.pos < len(s) && (wordPart[s[l.pos]] || s[l.pos] == '.') {
		l.pos++
	}
	return token{kind: userVar, start: start, end: l.pos}
}
