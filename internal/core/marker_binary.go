package core

import "encoding/binary"

// AppendBinary appends the set in few bytes, for a token: the number of writers, then for each the length of its name, how much of it is
// that of the one before, the rest, and the sequence. Numbers are uvarints.
func (s MarkerSet) AppendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.len()))
	before := ""
	for i := range s.len() {
		writer := s.writer(i)
		shared := commonPrefix(before, writer)
		b = append(b, byte(len(writer)), byte(shared))
		b = append(b, writer[shared:]...)
		b = binary.AppendUvarint(b, s.sequence(i))
		before = writer
	}
	return b
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// CutMarkerSet reads a set from the beginning of b and returns what is left.
func CutMarkerSet(b []byte) (MarkerSet, []byte, error) {
	r := binaryReader{b: b}
	var entries []MarkerEntry
	before := ""
	for range r.count(3) {
		size := r.bounded(MaxMarkerWriter)
		shared := r.bounded(uint64(len(before)))
		r.bad = r.bad || shared > size
		if r.bad {
			break
		}
		writer := before[:shared] + string(r.take(size-shared))
		e := MarkerEntry{Writer: writer, Sequence: r.bounded(MaxMarkerSequence)}
		r.bad = r.bad || !IsMarkerWriter(writer) || e.Sequence == 0 || writer <= before || commonPrefix(before, writer) != int(shared)
		entries = append(entries, e)
		before = writer
	}
	if r.bad {
		return MarkerSet{}, nil, errBadBinary
	}
	return sortedMarkerSet(entries), r.b, nil
}
