package sqlclass

import "strings"

// maxDepth is how deep parentheses may nest before a text is no longer followed.
const maxDepth = 200

// postgres classifies one text of PostgreSQL.
func postgres(query string, functions map[string]bool) Statement {
	p := postgresScan{lexer: lexer{s: query, dialect: PostgreSQL, reading: doubleIsName, vocab: postgresVocabulary}, functions: functions}
	var all Statement
	count := 0
	for {
		st, ok := p.statement()
		if ok {
			if count == 0 {
				all = st
			} else {
				all = both(all, st)
			}
			count++
		}
		if p.t.kind == endOfText {
			break
		}
		if p.t.kind == bad {
			return Statement{Hint: p.hint, MayWrite: true, CommitsOnError: true, Token: "text that cannot be read"}
		}
	}
	if p.ambiguous {
		return Statement{Hint: p.hint, MayWrite: true, CommitsOnError: true, Token: "a backslash before a quote"}
	}
	if count > 1 {
		all.Multi = true
		all.CommitsOnError = all.CommitsOnError || all.MayWrite || all.EndsTx
	}
	all.Hint = p.hint
	return all
}

// both joins two statements of one text: the stronger class counts, and every effect.
func both(a, b Statement) Statement {
	if strength(b.Class) > strength(a.Class) {
		a.Class, a.Token = b.Class, b.Token
	}
	a.LeavesState = a.LeavesState || b.LeavesState
	a.TxState = a.TxState || b.TxState
	a.DependsState = a.DependsState || b.DependsState
	a.MayWrite = a.MayWrite || b.MayWrite
	a.CommitsOnError = a.CommitsOnError || b.CommitsOnError
	a.EndsTx = a.EndsTx || b.EndsTx
	a.BeginsTx = a.BeginsTx || b.BeginsTx
	return a
}

func strength(c Class) int {
	switch c {
	case Read:
		return 0
	case TxControl:
		return 1
	case SessionState:
		return 2
	case Unknown:
		return 3
	case Write:
	}
	return 4
}

// postgresScan walks over the tokens of a text.
type postgresScan struct {
	lexer
	functions map[string]bool // the user's own that only read
	t         token           // the current token
	// before are the tokens before it, the nearest first.
	before [3]token
	depth  int
	parens [maxDepth]paren
}

// paren is what is known of one level of parentheses.
type paren struct {
	// expression: an expression follows the closing parenthesis (DISTINCT ON (..), OPERATOR(..)), so that a name after it
	// may be a function's.
	expression bool
	// with: inside the list of a WITH clause, where a name before a parenthesis is that of a CTE.
	with bool
	// setConfig: the arguments of set_config.
	setConfig bool
}

func (p *postgresScan) advance() {
	p.before[2], p.before[1], p.before[0] = p.before[1], p.before[0], p.t
	p.t = p.next()
}

func (p *postgresScan) ended() bool {
	return p.t.kind == endOfText || p.t.kind == bad || p.depth == 0 && p.t.kind == punct && p.t.char == ';'
}

// text returns the token's text.
func (p *postgresScan) text(t token) string { return p.s[t.start:t.end] }

// word returns an unquoted word in lower case if it is in the vocabulary, else "".
func (t *token) word() string {
	if t.kind == word && t.known != nil {
		return t.known.word
	}
	return ""
}

// statement classifies the next statement. ok is false when there is none before the next semicolon.
func (p *postgresScan) statement() (st Statement, ok bool) {
	p.t, p.before, p.depth = token{kind: punct, char: ';'}, [3]token{}, 0
	p.parens[0] = paren{}
	p.advance()
	if p.ended() {
		return Statement{}, false
	}
	first := p.t
	if isQuery(first) {
		return p.query(), true
	}
	if first.kw == kwExplain {
		return p.explain(), true
	}
	st = p.command(first.word())
	st.Token = p.text(first)
	for !p.ended() {
		p.advance()
	}
	return st, true
}

func isQuery(t token) bool {
	switch t.kw {
	case kwSelect, kwWith, kwValues, kwTable:
		return t.kind == word
	}
	return t.kind == punct && t.char == '('
}

