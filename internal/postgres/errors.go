package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/readroute/readroute/internal/core"
)

// Refused reports that the server said no, so that nothing was committed. A session that was ended (FATAL) may have
// committed before: its outcome is not known.
func (Engine) Refused(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true // PostgreSQL answers ROLLBACK to the COMMIT of a failed transaction
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !ended(pg) && pg.Code != "40003" // statement_completion_unknown
}

// Down reports that a failure to open a connection is the server's, not the caller's: a server that answers with "too
// many connections" or "no such database" is up.
func (Engine) Down(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg) || len(pg.Code) == 5 && pg.Code[:3] == "57P"
}

// ReadOnly reports that the server, the session or the transaction refuses writes. It is never a verdict on the server's
// role: a healthy primary refuses them in a read-only transaction.
func (Engine) ReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25006" // read_only_sql_transaction
}

// stalePlan recognizes "cached plan must not change result type" by the server's routine that says so: its SQLSTATE is
// shared with much else and its text is translated. The statement has not run.
func stalePlan(pg *pgconn.PgError) bool {
	return pg.Code == "0A000" && pg.Routine == "RevalidateCachedQuery"
}

func ended(pg *pgconn.PgError) bool {
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// NotSent reports that the statement never reached the server.
func (Engine) NotSent(err error) bool { return pgconn.SafeToRetry(err) }

// Retry says whether a read that a replica answered with err may be run once more, and why. SQLSTATEs are those of the
// manual's appendix A.
func (Engine) Retry(err error) core.Retry {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return core.RetryConnection
	}
	if stalePlan(pg) {
		return core.RetryPlan
	}
	switch pg.Code {
	case "25006", // read_only_sql_transaction
		"0A000": // feature_not_supported: an unlogged table, a serializable transaction
		return core.RetryRefused
	case "42P01", "42703", "42883", "42704", "3F000": // undefined table, column, function, object, schema
		return core.RetrySchema
	case "40001", "40P01": // replay cancels what stands in its way with these
		if ended(pg) {
			return core.RetryConnection
		}
		return core.RetryConflict
	case "57P01", "57P02", "57P03", "57P05": // shutdown, crash, starting up, idle session timeout
		return core.RetryConnection
	}
	if len(pg.Code) == 5 && pg.Code[:2] == "08" || ended(pg) {
		return core.RetryConnection
	}
	return core.RetryNone
}
