package readroute

import (
	"context"
	"slices"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// WithLevel returns a context whose reads ask for a consistency level. The zero Level takes back what an outer context
// has said. A level that this package does not define is treated as [LevelPrimary]. Writes are not affected.
func WithLevel(ctx context.Context, l Level) context.Context {
	level := core.Level(l)
	if !level.Valid() {
		level = core.LevelPrimary
	}
	return core.With(ctx, func(o *core.Options) { o.Level = level })
}

// WithFallback returns a context whose reads fall back in another way than Config.Fallback says. The zero Fallback takes
// back what an outer context has said.
func WithFallback(ctx context.Context, f Fallback) context.Context {
	return core.With(ctx, func(o *core.Options) { o.Fallback = core.Fallback(f) })
}

// WithWait returns a context whose reads wait for a replica for at most d instead of the strategy's timeout. 0 and less
// only check. It has no effect on [Sticky].
func WithWait(ctx context.Context, d time.Duration) context.Context {
	return core.With(ctx, func(o *core.Options) { o.Wait, o.HasWait = max(0, d), true })
}

// WithRemoteApply returns a context whose writes and transactions return only when a synchronous standby of PostgreSQL shows them
// (synchronous_commit = remote_apply): for what must not be lost, and be readable elsewhere at once. It needs
// synchronous_standby_names on the primary, and for the user pg_monitor. When no connected synchronous standby can be seen, on
// MySQL and MariaDB, and for a write outside a transaction behind a pooler, the write does not run and its error matches
// [ErrRemoteApply]: the server itself would silently protect nothing.
//
// A transaction commits so when the context of BeginTx, or of a write or a COMMIT in it, asks for it, whatever its savepoints and
// settings do in between; when the standbys are gone by then, Commit rolls back and says so, and a COMMIT by text is not run. The same
// holds for what [DB.PrimaryRaw] and [Conn] hand out. [DB.PrimaryDB] is not routed and knows nothing of it.
//
// It costs one more round trip before a write outside a transaction and one after it, and in a transaction one for the first write,
// or BeginTx, and one for the commit. A commit waits for as long as the standby takes, and statement_timeout does not end that; the
// context does, of a transaction that of BeginTx: then the commit stands on the primary, and its error matches [ErrCommitUnknown].
// Later reads still go by the session's position, since nobody says which standby has waited. See docs/operating.md.
func WithRemoteApply(ctx context.Context) context.Context {
	return core.With(ctx, func(o *core.Options) { o.RemoteApply = true })
}

// WithTags returns a context whose reads go to nodes that have all of tags (Node.Tags) or, when none of these can serve them, to
// the fallback. It does not weaken what the session needs. A tag that no node has gives [ErrUnknownTag]. Without tags it takes
// back what an outer context has said: reads go to nodes without tags then. Writes are not affected.
func WithTags(ctx context.Context, tags ...string) context.Context {
	return core.With(ctx, func(o *core.Options) {
		o.Tags = nil
		if len(tags) > 0 {
			o.Tags = slices.Clone(tags)
		}
	})
}

// WithNode returns a context whose reads go to the node of that name or nowhere else but, when it cannot serve them, to
// the fallback. It does not weaken what the session needs. A name that the cluster does not have gives [ErrUnknownNode].
// An empty name takes back what an outer context has said. Writes are not affected.
func WithNode(ctx context.Context, name string) context.Context {
	return core.With(ctx, func(o *core.Options) { o.Node = name })
}
