package readroute_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

const (
	serverA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	serverB = "246e88bd-0288-11e8-9cee-230cd2fc765b"
)

func mustGTIDSet(tb testing.TB, text string) readroute.GTIDSet {
	tb.Helper()
	s, err := readroute.ParseGTIDSet(text)
	require.NoError(tb, err)
	return s
}

func mustMariaDBGTID(tb testing.TB, text string) readroute.MariaDBGTID {
	tb.Helper()
	g, err := readroute.ParseMariaDBGTID(text)
	require.NoError(tb, err)
	return g
}

// What other implementations got wrong, by the numbers of the project's collection of public bug reports; the rest of
// them is where the types are made, in internal/core.
func TestGTIDCases(t *testing.T) {
	t.Parallel()

	t.Run("K5-01 a UUID listed twice", func(t *testing.T) {
		s := mustGTIDSet(t, serverA+":100-200,"+serverA+":300-400")
		require.Equal(t, serverA+":100-200:300-400", s.String())
		require.True(t, s.Contains(mustGTIDSet(t, serverA+":150:350")))
		require.False(t, s.Contains(mustGTIDSet(t, serverA+":250")))
	})
	t.Run("K5-02 as the server prints it", func(t *testing.T) {
		s := mustGTIDSet(t, strings.ToUpper(serverA)+":1-5,\n"+serverB+":1-59")
		require.Equal(t, serverB+":1-59,"+serverA+":1-5", s.String())
		_, err := readroute.ParseGTIDSet(serverA + ":1-5,")
		require.ErrorIs(t, err, readroute.ErrBadGTIDSet)
	})
	t.Run("K5-04 adjacent and overlapping intervals", func(t *testing.T) {
		need := mustGTIDSet(t, serverA+":1-10")
		require.True(t, mustGTIDSet(t, serverA+":1-5:6-10").Contains(need))
		require.True(t, mustGTIDSet(t, serverA+":1-7:5-10").Contains(need))
		require.False(t, mustGTIDSet(t, serverA+":1-5:7-10").Contains(need))
	})
	t.Run("K5-05 tags", func(t *testing.T) {
		s := mustGTIDSet(t, serverA+":1-5:mysqlsh:1-3:7")
		require.True(t, s.Contains(mustGTIDSet(t, serverA+":mysqlsh:7")))
		require.False(t, s.Contains(mustGTIDSet(t, serverA+":7")))
		_, err := readroute.ParseGTIDSet(serverA + ":9bad:1")
		require.ErrorIs(t, err, readroute.ErrBadGTIDSet)
	})
	t.Run("K5-07 order and aliasing", func(t *testing.T) {
		a, b := mustMariaDBGTID(t, "2-1-5,1-1-3"), mustMariaDBGTID(t, "1-1-3,2-1-5")
		require.Equal(t, a, b)
		require.Equal(t, "0-1-1,1-1-3,2-1-5", a.Union(mustMariaDBGTID(t, "0-1-1")).String())
		require.Equal(t, b, a)
	})
	t.Run("K5-10 the other flavour", func(t *testing.T) {
		_, err := readroute.ParseGTIDSet("0-1-5")
		require.ErrorIs(t, err, readroute.ErrBadGTIDSet)
		_, err = readroute.ParseMariaDBGTID(serverA + ":1-5")
		require.ErrorIs(t, err, readroute.ErrBadMariaDBGTID)
	})
}

