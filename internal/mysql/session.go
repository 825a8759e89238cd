package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/readroute/readroute/internal/monitor"
)

// ReadOnlySQL makes a session refuse writes from now on, and see what is committed from now on: without autocommit, or after a COMMIT
// that begins another transaction, its first read would fix what all later ones see. START TRANSACTION READ ONLY would not do, since DDL ends it. MySQL has
// no longer the name that all of MariaDB has.
//
// It is not a wall: a session may say START TRANSACTION READ WRITE, which the classifier never sends to a replica.
func (e Engine) ReadOnlySQL() string {
	if e.MariaDB {
		return "SET SESSION tx_read_only = 1, autocommit = 1, completion_type = NO_CHAIN"
	}
	return "SET SESSION transaction_read_only = 1, autocommit = 1, completion_type = NO_CHAIN"
}

// SettingsSQL returns the statement that tells what a session of this user is like: "true" when the server is read-only,
// "on" when transactions are read-only unless they say otherwise, the longest that a SELECT may run in milliseconds, 0 for
// ever, and how many connections the user may have.
func (e Engine) SettingsSQL() string {
	readOnly, limit := "transaction_read_only", "@@SESSION.max_execution_time"
	if e.MariaDB {
		readOnly, limit = "tx_read_only", "ROUND(@@SESSION.max_statement_time * 1000)" // of any statement, in seconds
	}
	return "SELECT IF(@@GLOBAL.read_only IN ('0', 'OFF'), 'false', 'true'), IF(@@SESSION." + readOnly + ", 'on', 'off')," +
		" CAST(" + limit + " AS SIGNED)," +
		" LEAST(@@GLOBAL.max_connections, IF(@@SESSION.max_user_connections = 0, @@GLOBAL.max_connections, @@SESSION.max_user_connections))"
}

// SettingNames implements the pools' engine.
func (e Engine) SettingNames() (readOnly, timeout, remedy string) {
	if e.MariaDB {
		return "tx_read_only", "max_statement_time", "SET GLOBAL tx_read_only = 0, and look at init_connect"
	}
	return "transaction_read_only", "max_execution_time", "SET GLOBAL transaction_read_only = 0, and look at init_connect"
}

// RemoteApplySQL implements the pools' engine: there is no such thing.
func (Engine) RemoteApplySQL(bool) string { return "" }

// RestoreSQL implements the pools' engine: nothing is put back.
func (Engine) RestoreSQL(string) string { return "" }

// started is an expression: the second in which the server was started.
func (e Engine) started() string {
	table := "performance_schema.global_status"
	if e.MariaDB {
		table = "information_schema.GLOBAL_STATUS"
	}
	return "(SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) FROM " + table + " WHERE VARIABLE_NAME = 'Uptime')"
}

// SelfSQL returns the statement that tells a connection its own Backend, and whether it commits each statement by itself, as one that
// has just been opened has to.
func (e Engine) SelfSQL() string {
	return "SELECT CONNECTION_ID(), " + e.started() + ", @@SESSION.autocommit, @@SESSION.completion_type"
}

// errHoldsBack is that of a session in which a write is not committed when it returns, and a read sees what an earlier one saw. It is
// not for the library to commit what was meant to be rolled back.
var errHoldsBack = errors.New("what is written is not committed when it returns, and reads see an old snapshot: look at init_connect and the " +
	"global variables, or put autocommit=1 and completion_type=0 into the DSN")

// ParseSelf reads SelfSQL's row. It is an error when the session does not commit each statement by itself. A server does not use a session's number twice while it runs, so the Backend's start is
// that of the server. A number that a Backend has no room for makes one that cannot be looked for.
func (e Engine) ParseSelf(row []string) (monitor.Backend, error) {
	if len(row) != 4 {
		return monitor.Backend{}, fmt.Errorf("read the server session: %d columns instead of 4", len(row))
	}
	if !isOn(row[2]) {
		return monitor.Backend{}, fmt.Errorf("the session begins with autocommit off: %w", errHoldsBack)
	}
	if !isNoChain(row[3]) {
		return monitor.Backend{}, fmt.Errorf("the session begins with completion_type %s: %w", row[3], errHoldsBack)
	}
	id, err := strconv.ParseUint(row[0], 10, 64)
	if err != nil {
		return monitor.Backend{}, fmt.Errorf("read the server session: %w", err)
	}
	start, err := strconv.ParseInt(row[1], 10, 64)
	if err != nil || id > 1<<32-1 {
		return monitor.Backend{}, nil
	}
	return monitor.Backend{PID: uint32(id), Start: start}, nil
}

// backendSQL returns a statement that tells whether the server lists the session b, and whether it is on the run of b.
// performance_schema's list is not used: it is empty when that is off.
func (e Engine) backendSQL(b monitor.Backend) string {
	return fmt.Sprintf("SELECT (SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %d), %s = %d", b.PID, e.started(), b.Start)
}

// Answers to a KILL.
const (
	errNoSuchThread = 1094 // there is no such session
	errKillDenied   = 1095 // there is, and it is somebody else's
)

// Gone implements monitor.Engine. A session's own user may end it (KILL); it is over when it has rolled back. The zero Backend
// cannot be looked for.
//
// The list of sessions does not prove that one is gone: to a user without the right PROCESS it shows his own, and while one of
// them is in a routine or a trigger of another definer it counts as that one's. KILL knows it all the same. It is tried only on
// a session that is not listed, or is to be ended, and the one in a routine cannot be ended: it is not gone until it has come
// to its end by itself.
func (e Engine) Gone(ctx context.Context, link monitor.Link, b monitor.Backend, end bool) (bool, error) {
	if b.PID == 0 {
		return false, errors.New("look for a server session: it is not known")
	}
	row, err := link.QueryRow(ctx, e.backendSQL(b))
	switch {
	case err != nil:
		return false, fmt.Errorf("look for a server session: %w", err)
	case len(row) != 2:
		return false, fmt.Errorf("look for a server session: %d columns instead of 2", len(row))
	case row[1] != "1":
		return true, nil // another run of the server
	case row[0] != "0" && !end:
		return false, nil
	}
	_, err = link.QueryRow(ctx, "KILL CONNECTION "+strconv.FormatUint(uint64(b.PID), 10))
	switch {
	case err == nil, isNumber(err, errKillDenied):
		return false, nil // the next call tells
	case isNumber(err, errNoSuchThread):
		return true, nil
	}
	return false, fmt.Errorf("end a server session: %w", err)
}
