package core

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// UUID names a stream of MySQL transactions: a server's server_uuid, or the name of a replication group.
type UUID [16]byte

// uuidText is the length of a UUID with its four dashes.
const uuidText = 36

// ParseUUID reads a UUID with dashes, of either case. MySQL reads braces and missing dashes as well but prints neither.
func ParseUUID(s string) (u UUID, ok bool) {
	if len(s) != uuidText || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, false
	}
	var digits [32]byte
	n := copy(digits[:], s[:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:])
	if _, err := hex.Decode(u[:], digits[:]); err != nil {
		return UUID{}, false
	}
	return u, true
}

// String is the UUID as MySQL prints it: lower case, with dashes.
func (u UUID) String() string { return string(u.append(nil)) }

func (u UUID) append(b []byte) []byte {
	b = hex.AppendEncode(b, u[:4])
	for _, part := range [][]byte{u[4:6], u[6:8], u[8:10], u[10:]} {
		b = append(b, '-')
		b = hex.AppendEncode(b, part)
	}
	return b
}

// ErrBadGTIDSet is returned, wrapped, by [ParseGTIDSet] for text that is no GTID set.
var ErrBadGTIDSet = errors.New("readroute: malformed GTID set")

// ErrGTIDTooLong is returned, wrapped, for the text of a GTID set or position that has more than [MaxGTIDText] bytes.
var ErrGTIDTooLong = errors.New("readroute: GTID text too long")

const (
	// MaxGTIDText bounds in bytes the text that is read as a GTID set or position: it may come from outside the process.
	// It is room for more than 6,000 servers or 20,000 gaps.
	MaxGTIDText = 256 << 10

	// maxGNO is the last transaction number: GNO_END - 1 in sql/rpl_gtid.h.
	maxGNO = 1<<63 - 2
	// maxTag is the longest that a tag may be: the constant of the same meaning in libs/mysql/gtid/tag.h.
	maxTag = 32
)

// GTIDSet is a set of MySQL transactions: for each stream, which is a UUID with a tag (MySQL 8.3) or without, the
// intervals of transaction numbers. It is an immutable value. Equal sets are equal with ==, and a set can be a map key.
// The zero GTIDSet is the empty set.
type GTIDSet struct {
	// data is the one representation of the set, big endian: a string cannot be changed, and compares.
	//
	//	streams  uint32 count
	//	         for each, ascending: key of gtidKeySize bytes, uint32 end of its intervals, counted from the first of all
	//	         intervals, for each, ascending and with gaps between them: uint64 first, uint64 last
	data string
}

const (
	gtidHeaderSize   = 4
	gtidKeySize      = len(UUID{}) + maxTag // the tag is padded with zeros: no tag sorts first, as MySQL prints them
	gtidStreamSize   = gtidKeySize + 4
	gtidIntervalSize = 16
)

// gtidInterval is the transactions from first to last, both included.
type gtidInterval struct{ first, last uint64 }

// gtidStream is a stream that is being put together.
type gtidStream struct {
	key       string // gtidKeySize bytes
	intervals []gtidInterval
}

func gtidKey(u UUID, tag string) string {
	var key [gtidKeySize]byte
	copy(key[copy(key[:], u[:]):], tag)
	return string(key[:])
}

// newGTIDSet makes a set of streams that ascend, with intervals that ascend and have gaps. Streams without any are left out.
func newGTIDSet(streams []gtidStream) GTIDSet {
	count, intervals := 0, 0
	for _, s := range streams {
		if len(s.intervals) > 0 {
			count++
			intervals += len(s.intervals)
		}
	}
	if count == 0 {
		return GTIDSet{}
	}
	var b strings.Builder
	b.Grow(gtidHeaderSize + count*gtidStreamSize + intervals*gtidIntervalSize)
	var word [8]byte
	number := func(v uint64, size int) {
		binary.BigEndian.PutUint64(word[:], v)
		b.Write(word[len(word)-size:])
	}
	number(uint64(count), 4)
	end := 0
	for _, s := range streams {
		if len(s.intervals) > 0 {
			end += len(s.intervals)
			b.WriteString(s.key)
			number(uint64(end), 4)
		}
	}
	for _, s := range streams {
		for _, i := range s.intervals {
			number(i.first, 8)
			number(i.last, 8)
		}
	}
	return GTIDSet{data: b.String()}
}

