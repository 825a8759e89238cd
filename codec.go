package readroute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
)

// The defaults of CodecConfig; those that it shares with Config are there.
const (
	DefaultMaxTokenAge  = 5 * time.Minute
	DefaultMaxTokenSize = 512
	DefaultTokenHeader  = "readroute-token"
	DefaultTokenCookie  = "readroute"
)

const (
	maxKeyID     = 4  // leaves 96 characters for a signed token
	minKeySecret = 16 // bytes
	minTokenSize = 96 // a token of one cluster's primary fits
)

// CodecConfig says how tokens leave a process and come back. It needs Keys, or Unsigned. The zero value of every other
// field means its default; a negative value is refused by [NewCodec] unless the field says otherwise, and so is a duration of more
// than ten years. All processes that
// hand each other tokens use the same Keys, Header and Cookie.
type CodecConfig struct {
	// Keys sign and verify. The first one signs; each of them verifies. To change keys without a bad token in between: add
	// the new key at the end in every process, then move it to the front in every process, then, MaxAge later, remove the
	// old one.
	Keys []Key

	// Unsigned lets tokens go out without a signature, and takes in only such. Whoever can change one can make reads wait up
	// to the wait timeout or go to the primary, and read less fresh data than his own writes; nothing else. It excludes Keys.
	Unsigned bool

	// MaxAge is how long after it was encoded a token is good, with ClockSkew on top, since nobody knows whose clock is behind; an
	// older one is a bad token. Keep it above the MaxLag and the
	// StickyWindow of every cluster, and above the time that a message may lie in a queue. It is also the Max-Age of cookies.
	// Defaults to 5 minutes. Negative means no limit, and cookies with the default Max-Age.
	MaxAge time.Duration

	// ClockSkew is how far the clocks of two machines may differ. A token from further in the future is a bad token, "the
	// primary until" of a token that goes out lasts this much longer, and where time is all that covers a write (Sticky,
	// servers without positions) a token that comes in holds for this much longer: set it to what your clocks differ by.
	// Defaults to 2 minutes.
	ClockSkew time.Duration

	// StickyWindow is how long reads go to the primary, with ClockSkew on top, when a token is bad, lost, too large or not
	// known in time. Keep it above the lag that replicas usually have, and not above MaxAge.
	// Defaults to 15 s.
	StickyWindow time.Duration

	// MaxSize is how many characters a token may have that goes out, at least 96. One that would be longer (GTID sets of
	// many servers, many clusters) says "the primary for StickyWindow" instead of its largest positions. Tokens of up to
	// 4,096 characters are taken in.
	// Defaults to 512.
	MaxSize int

	// CaptureTimeout is how long Inject, Reply and the first byte of a response wait for the positions of writes. After that
	// the token says "the primary for StickyWindow".
	// Defaults to 50 ms. Negative means that they do not wait.
	CaptureTimeout time.Duration

	// Header is the name under which a Carrier holds the token: an HTTP header, a key of gRPC metadata, a message header.
	// Defaults to "readroute-token".
	Header string

	// Cookie is the name before the "-" of the cookies of Middleware, of which a browser may have several at a time.
	// Defaults to "readroute". "-" means no cookies.
	Cookie string

	// EditCookie changes a cookie before it is set or deleted: Domain, Path, SameSite, or Secure for development without
	// TLS. It must do the same to every cookie. It is called concurrently.
	// Defaults to cookies with Path=/, Secure, HttpOnly, SameSite=Lax and Max-Age=MaxAge.
	EditCookie func(*http.Cookie)

	// OnBadToken says what happens next to a request or message whose token is bad: its session begins with what is returned.
	// err matches ErrBadToken. The zero Token treats it as one without a token. It is called concurrently, and must not block.
	// Defaults to PrimaryFor(StickyWindow + ClockSkew).
	OnBadToken func(ctx context.Context, err error) Token

	// OnLateWrite is told, once, of a request whose session has written, or has been told of a write, after the first byte of the
	// response had gone out, so that the client does not have the token: by the handler, by one that http.TimeoutHandler has given
	// up, or by a goroutine that outlives it. Of a write that was under way at the first byte it is told as well, though the
	// client's token asks for the primary for StickyWindow. It is called concurrently, with the request's context, at times by the
	// goroutine that has written, and must not block.
	// Defaults to nothing.
	OnLateWrite func(ctx context.Context)
}

// Key signs tokens.
type Key struct {
	// ID names the key in a token: 1 to 4 bytes, other than those of the other keys.
	ID string
	// Secret is at least 16 random bytes, better 32.
	Secret []byte
}

