package readroute

import (
	"context"
	"net/http"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Carrier is what holds a token on its way: the headers of a request or a message. http.Header is one, and so are the
// carriers of OpenTelemetry and the headers of NATS. One that can hold several values under a key has the method
// Values(key string) []string as well, as these do: all of them are taken in, also those that somebody on the way has put
// into one, with commas between. Of one carrier 64 tokens are read; more of them are one bad token.
type Carrier interface {
	// Get returns what is kept under key; "" when nothing is.
	Get(key string) string
	// Set keeps value under key, in the place of what was there.
	Set(key, value string)
}

var _ Carrier = http.Header{}

// arrivalKey is the key of the *arrival in the context of what has come in.
type arrivalKey struct{}

// arrival is a session as it was when a request or message came in.
type arrival struct {
	session *Session
	growth  growth
}

// Inject puts the token of ctx's session into the carrier of something that goes out: a request to another service, a
// message, a job. It waits for the positions of the session's writes, at most for CaptureTimeout or until ctx ends; the
// token asks for the primary for a while then. It leaves the carrier as it is when ctx has no session, or one that needs
// nothing.
func (c *Codec) Inject(ctx context.Context, carrier Carrier) {
	if s := SessionFrom(ctx); s != nil {
		c.carry(c.token(ctx, s), carrier)
	}
}

func (c *Codec) carry(t Token, carrier Carrier) {
	if text := c.Encode(t); text != "" {
		carrier.Set(c.config.Header, text)
	}
}

// Extract returns a context whose session needs what the carriers' tokens ask for: of what has come in, one request or message, or
// all messages of a batch. A bad token is what OnBadToken makes of it.
//
// The session is a new one, unless ctx has the one that came in with a request or message already, from Extract, [Codec.Load] or
// [Codec.Middleware]: it learns of the tokens then, since it is the one that the answer is about, and what it learns so is nothing
// to answer with. Any other session of ctx is not touched, so that nothing of this request stays in a context that lives for longer.
func (c *Codec) Extract(ctx context.Context, carriers ...Carrier) context.Context {
	var tokens []Token
	for _, carrier := range carriers {
		tokens = c.takeIn(ctx, carrier, tokens)
	}
	t := c.joined(tokens)
	if a := arrivalOf(ctx); a != nil {
		a.session.core.MergeLearned(t.core, DefaultStickyWindow)
		return ctx
	}
	return c.arrived(ctx, NewSession(t))
}

// joined returns a token that covers all that have come in together. Of more clusters than the text of one can have it asks for
// the primary: what a session needs is copied with each of its writes.
func (c *Codec) joined(tokens []Token) Token {
	switch len(tokens) {
	case 0:
		return Token{}
	case 1:
		return tokens[0]
	}
	var entries []core.Entry
	for _, t := range tokens {
		entries = append(entries, t.core.Entries()...)
	}
	t := Token{core: core.NewToken(DefaultStickyWindow, entries...)}
	if len(t.core.Entries()) > maxTokenClusters {
		t = t.shortened(time.Now().Add(c.config.StickyWindow))
	}
	return t
}

func (c *Codec) arrived(ctx context.Context, s *Session) context.Context {
	return ContextWithSession(context.WithValue(ctx, arrivalKey{}, &arrival{session: s, growth: growthOf(s)}), s)
}

// arrivalOf returns what has come in with the session of ctx, or nil when nothing has.
func arrivalOf(ctx context.Context) *arrival {
	if a, _ := ctx.Value(arrivalKey{}).(*arrival); a != nil && a.session == SessionFrom(ctx) {
		return a
	}
	return nil
}

// Reply is Inject for the answer to what was given to [Codec.Extract], whose context, or one made from it, is ctx: it does
// nothing unless the session has written, or was told of a write, since then. For a write that has not returned the token asks for
// the primary for StickyWindow. It reports whether the carrier holds a token now.
func (c *Codec) Reply(ctx context.Context, carrier Carrier) bool {
	t, ok := c.answer(ctx)
	if ok {
		c.carry(t, carrier)
	}
	return ok
}

// answer returns what is to be told to whoever has asked for what the session of ctx has done; ok is false when that is nothing.
// A write that has not returned may stand before any position could be read that covers it.
func (c *Codec) answer(ctx context.Context) (t Token, ok bool) {
	s := SessionFrom(ctx)
	if s == nil {
		return Token{}, false
	}
	writing := s.core.Writing()
	if a := arrivalOf(ctx); !writing && a != nil && a.growth == growthOf(s) {
		return Token{}, false
	}
	t = c.token(ctx, s)
	if writing {
		t = t.Merge(PrimaryFor(c.config.StickyWindow))
	}
	return t, true
}

// Merge makes the session of ctx need what the carrier's token asks for: of an answer to what [Codec.Inject] has sent with.
// A nil carrier stands for an answer that was lost, to something that may have written: the session reads from the primary
// for a while. It does nothing when ctx has no session.
func (c *Codec) Merge(ctx context.Context, carrier Carrier) {
	s := SessionFrom(ctx)
	switch {
	case s == nil:
	case carrier == nil:
		s.Merge(PrimaryFor(c.window()))
	default:
		s.Merge(c.joined(c.takeIn(ctx, carrier, nil)))
	}
}

// takeIn appends the tokens of a carrier, or what stands in for bad ones.
func (c *Codec) takeIn(ctx context.Context, carrier Carrier, tokens []Token) []Token {
	in := intake{codec: c, ctx: ctx, tokens: tokens}
	if several, ok := carrier.(interface{ Values(key string) []string }); ok {
		for _, line := range several.Values(c.config.Header) {
			in.line(line)
		}
	} else {
		in.line(carrier.Get(c.config.Header))
	}
	return in.end()
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// token returns what s needs.
func (c *Codec) token(ctx context.Context, s *Session) Token {
	t, err := s.core.Token(over, time.Now, c.config.StickyWindow)
	if err != nil && c.config.CaptureTimeout > 0 {
		wait, cancel := context.WithTimeout(ctx, c.config.CaptureTimeout)
		t, _ = s.core.Token(wait, time.Now, c.config.StickyWindow) // which is safe whatever the error says
		cancel()
	}
	return Token{core: t}
}
