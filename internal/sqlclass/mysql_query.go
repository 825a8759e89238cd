package sqlclass

import "strings"

// mysqlQuery walks from the current token to the end of the statement and makes st what the tokens say. A query is a read if
// nothing in it says otherwise.
func (p *scan) mysqlQuery(st *Statement) {
	if p.t().kind == word && p.t().kw == kwWith {
		p.parens[p.depth].flags |= parenWith
	}
	for {
		t := p.t()
		if p.asking {
			p.mysqlAsked(st)
		}
		switch t.kind {
		case word, quotedName:
			if t.kind == word && t.kw != kwNone {
				p.mysqlWord(st, t, p.before(0))
			}
			p.mysqlName(st, t)
		case punct:
			if t.char == ';' && p.depth == 0 {
				return
			}
			p.mysqlPunct(st, t.char)
		case endOfText, bad:
			if p.depth != 0 {
				unknown(st, tokenUnbalanced)
			}
			return
		case userVar, sysVar, str:
			p.mysqlToken(st)
		case number, param:
		}
		if p.asking || t.place != placeUnknown || t.is('.') {
			p.advance() // what comes next can mean something for what came before
		} else {
			p.heed()
		}
	}
}

// mysqlToken makes st what the current token says.
func (p *scan) mysqlToken(st *Statement) {
	switch t := p.t(); t.kind {
	case word:
		if t.kw != kwNone {
			p.mysqlWord(st, t, p.before(0))
		}
		p.mysqlName(st, t)
	case quotedName:
		p.mysqlName(st, t)
	case userVar:
		p.mysqlVariable(st)
	case sysVar:
		p.mysqlSystemVariable(st)
	case punct:
		p.mysqlPunct(st, t.char)
	case str:
		if p.s[t.start] == '"' {
			p.mysqlAnsiName(st, t)
		}
	case number, param, endOfText, bad:
	}
}

// mysqlAnsiName looks at a string in double quotes that is a name under ANSI_QUOTES: by a dot it can be nothing else, and what the
// catalogue tells of counts.
func (p *scan) mysqlAnsiName(st *Statement, t *token) {
	next := p.peek()
	if p.before(0).is('.') || next.is('.') ||
		p.vocab.everyName && p.vocab.words.findQuoted(p.s, int(t.start)+1, int(t.end)-1).place == placeNode {
		unknown(st, p.text(t))
	}
}

func (p *scan) mysqlPunct(st *Statement, char byte) {
	switch char {
	case '(':
		p.mysqlOpen(st)
	case ')':
		if p.depth == 0 {
			unknown(st, tokenUnbalanced)
			return
		}
		p.depth--
	case '%':
		if t := p.before(0); p.dialect == MariaDB && t.end-t.start == 3 && strings.EqualFold(p.text(t), "sql") { // SQL%ROWCOUNT under sql_mode=ORACLE
			demote(st, Statement{Class: SessionState, DependsState: true, Token: "SQL%"})
		}
	case assign:
		if st.isState(true) {
			return
		}
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: ":="})
	}
}

// mysqlName looks at a name for what it stands for.
func (p *scan) mysqlName(st *Statement, t *token) {
	if p.vocab.everyName && p.known(t).place == placeNode {
		switch p.name(t) {
		case "performance_schema", "sys", "mysql":
			demote(st, Statement{Token: p.text(t)})
		default: // a view of the user's, which may call a function that writes
			unknown(st, p.text(t))
		}
	}
	if p.before(0).is('.') {
		p.mysqlQualified(st)
	}
}

// mysqlWord looks for the keywords that make a query more than a read. After a dot every word is a name.
func (p *scan) mysqlWord(st *Statement, t, previous *token) {
	if previous.is('.') {
		t.kw = kwNone
		return
	}
	switch t.kw {
	case kwInto:
		p.mysqlInto(st)
	case kwUpdate, kwShare:
		if previous.kind == word && previous.kw == kwFor {
			demote(st, Statement{Class: Write, MayWrite: true, Token: lockToken(t.kw)})
		} else if t.kw == kwUpdate {
			demote(st, Statement{Class: Write, MayWrite: true, CommitsOnError: true, Token: p.text(t)})
		}
	case kwDelete:
		demote(st, Statement{Class: Write, MayWrite: true, CommitsOnError: true, Token: p.text(t)})
	case kwInsert, kwReplace:
		if next := p.peek(); !next.is('(') { // INSERT (..) and REPLACE (..) are functions of strings
			demote(st, Statement{Class: Write, MayWrite: true, CommitsOnError: true, Token: p.text(t)})
		}
	case kwIn:
		if previous.kind == word && previous.kw == kwLock {
			demote(st, Statement{Class: Write, MayWrite: true, Token: "LOCK IN SHARE MODE"})
		}
	case kwValue:
		switch {
		case previous.kind != word:
		case previous.kw == kwNext:
			demote(st, Statement{Class: Write, MayWrite: true, Token: "NEXT VALUE"})
		case previous.kw == kwPrevious:
			demote(st, Statement{Class: SessionState, DependsState: true, Token: "PREVIOUS VALUE"})
		}
	case kwProcedure:
		unknown(st, p.text(t))
	case kwSqlCalcFoundRows:
		demote(st, Statement{Class: SessionState, DependsState: true, Token: p.text(t)})
	case kwWith:
		if previous.is('(') {
			p.parens[p.depth].flags |= parenWith
		}
	case kwSelect, kwValues, kwTable, kwOrder, kwHaving, kwWindow:
		p.parens[p.depth].flags &^= parenWith
	}
}

