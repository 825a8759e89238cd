package sqlclass

import "strings"

// mysqlSet classifies SET: what is set for the session is session state; what is set for the server, or in its accounts, is a
// write. MariaDB's SET STATEMENT ... FOR is what the statement after it is.
func (p *scan) mysqlSet() Statement {
	switch p.word(p.t()) {
	case "password":
		return definition
	case "default":
		if next := p.peek(); p.word(next) == "role" {
			return definition
		}
	case "statement":
		return p.mysqlSetStatement()
	case "transaction", "names", "character", "charset", "role", "resource":
		return Statement{Class: SessionState, LeavesState: true}
	}
	st := Statement{}
	global, started := false, true
	for ; !p.ended(); p.advance() {
		if p.asking {
			p.mysqlAsked(&st)
		}
		if started && !p.t().is(',') {
			started = false
			global = p.mysqlAssigned(&st, global)
			if p.ended() {
				break
			}
		}
		if p.t().is(',') && p.depth == 0 {
			started = true
		}
		if p.name(p.t()) == "autocommit" {
			st.EndsTx = true // switching it on commits, whatever scope is written before it
		}
		st.Unlogged = st.Unlogged || p.unlogs()
		p.mysqlToken(&st)
	}
	if p.depth != 0 {
		unknown(&st, tokenUnbalanced)
	}
	if st.Class == Unknown {
		demote(&st, Statement{Class: SessionState, LeavesState: true, Token: "SET"})
	}
	return st
}

// unlogs reports that the current token is a variable that keeps what follows from replicas, whatever it is set to.
func (p *scan) unlogs() bool {
	name := strings.Trim(p.text(p.t()), "`\"")
	return strings.EqualFold(name, "sql_log_bin") || strings.EqualFold(name, "skip_replication")
}

// mysqlAssigned looks at what an assignment begins with. Without a scope of its own it has that of the one before.
func (p *scan) mysqlAssigned(st *Statement, global bool) bool {
	scoped := false
	if p.t().kind == sysVar {
		p.advance()
		scoped = true
	}
	switch {
	case p.t().kind == userVar:
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: p.text(p.t())})
		p.advance()
		return global
	case p.t().kind == word && (p.t().kw == kwGlobal || p.t().kw == kwPersist):
		if !scoped {
			global = true
		}
		demote(st, Statement{Class: Write, MayWrite: true, Token: "SET " + p.text(p.t())})
		p.advance()
		return global
	case p.word(p.t()) == "session" || p.word(p.t()) == "local":
		if !scoped {
			global = false
		}
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: "SET"})
		p.advance()
		return global
	case p.name(p.t()) == "autocommit":
		st.EndsTx = true
	}
	st.Unlogged = st.Unlogged || p.unlogs()
	if global && !scoped {
		demote(st, Statement{Class: Write, MayWrite: true, Token: "SET GLOBAL"})
	} else {
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: "SET"})
	}
	p.advance()
	return global
}

// mysqlSetStatement classifies SET STATEMENT name = value, ... FOR statement.
func (p *scan) mysqlSetStatement() Statement {
	st := Statement{Class: Read}
	for ; !p.ended() && !(p.depth == 0 && p.t().kind == word && p.t().kw == kwFor); p.advance() {
		if p.asking {
			p.mysqlAsked(&st)
		}
		st.Unlogged = st.Unlogged || p.unlogs()
		p.mysqlToken(&st)
	}
	if p.ended() {
		return Statement{MayWrite: true, CommitsOnError: true}
	}
	p.advance()
	if p.ended() {
		return Statement{MayWrite: true, CommitsOnError: true}
	}
	var of Statement
	p.mysql(&of)
	st.demote(&of)
	if of.EndsTx {
		st.LeavesState = true // COMMIT with completion_type begins another one
	}
	return st
}
