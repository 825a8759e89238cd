package sqlclass

// maxDepth is how deep parentheses may nest before a text is no longer followed.
const maxDepth = 100

// scan walks over the tokens of a text, one statement after the other.
type scan struct {
	lexer
	// ring holds the tokens; at is the number of the current one, filled that after the last one that was read.
	ring       ring
	at, filled uint8

	// planned: the statement is only planned (EXPLAIN): what it would write is not written.
	planned bool
	// asking: the token before this one opens a parenthesis after a name, and this one decides what the name means.
	asking bool
	// every: no token is passed by.
	every bool

	depth  int
	parens [maxDepth]paren
}

// paren is what is known of one level of parentheses.
type paren struct {
	flags  parenFlags
	commas uint8 // up to 3
}

type parenFlags uint8

const (
	// parenExpression: an expression follows the closing parenthesis (DISTINCT ON (..), OPERATOR (..)), so that a name after
	// it may be that of a function.
	parenExpression parenFlags = 1 << iota
	// parenWith: in the list of a WITH clause, where a name before a parenthesis is that of a CTE.
	parenWith
	// parenGroup: in GROUP BY, where ROLLUP and CUBE are no functions.
	parenGroup
	// parenOperator: inside OPERATOR (..).
	parenOperator
	// parenSetConfig: the arguments of set_config.
	parenSetConfig

	// parenEvery: every token counts.
	parenEvery = parenOperator | parenSetConfig
)

// t returns the current token.
func (p *scan) t() *token { return &p.ring[p.at%ringSize] }

// before returns the token before the current one (0), or one or two before that.
func (p *scan) before(n uint8) *token { return &p.ring[(p.at-1-n)%ringSize] }

// advance moves to the next token.
func (p *scan) advance() {
	if p.at++; p.at == p.filled {
		p.read()
	}
}

// heed moves to the next token that can mean something in a query. What it passes by are names, values and operators that say nothing.
func (p *scan) heed() {
	for at := p.at + 1; ; at++ {
		if at == p.filled {
			p.read()
		}
		if t := &p.ring[at%ringSize]; t.kw != kwNone || t.place != placeUnknown {
			p.at = at
			return
		}
	}
}

// peek returns the token after the current one.
func (p *scan) peek() *token {
	if p.at+1 == p.filled {
		p.read()
	}
	return &p.ring[(p.at+1)%ringSize]
}

// read reads ahead.
func (p *scan) read() { p.filled = p.fill(&p.ring, p.filled, ringSize-behind) }

// query reports whether a query begins at the current token: SELECT, WITH, VALUES or TABLE, after any number of parentheses.
func (p *scan) query() bool {
	t := p.t()
	for at := p.at + 1; t.is('('); at++ {
		if at == p.filled {
			beyond := p.beyond()
			return beyond.beginsQuery()
		}
		t = &p.ring[at%ringSize]
	}
	return t.beginsQuery()
}

func (t *token) beginsQuery() bool {
	switch t.kw {
	case kwSelect, kwWith, kwValues, kwTable:
		return t.kind == word
	}
	return false
}

// beyond returns the first token after those in the ring that is no open parenthesis.
func (p *scan) beyond() token {
	ahead := p.lexer
	var r ring
	for ahead.fill(&r, 0, 1); r[0].is('('); {
		ahead.fill(&r, 0, 1)
	}
	return r[0]
}

// ended reports that the current token is not of the statement any more.
func (p *scan) ended() bool {
	t := p.t()
	return t.kind == endOfText || t.kind == bad || p.depth == 0 && t.is(';')
}

// skip moves to the end of the statement.
func (p *scan) skip() {
	for !p.ended() {
		p.advance()
	}
}

// text returns a token's text.
func (p *scan) text(t *token) string { return p.s[t.start:t.end] }

// is reports whether the token is this punctuation.
func (t *token) is(char byte) bool { return t.char == char }

// known returns the entry of a token in the vocabulary. That of a word that is not there knows nothing.
func (p *scan) known(t *token) *entry {
	if t.kind == quotedName && p.dialect == PostgreSQL {
		return p.vocab.words.quoted(p, t)
	}
	return &p.vocab.words.entries[t.known]
}

