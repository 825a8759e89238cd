package readroute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/router"
	"github.com/readroute/readroute/internal/vconn"
)

// The sentinels of this package. An error that matches one may be wrapped: use errors.Is. No error of this package
// contains a DSN or a password.
var (
	// ErrBadConfig is matched by the error of [Open] for a configuration that cannot work. The error names every problem.
	ErrBadConfig = errors.New("readroute: bad configuration")
	// ErrBadToken is matched by the error of [ParseToken] and [Codec.Decode] for a text that is no good token.
	ErrBadToken = errors.New("readroute: bad token")
	// ErrTokenForged is returned by [Codec.Decode] for a token that none of its keys has signed. It matches ErrBadToken.
	ErrTokenForged = fmt.Errorf("%w: not signed with a key that is known here", ErrBadToken)
	// ErrTokenExpired is returned by [Codec.Decode] for a token that is older than MaxAge. It matches ErrBadToken.
	ErrTokenExpired = fmt.Errorf("%w: too old", ErrBadToken)
	// ErrTokenFuture is returned by [Codec.Decode] for a token from further in the future than ClockSkew. It matches
	// ErrBadToken.
	ErrTokenFuture = fmt.Errorf("%w: from the future", ErrBadToken)
	// ErrNotCaughtUp is returned to a read with [FallbackError] when no replica shows what its session needs in time.
	// The error is a [*NotCaughtUpError].
	ErrNotCaughtUp = router.ErrNotCaughtUp
	// ErrNoReplica is returned to a read with [FallbackError] when no replica is healthy.
	ErrNoReplica = router.ErrNoReplica
	// ErrNoPrimary is returned to a statement that needs the primary when the node that was the primary last says that it
	// is not.
	ErrNoPrimary = vconn.ErrNotPrimary
	// ErrPrimaryProtected is returned to a read that no replica can serve when too many such reads are on the primary
	// already (Config.FallbackLimit).
	ErrPrimaryProtected = router.ErrProtected
	// ErrNeedsPrimary is matched by the error of a statement that means something else on a replica (an advisory lock, the
	// state of a sequence) in a read-only transaction that is on one, and of a statement outside of it on the same *sql.Conn
	// after it has left session state there (SET).
	ErrNeedsPrimary = vconn.ErrNeedsPrimary
	// ErrUnknownNode is returned to a statement whose context names a node ([WithNode]) that the cluster does not have.
	ErrUnknownNode = router.ErrUnknownNode
	// ErrUnknownTag is returned to a statement whose context asks for a tag ([WithTags]) that no node of the cluster has.
	ErrUnknownTag = router.ErrUnknownTag
	// ErrRemoteApply is matched by the error of a write whose context asks for [WithRemoteApply] and that cannot wait for a standby:
	// none is connected that can be seen, or the server has no such thing. The write has not run; of a Commit, the transaction is rolled back.
	ErrRemoteApply = vconn.ErrRemoteApply
	// ErrPositionLost is the Err of [EventPositionLost]: the primary does not have what a session has written any more. It is also
	// matched by the error of the one read with [FallbackError] that finds out; the next one asks for what the primary has now.
	ErrPositionLost = router.ErrPositionLost
	// ErrCommitUnknown is matched by the error of a write or a commit whose answer was lost: nobody can say whether it
	// stands. The same error matches the driver's own. It is not run again; the session reads from the primary until a
	// position is known that covers it, or, behind a pooler, for StickyWindow, and then from what shows all that the primary has
	// by then. Where the answer is lost between the rows of a write that Query has begun (INSERT ... RETURNING), Rows.Err is the
	// driver's own and does not match: the rows are the driver's. The session is treated alike.
	ErrCommitUnknown = vconn.ErrCommitUnknown
	// ErrWriteOpen is returned by [Session.Token] while a write of the session hands out rows (INSERT ... RETURNING).
	ErrWriteOpen = core.ErrWriteOpen
)

// NotCaughtUpError says how far the nearest replica was from what a read needed. It matches [ErrNotCaughtUp].
type NotCaughtUpError struct {
	// Node is the nearest of the replicas that might have served the read; empty when there is none, or the position is lost.
	Node string
	// BehindBytes is how much log it had still to replay, on PostgreSQL; 0 elsewhere.
	BehindBytes uint64
	// BehindTransactions is how many transactions it had still to apply, on MySQL and MariaDB and with Config.Marker; 0 on PostgreSQL.
	BehindTransactions uint64
	// Lag is how old its state was at most; it means nothing unless LagKnown.
	Lag time.Duration
	// LagKnown is false when the lag could not be measured.
	LagKnown bool
	// ExpectedWait is how long it is expected to take to show what the read needed; 0 when it stands still, or nothing can be said.
	ExpectedWait time.Duration
	// Reason is why the read did not go to a replica, as in "hopeless".
	Reason Reason

	cause error
}

// Error describes it.
func (e *NotCaughtUpError) Error() string { return e.cause.Error() }

// Unwrap returns an error that matches ErrNotCaughtUp.
func (e *NotCaughtUpError) Unwrap() error { return e.cause }

// refusal turns the router's error into the public one.
func (db *DB) refusal(err error) error {
	if errors.Is(err, router.ErrClosed) {
		return db.closed(context.Background())
	}
	var e *router.NotCaughtUpError
	if !errors.As(err, &e) {
		return err
	}
	out := &NotCaughtUpError{Node: e.Node, Lag: e.Lag, LagKnown: e.LagKnown, ExpectedWait: e.Expected, Reason: Reason(e.Reason), cause: e}
	if e.GTIDs {
		out.BehindTransactions = e.Behind
	} else {
		out.BehindBytes = e.Behind
	}
	return out
}
