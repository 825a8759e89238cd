package readroute

import (
	"cmp"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"fmt"
	"math"

	"github.com/readroute/readroute/internal/core"
)

// ErrBadLSN is returned by [ParseLSN], [LSN.UnmarshalText] and [LSN.Scan] for input that is not an LSN. It is wrapped
// with the offending input, shortened when it is long; use [errors.Is].
var ErrBadLSN = core.ErrBadLSN

// LSN is a PostgreSQL log sequence number: how far into the write-ahead log a place is, in bytes. It is the type behind
// pg_lsn and compares as a number, never as text (0/9 is before 0/10, although it sorts after it).
//
// The zero LSN means "no position"; PostgreSQL never writes a record there. An LSN carries no timeline and no system
// identifier: comparing LSNs of different clusters, or from both sides of a failover, gives an answer that means
// nothing. A [Token] carries what is missing.
//
// It can be used as a query argument and scanned from a pg_lsn column, marshals as text (in JSON as a string), and
// can be a map key.
type LSN uint64

var (
	_ fmt.Stringer             = LSN(0)
	_ encoding.TextMarshaler   = LSN(0)
	_ encoding.TextUnmarshaler = (*LSN)(nil)
	_ driver.Valuer            = LSN(0)
	_ sql.Scanner              = (*LSN)(nil)
)

// ParseLSN reads the text form of an LSN. It accepts what PostgreSQL's pg_lsn accepts and nothing else: one to eight
// hexadecimal digits of either case, a slash, one to eight hexadecimal digits; no sign, prefix or space. Both the
// form of PostgreSQL 18 and older (0/401F780) and the zero-padded one of PostgreSQL 19 (0/0401F780) are of that kind.
//
// It allocates nothing unless it fails. The error matches [ErrBadLSN].
func ParseLSN(s string) (LSN, error) {
	l, err := core.ParseLSN(s)
	return LSN(l), err
}

// String returns the canonical form, the one that PostgreSQL 18 and older print: upper case, no leading zeros, as in
// 16/B374D848. Every version reads it. Two LSNs are equal exactly if their canonical forms are.
func (l LSN) String() string { return core.LSN(l).String() }

// IsZero reports whether l is the zero LSN, which stands for no position.
func (l LSN) IsZero() bool { return l == 0 }

// Compare returns -1 if l is before other in the log, +1 if it is after it, and 0 if they are equal. LSN.Compare can be
// given to [slices.SortFunc].
func (l LSN) Compare(other LSN) int { return cmp.Compare(l, other) }

// Sub returns how many bytes of log lie between other and l: positive when l is the later of the two, as with
// PostgreSQL's l - other. A distance that an int64 does not hold (8 EiB) is returned as the nearest that it does.
func (l LSN) Sub(other LSN) int64 {
	if l >= other {
		return int64(min(uint64(l-other), math.MaxInt64))
	}
	if d := uint64(other - l); d <= math.MaxInt64 {
		return -int64(d)
	}
	return math.MinInt64
}

// MarshalText implements [encoding.TextMarshaler] with the canonical form. It never fails.
func (l LSN) MarshalText() ([]byte, error) { return core.LSN(l).Append(nil), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts what [ParseLSN] accepts. If it fails, the error
// matches [ErrBadLSN] and l keeps its value.
func (l *LSN) UnmarshalText(text []byte) error {
	parsed, err := ParseLSN(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// Scan implements [database/sql.Scanner]. It takes text as [ParseLSN] does (string, []byte: what drivers return for
// pg_lsn) and numbers (uint64, int64: a bigint column). NULL is an error, since it is never a position: scan into a
// [database/sql.Null] of LSN where it can occur, as in pg_last_wal_replay_lsn() on a primary. If it fails, the error
// matches [ErrBadLSN] and l keeps its value.
func (l *LSN) Scan(src any) error {
	switch v := src.(type) {
	case string:
		parsed, err := ParseLSN(v)
		if err != nil {
			return err
		}
		*l = parsed
	case []byte:
		return l.UnmarshalText(v)
	case uint64:
		*l = LSN(v)
	case int64:
		if v < 0 {
			return fmt.Errorf("%w: negative number %d", ErrBadLSN, v)
		}
		*l = LSN(v)
	case nil:
		return fmt.Errorf("%w: NULL, scan into sql.Null[readroute.LSN] where there may be no position", ErrBadLSN)
	default:
		return fmt.Errorf("%w: cannot scan a %T", ErrBadLSN, src)
	}
	return nil
}

// Value implements [driver.Valuer] with the canonical form, which PostgreSQL reads as a pg_lsn. It never fails.
func (l LSN) Value() (driver.Value, error) { return l.String(), nil }