// command classifies a statement that is no query by its first word, and looks at the second where it matters.
func (p *postgresScan) command(verb string) Statement {
	ddl := Statement{Class: Write, MayWrite: true, CommitsOnError: true}
	p.advance()
	second := p.t.word()
	switch verb {
	case "insert", "update", "delete", "merge", "truncate", "copy", "lock", "notify":
		return Statement{Class: Write, MayWrite: true, LeavesState: p.mentionsState()}
	case "create", "drop", "alter":
		ddl.LeavesState = p.mentionsTemp()
		return ddl
	case "comment", "grant", "revoke", "reindex", "cluster", "vacuum", "analyze", "analyse", "refresh", "security",
		"reassign", "import", "checkpoint":
		return ddl
	case "call", "do":
		return ddl
	case "begin", "start":
		return Statement{Class: TxControl, BeginsTx: true}
	case "commit", "end", "rollback", "abort":
		if second == "prepared" {
			return Statement{Class: Write, MayWrite: true}
		}
		return p.endsTx(verb)
	case "savepoint", "release":
		return Statement{Class: TxControl, TxState: true}
	case "prepare":
		if second == "transaction" {
			return Statement{Class: TxControl, EndsTx: true, MayWrite: true}
		}
		return Statement{Class: SessionState, LeavesState: true}
	case "set":
		if second == "local" || second == "transaction" || second == "constraints" {
			return Statement{Class: SessionState, TxState: true}
		}
		return Statement{Class: SessionState, LeavesState: true}
	case "reset", "discard", "listen", "unlisten", "deallocate", "load":
		return Statement{Class: SessionState, LeavesState: true}
	case "declare":
		if p.mentionsHold() {
			return Statement{Class: SessionState, LeavesState: true, MayWrite: true}
		}
		return Statement{Class: SessionState, TxState: true, MayWrite: true}
	case "show":
		return Statement{Class: SessionState, DependsState: true}
	case "fetch", "move", "close", "execute":
		return Statement{Class: SessionState, DependsState: true, MayWrite: true}
	}
	return Statement{MayWrite: true, CommitsOnError: true}
}

// endsTx classifies COMMIT and ROLLBACK: ROLLBACK TO ends nothing, AND CHAIN begins the next transaction.
func (p *postgresScan) endsTx(verb string) Statement {
	st := Statement{Class: TxControl, EndsTx: true}
	no := false
	for ; !p.ended(); p.advance() {
		switch p.t.word() {
		case "to":
			if verb == "rollback" || verb == "abort" {
				return Statement{Class: TxControl, TxState: true}
			}
		case "no":
			no = true
		case "chain":
			st.BeginsTx = !no
		}
	}
	return st
}

// mentionsTemp reports that the rest of the statement makes or drops what lives in the session.
func (p *postgresScan) mentionsTemp() bool {
	found := false
	for ; !p.ended(); p.advance() {
		if !p.t.isName() {
			continue
		}
		switch strings.ToLower(strings.Trim(p.text(p.t), `"`)) {
		case "temp", "temporary", "pg_temp":
			found = true
		}
	}
	return found
}

func (p *postgresScan) mentionsHold() bool {
	hold := false
	for ; !p.ended(); p.advance() {
		if p.t.word() == "hold" && p.before[0].kw == kwWith {
			hold = true
		}
	}
	return hold
}

// mentionsState reports that the rest of a write calls something that leaves session state.
func (p *postgresScan) mentionsState() bool {
	found := false
	for ; !p.ended(); p.advance() {
		if p.t.isName() && p.t.known != nil && (p.t.known.effect == effectState || p.t.known.effect == effectSetConfig) {
			found = true
		}
	}
	return found
}

// explain classifies EXPLAIN. Without ANALYZE it runs nothing; with it, it runs the statement.
func (p *postgresScan) explain() Statement {
	analyze := false
	p.advance()
	for p.t.kw == kwAnalyze || p.t.kw == kwVerbose {
		analyze = analyze || p.t.kw == kwAnalyze
		p.advance()
	}
	if p.t.kind == punct && p.t.char == '(' {
		p.advance()
		if isQuery(p.t) {
			p.depth = 1
			p.parens[1] = paren{}
			return p.query()
		}
		for !p.ended() && !(p.t.kind == punct && p.t.char == ')') {
			switch {
			case p.t.kw == kwAnalyze:
				analyze = true
			case p.before[0].kw == kwAnalyze && off(p.text(p.t)):
				analyze = false
			}
			p.advance()
		}
		p.advance()
	}
	if isQuery(p.t) {
		return p.query()
	}
	st := Statement{Token: "EXPLAIN"}
	switch p.t.kw {
	case kwInsert, kwUpdate, kwDelete, kwMerge:
		st.Class = Read // it is planned and does not run
	}
	if analyze {
		st = Statement{Class: Write, MayWrite: true, Token: "EXPLAIN ANALYZE"}
	}
	for !p.ended() {
		p.advance()
	}
	return st
}

// off reports that an option's value switches it off.
func off(value string) bool {
	switch strings.ToLower(strings.Trim(value, "'")) {
	case "false", "off", "no", "0", "f", "n":
		return true
	}
	return false
}
