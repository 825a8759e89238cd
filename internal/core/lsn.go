package core

import (
	"errors"
	"fmt"
)

// LSN is a PostgreSQL log sequence number: the byte offset of a place in the write-ahead log. It says nothing of the
// timeline that the log belongs to; LSNs of different timelines or different clusters do not compare. Zero is
// PostgreSQL's InvalidXLogRecPtr: no position.
type LSN uint64

// ErrBadLSN is returned, wrapped, by [ParseLSN] for text that PostgreSQL's pg_lsn type refuses.
var ErrBadLSN = errors.New("readroute: malformed LSN")

const (
	// maxLSNHalf is the longest that either half of an LSN may be: MAXPG_LSNCOMPONENT in src/backend/utils/adt/pg_lsn.c.
	maxLSNHalf = 8

	// maxQuotedLSN bounds how much of a malformed text is quoted in an error: it may come from outside the process.
	maxQuotedLSN = 40

	// DefaultWALBlockSize is XLOG_BLCKSZ, wal_block_size, of a PostgreSQL that was configured without --with-wal-blocksize.
	DefaultWALBlockSize uint64 = 8192
	// DefaultWALSegmentSize is wal_segment_size of a cluster that was made without initdb --wal-segsize.
	DefaultWALSegmentSize uint64 = 16 << 20

	// sizeOfXLogShortPHD and sizeOfXLogLongPHD are PostgreSQL's SizeOfXLogShortPHD and SizeOfXLogLongPHD (src/include/access/xlog_internal.h) are the sizes of the header at
	// the start of every WAL page and of the longer one on the first page of a segment, both with MAXALIGN 8, which
	// every 64-bit platform has.
	sizeOfXLogShortPHD = 24
	sizeOfXLogLongPHD  = 40
)

// ParseLSN reads the text form of an LSN with the verdicts of PostgreSQL's pg_lsn_in_internal: one to eight hexadecimal
// digits of either case, a slash, one to eight hexadecimal digits, and nothing else. That covers what PostgreSQL 18
// and older print (0/401F780) as well as the zero-padded form of PostgreSQL 19 (0/0401F780). It allocates nothing when
// it succeeds; its error matches [ErrBadLSN].
func ParseLSN(s string) (LSN, error) {
	hi, n := hexPrefix(s)
	if n == 0 || n > maxLSNHalf || n == len(s) || s[n] != '/' {
		return 0, badLSN(s)
	}
	rest := s[n+1:]
	lo, m := hexPrefix(rest)
	if m == 0 || m > maxLSNHalf || m != len(rest) {
		return 0, badLSN(s)
	}
	return LSN(hi<<32 | lo), nil
}

// hexPrefix reads the hexadecimal digits that s starts with: their value and how many there are. It stops once there
// are more than a half of an LSN may have; the value is meaningless then.
func hexPrefix(s string) (v uint64, n int) {
	for n < len(s) && n <= maxLSNHalf {
		c := s[n]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return v, n
		}
		v = v<<4 | uint64(c)
		n++
	}
	return v, n
}

func badLSN(s string) error {
	if len(s) > maxQuotedLSN {
		return fmt.Errorf("%w: %q... (%d bytes), want two hexadecimal numbers of at most 8 digits, as in 0/401F780",
			ErrBadLSN, s[:maxQuotedLSN], len(s))
	}
	return fmt.Errorf("%w: %q, want two hexadecimal numbers of at most 8 digits, as in 0/401F780", ErrBadLSN, s)
}

// String is the canonical text form, which every PostgreSQL version reads: upper case, no leading zeros (0/401F780).
func (l LSN) String() string {
	var buf [2*maxLSNHalf + 1]byte
	return string(l.Append(buf[:0]))
}

// Append appends the canonical text form of l to b.
func (l LSN) Append(b []byte) []byte {
	b = appendHex(b, uint32(l>>32))
	b = append(b, '/')
	return appendHex(b, uint32(l))
}

func appendHex(b []byte, v uint32) []byte {
	const digits = "0123456789ABCDEF"
	shift := 28
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&0xF])
	}
	return b
}

// RoundDown takes a captured insert position to the form in which a replica reports the same place in the log.
//
// When a record ends exactly at the end of a WAL page, PostgreSQL has two names for that place. Flush and replay
// positions are ends of records and name the page boundary itself (XLogBytePosToEndRecPtr); the insert position is the
// start of the next record and lies past the header of the next page (XLogBytePosToRecPtr). A replica that has
// replayed everything reports the first name, so a captured position of the second kind is not reached until somebody
// writes again. No record begins or ends inside a page header: rounding such a position down to the page start skips
// no byte of any record and never goes below what the primary has flushed once that record is flushed.
//
// A position up to SizeOfXLogShortPHD (24) bytes past a page start becomes the page start; up to SizeOfXLogLongPHD
// (40) bytes when that page is the first of a segment. Every other position, and zero, is returned unchanged.
//
// blockSize and segmentSize are the server's wal_block_size and wal_segment_size in bytes; 0 stands for
// [DefaultWALBlockSize] and [DefaultWALSegmentSize].
func (l LSN) RoundDown(blockSize, segmentSize uint64) LSN {
	if blockSize == 0 {
		blockSize = DefaultWALBlockSize
	}
	if segmentSize == 0 {
		segmentSize = DefaultWALSegmentSize
	}
	offset := uint64(l) % blockSize
	page := uint64(l) - offset
	header := uint64(sizeOfXLogShortPHD)
	if page%segmentSize == 0 {
		header = sizeOfXLogLongPHD
	}
	if offset > header {
		return l
	}
	return LSN(page)
}