// mysqlInto looks at what follows INTO: a file on the server, or variables.
func (p *scan) mysqlInto(st *Statement) {
	into := p.text(p.t())
	next := p.peek()
	switch {
	case next.kind == userVar:
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: into})
	case next.kind == word && next.kw == kwOutfile:
		demote(st, Statement{Class: Write, MayWrite: true, Token: "INTO OUTFILE"})
	case next.kind == word && next.kw == kwDumpfile:
		demote(st, Statement{Class: Write, MayWrite: true, Token: "INTO DUMPFILE"})
	default:
		demote(st, Statement{Class: Write, MayWrite: true, Token: into})
	}
}

// mysqlVariable looks at a user variable: reading one depends on the session, and setting it leaves state there.
func (p *scan) mysqlVariable(st *Statement) {
	leaves := p.peek().is(assign)
	if st.isState(leaves) {
		return
	}
	demote(st, Statement{Class: SessionState, DependsState: true, LeavesState: leaves, Token: p.text(p.t())})
}

// mysqlSystemVariable looks at @@name: the node's own where it says GLOBAL, else the session's.
func (p *scan) mysqlSystemVariable(st *Statement) {
	next := p.peek()
	if kw := p.known(next).kw; next.isName() && (kw == kwGlobal || kw == kwPersist) {
		demote(st, Statement{Token: p.s[p.t().start:next.end]})
		return
	}
	end := p.t().end
	if next.isName() {
		end = next.end
	}
	if st.isState(false) {
		return
	}
	demote(st, Statement{Class: SessionState, DependsState: true, Token: p.s[p.t().start:end]})
}

func (p *scan) mysqlOpen(st *Statement) {
	name, before := p.before(0), p.before(1)
	if name.kind == number { // t.5 (1): after a dot, digits are a name
		unknown(st, p.text(name))
	}
	if name.isName() || name.kind == str && p.reading&doubleIsName == 0 && p.s[name.start] == '"' {
		p.asking = true
	}
	if p.parens[p.depth].flags&parenWith != 0 && name.kw != kwAs &&
		!(name.isName() && (before.is(',') || before.kw == kwWith || before.kw == kwRecursive)) {
		p.parens[p.depth].flags &^= parenWith // the query after the list, in parentheses
	}
	if !p.open(0) {
		unknown(st, tokenTooDeep)
		p.skipAll()
	}
}

// mysqlAsked decides what the name before the parenthesis is that the token before this one has opened.
func (p *scan) mysqlAsked(st *Statement) {
	p.asking = false
	if t := p.t(); t.kind == word && (t.kw == kwSelect || t.kw == kwWith) {
		return
	}
	name, before := p.before(1), p.before(2)
	switch {
	case before.is('.'):
		if e := p.function(name); !e.read || e.qualified(p.text(p.before(3))) != effectNone {
			unknown(st, p.text(name))
		}
		return
	case before.kind == word && before.kw == kwAs, before.is(')'):
		return // an alias with columns, or a type with a length
	case p.parens[p.depth-1].flags&parenWith != 0 && (before.is(',') || before.kw == kwWith || before.kw == kwRecursive):
		return // the name of a CTE
	case name.kind == word && name.known != 0 && p.known(name).keyword:
		e := p.known(name)
		if e.reserved && p.function(name).effect == effectUnknown || e.infix && !p.beginsExpression(before) ||
			e.kw == kwRollup && before.kw == kwBy {
			return // IN (, VALUES (, USING (, IF (
		}
	case name.kind == str:
		if before.isName() && p.s[before.start] == '_' || !p.beginsExpression(before) {
			return
		}
		unknown(st, p.text(name)) // under ANSI_QUOTES a call of a function with this name
		return
	}
	p.call(st, p.function(name).unqualified(), name)
}

// mysqlQualified looks at a name after a dot: the tables of some schemas show one node.
func (p *scan) mysqlQualified(st *Statement) {
	schema := p.known(p.before(1))
	p.mysqlPseudocolumn(st)
	if p.before(2).is('.') {
		return
	}
	switch schema.place {
	case placeNode:
		demote(st, Statement{Token: p.text(p.before(1))})
	case placeSchema:
		if p.known(p.t()).place != placeEvery {
			demote(st, Statement{Token: p.text(p.t())})
		}
	case placeUnknown, placeEvery, placeSession, placeHidden, placeAttribute:
	}
}

// mysqlPseudocolumn looks for what a name after a dot is under MariaDB's sql_mode=ORACLE: a sequence's next or current value.
func (p *scan) mysqlPseudocolumn(st *Statement) {
	if p.dialect != MariaDB {
		return
	}
	switch p.name(p.t()) {
	case "nextval":
		demote(st, Statement{Class: Write, MayWrite: true, Token: p.text(p.t())})
	case "currval":
		demote(st, Statement{Class: SessionState, DependsState: true, Token: p.text(p.t())})
	}
}
