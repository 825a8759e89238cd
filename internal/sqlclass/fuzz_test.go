package sqlclass_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

// blanks are what may be put between two tokens without changing what a text is.
var blanks = map[sqlclass.Dialect][]string{
	sqlclass.PostgreSQL: {" ", "\n", "\t\v\f\r", " /* c */ ", " /* a /* b */ c */ ", " -- c\n", " -- c\r", "\n--\n"},
	sqlclass.MySQL:      {" ", "\n", "\t\r\n", " /* c */ ", " /* a /* b */ ", " -- c\n", " # c\n", "\n--\n", " /**/ "},
}

func init() { blanks[sqlclass.MariaDB] = blanks[sqlclass.MySQL] }

// FuzzClassify holds the classifier to what is true of every text.
func FuzzClassify(f *testing.F) {
	for _, c := range allCases(f) {
		f.Add(uint8(dialects[c.Dialect]), c.SQL, uint16(len(c.SQL)), uint8(3))
	}
	f.Fuzz(func(t *testing.T, dialect uint8, text string, where uint16, which uint8) {
		d := sqlclass.Dialect(dialect%3 + 1)
		st := sqlclass.ClassifyText(d, text)
		if st.Class == sqlclass.Read && (st.MayWrite || st.LeavesState || st.TxState || st.DependsState || st.BeginsTx || st.EndsTx) {
			t.Fatalf("%v %q is a read that does more: %+v", d, text, st)
		}
		// Whatever comes before, a statement of its own at the end counts.
		for _, end := range []string{"\n;DELETE FROM t", "\n;SELECT nextval('s')"} {
			if st := sqlclass.ClassifyText(d, text+end); st.Class == sqlclass.Read {
				t.Fatalf("%v %q hides what comes after it", d, text)
			}
		}
		if sqlclass.Versioned(d, text) {
			return
		}
		list := sqlclass.Boundaries(d, text)
		if len(list) == 0 {
			return
		}
		at, blank := list[int(where)%len(list)], blanks[d][int(which)%len(blanks[d])]
		edited := text[:at] + blank + text[at:]
		if got := sqlclass.ClassifyText(d, edited); got.Class != st.Class || got.Target() != st.Target() {
			t.Fatalf("%v %q is %v (%s), with a blank %q is %v (%s)", d, text, st.Class, st.Token, edited, got.Class, got.Token)
		}
	})
}

// hard are texts of any length that a lexer can lose its way in.
var hard = map[string]func(n int) string{
	"list":    func(n int) string { return "SELECT * FROM t WHERE id IN (" + strings.Repeat("1234567,", n/8) + "1)" },
	"strings": func(n int) string { return "SELECT '" + strings.Repeat("it''s ", n/6) + "'" },
	"rows": func(n int) string {
		return "INSERT INTO t VALUES " + strings.Repeat("(1,'some text',NULL),", n/21) + "(1,'',2)"
	},
	"calls":         func(n int) string { return "SELECT " + strings.Repeat("lower(name), ", n/13) + "1" },
	"parentheses":   func(n int) string { return "SELECT " + strings.Repeat("(", n/2) + strings.Repeat(")", n/2) },
	"levels":        func(n int) string { return strings.Repeat("(SELECT 1) UNION ALL ", n/21) + "SELECT 1" },
	"statements":    func(n int) string { return strings.Repeat("SELECT 1;", n/9) },
	"empty":         func(n int) string { return strings.Repeat(";", n) },
	"comments":      func(n int) string { return strings.Repeat("/* a comment */", n/15) + "SELECT 1" },
	"nested":        func(n int) string { return strings.Repeat("/*", n/2) },
	"dashes":        func(n int) string { return "SELECT 1 " + strings.Repeat("- ", n/2) + "1" },
	"operators":     func(n int) string { return "SELECT 1 " + strings.Repeat("+", n) + "1" },
	"dollars":       func(n int) string { return "SELECT " + strings.Repeat("$a$x$b$", n/7) },
	"backslashes":   func(n int) string { return `SELECT '` + strings.Repeat(`\'`, n/2) + `'` },
	"apart":         func(n int) string { return "SELECT 'a'" + strings.Repeat(" ", n) + "'b'" },
	"lines":         func(n int) string { return "SELECT " + strings.Repeat("'a'\n", n/4) },
	"keywords":      func(n int) string { return "SELECT " + strings.Repeat("update insert ", n/14) },
	"versioned":     func(n int) string { return "SELECT " + strings.Repeat("/*!50000 1, */", n/14) + "1" },
	"names":         func(n int) string { return `SELECT ` + strings.Repeat("`a``b`,\"c\"\"d\",", n/15) + "1" },
	"variables":     func(n int) string { return "SELECT " + strings.Repeat("@a:=@@b,", n/8) + "1" },
	"one name":      func(n int) string { return "SELECT " + strings.Repeat("a", n) },
	"one number":    func(n int) string { return "SELECT " + strings.Repeat("1", n) },
	"names and dot": func(n int) string { return "SELECT " + strings.Repeat("a.", n/2) + "b(1)" },
}

