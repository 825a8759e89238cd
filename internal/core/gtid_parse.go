package core

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// ParseGTIDSet reads the text form of a GTID set, as MySQL prints it in @@gtid_executed or reads it in GTID_SUBSET:
//
//	set      = [ stream *( "," stream ) ]
//	stream   = UUID *( ":" interval ) *( ":" tag 1*( ":" interval ) )
//	interval = number [ "-" number ]
//
// with blanks between any two of these (Gtid_set::add_gtid_text in sql/rpl_gtid_set.cc, and libs/mysql/gtid since 8.3).
// A tag counts for the intervals behind it. UUIDs, intervals and tags may come in any order, more than once, overlapping;
// letters may be of either case. The empty text is the empty set.
//
// What MySQL passes over in silence is an error here, because it makes a set smaller than whoever wrote the text meant,
// and a smaller set is reached sooner: an empty place between commas or at either end (a text that was cut off), a UUID
// or a tag without an interval, and an interval that ends before it begins. Neither are UUIDs read without dashes or
// with braces. What is read, MySQL reads as the same set.
//
// The error matches [ErrBadGTIDSet], and [ErrGTIDTooLong] when the text has more than [MaxGTIDText] bytes.
func ParseGTIDSet(text string) (GTIDSet, error) { return ParseLongGTIDSet(text, MaxGTIDText) }

// ParseLongGTIDSet is ParseGTIDSet with another limit than [MaxGTIDText], for what a server has said of itself.
func ParseLongGTIDSet(text string, limit int) (GTIDSet, error) {
	if len(text) > limit {
		return GTIDSet{}, fmt.Errorf("%w: %w: %d bytes, at most %d are read", ErrBadGTIDSet, ErrGTIDTooLong, len(text), limit)
	}
	p := gtidParser{text: text}
	p.blanks()
	if p.at == len(text) {
		return GTIDSet{}, nil
	}
	for {
		if problem := p.oneUUID(); problem != "" {
			return GTIDSet{}, badGTID(ErrBadGTIDSet, text, p.at, problem)
		}
		if p.at == len(text) {
			return newGTIDSet(normalizeStreams(p.streams)), nil
		}
		if !p.accept(',') {
			return GTIDSet{}, badGTID(ErrBadGTIDSet, text, p.at, `want "," or ":"`)
		}
	}
}

// badGTID quotes the place where a text went wrong.
func badGTID(kind error, text string, at int, problem string) error {
	const around = maxQuotedLSN / 2
	from, to := max(0, at-around), min(len(text), at+around)
	return fmt.Errorf("%w: at byte %d, near %q: %s", kind, at, text[from:to], problem)
}

type gtidParser struct {
	text    string
	at      int
	streams []gtidStream // in the order of the text
}

func (p *gtidParser) blanks() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// accept passes over c and the blanks behind it.
func (p *gtidParser) accept(c byte) bool {
	if p.at == len(p.text) || p.text[p.at] != c {
		return false
	}
	p.at++
	p.blanks()
	return true
}

// oneUUID reads a UUID and all that belongs to it.
func (p *gtidParser) oneUUID() (problem string) {
	uuid, ok := ParseUUID(p.text[p.at:min(len(p.text), p.at+uuidText)])
	if !ok {
		return "want a UUID with dashes"
	}
	p.at += uuidText
	p.blanks()
	open := false // whether a stream without an interval has been begun
	begin := func(tag string) {
		p.streams = append(p.streams, gtidStream{key: gtidKey(uuid, tag)})
		open = true
	}
	begin("")
	first := len(p.streams) - 1
	for p.accept(':') {
		if tag := p.tag(); tag != "" {
			if open && len(p.streams)-1 > first {
				return "want an interval behind a tag"
			}
			begin(tag)
			continue
		}
		interval, problem := p.interval()
		if problem != "" {
			return problem
		}
		s := &p.streams[len(p.streams)-1]
		s.intervals = append(s.intervals, interval)
		open = false
	}
	if open {
		return "want an interval"
	}
	return ""
}

// tag reads a tag in lower case, as MySQL keeps it, and the blanks behind it. It returns "" where there is none.
func (p *gtidParser) tag() string {
	n := 0
	for p.at+n < len(p.text) && isTagByte(p.text[p.at+n], n) {
		n++
	}
	if n == 0 || n > maxTag {
		return ""
	}
	tag := strings.ToLower(p.text[p.at : p.at+n])
	p.at += n
	p.blanks()
	return tag
}

func isTagByte(c byte, at int) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || at > 0 && '0' <= c && c <= '9'
}

func (p *gtidParser) interval() (i gtidInterval, problem string) {
	if i.first, problem = p.number(); problem != "" {
		return i, problem
	}
	i.last = i.first
	if p.accept('-') {
		if i.last, problem = p.number(); problem != "" {
			return i, problem
		}
	}
	if i.last < i.first {
		return i, "the interval ends before it begins"
	}
	return i, ""
}

// number reads a transaction number and the blanks behind it.
func (p *gtidParser) number() (uint64, string) {
	v, n, fits := decimalPrefix(p.text[p.at:])
	switch {
	case n == 0:
		return 0, "want a transaction number"
	case !fits || v == 0 || v > maxGNO:
		return 0, "a transaction number is from 1 to 9223372036854775806"
	}
	p.at += n
	p.blanks()
	return v, ""
}

// decimalPrefix reads the decimal digits that s starts with: their value, how many there are, and whether the value fits.
func decimalPrefix(s string) (v uint64, n int, fits bool) {
	fits = true
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		high, low := bits.Mul64(v, 10)
		sum, carry := bits.Add64(low, uint64(s[n]-'0'), 0)
		fits = fits && high == 0 && carry == 0
		v = sum
		n++
	}
	return v, n, fits
}

// normalizeStreams sorts streams, joins those with the same key, and sorts and joins their intervals.
func normalizeStreams(streams []gtidStream) []gtidStream {
	slices.SortStableFunc(streams, func(a, b gtidStream) int { return strings.Compare(a.key, b.key) })
	joined := streams[:0]
	for _, s := range streams {
		if n := len(joined); n > 0 && joined[n-1].key == s.key {
			joined[n-1].intervals = append(joined[n-1].intervals, s.intervals...)
			continue
		}
		joined = append(joined, s)
	}
	for i := range joined {
		joined[i].intervals = normalizeIntervals(joined[i].intervals)
	}
	return joined
}

// normalizeIntervals sorts intervals and joins those that overlap or touch, in place.
func normalizeIntervals(intervals []gtidInterval) []gtidInterval {
	slices.SortFunc(intervals, compareIntervals)
	joined := intervals[:0]
	for _, i := range intervals {
		joined = appendInterval(joined, i)
	}
	return joined
}
