package sqlclass

// variable reads @name, @'name', @"name", @`name`, or @@. A lone @ (as in app@localhost) is a user variable too: nothing that
// is a read has one.
func (l *lexer) variable(t *token) {
	s, start := l.s, l.pos
	l.pos++
	if l.pos == len(s) {
		t.set(userVar, start, l.pos)
		return
	}
	switch c := s[l.pos]; {
	case c == '@':
		l.pos++
		t.set(sysVar, start, l.pos)
		return
	case c == '\'' || c == '"' || c == '`':
		backslash := c == '\'' && l.reading&backslashInSingle != 0 || c == '"' && l.reading&backslashInDouble != 0
		k := str
		if c == '`' {
			k, backslash = quotedName, false
		}
		if l.quoted(t, start, l.pos+1, c, backslash, k); t.kind != bad {
			t.kind, t.kw = userVar, kwHeed
		}
		return
	}
	for l.pos < len(s) && (wordPart[s[l.pos]] || s[l.pos] == '.') {
		l.pos++
	}
	t.set(userVar, start, l.pos)
	return
}