// quoted looks a quoted name up under the case rules of the dialect. One that is written in escapes is not found.
func (t *table) quoted(p *scan, name *token) *entry {
	if first := p.s[name.start]; first != '"' && first != '`' {
		return &t.entries[0]
	}
	e := t.findQuoted(p.s, int(name.start)+1, int(name.end)-1)
	if p.dialect == PostgreSQL && p.s[name.start+1:name.end-1] != e.word {
		return &t.entries[0] // another name: there the case of quoted ones counts
	}
	return e
}

// function returns what is known of the function that a name before a parenthesis can be.
func (p *scan) function(t *token) *entry {
	if t.kind == word {
		return p.vocab.functions.find(p.s, int(t.start), int(t.end))
	}
	return p.vocab.functions.quoted(p, t)
}

// word returns an unquoted word in lower case if it is in the vocabulary, else "".
func (p *scan) word(t *token) string {
	if t.kind == word {
		return p.vocab.words.entries[t.known].word
	}
	return ""
}

// name returns the word of a name, quoted or not, in lower case if it is in the vocabulary, else "".
func (p *scan) name(t *token) string { return p.known(t).word }

// open enters a parenthesis; false means that they nest too deep.
func (p *scan) open(flags parenFlags) bool {
	if p.depth+1 >= maxDepth {
		return false
	}
	p.depth++
	p.parens[p.depth] = paren{flags: flags}
	return true
}

// strengths orders the classes of one statement: what is stronger wins. Write comes last, because it alone is refused to a
// hint and to a retry on a replica whatever else the statement does.
var strengths = [...]uint8{Read: 0, Unknown: 1, TxControl: 2, SessionState: 3, Write: 4}

func strength(c Class) uint8 { return strengths[c] }

// demote makes st at least as strong as by, and adds its effects.
func demote(st *Statement, by Statement) { st.demote(&by) }

func (st *Statement) demote(by *Statement) {
	if strength(by.Class) > strength(st.Class) {
		st.Class, st.Token = by.Class, by.Token
	} else if st.Token == "" && by.Class == st.Class {
		st.Token = by.Token
	}
	// Few of them are new, so nothing is written that is there already.
	if by.LeavesState {
		st.LeavesState = true
	}
	if by.TxState {
		st.TxState = true
	}
	if by.DependsState {
		st.DependsState = true
	}
	if by.MayWrite {
		st.MayWrite = true
	}
	if by.CommitsOnError {
		st.CommitsOnError = true
	}
	if by.EndsTx {
		st.EndsTx = true
	}
	if by.MayEndTx {
		st.MayEndTx = true
	}
	if by.BeginsTx {
		st.BeginsTx = true
	}
	if by.Unlogged {
		st.Unlogged = true
	}
}

// isState reports that st is known already to depend on state of the session, and to leave some if leaves is true.
func (st *Statement) isState(leaves bool) bool {
	return st.DependsState && (st.LeavesState || !leaves) && strength(st.Class) >= strength(SessionState) && st.Token != ""
}

// unknown makes st at least Unknown: nothing is known of what the token does.
func unknown(st *Statement, token string) {
	if st.Class != Read && st.MayWrite && st.Token != "" {
		return // it is already, and a text can have millions of such tokens
	}
	demote(st, Statement{MayWrite: true, Token: token})
}

// call adds what a call of a function does. It reports whether the arguments decide that.
func (p *scan) call(st *Statement, effect effect, name *token) (byArguments bool) {
	if effect == effectNone {
		return false
	}
	text := p.text(name)
	switch effect {
	case effectNone:
	case effectNode:
		demote(st, Statement{Token: text})
	case effectWrite:
		if !p.planned {
			demote(st, Statement{Class: Write, MayWrite: true, Token: text})
		}
	case effectDepends:
		demote(st, Statement{Class: SessionState, DependsState: true, Token: text})
	case effectState:
		demote(st, Statement{Class: SessionState, LeavesState: true, Token: text})
	case effectTxState:
		demote(st, Statement{Class: SessionState, TxState: true, Token: text})
	case effectSetConfig:
		return true
	case effectUnknown:
		unknown(st, text)
	}
	return false
}
