package readroute

import (
	"context"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// Session remembers what one user, request or job has written, so that its reads see it. It travels in a
// context.Context. One request or job is one session; a session that many users share makes them wait for each other's
// writes. It only ever moves forward and is safe for concurrent use. It holds no connection and needs no closing. The
// zero Session is ready for use.
type Session struct {
	core core.Session
}

// NewSession returns a session that needs everything that the tokens need.
func NewSession(tokens ...Token) *Session {
	s := new(Session)
	for _, t := range tokens {
		s.Merge(t)
	}
	return s
}

// WithSession returns a context with a new session. Statements run with it, and with every context made from it, belong
// to that session: its reads see its writes. It takes the place of the session that ctx has, which does not learn of them. So do not
// call it for a request that comes through [Codec.Middleware], [Codec.Extract] or [Codec.Load]: that has its session already, and the
// answer carries what that one has written.
func WithSession(ctx context.Context) context.Context {
	return ContextWithSession(ctx, NewSession())
}

// ContextWithSession returns a context that carries s. A nil s takes the session out.
func ContextWithSession(ctx context.Context, s *Session) context.Context {
	return core.With(ctx, func(o *core.Options) {
		o.Session, o.Owner = nil, nil
		if s != nil {
			o.Session, o.Owner = &s.core, s
		}
	})
}

// SessionFrom returns the session that ctx carries, or nil.
func SessionFrom(ctx context.Context) *Session {
	o := core.FromContext(ctx)
	if o == nil {
		return nil
	}
	s, _ := o.Owner.(*Session)
	return s
}

// Token returns what the session needs, to be handed to another process or kept for later. It blocks until the positions
// of all the session's writes are known, normally for a round trip to the primary, or until ctx ends. On error the token
// is safe all the same: it asks for the primary for [DefaultStickyWindow], in another process for [DefaultClockSkew] longer. It
// returns [ErrWriteOpen] while rows of a write are open.
func (s *Session) Token(ctx context.Context) (Token, error) {
	t, err := s.core.Token(ctx, time.Now, DefaultStickyWindow)
	return Token{core: t}, err
}

// Merge makes the session need everything that t needs as well. It never makes it need less.
func (s *Session) Merge(t Token) { s.core.Merge(t.core, DefaultStickyWindow) }
