package sqlclass

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

// readings returns the reading of a text, and the other ones to be tried when it holds a quote after a backslash.
func (o Server) readings(d Dialect) (first reading, others [3]reading, n int) {
	add := func(r reading) {
		others[n] = r
		n++
	}
	if d == PostgreSQL {
		first = doubleIsName
		switch o.StandardConformingStrings {
		case SettingOff:
			first |= backslashInSingle
		case SettingDefault:
			add(first | backslashInSingle)
		case SettingOn:
		}
		return first, others, n
	}
	single, double, names := o.NoBackslashEscapes, o.NoBackslashEscapes, o.ANSIQuotes
	if single != SettingOn {
		first |= backslashInSingle
	}
	switch {
	case names == SettingOn:
		first |= doubleIsName
	case double != SettingOn:
		first |= backslashInDouble
	}
	if single == SettingDefault {
		add(first &^ (backslashInSingle | backslashInDouble))
	}
	if names == SettingDefault {
		add(first&^backslashInDouble | doubleIsName)
		if single == SettingDefault {
			add(doubleIsName)
		}
	}
	return first, others, n
}

// classify classifies a text under every reading that is possible.
func classify(d Dialect, v *vocabulary, server Server, query string) Statement {
	if v == nil {
		return Statement{MayWrite: true, CommitsOnError: true, Token: tokenDialect}
	}
	first, others, n := server.readings(d)
	st, p := classifyReading(d, v, first, query)
	if st.Class == Read && p.ambiguous {
		for _, r := range others[:n] {
			other, q := classifyReading(d, v, r, query)
			if q.lexed && !q.empty && other.Class != Read && (d == PostgreSQL || !other.Multi) {
				return Statement{Hint: primaryOnly(st.Hint), MayWrite: true, CommitsOnError: true, Token: tokenAmbiguous}
			}
		}
	}
	if p.versioned == 0 {
		return st
	}
	// The server's version and make decide whether an executable comment is one, so both must be harmless.
	other, q := classifyReading(d, v, first|versionedIsComment, query)
	switch {
	case !q.lexed && st.Class == Read:
		unknown(&st, tokenVersioned)
	case q.lexed && !q.empty:
		demote(&st, other)
	}
	if p.versioned > 1 && st.Class == Read {
		unknown(&st, tokenVersioned) // some of them may be comments and others not
	}
	return st
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

// classifyReading classifies a text under one reading.
func classifyReading(d Dialect, v *vocabulary, r reading, query string) (Statement, facts) {
	p := scan{lexer: lexer{s: query, dialect: d, reading: r, vocab: v}}
	var all Statement
	count := 0
	open, outside := false, false // of transactions: one is open; one of before this text was ended
	for {
		st, ok := p.statement()
		if p.t().kind == bad {
			return Statement{Hint: primaryOnly(p.hint), MayWrite: true, CommitsOnError: true, Token: tokenUnreadable}, facts{ambiguous: p.ambiguous, versioned: p.versioned}
		}
		if ok {
			if st.Class == TxControl {
				outside = outside || !open && !st.BeginsTx
				open = st.BeginsTx || open && !st.EndsTx
			}
			if count == 0 {
				all = st
			} else {
				demote(&all, st)
			}
			count++
		}
		if p.t().kind == endOfText {
			break
		}
	}
	f := facts{lexed: true, ambiguous: p.ambiguous, versioned: p.versioned, empty: count == 0}
	if count == 0 {
		return Statement{Hint: primaryOnly(p.hint), Token: tokenNothing}, f
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
	all.Hint = p.hint
	return all, f
}

// statement classifies the next statement. ok is false when there is none before the next semicolon.
func (p *scan) statement() (st Statement, ok bool) {
	p.ring, p.depth, p.asking, p.planned = [4]token{}, 0, false, false
	*p.t() = token{kind: punct, char: ';'}
	p.parens[0] = paren{}
	p.advance()
	if p.ended() {
		return Statement{}, false
	}
	if p.dialect == PostgreSQL {
		return p.postgres(), true
	}
	return p.mysql(), true
}
