package marker

import "strings"

// leadingWords returns the first words of a text in lower case, after blanks, comments and opening parentheses. Where anything
// else comes there are no more.
func leadingWords(query string) (words [4]string) {
	rest := query
	for i := range words {
		rest = skipBlanks(rest, i == 0)
		n := 0
		for n < len(rest) && (isLetter(rest[n]) || n > 0 && (rest[n] == '_' || rest[n] >= '0' && rest[n] <= '9')) {
			n++
		}
		if n == 0 || n < len(rest) && rest[n] >= 0x80 {
			return words
		}
		words[i] = strings.ToLower(rest[:n])
		rest = rest[n:]
	}
	return words
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// skipBlanks returns what follows blanks and comments, and opening parentheses if they may stand there. A comment that servers
// may take for code (/*!, /*+, a nested one) is none.
func skipBlanks(rest string, parens bool) string {
	for {
		switch {
		case rest == "":
			return rest
		case strings.IndexByte(" \t\n\r\f\v", rest[0]) >= 0, parens && rest[0] == '(':
			rest = rest[1:]
		case strings.HasPrefix(rest, "\ufeff"):
			rest = rest[len("\ufeff"):]
		case strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\t"), strings.HasPrefix(rest, "--\n"):
			_, after, found := strings.Cut(rest, "\n")
			if !found {
				return ""
			}
			rest = after
		case strings.HasPrefix(rest, "/*"):
			body, after, closed := strings.Cut(rest[2:], "*/")
			if !closed || strings.Contains(body, "/*") || body != "" && strings.IndexByte("!+M", body[0]) >= 0 {
				return ""
			}
			rest = after
		default:
			return rest
		}
	}
}

// mentions reports whether a word occurs anywhere in a text, also where it means nothing.
func mentions(query, word string) bool { return strings.Contains(strings.ToLower(query), word) }
