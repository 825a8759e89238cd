package core_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
)

// Errors for a malformed GTID set and for a malformed list of MariaDB's GTIDs.
const (
	errMalformedGTIDSet = 1772
	errMalformedGTIDs   = 1941
)

func openServer(t *testing.T, n *dbtest.MySQLNode) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(n.DSN())
	require.NoError(t, err)
	config.InterpolateParams = true
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// requireRefusal wants the server to have refused a text, and for no other reason.
func requireRefusal(t *testing.T, err error, number uint16, text string) {
	t.Helper()
	var refusal *mysql.MySQLError
	require.True(t, errors.As(err, &refusal), "text %q: %v", text, err)
	require.Equal(t, number, refusal.Number, "text %q: %v", text, refusal)
}

// mutations makes n texts, always the same ones, out of texts that are whole and parts that may follow each other.
func mutations(n int, seed uint64, texts, parts []string) []string {
	random := rand.New(rand.NewPCG(seed, 5))
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	made := append([]string{}, texts...)
	for len(made) < n {
		var b strings.Builder
		switch random.IntN(3) {
		case 0: // parts in any order
			for range 1 + random.IntN(8) {
				b.WriteString(pick(parts))
			}
		default: // one or two small changes
			text := pick(texts)
			for range 1 + random.IntN(2) {
				at := random.IntN(len(text) + 1)
				end := min(len(text), at+random.IntN(2))
				text = text[:at] + strings.Repeat(pick(parts), random.IntN(2)) + text[end:]
			}
			b.WriteString(text)
		}
		made = append(made, b.String())
	}
	return made
}

// MySQL as the judge of texts, of their canonical form, of containment, difference and union.
func TestGTIDSetOnMySQL(t *testing.T) {
	t.Parallel()
	c := dbtest.StartMySQLT(t, dbtest.MySQLOptions{})
	db, ctx := openServer(t, c.Primary()), t.Context()

	t.Run("texts", func(t *testing.T) {
		for _, bad := range gtidBad {
			_, err := serverGTIDSet(ctx, db, bad.text)
			if bad.byMySQL {
				requireRefusal(t, err, errMalformedGTIDSet, bad.text)
			} else {
				require.NoError(t, err, "MySQL passes over it: %q", bad.text)
			}
		}
		var texts []string
		for _, c := range gtidTexts {
			texts = append(texts, c.text)
		}
		parts := []string{uuidA, uuidB, uuidA + ":", ":", ",", ":1", ":2-7", ":5", ":tag", ":b:", "-", "9", "0", " ", "\n", "\t", "_", "Z", "e", ".", "\x00", "é"}
		accepted, refused := 0, 0
		for _, text := range mutations(3000, 1, texts, parts) {
			canonical, serverErr := serverGTIDSet(ctx, db, text)
			s, err := core.ParseGTIDSet(text)
			if err == nil {
				require.NoError(t, serverErr, "the server refuses %q", text)
				require.Equal(t, canonical, s.String(), "text %q", text)
				accepted++
				continue
			}
			if serverErr != nil {
				requireRefusal(t, serverErr, errMalformedGTIDSet, text)
				refused++
				continue
			}
			// What the server passes over is a known kind of leniency, not a set of ours that is not read.
			require.True(t, isLenient(text), "the server reads %q as %q: %v", text, canonical, err)
		}
		t.Logf("%d accepted, %d refused by both", accepted, refused)
		require.Greater(t, accepted, 300)
		require.Greater(t, refused, 300)
	})

	t.Run("laws", func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 1))
		outcomes := map[bool]int{}
		for range 1000 {
			a, b := randomModel(random).set(t, random), randomModel(random).set(t, random)
			if random.IntN(3) == 0 {
				a = a.Union(b)
			}
			var contained bool
			var difference, union string
			require.NoError(t, db.QueryRowContext(ctx, "SELECT GTID_SUBSET(?, ?), GTID_SUBTRACT(?, ?), GTID_SUBTRACT(CONCAT(?, ',', ?), '')",
				b.String(), a.String(), a.String(), b.String(), a.String(), b.String()).Scan(&contained, &difference, &union))
			require.Equal(t, contained, a.Contains(b), "%v contains %v", a, b)
			require.Equal(t, oneLine(difference), a.Difference(b).String(), "%v without %v", a, b)
			require.Equal(t, oneLine(union), a.Union(b).String(), "%v and %v", a, b)
			outcomes[contained]++
		}
		require.Greater(t, min(outcomes[true], outcomes[false]), 100)
	})

	t.Run("what a server has executed", func(t *testing.T) {
		before := executed(t, db)
		own, ok := core.ParseUUID(value(t, db, "SELECT @@server_uuid"))
		require.True(t, ok)
		_, err := db.ExecContext(ctx, "CREATE TABLE t (id INT)")
		require.NoError(t, err)
		conn, err := db.Conn(ctx)
		require.NoError(t, err)
		defer conn.Close()
		for _, text := range []string{"SET gtid_next = 'AUTOMATIC:audit'", "INSERT INTO t VALUES (1)", "SET gtid_next = 'AUTOMATIC'"} {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				require.Contains(t, text, "audit", "only tags are new: %v", err)
				return // before 8.3
			}
		}
		after := executed(t, db)
		order, comparable := before.Compare(after)
		require.Equal(t, []any{-1, true}, []any{order, comparable})
		require.Contains(t, after.Difference(before).String(), ":audit:1")
		moved := after.MovedSince(before, own)
		require.Regexp(t, "^"+own.String()+":1-[0-9]+:audit:1$", moved.String(), "all of the server that has written, and nothing else")
		require.True(t, moved.Contains(after.Difference(before)))
		require.Equal(t, core.NotCovered, after.CoveredBy(before))
		require.Equal(t, core.Covered, before.CoveredBy(after))
	})
}

// isLenient reports whether a text has what MySQL passes over and ParseGTIDSet does not: an empty place between commas, a
// UUID or tag without an interval, an interval that ends before it begins, another spelling of a UUID.
func isLenient(text string) bool {
	text = strings.NewReplacer(" ", "", "\t", "", "\n", "", "\r", "").Replace(text)
	for item := range strings.SplitSeq(text, ",") {
		parts := strings.Split(item, ":")
		if len(parts) < 2 {
			return true
		}
		if _, ok := core.ParseUUID(parts[0]); !ok {
			return true
		}
		empty := false
		for _, part := range parts[1:] {
			switch first, last, interval := strings.Cut(part, "-"); {
			case interval && (len(strings.TrimLeft(first, "0")) > len(strings.TrimLeft(last, "0")) || strings.TrimLeft(first, "0") > strings.TrimLeft(last, "0")):
				return true
			case part != "" && (part[0] < '0' || part[0] > '9'):
				if empty {
					return true
				}
				empty = true
			default:
				empty = false
			}
		}
		if empty {
			return true
		}
	}
	return false
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "") }

// serverGTIDSet is the server's canonical form of a text, on one line.
func serverGTIDSet(ctx context.Context, db *sql.DB, text string) (string, error) {
	var canonical string
	err := db.QueryRowContext(ctx, "SELECT GTID_SUBTRACT(?, '')", text).Scan(&canonical)
	return oneLine(canonical), err
}

func value(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var v string
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&v), query)
	return v
}

func executed(t *testing.T, db *sql.DB) core.GTIDSet {
	t.Helper()
	text := value(t, db, "SELECT @@GLOBAL.gtid_executed")
	s := gtids(t, text)
	require.Equal(t, oneLine(text), s.String())
	return s
}
