package mysql

import (
	"database/sql/driver"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/readroute/readroute/internal/core"
)

// Numbers of errors, which the two servers share as far as both have them.
var (
	// notDone end the session, or the wait for an answer, without saying what has become of the statement. The 2000s are a
	// client's, which proxies answer with.
	notDone = []uint16{
		1053,       // ER_SERVER_SHUTDOWN
		1152, 1184, // ER_ABORTING_CONNECTION, ER_NEW_ABORTING_CONNECTION
		1158, 1159, 1160, 1161, // ER_NET_*: reading and writing, by error and by timeout
		1180,             // ER_ERROR_DURING_COMMIT
		1927,             // MariaDB: ER_CONNECTION_KILLED
		2006, 2013, 2055, // CR_SERVER_GONE_ERROR, CR_SERVER_LOST, CR_SERVER_LOST_EXTENDED
		3169, // ER_SESSION_WAS_KILLED
		4031, // ER_CLIENT_INTERACTION_TIMEOUT
	}
	// notServing refuse a session, not a statement.
	notServing = []uint16{
		1053, // ER_SERVER_SHUTDOWN
		3032, // ER_SERVER_OFFLINE_MODE
	}
	// full refuse a session, because there are too many.
	full = []uint16{
		1040, // ER_CON_COUNT_ERROR
		1203, // ER_TOO_MANY_USER_CONNECTIONS
	}
	// unknownName are of what a replica may not have yet.
	unknownName = []uint16{
		1049,       // ER_BAD_DB_ERROR
		1054,       // ER_BAD_FIELD_ERROR
		1109, 1146, // ER_UNKNOWN_TABLE, ER_NO_SUCH_TABLE
		1128, 1305, // ER_FUNCTION_NOT_DEFINED, ER_SP_DOES_NOT_EXIST
		1176, // ER_KEY_DOES_NOT_EXITS: an index that is hinted at
		1356, // ER_VIEW_INVALID
	}
)

const (
	errOptionPrevents   = 1290 // ER_OPTION_PREVENTS_STATEMENT
	errTableDefChanged  = 1412 // ER_TABLE_DEF_CHANGED
	errNeedReprepare    = 1615 // ER_NEED_REPREPARE
	errReadOnlyTx       = 1792 // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	errReadOnlyMode     = 1836 // ER_READ_ONLY_MODE
	errInnoDBIsReadOnly = 1874 // ER_INNODB_READ_ONLY
)

// misconfigured are what the driver says of its own configuration, before or instead of an answer of the server, and what is refused of
// the session's.
var misconfigured = []error{
	errHoldsBack,
	mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin, mysql.ErrOldProtocol,
}

func answerOf(err error) (*mysql.MySQLError, bool) {
	var answer *mysql.MySQLError
	ok := errors.As(err, &answer)
	return answer, ok
}

// Refused reports that the server said no, so that nothing was committed by a statement that a storage engine can roll
// back. Outside a transaction parts of others may stand, and of texts that commit by themselves: see the package's users.
func (Engine) Refused(err error) bool {
	answer, ok := answerOf(err)
	return ok && !slices.Contains(notDone, answer.Number) && !slices.Contains(notServing, answer.Number)
}

// Down reports that a failure to open a connection is the server's, not the caller's: a server that answers with "too
// many connections" or "access denied" is up.
func (Engine) Down(err error) bool {
	if answer, ok := answerOf(err); ok {
		return slices.Contains(notServing, answer.Number) || slices.Contains(notDone, answer.Number)
	}
	return !slices.ContainsFunc(misconfigured, func(target error) bool { return errors.Is(err, target) })
}

// ReadOnly reports that the server, the session or the transaction refuses writes. It is never a verdict on the server's
// role: a healthy primary refuses them in a read-only transaction.
func (Engine) ReadOnly(err error) bool {
	answer, ok := answerOf(err)
	return ok && isReadOnly(answer)
}

// isReadOnly tells the reasons of error 1290 apart by the option that it names, which is not translated as the rest of the
// text is: --read-only, --super-read-only, and in other servers' words read_only. --secure-file-priv and
// --skip-grant-tables are others.
func isReadOnly(answer *mysql.MySQLError) bool {
	switch answer.Number {
	case errReadOnlyTx, errReadOnlyMode, errInnoDBIsReadOnly:
		return true
	case errOptionPrevents:
		return strings.Contains(answer.Message, "read-only") || strings.Contains(answer.Message, "read_only")
	}
	return false
}

// Retry says whether a read that a replica answered with err may be run once more, and why.
func (Engine) Retry(err error) core.Retry {
	answer, ok := answerOf(err)
	if !ok {
		if errors.Is(err, mysql.ErrPktTooLarge) || slices.ContainsFunc(misconfigured, func(target error) bool { return errors.Is(err, target) }) {
			return core.RetryNone // it would be the same anywhere
		}
		return core.RetryConnection
	}
	switch n := answer.Number; {
	case isReadOnly(answer):
		return core.RetryRefused
	case n == errNeedReprepare:
		return core.RetryPlan
	case n == errTableDefChanged:
		return core.RetryConflict // a table's definition has come to the replica under a snapshot that was open
	case slices.Contains(unknownName, n):
		return core.RetrySchema
	case slices.Contains(notDone, n), slices.Contains(notServing, n), slices.Contains(full, n):
		return core.RetryConnection
	}
	return core.RetryNone
}

// NotSent reports that the statement never reached the server. The driver says ErrBadConn only then, unless it is told to
// reject read-only answers, which [OpenConfig] refuses.
func (Engine) NotSent(err error) bool {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrPktTooLarge) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
