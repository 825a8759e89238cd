package sqlclass

// postgresQuery walks from the current token to the end of the statement, or to the parenthesis that closes the first level if
// until is given, and makes st what the tokens say. A query is a read if nothing in it says otherwise.
func (p *scan) postgresQuery(st *Statement, until ...byte) {
	if p.t().kind == word && p.t().kw == kwWith {
		p.parens[p.depth].flags |= parenWith
	}
	p.every = p.vocab.operators != nil
	for {
		t, previous := p.t(), p.before(0)
		if p.asking {
			p.postgresAsked(st)
		}
		if previous.place != placeUnknown && !t.is('(') {
			p.postgresName(st, previous)
		}
		switch t.kind {
		case word:
			if t.kw != kwNone {
				p.postgresWord(st, t, previous)
			}
		case punct:
			switch t.char {
			case '(':
				p.postgresOpen(st)
			case ')':
				if !p.postgresClose(st) {
					p.skip()
					return
				}
				if p.depth == 0 && len(until) > 0 {
					p.advance()
					return
				}
			case '.':
				if p.parens[p.depth].flags&parenOperator != 0 && p.name(p.before(0)) != "pg_catalog" {
					unknown(st, "OPERATOR")
				}
			case ',':
				p.parens[p.depth].commas = min(p.parens[p.depth].commas+1, 3)
			case ';':
				if p.depth == 0 {
					return
				}
			default:
				if p.vocab.operators != nil {
					p.postgresOperator(st)
				}
			}
		case endOfText, bad:
			if p.depth != 0 {
				unknown(st, tokenUnbalanced)
			}
			return
		}
		if p.asking || p.every || t.place != placeUnknown {
			p.advance() // what comes next can mean something for what came before
		} else {
			p.heed()
		}
	}
}

// postgresWord looks for the keywords that make a query more than a read. After AS and after a dot every word is a name.
func (p *scan) postgresWord(st *Statement, t, previous *token) {
	if previous.is('.') || previous.kind == word && previous.kw == kwAs && t.kw != kwNot && t.kw != kwMaterialized {
		t.kw = kwNone
		return
	}
	switch t.kw {
	case kwInto:
		switch next := p.peek(); p.word(next) {
		case "temp", "temporary", "local", "global":
			demote(st, Statement{Class: SessionState, LeavesState: true, MayWrite: true, Token: p.text(t)})
		default:
			demote(st, Statement{Class: Write, MayWrite: true, Token: p.text(t)})
		}
	case kwUpdate, kwShare, kwNo, kwKey:
		if previous.kind == word && previous.kw == kwFor {
			if !p.planned {
				demote(st, Statement{Class: Write, MayWrite: true, Token: lockToken(t.kw)})
			}
			return
		}
		if t.kw == kwUpdate {
			p.postgresVerb(st)
		}
	case kwInsert, kwDelete, kwMerge:
		p.postgresVerb(st)
	case kwLike: // stands for operators that the text does not name
		for _, operator := range [...]string{"~~", "!~~", "~~*", "!~~*"} {
			if p.vocab.operators[operator] {
				unknown(st, p.text(t))
			}
		}
	case kwWith:
		if previous.is('(') {
			p.parens[p.depth].flags |= parenWith
		}
	case kwSelect, kwValues, kwTable, kwHaving, kwWindow, kwOrder:
		p.parens[p.depth].flags &^= parenWith | parenGroup
	case kwBy:
		if previous.kw == kwGroup {
			p.parens[p.depth].flags |= parenGroup
		}
	}
}

func lockToken(kw keyword) string {
	switch kw {
	case kwShare:
		return "FOR SHARE"
	case kwNo:
		return "FOR NO KEY UPDATE"
	case kwKey:
		return "FOR KEY SHARE"
	}
	return "FOR UPDATE"
}

