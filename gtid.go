package readroute

import (
	"database/sql"
	"database/sql/driver"
	"encoding"
	"fmt"

	"github.com/readroute/readroute/internal/core"
)

// ErrBadGTIDSet is returned by [ParseGTIDSet], [GTIDSet.UnmarshalText] and [GTIDSet.Scan] for input that is not a GTID
// set. It is wrapped with the place where the input went wrong; use [errors.Is].
var ErrBadGTIDSet = core.ErrBadGTIDSet

// ErrGTIDTooLong is returned, besides [ErrBadGTIDSet] or [ErrBadMariaDBGTID], for text of more than [MaxGTIDText] bytes,
// and alone when a set is marshaled whose text is that long. It is wrapped; use [errors.Is].
var ErrGTIDTooLong = core.ErrGTIDTooLong

// MaxGTIDText is the longest text, in bytes, that is read of a caller as a [GTIDSet] or [MariaDBGTID]: 256 KiB, room for more than
// 6,000 servers or 20,000 gaps.
const MaxGTIDText = core.MaxGTIDText

// GTIDSet is a set of MySQL transactions, such as @@gtid_executed: for each server, or for each of its tags (MySQL 8.3
// and later), the intervals of transaction numbers. For MariaDB, which numbers in another way, see [MariaDBGTID].
//
// It is an immutable value: operations return new sets. Equal sets are equal with ==, and a set can be a map key. The
// zero GTIDSet is the empty set. It can be used as a query argument and scanned from a result, and marshals as text (in
// JSON as a string). All methods may be called from several goroutines.
type GTIDSet struct {
	set core.GTIDSet
}

var (
	_ fmt.Stringer             = GTIDSet{}
	_ encoding.TextMarshaler   = GTIDSet{}
	_ encoding.TextUnmarshaler = (*GTIDSet)(nil)
	_ driver.Valuer            = GTIDSet{}
	_ sql.Scanner              = (*GTIDSet)(nil)
)

// ParseGTIDSet reads the text form of a GTID set, as MySQL prints it, in any order, with overlaps, blanks and letters of
// either case. The empty text is the empty set.
//
// It is stricter than MySQL where MySQL makes the set smaller without a word: an empty place between commas or at the
// end, a UUID or a tag without an interval, and an interval that ends before it begins are errors, as are UUIDs in
// braces or without dashes. What is accepted means the same to MySQL.
//
// The error matches [ErrBadGTIDSet], and [ErrGTIDTooLong] when the text has more than [MaxGTIDText] bytes.
func ParseGTIDSet(s string) (GTIDSet, error) {
	set, err := core.ParseGTIDSet(s)
	return GTIDSet{set}, err
}

// String returns the canonical form: the one that MySQL prints, without the line break that it puts behind each comma.
// Two sets are equal exactly if their canonical forms are. The form of the empty set is empty.
func (s GTIDSet) String() string { return s.set.String() }

// IsZero reports whether s is the empty set, which is what a server has that has never executed a transaction. It
// stands for no position: that every server contains it proves nothing.
func (s GTIDSet) IsZero() bool { return s.set.IsZero() }

// Contains reports whether every transaction of other is in s, as GTID_SUBSET(other, s) does. Every set contains the
// empty one. It allocates nothing.
func (s GTIDSet) Contains(other GTIDSet) bool { return s.set.Contains(other.set) }

// Compare returns -1 if other contains s and more, +1 if s contains other and more, and 0 if they are equal. Otherwise
// each has a transaction that the other has not; then ok is false, and order, which is 0, means nothing.
func (s GTIDSet) Compare(other GTIDSet) (order int, ok bool) { return s.set.Compare(other.set) }

// Union returns the transactions that are in s, in other, or in both. Its text may be longer than [MaxGTIDText].
func (s GTIDSet) Union(other GTIDSet) GTIDSet { return GTIDSet{s.set.Union(other.set)} }

// Difference returns the transactions of s that are not in other, as GTID_SUBTRACT(s, other) does.
func (s GTIDSet) Difference(other GTIDSet) GTIDSet { return GTIDSet{s.set.Difference(other.set)} }

// MarshalText implements [encoding.TextMarshaler] with the canonical form. It fails, with an error that matches
// [ErrGTIDTooLong], when that is longer than [GTIDSet.UnmarshalText] would accept.
func (s GTIDSet) MarshalText() ([]byte, error) { return marshalGTID(s.set.Append(nil)) }

func marshalGTID(text []byte) ([]byte, error) {
	if len(text) > MaxGTIDText {
		return nil, fmt.Errorf("%w: %d bytes, at most %d can be read again", ErrGTIDTooLong, len(text), MaxGTIDText)
	}
	return text, nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts what [ParseGTIDSet] accepts. If it fails, the error
// matches [ErrBadGTIDSet] and s keeps its value.
func (s *GTIDSet) UnmarshalText(text []byte) error {
	set, err := ParseGTIDSet(string(text))
	if err != nil {
		return err
	}
	*s = set
	return nil
}

// Scan implements [database/sql.Scanner]. It takes text (string, []byte) as [ParseGTIDSet] does. NULL is an error: scan
// into a [database/sql.Null] of GTIDSet where it can occur. If it fails, the error matches [ErrBadGTIDSet] and s keeps
// its value.
func (s *GTIDSet) Scan(src any) error { return scanGTID(src, s, ErrBadGTIDSet, "GTIDSet") }

func scanGTID(src any, into encoding.TextUnmarshaler, bad error, name string) error {
	switch v := src.(type) {
	case string:
		return into.UnmarshalText([]byte(v))
	case []byte:
		return into.UnmarshalText(v)
	case nil:
		return fmt.Errorf("%w: NULL, scan into sql.Null[readroute.%s] where there may be no position", bad, name)
	default:
		return fmt.Errorf("%w: cannot scan a %T", bad, src)
	}
}

// Value implements [driver.Valuer] with the canonical form. It never fails.
func (s GTIDSet) Value() (driver.Value, error) { return s.String(), nil }
