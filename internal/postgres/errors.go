package postgres

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/readroute/readroute/internal/core"
)

// answer is what an error of the server says, whichever driver has read it.
type answer struct {
	code     string // SQLSTATE
	severity string // in English, or in the language of the server's messages; empty when the driver does not tell
	routine  string // the server's, that has raised it; empty when the driver does not tell
}

// answerOf finds the server's answer in an error of pgx, or of a driver whose errors tell their SQLSTATE. An error that
// has room for one and none in it is not the server's.
func answerOf(err error) (answer, bool) {
	if err == nil {
		return answer{}, false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		a := answer{code: pg.Code, severity: pg.SeverityUnlocalized, routine: pg.Routine}
		if a.severity == "" {
			a.severity = pg.Severity
		}
		return a, true
	}
	var said interface{ SQLState() string }
	if !errors.As(err, &said) || said.SQLState() == "" {
		return answer{}, false
	}
	a := answer{code: said.SQLState()}
	// The letters are those of the protocol's error fields.
	if fields, ok := said.(interface{ Get(field byte) string }); ok {
		a.severity, a.routine = fields.Get('V'), fields.Get('R')
		if a.severity == "" {
			a.severity = fields.Get('S')
		}
	}
	return a, true
}

func (a answer) inClass(class string) bool { return len(a.code) == 5 && a.code[:len(class)] == class }

// ended reports that the server has ended the session with this answer.
func (a answer) ended() bool { return a.severity == "FATAL" || a.severity == "PANIC" }

// told reports that the driver tells a severity that can be read.
func (a answer) told() bool {
	return a.ended() || slices.Contains([]string{"ERROR", "WARNING", "NOTICE", "DEBUG", "INFO", "LOG"}, a.severity)
}

// refuses reports that the server refuses a statement and does not end the session. Without a severity only a code that
// never ends one does: drivers make up others for a connection that broke.
func (a answer) refuses() bool {
	if a.told() {
		return !a.ended()
	}
	switch a.code {
	case "25006", "25P02", "0A000", // read-only, failed transaction, not supported
		"40001", "40002", "40P01", // serialization, deferred constraints, deadlock: they end sessions of standbys alone
		"55P03", "57014": // lock not available, cancelled
		return true
	}
	// Cardinality, data, constraints, syntax and names and rights, check options, PL/pgSQL.
	return slices.ContainsFunc([]string{"21", "22", "23", "42", "44", "P0"}, a.inClass)
}

// stalePlan recognizes "cached plan must not change result type" by the server's routine that says so: its SQLSTATE is
// shared with much else and its text is translated. The statement has not run.
func (a answer) stalePlan() bool { return a.code == "0A000" && a.routine == "RevalidateCachedQuery" }

// Refused reports that the server said no, so that nothing was committed. A session that was ended (FATAL) may have
// committed before: its outcome is not known.
func (Engine) Refused(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true // PostgreSQL answers ROLLBACK to the COMMIT of a failed transaction
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "08P01" && strings.HasPrefix(pg.Message, "server login has been failing") {
		return true // PgBouncer found no server to run it on
	}
	a, ok := answerOf(err)
	return ok && a.refuses() && a.code != "40003" // statement_completion_unknown
}

// Down reports that a failure to open a connection is the server's, not the caller's: a server that answers with "too
// many connections" or "no such database" is up.
func (Engine) Down(err error) bool {
	a, ok := answerOf(err)
	return !ok || a.inClass("57P") || a.inClass("08") && !a.told() // a connection exception that the driver has made up
}

// ReadOnly reports that the server, the session or the transaction refuses writes. It is never a verdict on the server's
// role: a healthy primary refuses them in a read-only transaction.
func (Engine) ReadOnly(err error) bool {
	a, _ := answerOf(err)
	return a.code == "25006" // read_only_sql_transaction
}

// NotSent reports that the statement never reached the server.
func (Engine) NotSent(err error) bool { return pgconn.SafeToRetry(err) }

// Retry says whether a read that a replica answered with err may be run once more, and why. SQLSTATEs are those of the
// manual's appendix A.
func (Engine) Retry(err error) core.Retry {
	a, ok := answerOf(err)
	if !ok {
		return core.RetryConnection
	}
	if a.stalePlan() {
		return core.RetryPlan
	}
	switch a.code {
	case "25006", // read_only_sql_transaction
		"0A000": // feature_not_supported: an unlogged table, a serializable transaction
		return core.RetryRefused
	case "42P01", "42703", "42883", "42704", "3F000": // undefined table, column, function, object, schema
		return core.RetrySchema
	case "40001", "40P01": // replay cancels what stands in its way with these, and ends its session where it cannot just cancel
		return core.RetryConflict
	case "57P01", "57P02", "57P03", "57P05": // shutdown, crash, starting up, idle session timeout
		return core.RetryConnection
	}
	if a.inClass("08") || a.ended() {
		return core.RetryConnection
	}
	return core.RetryNone
}
