package marker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// DefaultTable is the table's name.
const DefaultTable = "readroute_marker"

// identity is the writer in whose row the table itself has its number, so that one that was dropped and made anew is another,
// and one in which nobody has written yet is not empty.
const identity = "readroute"

// maxLabel is how much of a process's own name is in the names of its writers.
const maxLabel = 24

// Table is a marker table in one database. Its methods return statements without arguments, in SQL that is the same
// everywhere.
type Table struct{ name string }

// NewTable checks a name, which may have a schema: it stands in statements as it is. The empty name is DefaultTable.
func NewTable(name string) (Table, error) {
	if name == "" {
		return Table{DefaultTable}, nil
	}
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if !isName(part) || len(parts) > 3 {
			return Table{}, fmt.Errorf("%.100q cannot be the marker's table: want letters, digits and underscores, with a schema and a dot before at most", name)
		}
	}
	return Table{name}, nil
}

func isName(part string) bool {
	if part == "" || len(part) > 63 || part[0] >= '0' && part[0] <= '9' {
		return false
	}
	for i := range len(part) {
		if c := part[i] | 0x20; (c < 'a' || c > 'z') && (part[i] < '0' || part[i] > '9') && part[i] != '_' {
			return false
		}
	}
	return true
}

// String is the table's name.
func (t Table) String() string { return t.name }

// CreateSQL makes the table. It fails where there is one.
func (t Table) CreateSQL() string {
	return "CREATE TABLE " + t.name + " (writer VARCHAR(64) NOT NULL PRIMARY KEY, seq BIGINT NOT NULL," +
		" owner VARCHAR(64) NOT NULL, moved_at BIGINT NOT NULL)"
}

// NumberSQL gives the table its number, once.
func (t Table) NumberSQL(number uint64, now time.Time) string {
	return t.insertSQL(identity, strconv.FormatUint(number, 16), now)
}

// ReadSQL reads all rows: writer, seq, and the table's number in the row of identity.
func (t Table) ReadSQL() string {
	return "SELECT writer, seq, CASE WHEN writer = '" + identity + "' THEN owner ELSE '' END FROM " + t.name
}

// ReadTextSQL is ReadSQL for PostgreSQL, as one text.
func (t Table) ReadTextSQL() string {
	return "SELECT coalesce(string_agg(writer || ':' || seq || ':' || CASE WHEN writer = '" + identity + "' THEN owner ELSE '' END, ','), '') FROM " + t.name
}

// OldSQL reads the names of the writers whose rows were last moved before a moment.
func (t Table) OldSQL(before time.Time) string {
	return fmt.Sprintf("SELECT writer FROM %s WHERE moved_at < %d AND writer <> '%s'", t.name, before.UnixMilli(), identity)
}

// ForgetSQL deletes the row of a writer if it was last moved before a moment. It names the row by its key: a DELETE that looks for old rows
// waits, on MySQL and MariaDB, for whoever moves a row that is not old, and has locked by then the rows of many others. It is empty for what
// no writer's name is.
func (t Table) ForgetSQL(writer string, before time.Time) string {
	if !core.IsMarkerWriter(writer) {
		return ""
	}
	return fmt.Sprintf("DELETE FROM %s WHERE writer = '%s' AND moved_at < %d", t.name, writer, before.UnixMilli())
}

func (t Table) insertSQL(writer, owner string, now time.Time) string {
	return fmt.Sprintf("INSERT INTO %s (writer, seq, owner, moved_at) VALUES ('%s', 1, '%s', %d)", t.name, writer, owner, now.UnixMilli())
}

// moveSQL moves a row from where it was left, and counts moved rows when it did. Where there is no such row, or elsewhere, it does not.
//
// PostgreSQL, MySQL and MariaDB find the row as INSERT does, by its key, and lock nothing beside it. An UPDATE would read a table as small as
// this one from end to end on PostgreSQL, which at SERIALIZABLE refuses transactions for what others have moved in it meanwhile; and on
// MySQL and MariaDB it would lock the gap where a row is not, in which others want to make theirs. So where there is no such row these
// make one with the sequence 0, which is none.
func (t Table) moveSQL(dialect sqlclass.Dialect, writer string, from uint64, now time.Time) (query string, moved int64) {
	to, at := from+1, now.UnixMilli()
	columns := fmt.Sprintf("(writer, seq, owner, moved_at) VALUES ('%s', 0, '', %d)", writer, at)
	switch dialect {
	case sqlclass.PostgreSQL:
		return fmt.Sprintf("WITH moved AS (INSERT INTO %s AS m %s ON CONFLICT (writer) DO UPDATE SET seq = %d, moved_at = %d WHERE m.seq = %d"+
			" RETURNING m.seq) SELECT 1 FROM moved WHERE seq > 0", t.name, columns, to, at, from), 1
	case sqlclass.MySQL, sqlclass.MariaDB:
		return fmt.Sprintf("INSERT INTO %s %s ON DUPLICATE KEY UPDATE moved_at = IF(seq = %d, %d, moved_at), seq = IF(seq = %d, %d, seq)",
			t.name, columns, from, at, from, to), 2 // a row that was made counts 1
	}
	return fmt.Sprintf("UPDATE %s SET seq = %d, moved_at = %d WHERE writer = '%s' AND seq = %d", t.name, to, at, writer, from), 1
}

// errNoNumber is of a table without the row that NumberSQL makes.
var errNoNumber = errors.New("it has no number of its own: make it with CreateMarker, and copy it with all its rows")

// Position makes a position of the rows of ReadSQL.
func Position(rows [][]string) (core.Position, error) {
	var number uint64
	entries := make([]core.MarkerEntry, 0, len(rows))
	for _, row := range rows {
		if len(row) != 3 {
			return core.Position{}, fmt.Errorf("%d columns instead of 3", len(row))
		}
		seq, err := strconv.ParseUint(row[1], 10, 63)
		if err != nil {
			return core.Position{}, fmt.Errorf("the seq of writer %.80q: %w", row[0], err)
		}
		if seq == 0 {
			continue // see moveSQL
		}
		if row[0] == identity {
			if number, err = strconv.ParseUint(row[2], 16, 64); err != nil {
				return core.Position{}, fmt.Errorf("the number of the table: %w", err)
			}
		}
		entries = append(entries, core.MarkerEntry{Writer: row[0], Sequence: seq})
	}
	if number == 0 {
		return core.Position{}, errNoNumber
	}
	set, err := core.NewMarkerSet(entries...)
	if err != nil {
		return core.Position{}, err
	}
	return core.MarkerPosition(number, set, core.LSN(set.Total())), nil
}

// textRows takes the text of ReadTextSQL apart.
func textRows(text string) [][]string {
	if text == "" {
		return nil
	}
	var rows [][]string
	for part := range strings.SplitSeq(text, ",") {
		rows = append(rows, strings.Split(part, ":"))
	}
	return rows
}
