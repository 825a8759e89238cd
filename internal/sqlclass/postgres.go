package sqlclass

import "strings"

// postgres classifies the statement that begins at the current token. st is zero.
func (p *scan) postgres(st *Statement) {
	if p.query() {
		st.Class = Read
		p.postgresQuery(st)
		return
	}
	first := *p.t()
	switch {
	case first.kind != word, first.known == 0:
		p.skip()
		st.MayWrite, st.CommitsOnError, st.Token = true, true, p.text(&first)
		return
	case first.kw == kwExplain:
		*st = p.postgresExplain()
		return
	case first.kw == kwCopy:
		*st = p.postgresCopy()
		return
	}
	*st = p.postgresCommand(p.word(&first))
	if st.Token == "" {
		st.Token = p.text(&first)
	}
	p.skip()
}

// postgresCommand classifies a statement that is no query by its first word, and looks at what follows where that matters.
func (p *scan) postgresCommand(verb string) Statement {
	first := *p.t()
	p.advance()
	second := p.word(p.t())
	switch verb {
	case "insert", "update", "delete", "merge":
		st := Statement{Class: Write, MayWrite: true, Token: p.text(&first)}
		if p.t().kw == kwInto { // no SELECT INTO
			p.advance()
		}
		p.postgresQuery(&st)
		return st
	case "truncate", "notify":
		return p.postgresWrite(Statement{Class: Write, MayWrite: true})
	case "lock":
		return p.postgresWrite(Statement{Class: Write, MayWrite: true, TxState: true})
	case "create", "drop", "alter":
		return p.postgresDefinition()
	case "comment", "grant", "revoke", "reindex", "cluster", "vacuum", "analyze", "analyse", "refresh", "security",
		"reassign", "import", "checkpoint", "repack", "call", "do":
		return p.postgresWrite(Statement{Class: Write, MayWrite: true, CommitsOnError: true})
	case "begin", "start":
		if verb == "start" && second != "transaction" {
			break
		}
		return Statement{Class: TxControl, BeginsTx: true}
	case "commit", "end", "rollback", "abort":
		return p.endsTx(verb == "commit" || verb == "end")
	case "savepoint", "release":
		return Statement{Class: TxControl, TxState: true}
	case "prepare":
		if second == "transaction" {
			return Statement{Class: TxControl, EndsTx: true, MayWrite: true}
		}
		return Statement{Class: SessionState, LeavesState: true}
	case "set":
		switch second {
		case "local", "transaction", "constraints":
			return Statement{Class: SessionState, TxState: true}
		}
		return Statement{Class: SessionState, LeavesState: true}
	case "reset", "discard", "listen", "unlisten", "deallocate", "load":
		return Statement{Class: SessionState, LeavesState: true}
	case "declare":
		for ; !p.ended(); p.advance() {
			if p.word(p.t()) == "hold" && p.before(0).kw == kwWith {
				return Statement{Class: SessionState, LeavesState: true, MayWrite: true}
			}
			if p.t().kw == kwFor {
				break
			}
		}
		return Statement{Class: SessionState, TxState: true, MayWrite: true}
	case "show":
		return Statement{Class: SessionState, DependsState: true}
	case "fetch", "move", "close", "execute":
		return Statement{Class: SessionState, DependsState: true, MayWrite: true}
	}
	return Statement{MayWrite: true, CommitsOnError: true}
}

// postgresWrite adds to a statement that is no read what its expressions and names do.
func (p *scan) postgresWrite(st Statement) Statement {
	st.Token = p.text(p.before(0))
	p.postgresQuery(&st)
	return st
}

// postgresDefinition classifies CREATE, ALTER and DROP. What they make or drop in the session is session state.
func (p *scan) postgresDefinition() Statement {
	st := Statement{Class: Write, MayWrite: true, CommitsOnError: true, Token: p.text(p.before(0))}
	if p.word(p.t()) == "or" { // OR REPLACE
		p.advance()
		p.advance()
	}
	if w := p.word(p.t()); w == "local" || w == "global" {
		p.advance()
	}
	temporary := p.t().kw == kwTemp && p.t().kind == word
	routine := false
	switch p.word(p.t()) {
	case "function", "procedure":
		routine = true
		p.advance()
		temporary = p.t().place == placeSession // pg_temp.name
	}
	for ; !p.ended(); p.advance() {
		if p.word(p.t()) == "atomic" && routine {
			for p.t().kind != endOfText && p.t().kind != bad { // the semicolons of its body do not end the statement
				p.advance()
			}
			break
		}
		if !routine && p.t().place == placeSession {
			temporary = true
		}
	}
	if temporary {
		st.Class, st.LeavesState = SessionState, true
	}
	return st
}

