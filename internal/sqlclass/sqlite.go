package sqlclass

import "strings"

// sqlite classifies the statement of SQLite that begins at the current token. st is zero. Its queries are walked over as those
// of PostgreSQL are, whose words and functions that SQLite does not have are in another vocabulary.
func (p *scan) sqlite(st *Statement) {
	if p.query() {
		st.Class = Read
		p.postgresQuery(st)
		return
	}
	first := *p.t()
	if first.kind != word || first.known == 0 {
		p.skip()
		st.MayWrite, st.CommitsOnError, st.Token = true, true, p.text(&first)
		return
	}
	p.advance()
	*st = p.sqliteCommand(p.word(&first))
	if st.Token == "" && st.Class != Read {
		st.Token = p.text(&first)
	}
	p.skip()
}

// sqliteCommand classifies a statement that is no query by its first word. The current token is the second one.
func (p *scan) sqliteCommand(verb string) Statement {
	switch verb {
	case "insert", "replace", "update", "delete":
		st := Statement{Class: Write, MayWrite: true}
		p.postgresQuery(&st)
		return st
	case "create", "drop", "alter":
		return p.sqliteDefinition()
	case "begin":
		return Statement{Class: TxControl, BeginsTx: true}
	case "commit", "end", "rollback":
		return p.endsTx(verb != "rollback")
	case "savepoint": // outside a transaction it begins one
		return Statement{Class: TxControl, TxState: true, BeginsTx: true}
	case "release":
		return Statement{Class: TxControl, TxState: true}
	case "pragma":
		return p.sqlitePragma()
	case "attach", "detach":
		return Statement{Class: SessionState, LeavesState: true}
	case "vacuum", "analyze", "reindex":
		return Statement{Class: Write, MayWrite: true, CommitsOnError: true}
	case "explain": // which runs nothing
		if p.word(p.t()) == "query" {
			p.advance()
			p.advance() // PLAN
		}
		if p.query() {
			st := Statement{Class: Read}
			p.planned = true
			p.postgresQuery(&st)
			return st
		}
		return Statement{}
	}
	return Statement{MayWrite: true, CommitsOnError: true}
}

// sqliteDefinition classifies CREATE, DROP and ALTER. What they make or drop in the session's own database is session state.
func (p *scan) sqliteDefinition() Statement {
	st := Statement{Class: Write, MayWrite: true}
	for ; !p.ended(); p.advance() {
		if p.t().kw == kwTemp && p.t().kind == word || p.t().is('.') && p.sqliteTempSchema(p.before(0)) {
			st.Class, st.LeavesState = SessionState, true
		}
		if p.word(p.t()) == "begin" { // of a trigger, whose semicolons do not end the statement
			p.toEnd()
			break
		}
	}
	return st
}

func (p *scan) sqliteTempSchema(t *token) bool {
	return t.isName() && strings.EqualFold(strings.Trim(p.text(t), "\"`"), "temp")
}

// sqliteAsking are the pragmas that only tell something, however they are written.
var sqliteAsking = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
	"foreign_key_list": true, "foreign_key_check": true, "integrity_check": true, "quick_check": true, "database_list": true,
	"collation_list": true, "function_list": true, "module_list": true, "pragma_list": true, "compile_options": true,
}

// sqlitePragma classifies PRAGMA, which changes the session or the database unless it is known not to.
func (p *scan) sqlitePragma() Statement {
	name := p.t()
	if next := p.peek(); next.is('.') {
		p.advance()
		p.advance()
		name = p.t()
	}
	if name.kind == word && sqliteAsking[strings.ToLower(p.text(name))] {
		return Statement{}
	}
	return Statement{Class: SessionState, LeavesState: true, DependsState: true, MayWrite: true}
}

// sqliteParam reads a parameter: $name, :name, @name. With a parenthesis or a colon behind its name it goes on in ways of its own,
// in which a quote is none.
func (l *lexer) sqliteParam(t *token) {
	end := wordEnd(l.s, l.pos+1)
	if end == l.pos+1 || end < len(l.s) && (l.s[end] == '(' || l.s[end] == ':') {
		l.bad(t, l.pos)
		return
	}
	l.take(t, param, end-l.pos)
}
