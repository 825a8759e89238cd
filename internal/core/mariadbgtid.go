package core

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// ErrBadMariaDBGTID is returned, wrapped, by [ParseMariaDBGTID] for text that is no list of MariaDB GTIDs.
var ErrBadMariaDBGTID = errors.New("readroute: malformed MariaDB GTID")

// MariaDBEntry is one GTID of MariaDB: the transaction with a sequence number, of a replication domain, first written by
// a server.
type MariaDBEntry struct {
	Domain, Server uint32
	Sequence       uint64
}

// MariaDBGTID is a list of MariaDB GTIDs, at most one for each pair of a domain and a server. It is what the server has
// in @@gtid_current_pos, @@gtid_slave_pos and @@gtid_binlog_pos, where a domain occurs once, and in @@gtid_binlog_state,
// where it occurs with every server that has ever written in it.
//
// MariaDB itself orders a domain by the sequence number alone. That hides a loss: after a failover, 0-2-106 counts as
// behind 0-1-105 although the new primary, server 2, may never have received it. Here a GTID stands for what its server
// has written in its domain up to it; GTIDs of different servers are not comparable until the history of the domain is
// known, see [MariaDBGTID.CoveredBy]. Merging keeps both.
//
// It is an immutable value. Equal lists are equal with ==, whatever the order of their texts was, and a list can be a
// map key. The zero MariaDBGTID is the empty list: no position.
type MariaDBGTID struct {
	// data is the one representation of the list, big endian, for each entry, ascending: uint32 domain, uint32 server,
	// uint64 sequence number.
	data string
}

const mariaDBEntrySize = 16

// NewMariaDBGTID makes a list. Of several entries with the same domain and server the one that is furthest counts.
func NewMariaDBGTID(entries ...MariaDBEntry) MariaDBGTID {
	return sortedMariaDBGTID(slices.Clone(entries))
}

// sortedMariaDBGTID makes a list of entries, which it changes.
func sortedMariaDBGTID(entries []MariaDBEntry) MariaDBGTID {
	slices.SortFunc(entries, func(a, b MariaDBEntry) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Server, b.Server), cmp.Compare(b.Sequence, a.Sequence))
	})
	entries = slices.CompactFunc(entries, func(a, b MariaDBEntry) bool { return a.Domain == b.Domain && a.Server == b.Server })
	if len(entries) == 0 {
		return MariaDBGTID{}
	}
	var b strings.Builder
	b.Grow(len(entries) * mariaDBEntrySize)
	var encoded [mariaDBEntrySize]byte
	for _, e := range entries {
		binary.BigEndian.PutUint32(encoded[0:], e.Domain)
		binary.BigEndian.PutUint32(encoded[4:], e.Server)
		binary.BigEndian.PutUint64(encoded[8:], e.Sequence)
		b.Write(encoded[:])
	}
	return MariaDBGTID{data: b.String()}
}

// ParseMariaDBGTID reads the text form of a list, as MariaDB prints it: GTIDs with commas between them, each a domain, a
// server and a sequence number in decimal with dashes between them (gtid_parser_helper in sql/rpl_gtid.cc). They may come
// in any order. Blanks may stand before a GTID, as MariaDB has it, and nowhere else; signs, which MariaDB reads, are
// refused. The empty text is the empty list.
//
// A domain may occur with several servers, as in @@gtid_binlog_state. The same domain and server twice is an error.
//
// The error matches [ErrBadMariaDBGTID], and [ErrGTIDTooLong] when the text has more than [MaxGTIDText] bytes.
func ParseMariaDBGTID(text string) (MariaDBGTID, error) {
	return ParseLongMariaDBGTID(text, MaxGTIDText)
}