// Codec carries tokens between processes: signed, bounded in age and size, over HTTP, or any [Carrier]. It knows no [DB],
// and one serves all clusters. It is safe for concurrent use, and needs no closing.
type Codec struct {
	config CodecConfig
	pool   sync.Pool // of *codecScratch
}

// NewCodec returns a codec. The error for a configuration that cannot work matches [ErrBadConfig], and names every
// problem and no secret.
func NewCodec(config CodecConfig) (*Codec, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Codec{config: config.withDefaults()}
	c.pool.New = func() any { return newCodecScratch(c.config.Keys) }
	return c, nil
}

func (c CodecConfig) withDefaults() CodecConfig {
	c.MaxAge = cmp.Or(c.MaxAge, DefaultMaxTokenAge)
	c.ClockSkew = cmp.Or(c.ClockSkew, DefaultClockSkew)
	c.StickyWindow = cmp.Or(c.StickyWindow, DefaultStickyWindow)
	c.MaxSize = cmp.Or(c.MaxSize, DefaultMaxTokenSize)
	c.CaptureTimeout = cmp.Or(c.CaptureTimeout, DefaultCaptureTimeout)
	c.Header = cmp.Or(c.Header, DefaultTokenHeader)
	c.Cookie = cmp.Or(c.Cookie, DefaultTokenCookie)
	c.Keys = slices.Clone(c.Keys)
	for i := range c.Keys {
		c.Keys[i].Secret = slices.Clone(c.Keys[i].Secret)
	}
	return c
}

// fieldName matches what HTTP, gRPC and message brokers all take for a name.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *CodecConfig) validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch {
	case len(c.Keys) == 0 && !c.Unsigned:
		bad("there are no Keys, and Unsigned is not set")
	case len(c.Keys) > 0 && c.Unsigned:
		bad("both Keys and Unsigned are set")
	}
	seen := map[string]bool{}
	for i, k := range c.Keys {
		if k.ID == "" || len(k.ID) > maxKeyID {
			bad("the ID of Keys[%d] has %d bytes, it must have 1 to %d", i, len(k.ID), maxKeyID)
		}
		if seen[k.ID] {
			bad("another one of Keys than Keys[%d] has the ID %q", i, k.ID)
		}
		seen[k.ID] = true
		if len(k.Secret) < minKeySecret {
			bad("the Secret of Keys[%d] has %d bytes, it must have %d or more", i, len(k.Secret), minKeySecret)
		}
	}
	if c.ClockSkew < 0 || c.StickyWindow < 0 {
		bad("ClockSkew is %v and StickyWindow %v, neither must be negative", c.ClockSkew, c.StickyWindow)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"MaxAge", c.MaxAge}, {"ClockSkew", c.ClockSkew}, {"StickyWindow", c.StickyWindow}, {"CaptureTimeout", c.CaptureTimeout},
	} {
		if d.value > maxSetting {
			bad("%s is %v, at most %v (ten years) is possible", d.name, d.value, maxSetting)
		}
	}
	if d := c.withDefaults(); d.MaxAge > 0 && d.StickyWindow > d.MaxAge {
		bad("StickyWindow is %v, longer than the MaxAge of %v", d.StickyWindow, d.MaxAge)
	}
	if c.MaxSize != 0 && (c.MaxSize < minTokenSize || c.MaxSize > maxTokenText) {
		bad("MaxSize is %d, it must be %d to %d", c.MaxSize, minTokenSize, maxTokenText)
	}
	if c.Header != "" && !fieldName.MatchString(c.Header) {
		bad("Header is %.80q, it must be 1 to 64 letters, digits, - and _", c.Header)
	}
	if c.Cookie != "" && !fieldName.MatchString(c.Cookie) {
		bad("Cookie is %.80q, it must be 1 to 64 letters, digits, - and _", c.Cookie)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w of a codec: %w", ErrBadConfig, errors.Join(problems...))
}

// Header returns the name under which a [Carrier] holds the token: CodecConfig.Header, or its default.
func (c *Codec) Header() string { return c.config.Header }

// window is how long a token that goes out asks for the primary when nothing better can be said.
func (c *Codec) window() time.Duration { return c.config.StickyWindow + c.config.ClockSkew }

// bad says what stands in for a bad token.
func (c *Codec) bad(ctx context.Context, err error) Token {
	if c.config.OnBadToken != nil {
		return c.config.OnBadToken(ctx, err)
	}
	return PrimaryFor(c.window())
}
