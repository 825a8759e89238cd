package readroute

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// What bounds the text of a token, which may come from outside.
const (
	maxTokenText     = 4096 // characters
	maxTokenClusters = 64
)

// Token is what writes leave behind: for each cluster the position that a read must be covered by, and when the write
// was. It is an immutable value. The zero Token asks for nothing. Its text is neither signed nor secret: whoever can
// change it can make reads wait up to the wait timeout or go to the primary, and nothing else.
type Token struct {
	core core.Token
}

// IsZero reports whether the token asks for nothing.
func (t Token) IsZero() bool { return t.core.IsZero() }

// Merge returns the least token that covers both t and o.
func (t Token) Merge(o Token) Token {
	return Token{core: t.core.Merge(o.core, DefaultStickyWindow)}
}

// everyCluster is the name of an entry that speaks for all clusters: it asks for the primary. No Config can have it.
const everyCluster = ""

// PrimaryFor returns a token that asks for the primary, in every cluster, for d from now on by this machine's clock: "written
// just now", when nobody knows what or where. It is what stands in for a token that is bad or lost. 0 and less give the zero
// Token.
func PrimaryFor(d time.Duration) Token {
	if d <= 0 {
		return Token{}
	}
	return primaryUntil(time.Now().Add(d))
}

func primaryUntil(t time.Time) Token {
	return Token{core: core.NewToken(DefaultStickyWindow, core.Entry{Cluster: everyCluster, Until: t})}
}

// The layout of a token, version 1, before base64url without padding:
//
//	version   1 byte, tokenVersion
//	entries   uvarint count, in order of the clusters' names, then each:
//	  cluster uvarint length and bytes
//	  flags   1 byte: bit 0 a time of the write, bit 1 an end of the primary's term
//	  times   uvarint milliseconds of the Unix epoch, for each bit: the first by the clock of who wrote, the second by every clock
//	  count   uvarint of positions, then each:
//	    kind  1 byte
//	    PostgreSQL: system identifier 8 bytes big endian, timeline uvarint, LSN uvarint
//	    MySQL, MariaDB: the set or list, as in internal/core/gtid_binary.go
//	    marker: the number of its table 8 bytes big endian, the set as in internal/core/marker_binary.go
const (
	tokenVersion = 1

	tokenHasAt    = 1 << 0
	tokenHasUntil = 1 << 1

	maxTime = 1 << 47 // milliseconds of the Unix epoch
)

// String returns the text of the token: base64url, at most 64 characters for one position of a cluster whose name has at
// most 16 bytes, and never more than 4,096: what would be longer (GTID sets of many servers), or is of more than 64 clusters, asks for
// the primary for [DefaultStickyWindow] instead of for its largest positions. "The primary until" lasts [DefaultClockSkew] longer
// in it, for other machines' clocks. The text of the zero Token is empty. [ParseToken] takes whatever this returns.
func (t Token) String() string {
	if t.IsZero() {
		return ""
	}
	b := t.binary()
	for len(t.core.Entries()) > maxTokenClusters || base64.RawURLEncoding.EncodedLen(len(b)) > maxTokenText {
		t = t.shortened(time.Now().Add(DefaultStickyWindow))
		b = t.binary()
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (t Token) binary() []byte {
	return t.appendEntries(append(make([]byte, 0, 48), tokenVersion), DefaultClockSkew, noLimit)
}

// noLimit is a time after all that a text can tell.
var noLimit = time.UnixMilli(maxTime)

// appendEntries appends what follows the version, for processes whose clocks may differ by skew. No term of the primary ends after
// limit.
func (t Token) appendEntries(b []byte, skew time.Duration, limit time.Time) []byte {
	entries := t.core.Entries()
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(len(e.Cluster)))
		b = append(b, e.Cluster...)
		var flags byte
		if !e.At.IsZero() {
			flags |= tokenHasAt
		}
		until := e.EndsElsewhere(skew)
		if !until.IsZero() {
			flags |= tokenHasUntil
		}
		b = append(b, flags)
		if flags&tokenHasAt != 0 {
			b = binary.AppendUvarint(b, uint64(e.At.UnixMilli()))
		}
		if flags&tokenHasUntil != 0 {
			// Rounded up: the primary's term must not end early.
			if until.After(limit) {
				until = limit
			}
			b = binary.AppendUvarint(b, uint64(until.Add(time.Millisecond-1).UnixMilli()))
		}
		b = binary.AppendUvarint(b, uint64(len(e.Positions)))
		for _, p := range e.Positions {
			b = append(b, byte(p.Kind))
			switch p.Kind {
			case core.KindMySQL:
				b = p.GTIDs().AppendBinary(b)
				continue
			case core.KindMariaDB:
				b = p.Domains().AppendBinary(b)
				continue
			case core.KindMarker:
				b = binary.BigEndian.AppendUint64(b, p.System)
				b = p.Markers().AppendBinary(b)
				continue
			case core.KindNone, core.KindPostgres:
			}
			b = binary.BigEndian.AppendUint64(b, p.System)
			b = binary.AppendUvarint(b, uint64(p.Timeline))
			b = binary.AppendUvarint(b, uint64(p.LSN))
		}
	}
	return b
}

