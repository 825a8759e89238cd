package sqlclass

import "strings"

// tokens that stand for what no token of the text says.
const (
	tokenNothing    = "no statement"
	tokenUnreadable = "text that cannot be read"
	tokenAmbiguous  = "a backslash before a quote"
	tokenVersioned  = "executable comments"
	tokenTooDeep    = "parentheses nested too deep"
	tokenUnbalanced = "a parenthesis without its other half"
	tokenDialect    = "a dialect that is not known"
)

// Setting is what is known of a setting of the server that changes how a text is read.
type Setting uint8

const (
	// SettingDefault: not known. The server's default is taken, and a text that would be no read under the other value is
	// not one.
	SettingDefault Setting = iota
	// SettingOff and SettingOn: known.
	SettingOff
	SettingOn
)

// Server says what is known of the settings that change how a text is read. The zero value is safe: see [SettingDefault]. On
// MySQL and MariaDB the other reading is left out of account where it is more than one statement: a server refuses that unless
// the client asks for multiStatements, and whoever does so and changes sql_mode must say so here.
type Server struct {
	// StandardConformingStrings is the PostgreSQL setting of this name (on by default).
	StandardConformingStrings Setting
	// NoBackslashEscapes and ANSIQuotes are the parts of sql_mode with these names (off by default).
	NoBackslashEscapes, ANSIQuotes Setting
}

// reading returns the reading of a text.
func (o Server) reading(d Dialect) (r reading) {
	switch {
	case d == PostgreSQL:
		r = doubleIsName
		if o.StandardConformingStrings == SettingOff {
			r |= backslashInSingle
		}
		return r
	case d == SQLite:
		return doubleIsName
	case o.ANSIQuotes == SettingOn:
		r = doubleIsName
	case o.NoBackslashEscapes != SettingOn:
		r = backslashInDouble
	}
	if o.NoBackslashEscapes != SettingOn {
		r |= backslashInSingle
	}
	return r
}

// others returns the readings to be tried as well when a text holds a quote after a backslash.
func (o Server) others(d Dialect) (list [3]reading, n int) {
	add := func(r reading) {
		list[n] = r
		n++
	}
	first := o.reading(d)
	switch d {
	case SQLite:
		return list, n
	case PostgreSQL:
		if o.StandardConformingStrings == SettingDefault {
			add(first | backslashInSingle)
		}
		return list, n
	}
	if o.NoBackslashEscapes == SettingDefault {
		add(first &^ (backslashInSingle | backslashInDouble))
	}
	if o.ANSIQuotes == SettingDefault {
		add(first&^backslashInDouble | doubleIsName)
		if o.NoBackslashEscapes == SettingDefault {
			add(doubleIsName)
		}
	}
	return list, n
}

// classify classifies a text under every reading that is possible.
func classify(d Dialect, v *vocabulary, server Server, query string) (st Statement) {
	if v == nil {
		return Statement{MayWrite: true, CommitsOnError: true, Token: tokenDialect}
	}
	if len(query) > maxText || d == SQLite && strings.IndexByte(query, 0) >= 0 { // where SQLite's text ends
		return Statement{MayWrite: true, CommitsOnError: true, MayEndTx: true, Token: tokenUnreadable}
	}
	first := server.reading(d)
	p := classifyReading(d, v, first, query, &st)
	if st.Class == Read && p.ambiguous {
		others, n := server.others(d)
		for _, r := range others[:n] {
			var other Statement
			q := classifyReading(d, v, r, query, &other)
			if q.lexed && !q.empty && other.Class != Read && (d == PostgreSQL || !other.Multi) {
				return Statement{Hint: primaryOnly(st.Hint), MayWrite: true, CommitsOnError: true, Token: tokenAmbiguous}
			}
		}
	}
	if p.versioned > 0 {
		classifyVersioned(d, v, first, query, p.versioned, &st)
	}
	return st
}

// classifyVersioned adds to st what a text is for a server that takes its executable comments for comments. The server's version and
// make decide that, so both must be harmless.
func classifyVersioned(d Dialect, v *vocabulary, first reading, query string, versioned int, st *Statement) {
	var other Statement
	q := classifyReading(d, v, first|versionedIsComment, query, &other)
	switch {
	case !q.lexed && st.Class == Read:
		unknown(st, tokenVersioned)
	case q.lexed && !q.empty:
		st.demote(&other)
	}
	if versioned > 1 && st.Class == Read {
		unknown(st, tokenVersioned) // some of them may be comments and others not
	}
}

// primaryOnly drops a hint for a replica: what was read as a comment may be none, and nothing is sent anywhere for its hint alone.
func primaryOnly(h Hint) Hint {
	if h == HintReplica {
		return HintNone
	}
	return h
}

// facts are what the lexer has found beside the tokens.
type facts struct {
	lexed, empty, ambiguous bool
	versioned               int
}

// classifyReading makes all, which is zero, what a text is under one reading. Statements are changed in place and not handed on by value:
// a processor waits long for a copy of what was just written in smaller parts.
func classifyReading(d Dialect, v *vocabulary, r reading, query string, all *Statement) facts {
	p := scan{lexer: lexer{s: query, dialect: d, reading: r, vocab: v}, filled: 1}
	count := 0
	open, outside := false, false // of transactions: one is open; one of before this text was ended
	var further Statement
	for st := all; p.begin(); st = &further {
		if count > 0 {
			further = Statement{}
		}
		switch d {
		case PostgreSQL:
			p.postgres(st)
		case SQLite:
			p.sqlite(st)
		default:
			p.mysql(st)
		}
		if st.Class == TxControl {
			outside = outside || !open && !st.BeginsTx
			open = st.BeginsTx || open && !st.EndsTx
		}
		if count > 0 {
			all.demote(&further)
		}
		count++
		if t := p.t(); t.kind == endOfText || t.kind == bad {
			break
		}
	}
	f := facts{ambiguous: p.ambiguous, versioned: p.versioned}
	if p.t().kind == bad {
		*all = Statement{Hint: primaryOnly(p.hint), MayWrite: true, CommitsOnError: true, MayEndTx: true, Token: tokenUnreadable}
		return f
	}
	f.lexed, f.empty = true, count == 0
	if count == 0 {
		*all = Statement{Hint: primaryOnly(p.hint), Token: tokenNothing}
		return f
	}
	if count > 1 {
		all.Multi = true
		all.CommitsOnError = all.CommitsOnError || all.MayWrite || all.EndsTx
		switch {
		case open || outside:
			all.Class = TxControl
		case all.LeavesState:
			all.Class = SessionState
		}
	}
	if p.hint != HintNone {
		all.Hint = p.hint
	}
	return f
}

// begin moves to the first token of the next statement. False: there is none.
func (p *scan) begin() bool {
	for p.advance(); p.t().is(';'); {
		p.advance()
	}
	if t := p.t(); t.kind == endOfText || t.kind == bad {
		return false
	}
	p.depth, p.asking, p.planned = 0, false, false
	p.parens[0] = paren{}
	*p.before(0) = separator
	*p.before(1) = token{}
	*p.before(2) = token{}
	return true
}

// separator stands before every statement.
var separator = token{look: look{kind: punct, char: ';'}}