// TestClassifyInLinearTime: twelve times the text takes no more than about twelve times as long. The allowance is for a busy machine;
// what grows with the square takes 144 times as long.
func TestClassifyInLinearTime(t *testing.T) {
	c := make(map[sqlclass.Dialect]*sqlclass.Classifier)
	for _, d := range dialects {
		var err error
		c[d], err = sqlclass.New(sqlclass.Options{Dialect: d, CacheBytes: -1})
		require.NoError(t, err)
		var operators []sqlclass.CatalogueRow
		for n := range 20 {
			operators = append(operators, sqlclass.CatalogueRow{Kind: sqlclass.CatalogueOperator, Schema: "s", Name: "!" + strings.Repeat("+", n)})
		}
		c[d].SetCatalogue(operators)
	}
	const small = 40_000
	for name, text := range hard {
		for dialect, d := range dialects {
			short, long := text(small), text(12*small)
			best := func(s string) time.Duration {
				least := time.Hour
				for range 2 {
					begun := time.Now()
					c[d].Classify(s)
					least = min(least, time.Since(begun))
				}
				return least
			}
			var a, b time.Duration
			for try := 0; try == 0 || b > 40*a && b > 8*time.Millisecond; try++ {
				if try == 10 {
					t.Errorf("%s, %s: %v, twelve times as long %v", dialect, name, a, b)
					break
				}
				a, b = best(short), best(long)
			}
		}
	}
}

// TestClassifyAllocatesNothing: neither for a text nor for a long one. A name with a schema in capitals is folded.
func TestClassifyAllocatesNothing(t *testing.T) {
	for name, text := range hard {
		for dialect, d := range dialects {
			s := text(5000)
			if n := testing.AllocsPerRun(20, func() { sqlclass.ClassifyText(d, s) }); n > 0 {
				t.Errorf("%s, %s: %v allocations", dialect, name, n)
			}
		}
	}
}

// TestCacheIsBounded: an endless stream of texts with lists of their own keeps the cache within its bytes, and what comes again and again
// stays in it.
func TestCacheIsBounded(t *testing.T) {
	const budget = 256 << 10
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL, CacheBytes: budget})
	require.NoError(t, err)
	const usual = "SELECT * FROM usual WHERE id = $1"
	before := heap()
	for i := range 50_000 {
		text := fmt.Sprintf("SELECT * FROM t WHERE id IN (%d, %s)", i, strings.Repeat("1, ", i%100)+"2")
		require.Equal(t, sqlclass.Read, c.Classify(text).Class)
		if i%3 == 0 {
			c.Classify(text) // the second time it is kept
		}
		c.Classify(usual)
		if i%1000 == 0 {
			st := c.Stats()
			require.LessOrEqual(t, st.Bytes, int64(budget))
		}
	}
	require.Less(t, heap()-before, int64(2*budget))
	st := c.Stats()
	require.Greater(t, st.Bytes, int64(budget/2), "it is used")
	require.Greater(t, st.Entries, int64(100))
	require.Greater(t, st.Hits, int64(49_900), "the usual text is in the cache nearly always")
	require.Greater(t, st.Misses, int64(50_000))
	// Whatever is cached is right: the text decides, not its hash.
	require.Equal(t, sqlclass.Write, c.Classify("SELECT * FROM usual WHERE id = $1 FOR UPDATE").Class)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLearnedIsBounded: what replicas have refused goes to the primary, and remembering it is bounded as well.