// ParseToken reads the text of a token. The empty text is the zero Token. The clock of the machine that wrote it may differ from
// this one's by [DefaultClockSkew]: where time is all that covers a write, the token holds for so much longer. Any other text that [Token.String] could not
// have made gives an error that matches [ErrBadToken]; treat it as "written just now", never as "no token".
func ParseToken(text string) (Token, error) { return parseTokenAt(text, time.Now()) }

func parseTokenAt(text string, now time.Time) (Token, error) {
	if text == "" {
		return Token{}, nil
	}
	if len(text) > maxTokenText {
		return Token{}, fmt.Errorf("%w: %d characters, at most %d are possible", ErrBadToken, len(text), maxTokenText)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Token{}, fmt.Errorf("%w: not base64url", ErrBadToken)
	}
	r := tokenReader{b: b, now: now, skew: DefaultClockSkew}
	if v := r.byte(); r.problem == "" && v != tokenVersion {
		r.fail(fmt.Sprintf("version %d is not known", v))
	}
	t := r.entries()
	if r.problem == "" && t.String() != text {
		r.problem = "not in its canonical form"
	}
	if r.problem != "" {
		return Token{}, fmt.Errorf("%w: %s", ErrBadToken, r.problem)
	}
	return t, nil
}

// tokenReader reads a token of a process whose clock may differ by skew; the first problem stays.
type tokenReader struct {
	b       []byte
	now     time.Time
	skew    time.Duration
	problem string
}

// entries reads what follows the version, to the end.
func (r *tokenReader) entries() Token {
	var entries []core.Entry
	count := r.count(3)
	if count > maxTokenClusters {
		r.fail("too many clusters")
		return Token{}
	}
	for range count {
		e := r.entry()
		switch n := len(entries); {
		case e.IsZero():
			r.fail("a cluster of which it asks nothing")
		case n > 0 && entries[n-1].Cluster >= e.Cluster:
			r.fail("clusters out of order")
		}
		if r.problem != "" {
			return Token{}
		}
		entries = append(entries, e)
	}
	if len(r.b) > 0 {
		r.fail("bytes behind its end")
	}
	return Token{core: core.NewToken(DefaultStickyWindow, entries...)}
}

func (r *tokenReader) entry() core.Entry {
	e := core.Entry{Cluster: clusterName(r.take(r.uvarint()))}
	flags := r.byte()
	if flags&^(tokenHasAt|tokenHasUntil) != 0 {
		r.fail("flags that are not known")
	}
	if flags&tokenHasAt != 0 {
		e.At = r.time()
	}
	if flags&tokenHasUntil != 0 {
		e.Until = r.time()
	}
	e.Arrived(r.now, r.skew)
	count := r.count(5)
	switch {
	case count > core.MaxPositions:
		r.fail("too many positions of one cluster")
	case count > 0:
		e.Positions = make([]core.Position, 0, count)
	}
	for range count {
		p := r.position()
		if n := len(e.Positions); n > 0 && !e.Positions[n-1].Precedes(p) {
			r.fail("positions out of order")
		}
		if r.problem != "" {
			break
		}
		e.Positions = append(e.Positions, p)
	}
	return e
}

// clusterName is string(b), without an allocation for the name that most clusters have.
func clusterName(b []byte) string {
	if string(b) == DefaultName {
		return DefaultName
	}
	return string(b)
}

func (r *tokenReader) position() core.Position {
	switch kind := core.Kind(r.byte()); kind {
	case core.KindPostgres:
		p := core.Position{Kind: kind}
		if system := r.take(8); len(system) == 8 {
			p.System = binary.BigEndian.Uint64(system)
		}
		timeline := r.uvarint()
		if timeline == 0 || timeline > 1<<32-1 {
			r.fail("a timeline out of range")
		}
		p.Timeline, p.LSN = uint32(timeline), core.LSN(r.uvarint())
		return p
	case core.KindMySQL:
		set, rest, err := core.CutGTIDSet(r.b)
		if err != nil || set.IsZero() {
			r.fail("a GTID set that is malformed or empty")
			return core.Position{}
		}
		r.b = rest
		return core.MySQLPosition(set, 0)
	case core.KindMariaDB:
		list, rest, err := core.CutMariaDBGTID(r.b)
		if err != nil || list.IsZero() {
			r.fail("a GTID list that is malformed or empty")
			return core.Position{}
		}
		r.b = rest
		return core.MariaDBPosition(list, 0)
	case core.KindMarker:
		var table uint64
		if number := r.take(8); len(number) == 8 {
			table = binary.BigEndian.Uint64(number)
		}
		set, rest, err := core.CutMarkerSet(r.b)
		if err != nil || set.IsZero() || table == 0 {
			r.fail("markers that are malformed or none")
			return core.Position{}
		}
		r.b = rest
		return core.MarkerPosition(table, set, 0)
	default:
		r.fail("a position of a kind that is not known")
		return core.Position{}
	}
}

func (r *tokenReader) time() time.Time {
	ms := r.uvarint()
	if ms == 0 || ms > maxTime {
		r.fail("a time out of range")
		return time.Time{}
	}
	return time.UnixMilli(int64(ms))
}

// count reads how many items follow; each has at least size bytes.
func (r *tokenReader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail("shorter than it says")
		return 0
	}
	return int(n)
}

func (r *tokenReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("cut short")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *tokenReader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *tokenReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("cut short")
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *tokenReader) fail(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
	r.b = nil
}

// MarshalText implements encoding.TextMarshaler: the text of [Token.String].
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: see [ParseToken]. On error t is not changed.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
