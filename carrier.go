package readroute

import (
	"context"
	"net/http"
	"time"
)

// Carrier is what holds a token on its way: the headers of a request or a message. http.Header is one, and so are the
// carriers of OpenTelemetry and the headers of NATS.
type Carrier interface {
	// Get returns what is kept under key; "" when nothing is.
	Get(key string) string
	// Set keeps value under key, in the place of what was there.
	Set(key, value string)
}

var _ Carrier = http.Header{}

// maxCarried is how many tokens of one request are read.
const maxCarried = 64

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

// Extract returns a context with a new session, one that needs what the carriers' tokens ask for: of what has come in, one
// request or message, or all messages of a batch. A bad token is what OnBadToken makes of it. A session that ctx has is
// not touched, so that nothing of this request stays in a context that lives for longer.
func (c *Codec) Extract(ctx context.Context, carriers ...Carrier) context.Context {
	s := NewSession()
	for _, carrier := range carriers {
		s.Merge(c.judge(ctx, carrier.Get(c.config.Header)))
	}
	return c.arrived(ctx, s)
}

func (c *Codec) arrived(ctx context.Context, s *Session) context.Context {
	return ContextWithSession(context.WithValue(ctx, arrivalKey{}, &arrival{session: s, growth: growthOf(s)}), s)
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
	if !writing && !grown(ctx, s) {
		return Token{}, false
	}
	t = c.token(ctx, s)
	if writing {
		t = t.Merge(PrimaryFor(c.window()))
	}
	return t, true
}

// grown reports that the session of ctx has come to need more since it arrived, or that nobody knows.
func grown(ctx context.Context, s *Session) bool {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a == nil || a.session != s || a.growth != growthOf(s)
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
		s.Merge(c.judge(ctx, carrier.Get(c.config.Header)))
	}
}

// judge returns the token of a text, or what stands in for a bad one.
func (c *Codec) judge(ctx context.Context, text string) Token {
	if text == "" {
		return Token{}
	}
	t, err := c.Decode(text)
	if err != nil {
		return c.bad(ctx, err)
	}
	return t
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
