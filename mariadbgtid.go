package readroute

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"fmt"

	"github.com/readroute/readroute/internal/core"
)

// ErrBadMariaDBGTID is returned by [ParseMariaDBGTID], [MariaDBGTID.UnmarshalText] and [MariaDBGTID.Scan] for input that
// is not a list of MariaDB GTIDs. It is wrapped with the place where the input went wrong; use [errors.Is].
var ErrBadMariaDBGTID = core.ErrBadMariaDBGTID

// MariaDBGTID is a list of MariaDB GTIDs, such as @@gtid_current_pos: domain, server and sequence number, as in 0-1-105.
// A domain may occur with several servers, as in @@gtid_binlog_state. For MySQL, which numbers in another way, see
// [GTIDSet].
//
// Here a GTID stands for all that its server has written in its domain up to it. MariaDB itself looks at domains and
// sequence numbers only, and so lets 0-2-106 count as behind 0-1-105 even if server 2 took over without ever having
// received that: the order of a domain hides a loss. GTIDs of two servers are not comparable, and a union keeps both.
//
// It is an immutable value: operations return new lists. Equal lists are equal with ==, whatever the order of their texts
// was, and a list can be a map key. The zero MariaDBGTID is the empty list. It can be used as a query argument and
// scanned from a result, and marshals as text (in JSON as a string). All methods may be called from several goroutines.
type MariaDBGTID struct {
	list core.MariaDBGTID
}

var (
	_ fmt.Stringer             = MariaDBGTID{}
	_ encoding.TextMarshaler   = MariaDBGTID{}
	_ encoding.TextUnmarshaler = (*MariaDBGTID)(nil)
	_ driver.Valuer            = MariaDBGTID{}
	_ sql.Scanner              = (*MariaDBGTID)(nil)
)

// ParseMariaDBGTID reads the text form of a list, as MariaDB prints it: GTIDs in any order with a comma between two of
// them, blanks only before a GTID. Signs, an empty place between commas or at the end, and a domain that occurs twice
// with the same server are errors. The empty text is the empty list.
//
// The error matches [ErrBadMariaDBGTID], and [ErrGTIDTooLong] when the text has more than [MaxGTIDText] bytes.
func ParseMariaDBGTID(s string) (MariaDBGTID, error) {
	list, err := core.ParseMariaDBGTID(s)
	return MariaDBGTID{list}, err
}

// String returns the canonical form: the one that MariaDB prints for a position, in the order of the domains; within a
// domain in the order of the servers. Two lists are equal exactly if their canonical forms are. The form of the empty
// list is empty.
func (g MariaDBGTID) String() string { return g.list.String() }

// IsZero reports whether g is the empty list, which stands for no position.
func (g MariaDBGTID) IsZero() bool { return g.list.IsZero() }

// Contains reports whether g has all that other has: for each GTID of other one of the same domain and the same server
// with no lower sequence number. Ask it of the @@gtid_binlog_state of a server to learn whether that server has logged
// other; @@gtid_slave_pos names only the last server of each domain. Every list contains the empty one. It allocates
// nothing.
func (g MariaDBGTID) Contains(other MariaDBGTID) bool { return g.list.Contains(other.list) }

// Compare returns -1 if other contains g and more, +1 if g contains other and more, and 0 if they are equal. Otherwise ok
// is false, and order, which is 0, means nothing; so it is for 0-1-105 and 0-2-106.
func (g MariaDBGTID) Compare(other MariaDBGTID) (order int, ok bool) {
	return g.list.Compare(other.list)
}

// Union returns what is in g, in other, or in both: for each domain and server the GTID that is furthest. Its text may be
// longer than [MaxGTIDText].
func (g MariaDBGTID) Union(other MariaDBGTID) MariaDBGTID {
	return MariaDBGTID{g.list.Union(other.list)}
}

// Difference returns the GTIDs of g that other does not contain.
func (g MariaDBGTID) Difference(other MariaDBGTID) MariaDBGTID {
	return MariaDBGTID{g.list.Difference(other.list)}
}

// MarshalText implements [encoding.TextMarshaler] with the canonical form. It fails, with an error that matches
// [ErrGTIDTooLong], when that is longer than [MariaDBGTID.UnmarshalText] would accept.
func (g MariaDBGTID) MarshalText() ([]byte, error) { return marshalGTID(g.list.Append(nil)) }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts what [ParseMariaDBGTID] accepts. If it fails, the error
// matches [ErrBadMariaDBGTID] and g keeps its value.
func (g *MariaDBGTID) UnmarshalText(text []byte) error {
	list, err := ParseMariaDBGTID(string(text))
	if err != nil {
		return err
	}
	*g = list
	return nil
}

// Scan implements [database/sql.Scanner]. It takes text (string, []byte) as [ParseMariaDBGTID] does. NULL is an error:
// scan into a [database/sql.Null] of MariaDBGTID where it can occur. If it fails, the error matches [ErrBadMariaDBGTID]
// and g keeps its value.
func (g *MariaDBGTID) Scan(src any) error { return scanGTID(src, g, ErrBadMariaDBGTID, "MariaDBGTID") }

// Value implements [driver.Valuer] with the canonical form. It never fails.
func (g MariaDBGTID) Value() (driver.Value, error) { return g.String(), nil }
