package sqlclass

// definition is what DDL and everything else that commits implicitly does on MySQL and MariaDB.
var definition = Statement{Class: Write, MayWrite: true, CommitsOnError: true, EndsTx: true}

// routine runs what is not in the text, or is a program: it may commit on its way, also when it fails.
var routine = Statement{Class: Write, MayWrite: true, CommitsOnError: true, MayEndTx: true}

// mysql classifies the statement of MySQL or MariaDB that begins at the current token. st is zero.
func (p *scan) mysql(st *Statement) {
	if p.query() {
		st.Class = Read
		p.mysqlQuery(st)
		return
	}
	first := *p.t()
	if first.kind != word || first.known == 0 {
		p.skip()
		st.MayWrite, st.CommitsOnError, st.MayEndTx, st.Token = true, true, true, p.text(&first)
		return
	}
	p.advance()
	*st = p.mysqlCommand(p.word(&first))
	if st.Token == "" && st.Class != Read {
		st.Token = p.text(&first)
	}
	p.skip()
}

// mysqlCommand classifies a statement that is no query by its first word, and by what follows it. The current token is the
// second one.
func (p *scan) mysqlCommand(verb string) Statement {
	second := p.word(p.t())
	switch verb {
	case "load":
		if second == "index" { // INTO CACHE
			return definition
		}
		return p.mysqlWrite(Statement{Class: Write, MayWrite: true, CommitsOnError: true})
	case "insert", "replace", "update", "delete":
		return p.mysqlWrite(Statement{Class: Write, MayWrite: true, CommitsOnError: true})
	case "call":
		return p.mysqlWrite(routine)
	case "truncate", "rename", "grant", "revoke", "optimize", "repair", "check", "cache", "install", "uninstall", "import", "change",
		"reset", "stop", "purge", "kill", "shutdown", "restart", "binlog", "clone":
		return definition
	case "create", "drop", "alter":
		return p.mysqlDefinition(verb, second)
	case "analyze":
		return p.mysqlAnalyze()
	case "explain", "describe", "desc":
		return p.mysqlExplain()
	case "show":
		return p.mysqlShow()
	case "do":
		st := Statement{}
		p.mysqlQuery(&st)
		st.CommitsOnError = st.MayWrite
		return st
	case "set":
		return p.mysqlSet()
	case "begin":
		if second == "not" { // BEGIN NOT ATOMIC: the rest of the text is one statement
			p.toEnd()
			return routine
		}
		return Statement{Class: TxControl, BeginsTx: true, EndsTx: true}
	case "start":
		if second == "transaction" {
			return Statement{Class: TxControl, BeginsTx: true, EndsTx: true}
		}
		return definition
	case "commit", "rollback":
		return p.endsTx(verb == "commit")
	case "savepoint", "release":
		return Statement{Class: TxControl, TxState: true}
	case "xa":
		return mysqlXA(second)
	case "lock", "unlock", "backup":
		return Statement{Class: SessionState, LeavesState: true, EndsTx: true}
	case "flush":
		return p.mysqlFlush()
	case "handler":
		return Statement{Class: SessionState, LeavesState: true, DependsState: true}
	case "use":
		return Statement{Class: SessionState, LeavesState: true}
	case "prepare", "deallocate":
		return Statement{Class: SessionState, LeavesState: true}
	case "execute":
		if second == "immediate" {
			return p.mysqlWrite(routine)
		}
		return Statement{Class: SessionState, DependsState: true, MayWrite: true, CommitsOnError: true, MayEndTx: true}
	case "get":
		return Statement{Class: SessionState, DependsState: true, LeavesState: true}
	case "help", "checksum":
		return Statement{}
	}
	return Statement{MayWrite: true, CommitsOnError: true, MayEndTx: true}
}

// toEnd moves to the end of the text: the semicolons in it do not end the statement.
func (p *scan) toEnd() {
	for p.t().kind != endOfText && p.t().kind != bad {
		p.advance()
	}
}

// mysqlWrite adds to a statement that is no read what its expressions and names do.
func (p *scan) mysqlWrite(st Statement) Statement {
	st.Token = p.text(p.before(0))
	p.mysqlQuery(&st)
	return st
}