// endsTx classifies COMMIT, ROLLBACK and their synonyms: ROLLBACK TO ends nothing, AND CHAIN begins the next transaction,
// and COMMIT PREPARED ends the transaction of another session.
func (p *scan) endsTx(commits bool) Statement {
	st := Statement{Class: TxControl, EndsTx: true}
	no := false
	for ; !p.ended(); p.advance() {
		switch p.word(p.t()) {
		case "prepared":
			return Statement{Class: TxControl, MayWrite: true}
		case "to":
			if !commits {
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

// postgresExplain classifies EXPLAIN. Without ANALYZE it runs nothing; with it, it runs the statement.
func (p *scan) postgresExplain() Statement {
	analyze, quoted := false, false
	p.advance()
	for p.t().kind == word && (p.t().kw == kwAnalyze || p.t().kw == kwVerbose) {
		analyze = analyze || p.t().kw == kwAnalyze
		p.advance()
	}
	if p.t().is('(') {
		p.advance()
		if p.query() {
			st := Statement{Class: Read}
			p.planned = !analyze
			p.open(0)
			p.postgresQuery(&st)
			return st
		}
		for !p.ended() && !p.t().is(')') {
			switch {
			case p.t().kind == quotedName: // it can be that option as well, and a second one counts
				quoted = true
			case p.before(0).kind == word && p.before(0).kw == kwAnalyze:
				analyze = !off(p.text(p.t()))
			case p.t().kind == word && p.t().kw == kwAnalyze:
				analyze = true
			}
			p.advance()
		}
		if p.t().is(')') {
			p.advance()
		}
	}
	analyze = analyze || quoted
	p.planned = !analyze
	st := Statement{Class: Read}
	switch {
	case p.query():
		p.postgresQuery(&st)
		return st
	case p.t().kind == word && (p.t().kw == kwInsert || p.t().kw == kwUpdate || p.t().kw == kwDelete || p.t().kw == kwMerge):
		if analyze {
			demote(&st, Statement{Class: Write, MayWrite: true, Token: p.text(p.t())})
		}
		p.advance()
		if p.t().kw == kwInto { // no SELECT INTO
			p.advance()
		}
		p.postgresQuery(&st)
		return st
	case analyze && p.word(p.t()) == "create": // ... AS, which runs
		p.advance()
		return p.postgresDefinition()
	case p.word(p.t()) == "execute":
		st = Statement{Class: SessionState, DependsState: true, MayWrite: analyze, Token: p.text(p.t())}
	default:
		st = Statement{MayWrite: true, CommitsOnError: true, Token: p.text(p.t())}
	}
	p.skip()
	return st
}

// off reports that an option's value switches it off.
func off(value string) bool {
	switch strings.ToLower(value) {
	case "false", "off", "0":
		return true
	}
	return false
}

// postgresCopy classifies COPY: what goes to the client is a read if the query, or the relation, is one.
func (p *scan) postgresCopy() Statement {
	st := Statement{Class: Read}
	verb := p.text(p.t())
	p.advance()
	if p.t().is('(') {
		p.advance()
		p.open(0)
		if !p.query() {
			demote(&st, Statement{Class: Write, MayWrite: true, Token: verb})
		}
		p.postgresQuery(&st, ')')
	}
	toClient := false
	for ; !p.ended(); p.advance() {
		p.postgresName(&st, p.t())
		if p.word(p.t()) == "stdout" && p.before(0).kw == kwTo {
			toClient = true
		}
	}
	if !toClient {
		demote(&st, Statement{Class: Write, MayWrite: true, Token: verb})
	}
	return st
}
