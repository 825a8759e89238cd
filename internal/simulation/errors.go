package simulation

import (
	"errors"
	"strconv"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/readroute/readroute/internal/check"
)

func text(n int) string { return strconv.Itoa(n) }

// postgres is an error of a PostgreSQL server.
func postgres(code, severity, message string) error {
	return &pgconn.PgError{Code: code, Severity: severity, SeverityUnlocalized: severity, Message: message}
}

func mysqlError(number uint16, message string) error {
	return &mysql.MySQLError{Number: number, Message: message}
}

// fatal reports that a server ends the session with an error.
func (c *cluster) fatal(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Severity == "FATAL"
	}
	var my *mysql.MySQLError
	return errors.As(err, &my) && (my.Number == 1053 || my.Number == 1927)
}

// conflict is one of the answers of a replica that cannot serve a read.
func (c *cluster) conflict(which int) error {
	if c.engine == Postgres {
		return []error{
			postgres("40001", "ERROR", "canceling statement due to conflict with recovery"),
			postgres("40001", "FATAL", "terminating connection due to conflict with recovery"),
			postgres("42P01", "ERROR", "relation does not exist"),
		}[which]
	}
	return []error{
		mysqlError(1412, "Table definition has changed, please retry transaction"),
		mysqlError(1053, "Server shutdown in progress"),
		mysqlError(1146, "Table 'app.kv' doesn't exist"),
	}[which]
}

// readOnly is the answer to a write that a server, or else a session, refuses.
func (c *cluster) readOnly(server bool) error {
	switch {
	case c.engine == Postgres:
		return postgres("25006", "ERROR", "cannot execute INSERT in a read-only transaction")
	case server:
		return mysqlError(1290, "The MySQL server is running with the --read-only option so it cannot execute this statement")
	}
	return mysqlError(1792, "Cannot execute statement in a READ ONLY transaction.")
}

func (c *cluster) aborted() error {
	return postgres("25P02", "ERROR", "current transaction is aborted, commands ignored until end of transaction block")
}

// rolledBack is what pgx makes of the ROLLBACK with which PostgreSQL answers the COMMIT of a transaction that has failed.
func (c *cluster) rolledBack() error { return pgx.ErrTxCommitRollback }

// noServer is what a pooler says.
func (c *cluster) noServer() error {
	return postgres("08P01", "FATAL", "server login has been failing, try again later (server_login_retry)")
}

// shutdown is the last word of a server that stops in order.
func (c *cluster) shutdown() error {
	if c.engine == Postgres {
		return postgres("57P01", "FATAL", "terminating connection due to administrator command")
	}
	return mysqlError(1053, "Server shutdown in progress")
}

// ran writes down that a server has run the statement of an operation. A session that refuses writes may be to a primary by
// chance, and counts as one to a replica.
func (k *conn) ran(st *statement, s *server, wrote bool) {
	if st.op < 0 {
		return
	}
	c := k.net.c
	c.rec.Truth(func(h *check.History) {
		h.Runs = append(h.Runs, check.Run{Op: st.op, Node: s.name, Primary: s.primary && !k.readOnly, Wrote: wrote})
	})
}
