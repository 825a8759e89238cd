package sqlclass

import "strings"

// query classifies SELECT, WITH, VALUES, TABLE and what begins with a parenthesis, from the current token to the end of
// the statement. It is a read if nothing in it says otherwise.
func (p *postgresScan) query() Statement {
	st := Statement{Class: Read}
	for ; !p.ended(); p.advance() {
		switch t := p.t; t.kind {
		case word:
			p.keyword(&st, t)
		case punct:
			p.punctuation(&st, t)
		case quotedName, str, number, param, userVar, sysVar, endOfText, bad:
		}
		if previous := p.before[0]; previous.isName() && !(p.t.kind == punct && p.t.char == '(') {
			p.name(&st, previous)
		}
	}
	if p.before[0].kind != punct && p.before[0].isName() {
		p.name(&st, p.before[0])
	}
	if p.depth != 0 {
		demote(&st, Statement{Token: "a parenthesis that is not closed", MayWrite: true})
	}
	return st
}

// demote makes st at least as strong as by.
func demote(st *Statement, by Statement) {
	token := st.Token
	joined := both(*st, by)
	if strength(by.Class) <= strength(st.Class) && token != "" {
		joined.Token = token
	}
	*st = joined
}

// keyword looks for what makes a query more than a read. INTO and FOR are reserved: unquoted, they are always keywords.
// The verbs are not, so only their place tells them from a name.
func (p *postgresScan) keyword(st *Statement, t token) {
	previous := p.before[0]
	if previous.kw == kwInto && (t.word() == "temp" || t.word() == "temporary") {
		demote(st, Statement{Class: Write, MayWrite: true, LeavesState: true, Token: "INTO"})
	}
	switch t.kw {
	case kwInto:
		demote(st, Statement{Class: Write, MayWrite: true, Token: "INTO"})
	case kwUpdate, kwShare, kwNo, kwKey:
		if previous.kw == kwFor && previous.kind == word {
			demote(st, Statement{Class: Write, MayWrite: true, Token: "FOR " + p.text(t)})
			return
		}
		if t.kw == kwUpdate {
			p.verb(st, t)
		}
	case kwInsert, kwDelete, kwMerge:
		p.verb(st, t)
	case kwWith:
		p.parens[p.depth].with = true
	case kwSelect, kwValues, kwTable:
		p.parens[p.depth].with = false
	}
}

// verb is a data-modifying statement if it stands where one can begin.
func (p *postgresScan) verb(st *Statement, t token) {
	previous := p.before[0]
	if previous.kind == punct && (previous.char == '(' || previous.char == ')' || previous.char == ';') {
		demote(st, Statement{Class: Write, MayWrite: true, Token: p.text(t)})
	}
}

func (p *postgresScan) punctuation(st *Statement, t token) {
	switch t.char {
	case '(':
		if p.depth+1 >= maxDepth {
			demote(st, Statement{Token: "parentheses nested too deep", MayWrite: true})
			return
		}
		next := paren{}
		name := p.before[0]
		switch {
		case name.kw == kwOn && p.before[1].kw == kwDistinct, name.kw == kwOperator:
			next.expression = true
		case name.isName():
			next.setConfig = p.call(st, name)
		}
		p.depth++
		p.parens[p.depth] = next
	case ')':
		if p.depth == 0 {
			demote(st, Statement{Token: "a parenthesis that was not opened", MayWrite: true})
			return
		}
		closed := p.parens[p.depth]
		if closed.setConfig {
			local := p.before[0].kind == word && p.before[0].kw == kwTrue
			demote(st, Statement{Class: SessionState, LeavesState: !local, TxState: local, Token: "set_config"})
		}
		p.depth--
		if closed.expression {
			p.t.kw = kwOperator // an expression begins after it
		}
	}
}

// call looks at a name that stands before a parenthesis. It reports whether the parenthesis holds the arguments of
// set_config.
func (p *postgresScan) call(st *Statement, name token) (setConfig bool) {
	before := p.before[1]
	if p.noCall(name, before) {
		return false
	}
	e := name.known
	if before.kind == punct && before.char == '.' && !p.catalogSchema(p.before[2]) {
		e = nil // a user's own, even if it is called like one of the server's
	}
	effect := effectUnknown
	if e != nil {
		effect = e.effect
	}
	text := p.text(name)
	switch effect {
	case effectNone:
	case effectNode:
		demote(st, Statement{Token: text})
	case effectWrite:
		demote(st, Statement{Class: Write, MayWrite: true, Token: text})
	case effectDepends:
		demote(st, Statement{Class: SessionState, DependsState: true, Token: text})
	case effectState:
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: text})
	case effectTxState:
		demote(st, Statement{Class: SessionState, TxState: true, Token: text})
	case effectSetConfig:
		return true
	case effectUnknown:
		if !p.functions[strings.ToLower(strings.Trim(text, `"`))] {
			demote(st, Statement{MayWrite: true, Token: text})
		}
	}
	return false
}

// noCall tells the names before a parenthesis that are not those of functions.
func (p *postgresScan) noCall(name, before token) bool {
	isPunct := func(c byte) bool { return before.kind == punct && before.char == c }
	if name.kind == word && name.known != nil {
		switch e := name.known; {
		case e.special:
			return true // IN (, VALUES (, COALESCE(, numeric(10,2)
		case e.kw == kwMaterialized:
			return before.kw == kwNot || before.kw == kwAs
		case e.kw == kwRollup || e.kw == kwCube:
			if before.kw == kwBy {
				return true
			}
		case e.kw == kwSets:
			return before.kw == kwGrouping
		}
	}
	switch {
	case before.kind == word && before.kw == kwAs: // an alias with columns, or a type with a modifier
		return true
	case before.kind == word && before.kw == kwTablesample:
		return name.word() == "system" || strings.EqualFold(p.text(name), "bernoulli")
	case isPunct(colonColon):
		return true
	case isPunct(')'):
		return before.kw != kwOperator // OVER (, FILTER (, or an alias with columns
	}
	return p.parens[p.depth].with && (isPunct(',') || before.kw == kwWith || before.kw == kwRecursive)
}

// catalogSchema reports that a qualifier is the schema of the server's own objects.
func (p *postgresScan) catalogSchema(t token) bool {
	text := p.text(t)
	return t.kind == word && strings.EqualFold(text, "pg_catalog") || t.kind == quotedName && text == `"pg_catalog"`
}

// name looks at a name that is no call: what begins with pg_ and is not one of the tables of the catalog shows the state
// of one node or session (pg_stat_activity, pg_locks, pg_settings, pg_temp).
func (p *postgresScan) name(st *Statement, t token) {
	text := strings.Trim(p.text(t), `"`)
	if len(text) < 3 || !strings.EqualFold(text[:3], "pg_") || t.known != nil && t.known.catalog {
		return
	}
	switch strings.ToLower(text) {
	case "pg_catalog", "pg_tables", "pg_views", "pg_indexes", "pg_matviews", "pg_roles", "pg_user", "pg_group",
		"pg_rules", "pg_policies", "pg_lsn", "pg_toast":
		return
	}
	demote(st, Statement{Token: p.text(t)})
}
