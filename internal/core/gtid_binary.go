package core

import (
	"encoding/binary"
	"errors"
	"strings"
)

// errBadBinary is returned for bytes that AppendBinary cannot have made. Tokens say what that means to their callers.
var errBadBinary = errors.New("malformed GTIDs")

// AppendBinary appends the set in few bytes, for a token: the number of streams, then for each its UUID, the length of its
// tag and the tag, the number of intervals, and for each the distance from the end of the one before and the length, less
// one. Numbers are uvarints.
func (s GTIDSet) AppendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.streams()))
	for i := range s.streams() {
		stream := s.stream(i)
		tag := strings.TrimRight(stream.key[len(UUID{}):], "\x00")
		b = append(b, stream.key[:len(UUID{})]...)
		b = append(b, byte(len(tag)))
		b = append(b, tag...)
		b = binary.AppendUvarint(b, uint64(len(stream.intervals)))
		end := uint64(0)
		for _, v := range stream.intervals {
			b = binary.AppendUvarint(b, v.first-end)
			b = binary.AppendUvarint(b, v.last-v.first)
			end = v.last
		}
	}
	return b
}

// CutGTIDSet reads a set from the beginning of b and returns what is left.
func CutGTIDSet(b []byte) (GTIDSet, []byte, error) {
	r := binaryReader{b: b}
	var streams []gtidStream
	for range r.count(len(UUID{}) + 4) {
		key := [gtidKeySize]byte{}
		copy(key[:], r.take(uint64(len(UUID{}))))
		tag := r.take(r.bounded(maxTag))
		for i, c := range tag {
			r.bad = r.bad || !isTagByte(c, i)
		}
		copy(key[len(UUID{}):], tag)
		stream := gtidStream{key: string(key[:])}
		end := uint64(0)
		for range r.count(2) {
			first := end + r.bounded(maxGNO-end)
			last := first + r.bounded(maxGNO-min(first, maxGNO))
			// Intervals that touch are one.
			r.bad = r.bad || first == end || len(stream.intervals) > 0 && first == end+1
			stream.intervals = append(stream.intervals, gtidInterval{first, last})
			end = last
		}
		n := len(streams)
		r.bad = r.bad || len(stream.intervals) == 0 || n > 0 && streams[n-1].key >= stream.key
		streams = append(streams, stream)
	}
	if r.bad {
		return GTIDSet{}, nil, errBadBinary
	}
	return newGTIDSet(streams), r.b, nil
}

// AppendBinary appends the list in few bytes, for a token: the number of GTIDs, then for each its three numbers, as
// uvarints.
func (g MariaDBGTID) AppendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(g.len()))
	for e := range g.Entries() {
		b = binary.AppendUvarint(b, uint64(e.Domain))
		b = binary.AppendUvarint(b, uint64(e.Server))
		b = binary.AppendUvarint(b, e.Sequence)
	}
	return b
}

// CutMariaDBGTID reads a list from the beginning of b and returns what is left.
func CutMariaDBGTID(b []byte) (MariaDBGTID, []byte, error) {
	r := binaryReader{b: b}
	var entries []MariaDBEntry
	for range r.count(3) {
		e := MariaDBEntry{Domain: uint32(r.bounded(1<<32 - 1)), Server: uint32(r.bounded(1<<32 - 1)), Sequence: r.bounded(1<<64 - 1)}
		if n := len(entries); n > 0 {
			last := entries[n-1]
			r.bad = r.bad || last.Domain > e.Domain || last.Domain == e.Domain && last.Server >= e.Server
		}
		entries = append(entries, e)
	}
	if r.bad {
		return MariaDBGTID{}, nil, errBadBinary
	}
	return sortedMariaDBGTID(entries), r.b, nil
}

// binaryReader reads bytes that may come from anybody. Once something is bad, everything after it is empty.
type binaryReader struct {
	b   []byte
	bad bool
}

// bounded reads a number that is at most limit.
func (r *binaryReader) bounded(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads how many things follow, each of at least size bytes.
func (r *binaryReader) count(size int) uint64 { return r.bounded(uint64(len(r.b) / size)) }

func (r *binaryReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}
