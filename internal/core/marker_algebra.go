package core

// Contains reports whether s has all that o has: each writer of o, as far or further. The empty set is contained in every set.
// It allocates nothing.
func (s MarkerSet) Contains(o MarkerSet) bool {
	if s.data == o.data {
		return true
	}
	for i := range o.len() {
		if s.Find(o.writer(i)) < o.sequence(i) {
			return false
		}
	}
	return true
}

// CoveredBy compares a required set with what a server shows. A writer that the server does not show has not arrived there
// yet. When nothing is required the answer is Incomparable.
func (s MarkerSet) CoveredBy(shown MarkerSet) Coverage {
	switch {
	case s.IsZero():
		return Incomparable
	case shown.Contains(s):
		return Covered
	}
	return NotCovered
}

// Behind reports whether a server that shows position is known not to have all of s: it knows one of the writers, and not that
// far. A writer that it has never heard of may be newer than the server, or forgotten.
func (s MarkerSet) Behind(position MarkerSet) bool {
	for i := range s.len() {
		if shown := position.Find(s.writer(i)); shown != 0 && shown < s.sequence(i) {
			return true
		}
	}
	return false
}

// Union returns what is in s, in o, or in both.
func (s MarkerSet) Union(o MarkerSet) MarkerSet {
	switch {
	case s.Contains(o):
		return s
	case o.Contains(s):
		return o
	}
	entries := make([]MarkerEntry, 0, s.len()+o.len())
	for e := range s.Entries() {
		entries = append(entries, e)
	}
	for e := range o.Entries() {
		entries = append(entries, e)
	}
	return sortedMarkerSet(entries)
}

// Missing returns how many of the transactions of s a server that shows position does not show. It allocates nothing.
func (s MarkerSet) Missing(position MarkerSet) uint64 {
	var missing uint64
	for i := range s.len() {
		if want, shown := s.sequence(i), position.Find(s.writer(i)); shown < want {
			missing = addUpTo(missing, want-shown)
		}
	}
	return missing
}

// addUpTo adds without going round: a sequence that comes from outside may be as high as there are.
func addUpTo(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// Total returns how many transactions the writers have marked.
func (s MarkerSet) Total() uint64 { return s.Missing(MarkerSet{}) }