// mysqlDefinition classifies CREATE, ALTER and DROP. What they make or drop in the session is session state, and commits nothing.
func (p *scan) mysqlDefinition(verb, second string) Statement {
	if verb == "drop" && second == "prepare" {
		return Statement{Class: SessionState, LeavesState: true}
	}
	if second == "or" { // OR REPLACE
		p.advance()
		p.advance()
	}
	if p.t().kind == word && p.t().kw == kwTemp {
		return Statement{Class: SessionState, LeavesState: true, MayWrite: true, CommitsOnError: true}
	}
	for ; !p.ended(); p.advance() {
		switch p.word(p.t()) {
		case "procedure", "function", "trigger", "event", "package":
			if verb == "create" || verb == "alter" {
				p.toEnd() // the semicolons of its body
			}
			return definition
		case "table", "view", "index", "database", "schema", "user", "role", "server", "tablespace", "sequence":
			return definition
		}
	}
	return definition
}

// mysqlAnalyze classifies ANALYZE: of a table it writes; MariaDB's ANALYZE of a statement runs it.
func (p *scan) mysqlAnalyze() Statement {
	p.mysqlFormat()
	if p.query() && p.t().kw != kwTable {
		st := Statement{Class: Read}
		p.mysqlQuery(&st)
		return st
	}
	return definition
}

// mysqlFormat skips the words between EXPLAIN or ANALYZE and the statement: EXTENDED, PARTITIONS, ANALYZE, FORMAT = name.
func (p *scan) mysqlFormat() (analyze bool) {
	for p.t().kind == word {
		switch p.word(p.t()) {
		case "analyze":
			analyze = true
		case "extended", "partitions":
		case "format":
			p.advance()
			if !p.t().is('=') {
				return analyze
			}
			p.advance()
		default:
			return analyze
		}
		p.advance()
	}
	return analyze
}

// mysqlExplain classifies EXPLAIN, DESCRIBE and DESC: of a table it reads the dictionary; of a query it plans, and may run a part
// of it or, with ANALYZE, all of it.
func (p *scan) mysqlExplain() Statement {
	p.mysqlFormat()
	switch {
	case p.query():
		st := Statement{Class: Read}
		p.mysqlQuery(&st)
		return st
	case p.t().kw == kwInto || p.t().kw == kwFor:
		return Statement{DependsState: true, Class: SessionState} // INTO @v; FOR CONNECTION n
	case p.t().isName() && (p.t().kind == quotedName || !p.known(p.t()).reserved):
		st := Statement{Class: Read}
		p.mysqlQuery(&st)
		return st
	}
	return Statement{Token: "EXPLAIN"}
}

// mysqlShow classifies SHOW: the dictionary is the same on every node, variables and warnings are the session's, and the rest is
// the node's.
func (p *scan) mysqlShow() Statement {
	st := Statement{Token: "SHOW"}
	for p.t().kind == word {
		switch p.word(p.t()) {
		case "full", "extended":
			p.advance()
			continue
		case "tables", "columns", "fields", "index", "indexes", "keys", "databases", "schemas", "create", "triggers", "collation",
			"character", "charset":
			st = Statement{Class: Read}
			p.advance()
			if p.t().kw == kwProcedure { // of SHOW CREATE, not that of a SELECT
				p.advance()
			}
			p.mysqlQuery(&st)
			return st
		case "table": // as information_schema.tables
			if next := p.peek(); p.word(next) == "status" {
				st = Statement{Class: Read}
				p.advance()
				p.advance()
				p.mysqlQuery(&st)
				return st
			}
		case "procedure", "function":
			if next := p.peek(); p.word(next) == "status" {
				st = Statement{Class: Read}
				p.advance()
				p.advance()
				p.mysqlQuery(&st)
				return st
			}
		case "warnings", "errors", "variables", "status", "session", "local", "profile", "profiles":
			return Statement{Class: SessionState, DependsState: true, Token: "SHOW " + p.s[p.t().start:p.t().end]}
		case "count":
			return Statement{Class: SessionState, DependsState: true, Token: "SHOW"}
		}
		break
	}
	return st
}

func mysqlXA(second string) Statement {
	switch second {
	case "start", "begin":
		return Statement{Class: TxControl, BeginsTx: true, LeavesState: true}
	case "commit", "rollback":
		return Statement{Class: TxControl, EndsTx: true, MayWrite: second == "commit"}
	case "recover":
		return Statement{Class: TxControl}
	case "prepare": // what follows on the connection is no part of it, on MySQL
		return Statement{Class: TxControl, EndsTx: true, LeavesState: true}
	}
	return Statement{Class: TxControl, LeavesState: true}
}

// mysqlFlush classifies FLUSH: some forms hold locks in the session.
func (p *scan) mysqlFlush() Statement {
	for ; !p.ended(); p.advance() {
		if p.t().kw == kwFor || p.t().kw == kwLock || p.t().kw == kwWith {
			return Statement{Class: SessionState, LeavesState: true, EndsTx: true}
		}
	}
	return definition
}