// ParseLongMariaDBGTID is ParseMariaDBGTID with another limit than [MaxGTIDText], for what a server has said of itself.
func ParseLongMariaDBGTID(text string, limit int) (MariaDBGTID, error) {
	if len(text) > limit {
		return MariaDBGTID{}, fmt.Errorf("%w: %w: %d bytes, at most %d are read", ErrBadMariaDBGTID, ErrGTIDTooLong, len(text), limit)
	}
	if text == "" {
		return MariaDBGTID{}, nil
	}
	p := gtidParser{text: text}
	entries := make([]MariaDBEntry, 0, 1+strings.Count(text, ","))
	for {
		p.blanks()
		e, problem := p.mariaDBEntry()
		if problem != "" {
			return MariaDBGTID{}, badGTID(ErrBadMariaDBGTID, text, p.at, problem)
		}
		entries = append(entries, e)
		if p.at == len(text) {
			break
		}
		if text[p.at] != ',' {
			return MariaDBGTID{}, badGTID(ErrBadMariaDBGTID, text, p.at, `want ","`)
		}
		p.at++
	}
	g := sortedMariaDBGTID(entries)
	if len(g.data) != len(entries)*mariaDBEntrySize {
		return MariaDBGTID{}, badGTID(ErrBadMariaDBGTID, text, len(text), "a domain occurs twice with the same server")
	}
	return g, nil
}

func (p *gtidParser) mariaDBEntry() (e MariaDBEntry, problem string) {
	var numbers [3]uint64
	for i, highest := range [3]uint64{1<<32 - 1, 1<<32 - 1, 1<<64 - 1} {
		if i > 0 {
			if p.at == len(p.text) || p.text[p.at] != '-' {
				return e, `want "-": a GTID is a domain, a server and a sequence number`
			}
			p.at++
		}
		v, n, fits := decimalPrefix(p.text[p.at:])
		switch {
		case n == 0:
			return e, "want a number"
		case !fits || v > highest:
			return e, "the number is too large"
		}
		numbers[i] = v
		p.at += n
	}
	return MariaDBEntry{Domain: uint32(numbers[0]), Server: uint32(numbers[1]), Sequence: numbers[2]}, ""
}

// IsZero reports whether the list is empty.
func (g MariaDBGTID) IsZero() bool { return g.data == "" }

// String is the canonical text: in the order of domains, as MariaDB prints a position, and where a domain occurs with
// several servers in the order of these (MariaDB prints the one that has written last behind the others, which are in no
// order). MariaDB reads it. The text of the empty list is empty.
func (g MariaDBGTID) String() string { return string(g.Append(nil)) }

// Append appends the canonical text of g to b.
func (g MariaDBGTID) Append(b []byte) []byte {
	first := true
	for e := range g.Entries() {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendUint(b, uint64(e.Domain), 10)
		b = append(b, '-')
		b = strconv.AppendUint(b, uint64(e.Server), 10)
		b = append(b, '-')
		b = strconv.AppendUint(b, e.Sequence, 10)
	}
	return b
}

// GoString is for debuggers and the messages of failed tests: the representation is not meant for eyes.
func (g MariaDBGTID) GoString() string { return fmt.Sprintf("core.MariaDBGTID(%q)", g.String()) }

// Entries are the GTIDs of the list, in the order of its text.
func (g MariaDBGTID) Entries() iter.Seq[MariaDBEntry] {
	return func(yield func(MariaDBEntry) bool) {
		for i := range g.len() {
			if !yield(g.entry(i)) {
				return
			}
		}
	}
}

func (g MariaDBGTID) len() int { return len(g.data) / mariaDBEntrySize }

func (g MariaDBGTID) entry(i int) MariaDBEntry {
	encoded := g.data[i*mariaDBEntrySize:]
	return MariaDBEntry{Domain: be32(encoded), Server: be32(encoded[4:]), Sequence: be64(encoded[8:])}
}

// Find returns the sequence number up to which g has what a server has written in a domain.
func (g MariaDBGTID) Find(domain, server uint32) (sequence uint64, ok bool) {
	i := g.from(domain, server)
	if i == g.len() {
		return 0, false
	}
	e := g.entry(i)
	return e.Sequence, e.Domain == domain && e.Server == server
}

// Head returns the GTID of a domain with the highest sequence number, which is the furthest in MariaDB's own order.
func (g MariaDBGTID) Head(domain uint32) (head MariaDBEntry, ok bool) {
	for i := g.from(domain, 0); i < g.len(); i++ {
		e := g.entry(i)
		if e.Domain != domain {
			break
		}
		if !ok || e.Sequence > head.Sequence {
			head, ok = e, true
		}
	}
	return head, ok
}

// from returns the index of the first entry that is not below a domain and server.
func (g MariaDBGTID) from(domain, server uint32) int {
	want := uint64(domain)<<32 | uint64(server)
	low, high := 0, g.len()
	for low < high {
		middle := int(uint(low+high) >> 1)
		if be64(g.data[middle*mariaDBEntrySize:]) < want {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