func (s GTIDSet) streams() int {
	if s.data == "" {
		return 0
	}
	return int(be32(s.data))
}

func (s GTIDSet) key(stream int) string {
	at := gtidHeaderSize + stream*gtidStreamSize
	return s.data[at : at+gtidKeySize]
}

// intervals returns the encoded intervals of a stream.
func (s GTIDSet) intervals(stream int) string {
	from := 0
	if stream > 0 {
		from = s.end(stream - 1)
	}
	base := gtidHeaderSize + s.streams()*gtidStreamSize
	return s.data[base+from*gtidIntervalSize : base+s.end(stream)*gtidIntervalSize]
}

func (s GTIDSet) end(stream int) int {
	return int(be32(s.data[gtidHeaderSize+stream*gtidStreamSize+gtidKeySize:]))
}

// stream returns a stream with its intervals decoded.
func (s GTIDSet) stream(i int) gtidStream {
	encoded := s.intervals(i)
	intervals := make([]gtidInterval, 0, len(encoded)/gtidIntervalSize)
	for ; encoded != ""; encoded = encoded[gtidIntervalSize:] {
		intervals = append(intervals, gtidIntervalAt(encoded))
	}
	return gtidStream{key: s.key(i), intervals: intervals}
}

// find returns the index of the first stream whose key is not below key, and whether it is that key.
func (s GTIDSet) find(key string) (i int, found bool) {
	low, high := 0, s.streams()
	for low < high {
		middle := int(uint(low+high) >> 1)
		if s.key(middle) < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < s.streams() && s.key(low) == key
}

func be32(s string) uint32 {
	_ = s[3]
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

func be64(s string) uint64 {
	_ = s[7]
	return uint64(s[0])<<56 | uint64(s[1])<<48 | uint64(s[2])<<40 | uint64(s[3])<<32 |
		uint64(s[4])<<24 | uint64(s[5])<<16 | uint64(s[6])<<8 | uint64(s[7])
}

func gtidIntervalAt(encoded string) gtidInterval {
	return gtidInterval{first: be64(encoded), last: be64(encoded[8:])}
}

// IsZero reports whether the set is empty.
func (s GTIDSet) IsZero() bool { return s.data == "" }

// String is the canonical text: what MySQL prints, without the line break that it puts behind every comma. Every MySQL
// that knows tags reads it, and every MySQL when there are none. The text of the empty set is empty.
func (s GTIDSet) String() string { return string(s.Append(nil)) }

// Append appends the canonical text of s to b.
func (s GTIDSet) Append(b []byte) []byte {
	uuid := ""
	for i := range s.streams() {
		key := s.key(i)
		if next := key[:len(UUID{})]; next != uuid {
			if uuid != "" {
				b = append(b, ',')
			}
			uuid = next
			b = UUID([]byte(uuid)).append(b)
		}
		if tag := strings.TrimRight(key[len(UUID{}):], "\x00"); tag != "" {
			b = append(b, ':')
			b = append(b, tag...)
		}
		for encoded := s.intervals(i); encoded != ""; encoded = encoded[gtidIntervalSize:] {
			interval := gtidIntervalAt(encoded)
			b = append(b, ':')
			b = strconv.AppendUint(b, interval.first, 10)
			if interval.last > interval.first {
				b = append(b, '-')
				b = strconv.AppendUint(b, interval.last, 10)
			}
		}
	}
	return b
}

// GoString is for debuggers and the messages of failed tests: the representation is not meant for eyes.
func (s GTIDSet) GoString() string { return fmt.Sprintf("core.GTIDSet(%q)", s.String()) }

// hasUUID reports whether the set has any transaction of a key's UUID, with whatever tag.
func (s GTIDSet) hasUUID(key string) bool {
	uuid := key[:len(UUID{})]
	i, _ := s.find(uuid) // a prefix sorts before everything that it is a prefix of
	return i < s.streams() && s.key(i)[:len(UUID{})] == uuid
}