// postgresVerb is a data-modifying statement if it stands where one can begin: first in a parenthesis, or after the list of a
// WITH clause. The verbs are no reserved words, so elsewhere they are names.
func (p *scan) postgresVerb(st *Statement) {
	previous := p.before(0)
	starts := previous.is(')')
	switch {
	case previous.is('('):
		next := p.peek()
		starts = next.isName() // a column of this name is followed by something else
	case p.parens[p.depth].flags&parenWith != 0:
		starts = starts || previous.kw != kwWith && previous.kw != kwRecursive && !previous.is(',')
	}
	if starts && !p.planned {
		demote(st, Statement{Class: Write, MayWrite: true, Token: p.text(p.t())})
	}
}

func (p *scan) postgresOpen(st *Statement) {
	name, before := p.before(0), p.before(1)
	var flags parenFlags
	switch {
	case name.kind == word && name.kw == kwOn && before.kw == kwDistinct:
		flags = parenExpression
	case name.kind == word && name.kw == kwOperator && !before.is('.'):
		flags = parenExpression | parenOperator
	case name.kind == word && (name.kw == kwSets || name.kw == kwRollup || name.kw == kwCube):
		flags = p.parens[p.depth].flags & parenGroup
	case name.is('('):
		flags = p.parens[p.depth].flags & parenGroup
	}
	if name.isName() && flags&parenOperator == 0 {
		p.asking = true
	}
	if p.parens[p.depth].flags&parenWith != 0 && name.kw != kwAs && name.kw != kwMaterialized &&
		!(name.isName() && (before.is(',') || before.kw == kwWith || before.kw == kwRecursive)) {
		p.parens[p.depth].flags &^= parenWith // the query after the list, in parentheses
	}
	p.every = p.every || flags&parenEvery != 0
	if !p.open(flags) {
		unknown(st, tokenTooDeep)
		p.skipAll()
	}
}

// skipAll gives the rest of the text up.
func (p *scan) skipAll() {
	for p.t().kind != endOfText && p.t().kind != bad {
		p.advance()
	}
	p.asking, p.depth = false, 0
}

// postgresClose leaves a parenthesis. False: it was never opened, and the text is no statement.
func (p *scan) postgresClose(st *Statement) bool {
	if p.depth == 0 {
		unknown(st, tokenUnbalanced)
		return false
	}
	closed := p.parens[p.depth]
	if closed.flags&parenSetConfig != 0 {
		local := closed.commas == 2 && p.before(0).kind == word && p.before(0).kw == kwTrue && p.before(1).is(',')
		known := local || closed.commas == 2 && p.word(p.before(0)) == "false" && p.before(1).is(',')
		demote(st, Statement{Class: SessionState, LeavesState: !local, TxState: local || !known, Token: "set_config"})
	}
	p.depth--
	p.every = p.vocab.operators != nil || p.parens[p.depth].flags&parenEvery != 0
	if closed.flags&parenExpression != 0 {
		p.t().kw = kwOperator // an expression begins after it
	}
	return true
}

// postgresAsked decides what the name before the parenthesis is that the token before this one has opened. No call has a
// query for its first argument: that is one in parentheses of its own.
func (p *scan) postgresAsked(st *Statement) {
	p.asking = false
	if t := p.t(); t.kind == word && (t.kw == kwSelect || t.kw == kwWith || t.kw == kwValues) {
		return
	}
	name, before := p.before(1), p.before(2)
	if p.postgresNoCall(name, before) {
		return
	}
	if before.is('.') {
		if p.call(st, p.function(name).qualified(p.text(p.before(3))), name) {
			p.setConfig()
		}
		return
	}
	if p.call(st, p.function(name).unqualified(), name) {
		p.setConfig()
	}
}

// setConfig begins the arguments of set_config.
func (p *scan) setConfig() {
	p.parens[p.depth].flags |= parenSetConfig
	p.every = true
}

