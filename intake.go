package readroute

import (
	"context"
	"fmt"
	"strings"
)

// maxCarried is how many tokens of one request are read.
const maxCarried = 64

// intake takes in the tokens of one request or message.
type intake struct {
	codec  *Codec
	ctx    context.Context
	tokens []Token // what is to be merged
	n      int     // tokens so far
}

// line takes in one value of a header: a token, or several that a proxy has put into one.
func (in *intake) line(text string) {
	for text != "" && in.n <= maxCarried {
		var one string
		one, text, _ = strings.Cut(text, ",")
		if one = strings.Trim(one, " \t"); one != "" {
			in.token(one)
		}
	}
}

// token takes in one token, or what stands in for a bad one. It reports whether it was good.
func (in *intake) token(text string) bool {
	if in.n++; in.n > maxCarried {
		return false
	}
	t, err := in.codec.Decode(text)
	if err != nil {
		t = in.codec.bad(in.ctx, err)
	}
	in.tokens = append(in.tokens, t)
	return err == nil
}

// end counts what was too much as one bad token, and returns all.
func (in *intake) end() []Token {
	if in.n > maxCarried {
		in.tokens = append(in.tokens, in.codec.bad(in.ctx, fmt.Errorf("%w: more than the %d tokens in one request that are read", ErrBadToken, maxCarried)))
	}
	return in.tokens
}