func TestGTIDSetValue(t *testing.T) {
	t.Parallel()

	a, b := mustGTIDSet(t, serverA+":1-5"), mustGTIDSet(t, serverA+":1-9")
	order, ok := a.Compare(b)
	require.Equal(t, []any{-1, true}, []any{order, ok})
	_, ok = a.Compare(mustGTIDSet(t, serverB+":1"))
	require.False(t, ok)
	require.Equal(t, serverA+":6-9", b.Difference(a).String())
	require.Equal(t, b, a.Union(b))
	require.True(t, readroute.GTIDSet{}.IsZero())
	require.False(t, a.IsZero())
	require.Equal(t, map[readroute.GTIDSet]bool{a: true}, map[readroute.GTIDSet]bool{mustGTIDSet(t, serverA+":1:2:3:4:5"): true})

	text, err := json.Marshal(map[string]readroute.GTIDSet{"at": a})
	require.NoError(t, err)
	require.JSONEq(t, `{"at":"`+serverA+`:1-5"}`, string(text))
	var out map[string]readroute.GTIDSet
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, a, out["at"])

	var s readroute.GTIDSet
	require.NoError(t, s.Scan(serverA+":1-5"))
	require.NoError(t, s.Scan([]byte(serverA+":1-5")))
	require.Equal(t, a, s)
	for _, src := range []any{nil, int64(5), "0-1-5", []byte("x")} {
		require.ErrorIs(t, s.Scan(src), readroute.ErrBadGTIDSet)
		require.Equal(t, a, s, "a failed Scan changes nothing")
	}
	value, err := a.Value()
	require.NoError(t, err)
	require.Equal(t, serverA+":1-5", value)
	var absent sql.Null[readroute.GTIDSet]
	require.NoError(t, absent.Scan(nil))
	require.False(t, absent.Valid)
}

func TestMariaDBGTIDValue(t *testing.T) {
	t.Parallel()

	a, b := mustMariaDBGTID(t, "0-1-5"), mustMariaDBGTID(t, "1-1-1,0-1-9")
	order, ok := a.Compare(b)
	require.Equal(t, []any{-1, true}, []any{order, ok})
	require.True(t, b.Contains(a))
	_, ok = a.Compare(mustMariaDBGTID(t, "0-2-6"))
	require.False(t, ok, "the order of a domain hides a loss")
	require.Equal(t, "0-1-9,1-1-1", b.Difference(a).String())
	require.Equal(t, "0-1-5,0-2-6", a.Union(mustMariaDBGTID(t, "0-2-6")).String())
	require.True(t, readroute.MariaDBGTID{}.IsZero())
	require.False(t, a.IsZero())

	text, err := json.Marshal(b)
	require.NoError(t, err)
	require.JSONEq(t, `"0-1-9,1-1-1"`, string(text))
	var out readroute.MariaDBGTID
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, b, out)

	var g readroute.MariaDBGTID
	require.NoError(t, g.Scan("0-1-5"))
	require.NoError(t, g.Scan([]byte("0-1-5")))
	require.Equal(t, a, g)
	for _, src := range []any{nil, int64(5), "0-1", []byte(serverA + ":1")} {
		require.ErrorIs(t, g.Scan(src), readroute.ErrBadMariaDBGTID)
		require.Equal(t, a, g, "a failed Scan changes nothing")
	}
	value, err := a.Value()
	require.NoError(t, err)
	require.Equal(t, "0-1-5", value)
}

func TestGTIDTooLong(t *testing.T) {
	t.Parallel()

	_, err := readroute.ParseGTIDSet(strings.Repeat(serverA+":1,", 1<<20/39))
	require.ErrorIs(t, err, readroute.ErrBadGTIDSet)
	require.ErrorIs(t, err, readroute.ErrGTIDTooLong)
	_, err = readroute.ParseMariaDBGTID(strings.Repeat("0-1-1,", 1<<20/6))
	require.ErrorIs(t, err, readroute.ErrBadMariaDBGTID)
	require.ErrorIs(t, err, readroute.ErrGTIDTooLong)

	// Two sets that can be read make one that could not be.
	list := func(from int) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, ",%08x-71ca-11e1-9e33-c80aa9429562:1", from+i)
		}
		return b.String()[1:]
	}
	union := mustGTIDSet(t, list(0)).Union(mustGTIDSet(t, list(5000)))
	_, err = union.MarshalText()
	require.ErrorIs(t, err, readroute.ErrGTIDTooLong)
}

func BenchmarkGTIDSetContains(b *testing.B) {
	var text strings.Builder
	text.WriteString(serverA)
	for i := range 1000 {
		fmt.Fprintf(&text, ":%d-%d", 1000*i+1, 1000*i+900)
	}
	have, need := mustGTIDSet(b, text.String()), mustGTIDSet(b, serverA+":500001-500900")
	b.ReportAllocs()
	for b.Loop() {
		if !have.Contains(need) {
			b.Fatal("not contained")
		}
	}
}
