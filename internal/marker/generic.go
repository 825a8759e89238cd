package marker

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/mysql"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Generic is what is known of a database that is none of those that this module knows better: SQLite, or next to nothing.
type Generic struct {
	// SQLite says that it answers to sqlite_version().
	SQLite bool
}

var _ Base = Generic{}

// Detect finds out which one a database is that does not say its version as others do. It returns refusal, which that
// gave, when the database does not answer at all.
func Detect(ctx context.Context, link monitor.Link, refusal error) (Base, error) {
	if row, err := link.QueryRow(ctx, "SELECT sqlite_version()"); err == nil && len(row) == 1 {
		return Generic{SQLite: true}, nil
	}
	if row, err := link.QueryRow(ctx, "SELECT 1"); err != nil || len(row) != 1 {
		return nil, refusal
	}
	return Generic{}, nil
}

// Name is what is known of its kind.
func (g Generic) Name() string {
	if g.SQLite {
		return "SQLite"
	}
	return "SQL database"
}

// Dialect is SQLite's, or not known: such texts are what the most careful of all dialects makes of them.
func (g Generic) Dialect() sqlclass.Dialect {
	if g.SQLite {
		return sqlclass.SQLite
	}
	return 0
}

// Ask is not used: such a database tells nothing of itself.
func (Generic) Ask(context.Context, monitor.Link) (core.Sample, error) {
	return core.Sample{}, errors.New("ask the server: it tells nothing of itself")
}

// Committing implements monitor.Engine.
func (Generic) Committing(context.Context, monitor.Link) ([]string, error) { return nil, nil }

// Need implements monitor.Engine.
func (Generic) Need(_, s core.Sample) core.Position { return s.Position }

// Gone implements monitor.Engine. No connection tells its Backend, so nobody asks.
func (Generic) Gone(context.Context, monitor.Link, monitor.Backend, bool) (bool, error) {
	return false, errors.New("look for a server session: the database does not tell")
}

// Capabilities implements vconn.Engine.
func (Generic) Capabilities(context.Context, monitor.Link) []string { return nil }

// ReadOnlySQL implements vconn.Engine. Of most databases nothing is known that makes a session refuse writes.
func (g Generic) ReadOnlySQL() string {
	if g.SQLite {
		return "PRAGMA query_only = 1"
	}
	return "SELECT 1"
}

// SettingsSQL implements vconn.Engine: nothing that would stand in the way.
func (Generic) SettingsSQL() string { return "SELECT 'false', 'off', 0, 1000000" }

// SettingNames implements vconn.Engine.
func (Generic) SettingNames() (readOnly, timeout, remedy string) { return "", "", "" }

// RemoteApplySQL implements vconn.Engine.
func (Generic) RemoteApplySQL(bool) string { return "" }

// RestoreSQL implements vconn.Engine.
func (Generic) RestoreSQL(string) string { return "" }

// SelfSQL implements vconn.Engine.
func (Generic) SelfSQL() string { return "SELECT 1" }

// ParseSelf implements vconn.Engine: a Backend that cannot be looked for.
func (Generic) ParseSelf([]string) (monitor.Backend, error) { return monitor.Backend{}, nil }

// Wire implements vconn.Engine: what any driver tells.
func (Generic) Wire(conn driver.Conn) monitor.Wire { return mysql.Engine{}.Wire(conn) }

// Down implements vconn.Engine.
func (Generic) Down(error) bool { return true }

// The primary result codes of SQLite, which its drivers tell by a method Code, possibly extended.
const (
	sqliteError    = 1
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteReadOnly = 8
	sqliteIOError  = 10
	sqliteCorrupt  = 11
	sqliteCantOpen = 14
	sqliteSchema   = 17
	sqliteNotADB   = 26
)

// code returns the primary result code of an error of SQLite.
func (g Generic) code(err error) (code int, ok bool) {
	var said interface{ Code() int }
	if !g.SQLite || !errors.As(err, &said) {
		return 0, false
	}
	return said.Code() & 0xff, true
}

// Refused implements vconn.Engine. Of an error of a database that is not known nobody can say who says it.
func (g Generic) Refused(err error) bool {
	code, ok := g.code(err)
	return ok && code != sqliteIOError
}

// NotSent implements vconn.Engine.
func (Generic) NotSent(err error) bool { return errors.Is(err, driver.ErrBadConn) }

// ReadOnly implements vconn.Engine.
func (g Generic) ReadOnly(err error) bool {
	code, _ := g.code(err)
	return code == sqliteReadOnly
}

// Retry implements vconn.Engine.
func (g Generic) Retry(err error) core.Retry {
	code, ok := g.code(err)
	if !ok {
		return core.RetryConnection // as far as the connection shows it
	}
	switch code {
	case sqliteReadOnly:
		return core.RetryRefused
	case sqliteBusy, sqliteLocked:
		return core.RetryConflict
	case sqliteIOError, sqliteCorrupt, sqliteCantOpen, sqliteNotADB:
		return core.RetryConnection
	case sqliteError, sqliteSchema:
		if strings.Contains(err.Error(), "no such ") { // table, column, function, index: SQLite's texts are not translated
			return core.RetrySchema
		}
	}
	return core.RetryNone
}
