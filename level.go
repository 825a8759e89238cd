package readroute

import (
	"cmp"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
)

// Level is the consistency that a read asks for. The zero Level is "not said": the read gets the level of the Config
// when its context carries a session, and what [Config.WithoutSession] says when it does not.
type Level int64

// The levels.
const (
	// LevelEventual: any healthy replica within MaxLag. It needs no session.
	LevelEventual = Level(core.LevelEventual)
	// LevelSession: the read sees everything that its session has written (read-your-writes).
	LevelSession = Level(core.LevelSession)
	// LevelCausal: the read sees everything that its session has written (read-your-writes) and everything that earlier reads of
	// the session at this level or [LevelGlobal] have seen (monotonic reads), whichever nodes served them.
	LevelCausal = Level(core.LevelCausal)
	// LevelGlobal: the read sees every commit that was acknowledged before it began, whoever made it through whatever pool, and all
	// that LevelCausal sees. It costs a position read on the primary that reads which arrive at the same time share. It needs no
	// session.
	LevelGlobal = Level(core.LevelGlobal)
	// LevelPrimary: the primary.
	LevelPrimary = Level(core.LevelPrimary)
)

// LevelBounded returns the level at which a read sees every commit that was acknowledged more than d before it began, whoever
// made it. It needs no session, and does not look at what one has written. A d of 0 or less is [LevelGlobal]. A d below
// Config.ProbeInterval makes most reads share a position read on the primary.
func LevelBounded(d time.Duration) Level {
	if d <= 0 {
		return LevelGlobal
	}
	return Level(d)
}

// String returns the level's name, as in "session" or "bounded 2s".
func (l Level) String() string { return core.Level(l).String() }

// Fallback says what happens to a read that no replica can serve in time. The zero Fallback is "not said".
type Fallback uint8

// The fallbacks.
const (
	// FallbackPrimary: the read runs on the primary, within Config.FallbackLimit. It is the default.
	FallbackPrimary = Fallback(core.FallbackPrimary)
	// FallbackError: the read fails with [ErrNotCaughtUp] or [ErrNoReplica]; it never loads the primary. One that finds out that what
	// its session wrote is lost matches [ErrPositionLost] as well.
	FallbackError = Fallback(core.FallbackError)
	// FallbackStale: the read runs on any healthy replica, however far behind, with the reason "stale"; on the primary
	// when there is none.
	FallbackStale = Fallback(core.FallbackStale)
)

// String returns the fallback's name, as in "primary".
func (f Fallback) String() string { return core.Fallback(f).String() }

// WithoutSession says what a read gets whose context carries neither a session nor a level.
type WithoutSession uint8

// What such a read gets.
const (
	// WithoutSessionPrimary: the primary, with the reason "no_session": the read has not said what staleness it can bear.
	// It is the default.
	WithoutSessionPrimary = WithoutSession(router.WithoutSessionPrimary)
	// WithoutSessionEventual: the same as [LevelEventual].
	WithoutSessionEventual = WithoutSession(router.WithoutSessionEventual)
	// WithoutSessionProcess: the read sees everything that was written through the same [DB]. One busy writer then holds
	// every reader back, so it is for tools and small services.
	WithoutSessionProcess = WithoutSession(router.WithoutSessionProcess)
)

// Strategy is how a session's reads come to see its writes: [PositionWait] or [Sticky]. The zero Strategy is
// PositionWait(DefaultWaitTimeout).
type Strategy struct {
	kind strategyKind
	d    time.Duration
}

type strategyKind uint8

const (
	strategyDefault strategyKind = iota
	strategyPosition
	strategySticky
)

// PositionWait returns the strategy that follows log positions: a read goes to a replica that has replayed its
// session's last write, waits up to timeout for one, else falls back. A timeout of 0 only checks and never waits; a
// negative one is refused by [Open].
func PositionWait(timeout time.Duration) Strategy {
	return Strategy{kind: strategyPosition, d: timeout}
}

// Sticky returns the strategy that follows the clock: for window after its last write a session reads from the primary.
// It is best effort: a replica that is further behind than window serves a stale read. A window of 0 means
// [DefaultStickyWindow]; a negative one is refused by [Open].
func Sticky(window time.Duration) Strategy { return Strategy{kind: strategySticky, d: window} }

// core returns the strategy with its defaults filled in. window is how long the primary serves a session whose write
// has no position.
func (s Strategy) core(window time.Duration) core.Strategy {
	switch s.kind {
	case strategySticky:
		return core.Strategy{Sticky: true, Window: cmp.Or(s.d, DefaultStickyWindow)}
	case strategyPosition:
		return core.Strategy{Wait: s.d, Window: window}
	case strategyDefault:
	}
	return core.Strategy{Wait: DefaultWaitTimeout, Window: window}
}
