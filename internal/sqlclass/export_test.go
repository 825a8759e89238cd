package sqlclass

// Boundaries returns the places between the tokens of a text where a blank may stand: it means nothing there.
func Boundaries(d Dialect, text string) []int {
	l := lexer{s: text, dialect: d, reading: Server{}.reading(d), vocab: words(d)}
	var list []int
	var last token
	for {
		var r ring
		l.fill(&r, 0, 1)
		t := r[0]
		joins := last.kind == str && t.kind == str                                                                   // a line end between two literals makes them one
		dotted := last.is('.') || int(t.start) < len(text) && text[t.start] == '.'                                   // .5 is a number after a blank
		glued := last.kind == punct && t.kind == punct && last.end == t.start || last.kind == sysVar || last.is(':') // <=, :=, @@name
		comments := last.is('-') && last.start > 0 && text[last.start-1] == '-'                                      // two dashes and a blank
		if t.kind != bad && !joins && !dotted && !glued && !comments {
			list = append(list, int(last.end))
		}
		if t.kind == bad || t.kind == endOfText {
			return list
		}
		last = t
	}
}

// Versioned reports that a text has executable comments, in which the two servers do not agree on what a comment is.
func Versioned(d Dialect, text string) bool {
	var st Statement
	f := classifyReading(d, words(d), doubleIsName, text, &st)
	return f.versioned > 0
}

// Split returns the statements of a text, as the lexer of the dialect sees them. What does not lex ends the list.
func Split(d Dialect, text string) []string {
	l := lexer{s: text, dialect: d, reading: Server{}.reading(d), vocab: words(d)}
	var list []string
	start, empty := 0, true
	for {
		var r ring
		l.fill(&r, 0, 1)
		t := r[0]
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
