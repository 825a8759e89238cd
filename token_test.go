package readroute_test

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

var (
	_ encoding.TextMarshaler   = readroute.Token{}
	_ encoding.TextUnmarshaler = (*readroute.Token)(nil)
)

// tokenBytes builds the binary form of a token, for texts that Token.String never makes.
type tokenBytes []byte

func (b tokenBytes) bytes(more ...byte) tokenBytes { return append(b[:len(b):len(b)], more...) }
func (b tokenBytes) name(s string) tokenBytes      { return b.bytes(byte(len(s))).bytes([]byte(s)...) }
func (b tokenBytes) text() string                  { return base64.RawURLEncoding.EncodeToString(b) }

// position is one of system 7 and a timeline and LSN below 128.
func (b tokenBytes) position(timeline, lsn byte) tokenBytes {
	return b.bytes(1, 0, 0, 0, 0, 0, 0, 0, 7, timeline, lsn)
}

// oneEntry is a token of one cluster without times.
func oneEntry(positions byte) tokenBytes { return tokenBytes{1, 1}.name("main").bytes(0, positions) }

func TestTokenZero(t *testing.T) {
	var zero readroute.Token
	require.True(t, zero.IsZero())
	require.Empty(t, zero.String())
	parsed, err := readroute.ParseToken("")
	require.NoError(t, err)
	require.True(t, parsed.IsZero())
}

func TestTokenText(t *testing.T) {
	most := tokenBytes{1, 64}
	for i := range byte(64) {
		most = most.name(string(rune('!'+i))).bytes(1, 77, 0)
	}
	for name, b := range map[string]tokenBytes{
		"a position":             oneEntry(1).position(1, 5),
		"no LSN":                 oneEntry(1).position(1, 0),
		"two histories":          oneEntry(2).position(1, 5).position(2, 3),
		"four histories":         oneEntry(4).position(1, 5).position(2, 3).position(3, 3).position(9, 3),
		"a time":                 tokenBytes{1, 1}.name("main").bytes(1, 77, 0),
		"an end of the term":     tokenBytes{1, 1}.name("main").bytes(2, 77, 0),
		"both":                   tokenBytes{1, 1}.name("main").bytes(3, 77, 78, 0),
		"64 clusters":            most,
		"two clusters":           tokenBytes{1, 2}.name("a").bytes(1, 77, 0).name("b").bytes(0, 1).position(1, 5),
		"a cluster without name": tokenBytes{1, 1}.name("").bytes(1, 77, 0),
	} {
		t.Run(name, func(t *testing.T) {
			token, err := readroute.ParseToken(b.text())
			require.NoError(t, err)
			require.False(t, token.IsZero())
			require.Equal(t, b.text(), token.String())
			require.Equal(t, token, token.Merge(token))

			marshalled, err := json.Marshal(map[string]readroute.Token{"t": token})
			require.NoError(t, err)
			var back map[string]readroute.Token
			require.NoError(t, json.Unmarshal(marshalled, &back))
			require.Equal(t, token, back["t"])
		})
	}
}

// malformedTokens are texts that Token.String never makes.
func malformedTokens() map[string]string {
	good := oneEntry(1).position(1, 5)
	long := tokenBytes{1, 1}.name("main").bytes(0, 5)
	for i := range byte(5) {
		long = long.position(i+1, 1)
	}
	many := tokenBytes{1, 65}
	for i := range byte(65) {
		many = many.name(string(rune('!'+i))).bytes(1, 77, 0)
	}
	return map[string]string{
		"65 clusters":              many.text(),
		"not base64":               "!!!!",
		"padding":                  base64.URLEncoding.EncodeToString(good.bytes(0)),
		"the other alphabet":       "AQEEbWFpb+/",
		"blanks":                   " " + good.text(),
		"a line end":               good.text() + "\n",
		"bits behind the end":      tokenBytes{1, 1}.name("main").bytes(1, 77, 0).text()[:13] + "B",
		"too long":                 strings.Repeat("A", 4097),
		"version 0":                tokenBytes{0, 1}.bytes(good[2:]...).text(),
		"version 2":                tokenBytes{2, 1}.bytes(good[2:]...).text(),
		"version only":             tokenBytes{1}.text(),
		"no entries":               tokenBytes{1, 0}.text(),
		"more entries than there":  tokenBytes{1, 2}.bytes(good[2:]...).text(),
		"entries without end":      tokenBytes{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}.text(),
		"count of eleven bytes":    tokenBytes{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}.text(),
		"bytes behind its end":     good.bytes(0).text(),
		"cut in the name":          good[:4].text(),
		"cut in the system":        good[:12].text(),
		"cut before the LSN":       good[:len(good)-1].text(),
		"name without end":         tokenBytes{1, 1, 0xff, 0xff, 0x03, 'm'}.text(),
		"empty entry":              oneEntry(0).text(),
		"unknown flag":             tokenBytes{1, 1}.name("main").bytes(4, 0).text(),
		"time zero":                tokenBytes{1, 1}.name("main").bytes(1, 0, 0).text(),
		"time out of range":        tokenBytes{1, 1}.name("main").bytes(1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0).text(),
		"positions without end":    tokenBytes{1, 1}.name("main").bytes(0, 0xff, 0x7f).text(),
		"unknown kind":             oneEntry(1).bytes(2, 0, 0, 0, 0, 0, 0, 0, 7, 1, 5).text(),
		"timeline zero":            oneEntry(1).position(0, 5).text(),
		"timeline out of range":    oneEntry(1).bytes(1, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0x7f, 5).text(),
		"one history twice":        oneEntry(2).position(1, 5).position(1, 6).text(),
		"histories out of order":   oneEntry(2).position(2, 5).position(1, 6).text(),
		"five histories":           long.text(),
		"one cluster twice":        tokenBytes{1, 2}.name("a").bytes(1, 77, 0).name("a").bytes(1, 78, 0).text(),
		"clusters out of order":    tokenBytes{1, 2}.name("b").bytes(1, 77, 0).name("a").bytes(1, 78, 0).text(),
		"number longer than needs": tokenBytes{1, 0x81, 0x00}.bytes(good[2:]...).text(),
		"an LSN is no token":       "0/401F780",
	}
}

func TestTokenMalformed(t *testing.T) {
	for name, text := range malformedTokens() {
		t.Run(name, func(t *testing.T) {
			_, err := readroute.ParseToken(text)
			require.ErrorIs(t, err, readroute.ErrBadToken)
			require.Less(t, len(err.Error()), 200, "a text from outside does not flood the log")

			token, err := readroute.ParseToken(oneEntry(1).position(1, 5).text())
			require.NoError(t, err)
			before := token
			require.ErrorIs(t, token.UnmarshalText([]byte(text)), readroute.ErrBadToken)
			require.Equal(t, before, token)
		})
	}
}

// FuzzParseToken: no text makes it panic; what it accepts is the text of the token that comes out, is bounded, and merges
// with itself to itself.
func FuzzParseToken(f *testing.F) {
	for _, text := range malformedTokens() {
		f.Add(text)
	}
	f.Add(oneEntry(2).position(1, 5).position(2, 3).text())
	f.Add(tokenBytes{1, 2}.name("a").bytes(3, 77, 78, 0).name("b").bytes(0, 1).position(1, 5).text())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := readroute.ParseToken(text)
		if err != nil {
			require.ErrorIs(t, err, readroute.ErrBadToken)
			return
		}
		require.Equal(t, text, token.String())
		require.LessOrEqual(t, len(text), 4096)
		require.Equal(t, text, token.Merge(token).String())
		require.Equal(t, text, readroute.Token{}.Merge(token).String())
	})
}
