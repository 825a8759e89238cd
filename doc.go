// Package readroute is a routed database/sql pool for PostgreSQL with streaming replicas: callers read what they have
// written, and still take almost all of their reads off the primary.
//
//	db, err := readroute.Open(readroute.Config{
//		Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres("postgres://app@db-a/app")},
//		Replicas: []readroute.Node{{Name: "b", Connector: readroute.Postgres("postgres://app@db-b/app")}},
//	})
//	ctx = readroute.WithSession(ctx)                            // one for each request, job or user; Codec.Middleware does it
//	db.ExecContext(ctx, "UPDATE account SET name = $1", "Ada")  // the primary; the session knows its position
//	db.QueryRowContext(ctx, "SELECT name FROM account")         // a replica that has replayed that position
//
// [DB] embeds a real *sql.DB: db.DB can be handed to whatever takes one. Statements are routed one by one; rows,
// transactions, connections and prepared statements are those of the native driver.
//
// # What is promised
//
// A read whose context carries a session ([LevelSession], the default) sees every write of that session whose call had
// returned: an Exec, a Commit, the end of the rows of an INSERT ... RETURNING, [DB.PrimaryRaw]. That holds for each of
// these ways, with synchronous_commit off, after a crash of a replica, and in another process that was given the
// session's [Token]. A write whose outcome is unknown ([ErrCommitUnknown]) counts as one.
//
// A statement runs on a replica only if its text is known to be a read, or a comment in it says so. Anything else runs on
// the primary: a text that is not understood, a function of yours that the server calls volatile and that
// [Config.ReadFunctions] does not name. Connections to replicas refuse writes.
//
// # What is not promised
//
// Nothing is said of what others write: call [DB.Fence] to see all that is committed by now. Two reads of a session that
// writes nothing may go to two replicas, and the second may show an older state than the first. MaxLag keeps replicas that
// are far behind from serving; it is no bound on what a read sees. [Sticky] follows the clock and is best effort.
// [FallbackStale] and [LevelEventual] give the promise up. Writes through [DB.PrimaryDB], or past this pool, leave no
// position. A write that a failover has lost is lost: the session reads from the new primary and [Hooks] hear of it.
//
// # Sessions and tokens
//
// A [Session] is the memory of one user, request or job. [WithSession] puts a new one into a context; statements run with
// that context, or one made from it, belong to it. Without a session a read goes to the primary, with the reason
// [ReasonNoSession], unless [Config.WithoutSession] or [WithLevel] says otherwise.
//
// [Session.Token] returns what the session needs as an immutable value, and its text goes to another process:
// [ParseToken], [NewSession], [ContextWithSession]. The text is neither signed nor secret; a forged one can make reads wait
// up to the timeout or go to the primary, and nothing else. The Name of the Config must be the same in all processes.
//
// # Capturing
//
// A write pays no round trip for its position. One connection to the primary reads positions for all sessions that have
// written: at once when a read waits for one, soon after the write otherwise, at most 50 times a second when nobody waits.
// A read that comes before the position is known waits for it up to [Config.CaptureTimeout], then goes to the primary.
//
// # Waiting and falling back
//
// A read goes to a replica that is known to show what the session needs, without a round trip. When there is none it waits
// for one, up to the timeout of [PositionWait] or [WithWait], unless no replica can be in time. It holds no connection
// meanwhile, and all reads that wait (up to [Config.MaxWaiters]) share one poll a replica. Then comes the [Fallback]: the primary, an error, or
// a stale read. At most [Config.FallbackLimit] reads may be on the primary for want of a replica; the rest wait, then get
// [ErrPrimaryProtected].
//
// A read outside a transaction that a replica could not serve, with no row delivered, runs once more on another node. A
// write never runs twice.
//
// # Transactions and connections
//
// A transaction runs on one node: on the primary, or where a read would go when it is read-only (sql.TxOptions) and below
// serializable. A *sql.Conn has at most one connection to a replica and one to the primary; once it has that to the
// primary, everything runs there. Session state (SET, LISTEN, a temporary table) ends with the checkout: the connection
// that carries it is closed.
//
// # Failover
//
// Roles are asked for, not configured: a promoted replica takes the writes, a primary that comes back as a replica serves
// reads. [Config.Primary] only says where to begin. With the primary down, reads that need nothing newer go on from the
// replicas.
//
// # Why
//
// Every statement has one [Decision] with one [Reason], from a list that does not change. [Hooks] hear each of them,
// [DB.RouteStats] counts them by node, [DB.Explain] says what would come of a statement without running it, and
// [DB.Nodes] what is known of each server. The library logs nothing; [SlogHooks] does.
//
// # Close
//
// [Open] opens one pool a node for each role, and a few connections of its own. [DB.Close], and Close of the embedded
// *sql.DB, closes all of them and waits for every goroutine.
package readroute
