package readroute

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Hooks are functions that hear what the library does. Each may be nil. They are called on the goroutine that the thing
// happens on, possibly on several at once; they must not block and must not use the [DB].
type Hooks struct {
	// Decision hears where each statement went, after its first answer came. It is on the path of every statement. ctx is the
	// statement's; in a transaction it also has the values of BeginTx's.
	Decision func(ctx context.Context, d Decision)
	// Event hears of what happens to nodes, positions and connections. It is called seldom.
	Event func(e Event)
}

// EventKind is what has happened. The texts are stable.
type EventKind string

// The kinds of events.
const (
	EventUp              EventKind = "up"               // a node answers
	EventDown            EventKind = "down"             // a node does not answer
	EventRoleChanged     EventKind = "role_changed"     // a node has another role than before
	EventPrimaryChanged  EventKind = "primary_changed"  // another node takes the writes
	EventTwoPrimaries    EventKind = "two_primaries"    // two nodes call themselves primary, each asked after the other had said so; Node is the one that counts
	EventRestarted       EventKind = "restarted"        // a node's server process is another one than before
	EventStopped         EventKind = "stopped"          // nothing feeds a replica
	EventResumed         EventKind = "resumed"          // something feeds it again
	EventSharedEndpoint  EventKind = "shared_endpoint"  // several servers answer under a node's name
	EventPositionForeign EventKind = "position_foreign" // another server than the one that wrote gave the position
	EventPositionLost    EventKind = "position_lost"    // the primary does not have a session's position
	EventPositionEnded   EventKind = "position_ended"   // the timeline of a session's position has ended, or its row was pruned
	EventReadAhead       EventKind = "read_ahead"       // a causal read ran on the primary, which may not show yet what a replica showed before
	EventStateDiscarded  EventKind = "state_discarded"  // a connection was closed because it carried session state
	EventSetting         EventKind = "setting"          // a setting of a node fights the library; Why says which and what to do
	EventPooledState     EventKind = "pooled_state"     // a statement left session state behind in a session that a pooler shares
	EventCatalogueFailed EventKind = "catalogue_failed" // the primary's catalogue could not be read; what was known of it stays
)

// Event is something that happened outside of any one statement.
type Event struct {
	Kind EventKind // what
	Node string    // whose; empty when it concerns no one node
	Role Role      // what the node is now taken for; zero when that is not known or does not matter
	Err  error     // why, for EventDown and EventCatalogueFailed; ErrPositionLost for EventPositionLost
	Why  string    // more, for a human
}

// JoinHooks returns hooks that call each of hooks in turn.
func JoinHooks(hooks ...Hooks) Hooks {
	var joined Hooks
	var decisions []func(context.Context, Decision)
	var events []func(Event)
	for _, h := range hooks {
		if h.Decision != nil {
			decisions = append(decisions, h.Decision)
		}
		if h.Event != nil {
			events = append(events, h.Event)
		}
	}
	if len(decisions) > 0 {
		joined.Decision = func(ctx context.Context, d Decision) {
			for _, f := range decisions {
				f(ctx, d)
			}
		}
	}
	if len(events) > 0 {
		joined.Event = func(e Event) {
			for _, f := range events {
				f(e)
			}
		}
	}
	return joined
}

// slogInterval is how often the same thing is logged.
const slogInterval = time.Minute

// SlogHooks returns hooks that log to logger: events, and reads that went to the primary although a replica should have
// served them. Each change of a node (up or down, fed or not, its role, which one the primary is) gives a line. What is the same
// again, of node and kind or node and reason, gives at most one a minute; the line says how many were left out since the last one.
func SlogHooks(logger *slog.Logger) Hooks {
	l := &limiter{seen: make(map[limitKey]*limit)}
	return Hooks{
		Event: func(e Event) {
			skipped, ok := l.allow(topic(e))
			if !ok {
				return
			}
			attrs := []slog.Attr{slog.String("event", string(e.Kind)), slog.String("node", e.Node), slog.Int("skipped", skipped)}
			if e.Role != 0 {
				attrs = append(attrs, slog.String("role", e.Role.String()))
			}
			if e.Err != nil {
				attrs = append(attrs, slog.String("error", e.Err.Error()))
			}
			if e.Why != "" {
				attrs = append(attrs, slog.String("why", e.Why))
			}
			logger.LogAttrs(context.Background(), eventLevel(e.Kind), "readroute: "+string(e.Kind), attrs...)
		},
		Decision: func(ctx context.Context, d Decision) {
			switch d.Reason {
			case ReasonNoReplica, ReasonLagging, ReasonWaitTimeout, ReasonHopeless, ReasonProtected, ReasonPositionLost,
				ReasonIncomparable:
			default:
				return
			}
			skipped, ok := l.allow(limitKey{d.Node, d.Reason.String()}, "")
			if !ok {
				return
			}
			logger.LogAttrs(ctx, slog.LevelWarn, "readroute: a read was not served by a replica",
				slog.String("reason", d.Reason.String()), slog.String("node", d.Node),
				slog.Duration("waited", d.Waited), slog.Int("skipped", skipped))
		},
	}
}

func eventLevel(k EventKind) slog.Level {
	switch k {
	case EventUp, EventResumed, EventPrimaryChanged, EventRestarted:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// topic says what an event is about, and what is so from now on.
func topic(e Event) (key limitKey, state string) {
	switch e.Kind {
	case EventUp, EventDown:
		return limitKey{e.Node, "answers"}, string(e.Kind)
	case EventStopped, EventResumed:
		return limitKey{e.Node, "fed"}, string(e.Kind)
	case EventRoleChanged:
		return limitKey{e.Node, string(e.Kind)}, e.Role.String()
	case EventPrimaryChanged:
		return limitKey{"", string(e.Kind)}, e.Node
	case EventSetting:
		return limitKey{e.Node, string(e.Kind) + " " + e.Why}, "" // each is told once
	}
	return limitKey{e.Node, string(e.Kind)}, ""
}

// limiter lets each key through once in slogInterval, and when its state is another than before.
type limiter struct {
	mu   sync.Mutex
	seen map[limitKey]*limit // guarded by mu; as many as there are nodes times kinds, and settings
}

type limitKey struct{ node, what string }

type limit struct {
	state   string
	last    time.Time
	skipped int
}

func (l *limiter) allow(key limitKey, state string) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.seen[key]
	now := time.Now()
	if e == nil {
		l.seen[key] = &limit{state: state, last: now}
		return 0, true
	}
	if e.state == state && now.Sub(e.last) < slogInterval {
		e.skipped++
		return 0, false
	}
	skipped = e.skipped
	e.state, e.last, e.skipped = state, now, 0
	return skipped, true
}
