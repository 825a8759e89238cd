package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// ErrBadMarkerSet is returned, wrapped, by [ParseMarkerSet] for text that is no list of writers and their sequences.
var ErrBadMarkerSet = errors.New("readroute: malformed marker")

const (
	// MaxMarkerWriter bounds the name of a writer in bytes.
	MaxMarkerWriter = 64
	// MaxMarkerSequence is the highest number that a BIGINT column holds.
	MaxMarkerSequence = 1<<63 - 1
	// MaxMarkerText bounds in bytes the text that is read as a set of markers: it may come from outside the process.
	MaxMarkerText = 256 << 10
)

// MarkerEntry is how many transactions a writer has marked.
type MarkerEntry struct {
	Writer   string
	Sequence uint64
}

// MarkerSet is how far the writers of a marker table have come: for each of them a sequence number, which stands for all
// that it has marked up to that. Writers are not ordered among each other.
//
// It is an immutable value. Equal sets are equal with ==, whatever the order of their texts was, and a set can be a map
// key. The zero MarkerSet is the empty set: no position.
type MarkerSet struct {
	// data is the one representation of the set, big endian: for each writer, in the order of their names, a uint32 offset of its
	// entry from the beginning; then the entries, each a byte with the length of the name, the name, and a uint64 sequence.
	data string
}

const (
	markerOffset   = 4
	markerOverhead = 1 + 8 // of an entry, beside the name
)

// IsMarkerWriter reports whether a text can be the name of a writer: 1 to 64 ASCII letters, digits, dots, dashes and underscores. So it
// stands as it is in SQL literals and in the text of a set.
func IsMarkerWriter(name string) bool {
	if name == "" || len(name) > MaxMarkerWriter {
		return false
	}
	for i := range len(name) {
		if !isMarkerByte(name[i]) {
			return false
		}
	}
	return true
}

func isMarkerByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		return true
	}
	return false
}

// NewMarkerSet makes a set. Of several entries of one writer the furthest counts; one whose writer cannot be one, or whose
// sequence is 0 or above MaxMarkerSequence, is an error that matches ErrBadMarkerSet.
func NewMarkerSet(entries ...MarkerEntry) (MarkerSet, error) {
	for _, e := range entries {
		if !IsMarkerWriter(e.Writer) || e.Sequence == 0 || e.Sequence > MaxMarkerSequence {
			return MarkerSet{}, fmt.Errorf("%w: writer %.80q with sequence %d", ErrBadMarkerSet, e.Writer, e.Sequence)
		}
	}
	return sortedMarkerSet(slices.Clone(entries)), nil
}

// sortedMarkerSet makes a set of good entries, which it changes.
func sortedMarkerSet(entries []MarkerEntry) MarkerSet {
	slices.SortFunc(entries, func(a, b MarkerEntry) int {
		if order := strings.Compare(a.Writer, b.Writer); order != 0 {
			return order
		}
		return -compareSequences(a.Sequence, b.Sequence)
	})
	entries = slices.CompactFunc(entries, func(a, b MarkerEntry) bool { return a.Writer == b.Writer })
	if len(entries) == 0 {
		return MarkerSet{}
	}
	size := len(entries) * (markerOffset + markerOverhead)
	for _, e := range entries {
		size += len(e.Writer)
	}
	data := make([]byte, 0, size)
	at := len(entries) * markerOffset
	for _, e := range entries {
		data = binary.BigEndian.AppendUint32(data, uint32(at))
		at += markerOverhead + len(e.Writer)
	}
	for _, e := range entries {
		data = append(data, byte(len(e.Writer)))
		data = append(data, e.Writer...)
		data = binary.BigEndian.AppendUint64(data, e.Sequence)
	}
	return MarkerSet{data: string(data)}
}

func compareSequences(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ParseMarkerSet reads the text form of a set: writers with their sequences, as in web1.k3v9:17, with a comma between two. They may
// come in any order, each writer once; there are no blanks, signs or leading zeros. The empty text is the empty set.
//
// The error matches [ErrBadMarkerSet]. A text of more than MaxMarkerText bytes is one.
func ParseMarkerSet(text string) (MarkerSet, error) {
	if len(text) > MaxMarkerText {
		return MarkerSet{}, fmt.Errorf("%w: %d bytes, at most %d are read", ErrBadMarkerSet, len(text), MaxMarkerText)
	}
	if text == "" {
		return MarkerSet{}, nil
	}
	entries := make([]MarkerEntry, 0, 1+strings.Count(text, ","))
	for part := range strings.SplitSeq(text, ",") {
		writer, number, _ := strings.Cut(part, ":")
		sequence, err := strconv.ParseUint(number, 10, 63)
		// ParseUint takes leading zeros.
		if err != nil || sequence == 0 || number[0] == '0' || number[0] == '+' || !IsMarkerWriter(writer) {
			return MarkerSet{}, fmt.Errorf("%w: %.80q: want a writer, a colon and a number above 0", ErrBadMarkerSet, part)
		}
		entries = append(entries, MarkerEntry{Writer: writer, Sequence: sequence})
	}
	set := sortedMarkerSet(entries)
	if set.len() != 1+strings.Count(text, ",") {
		return MarkerSet{}, fmt.Errorf("%w: a writer occurs twice", ErrBadMarkerSet)
	}
	return set, nil
}

// IsZero reports whether the set is empty.
func (s MarkerSet) IsZero() bool { return s.data == "" }

// String is the canonical text, in the order of the writers' names. That of the empty set is empty.
func (s MarkerSet) String() string { return string(s.Append(nil)) }

// Append appends the canonical text of s to b.
func (s MarkerSet) Append(b []byte) []byte {
	for i := range s.len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, s.writer(i)...)
		b = append(b, ':')
		b = strconv.AppendUint(b, s.sequence(i), 10)
	}
	return b
}

// GoString is for debuggers and the messages of failed tests: the representation is not meant for eyes.
func (s MarkerSet) GoString() string { return fmt.Sprintf("core.MarkerSet(%q)", s.String()) }

// Entries are the entries of the set, in the order of its text.
func (s MarkerSet) Entries() iter.Seq[MarkerEntry] {
	return func(yield func(MarkerEntry) bool) {
		for i := range s.len() {
			if !yield(MarkerEntry{Writer: s.writer(i), Sequence: s.sequence(i)}) {
				return
			}
		}
	}
}

// Find returns how far a writer has come; 0 when the set does not know it.
func (s MarkerSet) Find(writer string) uint64 {
	low, high := 0, s.len()
	for low < high {
		middle := int(uint(low+high) >> 1)
		if s.writer(middle) < writer {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < s.len() && s.writer(low) == writer {
		return s.sequence(low)
	}
	return 0
}

func (s MarkerSet) len() int {
	if s.data == "" {
		return 0
	}
	return int(be32(s.data)) / markerOffset // the first entry is behind the offsets
}

// entry returns what of data begins with entry i.
func (s MarkerSet) entry(i int) string { return s.data[be32(s.data[i*markerOffset:]):] }

func (s MarkerSet) writer(i int) string {
	e := s.entry(i)
	return e[1 : 1+int(e[0])]
}

func (s MarkerSet) sequence(i int) uint64 {
	e := s.entry(i)
	return be64(e[1+int(e[0]):])
}
