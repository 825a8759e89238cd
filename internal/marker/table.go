package marker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
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

// ForgetSQL deletes the rows that were last moved before a moment.
func (t Table) ForgetSQL(before time.Time) string {
	return fmt.Sprintf("DELETE FROM %s WHERE moved_at < %d AND writer <> '%s'", t.name, before.UnixMilli(), identity)
}

func (t Table) insertSQL(writer, owner string, now time.Time) string {
	return fmt.Sprintf("INSERT INTO %s (writer, seq, owner, moved_at) VALUES ('%s', 1, '%s', %d)", t.name, writer, owner, now.UnixMilli())
}

func (t Table) moveSQL(writer string, from uint64, now time.Time) string {
	return fmt.Sprintf("UPDATE %s SET seq = %d, moved_at = %d WHERE writer = '%s' AND seq = %d", t.name, from+1, now.UnixMilli(), writer, from)
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
