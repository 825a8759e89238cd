package sqlclass

// Split returns the statements of a text, as the lexer of the dialect sees them. What does not lex ends the list.
func Split(d Dialect, text string) []string {
	r, _, _ := Server{}.readings(d)
	l := lexer{s: text, dialect: d, reading: r, vocab: words(d)}
	var list []string
	start, empty := 0, true
	for {
		var t token
		l.next(&t)
		switch {
		case t.kind == bad:
			return list
		case t.kind == endOfText || t.is(';'):
			if !empty {
				list = append(list, text[start:t.start])
			}
			if t.kind == endOfText {
				return list
			}
			start, empty = int(t.end), true
		default:
			empty = false
		}
	}
}
