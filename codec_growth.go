package readroute

import (
	"context"
	"time"
)

// growth changes when a session comes to need more.
type growth string

// growthOf is a stopgap: a position that was lost, and gave way to another, counts as well.
func growthOf(s *Session) growth {
	t, err := s.core.Token(over, time.Now, DefaultStickyWindow)
	if err != nil {
		return growth(time.Now().String())
	}
	return growth(Token{core: t}.String())
}

// hold is a stopgap: the core does not know entries of every cluster yet.
func hold(ctx context.Context, s *Session) context.Context {
	t, _ := s.core.Token(over, time.Now, DefaultStickyWindow)
	if e := t.Entries(); len(e) > 0 && e[0].Cluster == everyCluster && e[0].Until.After(time.Now()) {
		return WithLevel(ctx, LevelPrimary)
	}
	return ctx
}
