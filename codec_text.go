package readroute

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// The layout of a codec's token, before base64url without padding:
//
//	head     1 byte: codecVersion, bit 7 signed, bit 6 there is a delay
//	key      if signed: 1 byte length, and the key's id
//	delay    if there is one, uvarint: how many whole seconds after the token's newest write it was encoded, or after the
//	         Unix epoch if it has none. There is none when that is no second.
//	entries  as in a token of version 1, see token.go
//	tag      if signed: the first 16 bytes of HMAC-SHA256 over all of the above
const (
	codecVersion = 2

	codecSigned  = 1 << 7
	codecDelayed = 1 << 6

	tagSize = 16
	// maxDelay fits into a time.Duration.
	maxDelay = 1 << 33
	// maxKeptBuffer is how large a buffer may be that is kept for the next token.
	maxKeptBuffer = 4 << 10
)

// codecUse sets tokens apart from whatever else is signed with the same secret.
const codecUse = "readroute token 2"

// codecScratch is what one token needs while it is encoded or decoded.
type codecScratch struct {
	macs []hash.Hash // one a key
	body []byte
	text []byte
	sum  []byte
}

func newCodecScratch(keys []Key) *codecScratch {
	s := &codecScratch{body: make([]byte, 0, 128), text: make([]byte, 0, 128), sum: make([]byte, 0, sha256.Size)}
	for _, k := range keys {
		derive := hmac.New(sha256.New, k.Secret)
		derive.Write([]byte(codecUse))
		s.macs = append(s.macs, hmac.New(sha256.New, derive.Sum(nil)))
	}
	return s
}

// tag returns the tag of body. It is good until the next call.
func (s *codecScratch) tag(key int, body []byte) []byte {
	mac := s.macs[key]
	mac.Reset()
	mac.Write(body)
	s.sum = mac.Sum(s.sum[:0])
	return s.sum[:tagSize]
}

func (c *Codec) take() *codecScratch { return c.pool.Get().(*codecScratch) }

func (c *Codec) put(s *codecScratch) {
	if cap(s.body) <= maxKeptBuffer && cap(s.text) <= maxKeptBuffer {
		c.pool.Put(s)
	}
}

// Encode returns the text of t: base64url, for one position of a PostgreSQL cluster whose name has at most 16 bytes at most 64
// characters unsigned and 96 signed (of a timeline below 1 << 21, and with no "primary until" beside it). What would be longer
// than MaxSize, or is of more than 64 clusters, asks for the primary for a while instead of for its largest positions; it never
// asks for nothing. The text of the zero Token is empty.
func (c *Codec) Encode(t Token) string {
	if t.IsZero() {
		return ""
	}
	return c.encodeAt(t, time.Now())
}

func (c *Codec) encodeAt(t Token, now time.Time) string {
	s := c.take()
	defer c.put(s)
	for !c.encode(s, t, now) {
		t = t.shortened(now.Add(c.config.StickyWindow))
	}
	s.text = base64.RawURLEncoding.AppendEncode(s.text[:0], s.body)
	return string(s.text)
}

// encode leaves t in s.body. It reports whether it is short enough.
func (c *Codec) encode(s *codecScratch, t Token, now time.Time) bool {
	head := byte(codecVersion)
	delay := t.delay(now)
	if delay > 0 {
		head |= codecDelayed
	}
	if !c.config.Unsigned {
		head |= codecSigned
	}
	b := append(s.body[:0], head)
	if !c.config.Unsigned {
		b = append(b, byte(len(c.config.Keys[0].ID)))
		b = append(b, c.config.Keys[0].ID...)
	}
	if delay > 0 {
		b = binary.AppendUvarint(b, delay)
	}
	limit := noLimit
	if c.config.MaxAge > 0 {
		limit = now.Add(c.config.MaxAge + c.config.ClockSkew) // no token is good for longer
	}
	b = t.appendEntries(b, c.config.ClockSkew, limit)
	if !c.config.Unsigned {
		b = append(b, s.tag(0, b)...)
	}
	s.body = b
	return len(t.core.Entries()) <= maxTokenClusters && base64.RawURLEncoding.EncodedLen(len(b)) <= c.config.MaxSize
}

// newest is when the newest write of the token was, in the precision of its text; the Unix epoch when it has none.
func (t Token) newest() time.Time {
	newest := time.UnixMilli(0)
	for _, e := range t.core.Entries() {
		if e.At.After(newest) {
			newest = time.UnixMilli(e.At.UnixMilli())
		}
	}
	return newest
}

func (t Token) delay(now time.Time) uint64 {
	return uint64(max(0, now.Sub(t.newest())) / time.Second)
}

// shortened returns a shorter token that asks for the primary until then, by this process's clock, in the place of the largest of its
// positions.
func (t Token) shortened(until time.Time) Token {
	entries := t.core.Entries()
	largest, size := -1, 0
	for i, e := range entries {
		if len(entries) > maxTokenClusters {
			break
		}
		if n := len(Token{core: core.NewToken(0, e)}.appendEntries(nil, 0, noLimit)); len(e.Positions) > 0 && n > size {
			largest, size = i, n
		}
	}
	if largest < 0 {
		all := core.Entry{Cluster: everyCluster, Until: until}
		for _, e := range entries {
			e.Cluster, e.At, e.AtLatest = everyCluster, time.Time{}, time.Time{}
			all = all.Merge(e, 0)
		}
		return Token{core: core.NewToken(DefaultStickyWindow, all)}
	}
	short := make([]core.Entry, len(entries))
	copy(short, entries)
	e := &short[largest]
	e.Positions = nil
	if e.Until.Before(until) {
		e.Until = until
	}
	return Token{core: core.NewToken(DefaultStickyWindow, short...)}
}