// postgresNoCall tells the names before a parenthesis that are not those of functions, by the token before them.
func (p *scan) postgresNoCall(name, before *token) bool {
	if name.kind == word && name.known != 0 && p.known(name).keyword && !before.is('.') {
		switch e := p.known(name); {
		case e.reserved:
			return true // IN (, VALUES (, COALESCE (, numeric(10,2)
		case e.infix && !p.beginsExpression(before) && (before.kw != kwNot || e.kw == kwLike):
			return true // LIKE (, JOIN (, ESCAPE (
		case e.kw == kwBy:
			return before.kw == kwGroup || before.kw == kwOrder || before.kw == kwPartition
		case e.kw == kwMaterialized:
			return before.kw == kwNot || before.kw == kwAs
		case e.kw == kwSets:
			return before.kw == kwGrouping
		case e.kw == kwZone:
			return before.kw == kwTime
		case e.kw == kwFirst || e.kw == kwNext:
			return before.kw == kwFetch
		case e.kw == kwRollup || e.kw == kwCube:
			if p.parens[p.depth-1].flags&parenGroup != 0 {
				return true
			}
		}
	}
	switch {
	case before.kind == word && before.kw == kwAs: // an alias with columns, or a type with a modifier
		return true
	case before.is(colonColon):
		return true
	case before.is(')'): // OVER (, FILTER (, or an alias with columns
		return before.kw != kwOperator
	}
	if before.kind != word {
		return before.is(',') && p.parens[p.depth-1].flags&parenWith != 0 // the name of a CTE
	}
	switch before.kw {
	case kwTablesample:
		return p.word(name) == "system" || p.word(name) == "bernoulli"
	case kwOrdinality, kwCopy, kwInto:
		return true
	case kwWith, kwRecursive:
		return p.parens[p.depth-1].flags&parenWith != 0
	}
	return false
}

// beginsExpression reports that an expression begins after the token, so that a name before a parenthesis is a call there even if
// it is a keyword elsewhere.
func (p *scan) beginsExpression(t *token) bool {
	switch t.kind {
	case punct:
		return t.char != ')' && t.char != ']' || t.kw == kwOperator
	case word:
		e := p.known(t)
		if !e.keyword || e.operand {
			return false
		}
		return e.prefix || e.reserved && e.kw != kwNot
	}
	return false
}

// postgresName looks at a name that is no call: what shows one node or session is no read.
func (p *scan) postgresName(st *Statement, t *token) {
	switch t.place {
	case placeNode:
		demote(st, Statement{Token: p.text(t)})
	case placeSession:
		demote(st, Statement{Class: SessionState, DependsState: true, LeavesState: st.Class == Write, Token: p.text(t)})
	case placeHidden:
		unknown(st, p.text(t))
	case placeAttribute:
		if p.before(1).is('.') {
			unknown(st, p.text(t))
		}
	case placeUnknown, placeEvery, placeSchema:
	}
}

// postgresPlace says where what a name stands for lives that is not in the vocabulary. What begins with pg_ and is not known to be
// the same everywhere is taken for something of one node.
func postgresPlace(s string) place {
	switch {
	case len(s) < 4 || s[0]|0x20 != 'p' || s[1]|0x20 != 'g' || s[2] != '_':
		return placeUnknown
	case len(s) >= 7 && s[3]|0x20 == 't' && s[4]|0x20 == 'e' && s[5]|0x20 == 'm' && s[6]|0x20 == 'p':
		return placeSession // pg_temp, pg_temp_3
	}
	return placeNode
}

// maxOperator is the longest name of an operator; the server cuts what is longer.
const maxOperator = 63

// postgresOperator looks at the operator that begins at the current token: one that the catalogue calls volatile is no read.
func (p *scan) postgresOperator(st *Statement) {
	if !operatorChar(p.t().char) || p.before(0).kind == punct && p.before(0).end == p.t().start && operatorChar(p.before(0).char) {
		return
	}
	end := p.t().end
	for int(end) < len(p.s) && operatorChar(p.s[end]) && end-p.t().start < maxOperator {
		end++
	}
	for ; end > p.t().start; end-- {
		if p.vocab.operators[p.s[p.t().start:end]] {
			unknown(st, p.s[p.t().start:end])
			return
		}
	}
}

func operatorChar(c byte) bool {
	switch c {
	case '+', '-', '*', '/', '<', '>', '=', '~', '!', '@', '#', '%', '^', '&', '|', '`', '?':
		return true
	}
	return false
}
