package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/readroute/readroute/internal/monitor"
)

// ReadOnlySQL makes a session refuse writes from now on, and see what is committed from now on: without autocommit its
// first read would fix what all later ones see. START TRANSACTION READ ONLY would not do, since DDL ends it. MySQL has
// no longer the name that all of MariaDB has.
//
// It is not a wall: a session may say START TRANSACTION READ WRITE, which the classifier never sends to a replica.
func (e Engine) ReadOnlySQL() string {
	if e.MariaDB {
		return "SET SESSION tx_read_only = 1, autocommit = 1"
	}
	return "SET SESSION transaction_read_only = 1, autocommit = 1"
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

// started is an expression: the second in which the server was started.
func (e Engine) started() string {
	table := "performance_schema.global_status"
	if e.MariaDB {
		table = "information_schema.GLOBAL_STATUS"
	}
	return "(SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) FROM " + table + " WHERE VARIABLE_NAME = 'Uptime')"
}

// SelfSQL returns the statement that tells a connection its own Backend.
func (e Engine) SelfSQL() string { return "SELECT CONNECTION_ID(), " + e.started() }

// ParseSelf reads SelfSQL's row. A server does not use a session's number twice while it runs, so the Backend's start is
// that of the server. A number that a Backend has no room for makes one that cannot be looked for.
func (e Engine) ParseSelf(row []string) (monitor.Backend, error) {
	if len(row) != 2 {
		return monitor.Backend{}, fmt.Errorf("read the server session: %d columns instead of 2", len(row))
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

// backendSQL returns a statement whose single value is "0" once b is gone. The list of sessions has those of the same user for
// a user without the right PROCESS. performance_schema's is not used: it is empty when that is off.
func (e Engine) backendSQL(b monitor.Backend) string {
	return fmt.Sprintf("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %d AND %s = %d", b.PID, e.started(), b.Start)
}

// errNoSuchThread is the answer to a KILL that comes too late.
const errNoSuchThread = 1094

// Gone implements monitor.Engine. A session's own user may end it (KILL); it is over when it has rolled back. The zero Backend
// cannot be looked for.
func (e Engine) Gone(ctx context.Context, link monitor.Link, b monitor.Backend, end bool) (bool, error) {
	query := e.backendSQL(b)
	if b.PID == 0 {
		return false, errors.New("look for a server session: it is not known")
	}
	gone, err := none(ctx, link, query)
	if err != nil || gone || !end {
		return gone, err
	}
	if _, err := link.QueryRow(ctx, "KILL CONNECTION "+strconv.FormatUint(uint64(b.PID), 10)); err != nil && !isNumber(err, errNoSuchThread) {
		return false, fmt.Errorf("end a server session: %w", err)
	}
	return none(ctx, link, query)
}

func none(ctx context.Context, link monitor.Link, query string) (bool, error) {
	row, err := link.QueryRow(ctx, query)
	if err != nil {
		return false, fmt.Errorf("look for a server session: %w", err)
	}
	if len(row) != 1 {
		return false, fmt.Errorf("look for a server session: %d columns instead of 1", len(row))
	}
	return row[0] == "0", nil
}
