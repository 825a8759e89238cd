package check

import "math/bits"

// set is a set of versions of one key, by their index there.
type set []uint64

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

func (s *set) add(i int) {
	for i/64 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// union adds what is in o.
func (s *set) union(o set) {
	for len(*s) < len(o) {
		*s = append(*s, 0)
	}
	for i, w := range o {
		(*s)[i] |= w
	}
}

func (s set) clone() set { return append(set(nil), s...) }

// without calls f for each that o does not have.
func (s set) without(o set, f func(int)) {
	for i, w := range s {
		if i < len(o) {
			w &^= o[i]
		}
		for ; w != 0; w &= w - 1 {
			f(64*i + bits.TrailingZeros64(w))
		}
	}
}

// why a version must be shown.
type why uint8

const (
	wrote   why = iota // its session has written it
	read               // its session has read it
	follows            // what its session has read was written after its writer had read it
	ordered            // what its session has read was written after it by the same writer
	fenced             // it was there when the session asked for all that was
	numWhys
)

var whyRules = [numWhys]Rule{wrote: ReadYourWrites, read: MonotonicReads, follows: WritesFollowReads, ordered: MonotonicWrites, fenced: FenceHolds}

// needs are the versions of one key that must be shown.
type needs [numWhys]set

// past is what a session must be shown, by key.
type past map[int]*needs

func (p past) of(key int) *needs {
	n := p[key]
	if n == nil {
		n = new(needs)
		p[key] = n
	}
	return n
}

// snapshot copies what is in p of the keys that are still read.
func (p past) snapshot(live func(key int) bool) past {
	s := make(past, len(p))
	for key, n := range p {
		if !live(key) {
			delete(p, key)
			continue
		}
		c := new(needs)
		for w := range n {
			c[w] = n[w].clone()
		}
		s[key] = c
	}
	return s
}

// merge adds what is in o.
func (p past) merge(o past) {
	for key, n := range o {
		mine := p.of(key)
		for w := range n {
			mine[w].union(n[w])
		}
	}
}