// Decode reads a text of [Codec.Encode]. The empty text is the zero Token. Every other text that is not good gives an error
// that matches [ErrBadToken]: [ErrTokenForged] when no key of the codec has signed it, or it is signed and the codec has no
// keys, [ErrTokenExpired] when it is older than MaxAge and ClockSkew, [ErrTokenFuture] when it is from further in the future than
// ClockSkew, and no other sentinel when it is malformed. Treat it as "written just now" ([PrimaryFor]), never as "no token".
// Its cost is bounded whatever the text is; of a signed token nothing is read before its signature is known to be good.
func (c *Codec) Decode(text string) (Token, error) { return c.decodeAt(text, time.Now()) }

func (c *Codec) decodeAt(text string, now time.Time) (Token, error) {
	if text == "" {
		return Token{}, nil
	}
	if len(text) > maxTokenText {
		return Token{}, fmt.Errorf("%w: %d characters, at most %d are possible", ErrBadToken, len(text), maxTokenText)
	}
	if strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return Token{}, errNotBase64
	}
	s := c.take()
	defer c.put(s)
	s.text = append(s.text[:0], text...)
	b, err := strictBase64.AppendDecode(s.body[:0], s.text)
	s.body = b
	if err != nil {
		return Token{}, errNotBase64
	}
	return c.decode(s, now)
}

var errNotBase64 = fmt.Errorf("%w: not base64url", ErrBadToken)

var strictBase64 = base64.RawURLEncoding.Strict()

// decode reads s.body.
func (c *Codec) decode(s *codecScratch, now time.Time) (Token, error) {
	r := tokenReader{b: s.body, now: now, skew: c.config.ClockSkew}
	head := r.byte()
	if v := head &^ (codecSigned | codecDelayed); r.problem == "" && v != codecVersion {
		r.fail(fmt.Sprintf("version %d is not known", v))
	}
	if r.problem != "" {
		return Token{}, fmt.Errorf("%w: %s", ErrBadToken, r.problem)
	}
	if (head&codecSigned == 0) != c.config.Unsigned {
		return Token{}, ErrTokenForged
	}
	if head&codecSigned != 0 && !c.verified(s, &r) {
		return Token{}, ErrTokenForged
	}
	var delay uint64
	if head&codecDelayed != 0 {
		delay = r.uvarint()
	}
	rest := r.b
	t := r.entries()
	// What is left of the text buffer is a place to encode it again.
	s.text = t.appendEntries(s.text[:0], 0, noLimit)
	switch {
	case r.problem != "":
	case t.IsZero():
		r.fail("it asks for nothing")
	case string(s.text) != string(rest), (head&codecDelayed != 0) != (delay > 0):
		r.fail("not in its canonical form")
	case delay > maxDelay, delay == 0 && t.newest().UnixMilli() == 0:
		r.fail("a time out of range")
	}
	if r.problem != "" {
		return Token{}, fmt.Errorf("%w: %s", ErrBadToken, r.problem)
	}
	return c.timely(t, t.newest().Add(time.Duration(delay)*time.Second), now)
}

// verified takes the key and the tag from what r has to read, and checks the tag.
func (c *Codec) verified(s *codecScratch, r *tokenReader) bool {
	id := r.take(uint64(r.byte()))
	if len(id) == 0 || len(r.b) < tagSize {
		return false
	}
	end := len(r.b) - tagSize
	tag := r.b[end:]
	r.b = r.b[:end]
	for i := range c.config.Keys {
		if string(id) == c.config.Keys[i].ID {
			return hmac.Equal(tag, s.tag(i, s.body[:len(s.body)-tagSize]))
		}
	}
	return false
}

// timely holds a token that was encoded at the given time to the limits on time.
func (c *Codec) timely(t Token, encoded, now time.Time) (Token, error) {
	latest := now.Add(c.config.ClockSkew)
	limited := c.config.MaxAge > 0
	if encoded.After(latest) {
		return Token{}, ErrTokenFuture
	}
	if limited && now.Sub(encoded) > c.config.MaxAge+c.config.ClockSkew {
		return Token{}, ErrTokenExpired
	}
	early := false
	for _, e := range t.core.Entries() {
		if limited && e.UntilLatest.After(latest.Add(c.config.MaxAge+c.config.ClockSkew)) {
			return Token{}, ErrTokenFuture
		}
		early = early || e.At.After(now)
	}
	if !early {
		return t, nil
	}
	// The writer's clock is ahead. The write was before now all the same.
	entries := make([]core.Entry, len(t.core.Entries()))
	copy(entries, t.core.Entries())
	for i := range entries {
		if entries[i].At.After(now) {
			entries[i].At = now
		}
	}
	return Token{core: core.NewToken(DefaultStickyWindow, entries...)}, nil
}