func TestLearnedIsBounded(t *testing.T) {
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
	require.NoError(t, err)
	const text = "SELECT * FROM a_view"
	for range 3 {
		require.Equal(t, sqlclass.Read, c.Classify(text).Class)
	}
	c.LearnWrite(text)
	st := c.Classify(text)
	require.Equal(t, sqlclass.Write, st.Class)
	require.Equal(t, sqlclass.TargetPrimary, st.Target())
	require.Equal(t, int64(1), c.Stats().LearnedEntries)
	require.Equal(t, int64(1), c.Stats().LearnedHits)

	c.LearnWrite(strings.Repeat("-", sqlclass.LearnedBytes)) // too large to be remembered, and no harm
	for i := range 20_000 {
		c.LearnWrite(fmt.Sprintf("SELECT * FROM a_view WHERE id IN (%d, %s)", i, strings.Repeat("1, ", i%100)+"2"))
	}
	got := c.Stats()
	require.Equal(t, int64(20_002), got.Learned)
	require.LessOrEqual(t, got.LearnedBytes, int64(sqlclass.LearnedBytes))
	require.Greater(t, got.LearnedEntries, int64(1000))
}

// TestCatalogueThatIsTheSameKeepsTheCache: reading the catalogue again costs nothing while nothing changes.
func TestCatalogueThatIsTheSameKeepsTheCache(t *testing.T) {
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
	require.NoError(t, err)
	rows := []sqlclass.CatalogueRow{{Kind: sqlclass.CatalogueReads, Schema: "s", Name: "mine"}, {Kind: sqlclass.CataloguePrimary, Schema: "s", Name: "seq"}}
	c.SetCatalogue(rows)
	for range 3 {
		require.Equal(t, sqlclass.Read, c.Classify("SELECT mine(1)").Class)
	}
	require.Equal(t, int64(1), c.Stats().Entries)
	c.SetCatalogue([]sqlclass.CatalogueRow{rows[1], rows[0]})
	require.Equal(t, int64(1), c.Stats().Entries)
	c.SetCatalogue(rows[1:])
	require.Zero(t, c.Stats().Entries)
	require.Equal(t, sqlclass.Unknown, c.Classify("SELECT mine(1)").Class)
}

// TestCatalogueOfAnySize: no number of the user's own names pushes out what the classifier knows.
func TestCatalogueOfAnySize(t *testing.T) {
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
	require.NoError(t, err)
	var rows []sqlclass.CatalogueRow
	for i := range 150_000 {
		rows = append(rows, sqlclass.CatalogueRow{Kind: sqlclass.CataloguePrimary, Schema: "s", Name: fmt.Sprintf("t_%d_id_seq", i)})
	}
	c.SetCatalogue(rows)
	require.Equal(t, sqlclass.Read, c.Classify("SELECT lower(name) FROM t").Class)
	for _, text := range []string{"SELECT * FROM t FOR UPDATE", "SELECT last_value FROM t_7_id_seq", "SELECT last_value FROM s.t_149999_id_seq", "SELECT 1 INTO x"} {
		require.NotEqual(t, sqlclass.Read, c.Classify(text).Class, text)
	}
}
