package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

func TestK3_19_ParityColumns(t *testing.T) {
	compareParity(t, parityScript{name: "Types", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TYPE mood AS ENUM ('sad', 'ok')")
		p.exec(p.db, "CREATE DOMAIN posint AS int CHECK (VALUE > 0)")
		p.exec(p.db, `CREATE TYPE record_t AS (a int, b text)`)
		p.exec(p.db, `CREATE TABLE t (id int PRIMARY KEY, small int2, big int8, oid oid, real float4, double float8,
			num numeric, num92 numeric(9,2), flag bool, txt text, vc varchar(255), bc bpchar(10), c "char", nm name, bin bytea,
			bits bit(3), vb varbit(50), d date, ts timestamp, tz timestamptz, tm time, tmz timetz, iv interval, u uuid, j json,
			jb jsonb, x xml, ip inet, net cidr, mac macaddr, ints int[], texts text[], nested int[][], rng int4range,
			multi int4multirange, pt point, money money, m mood, pi posint, tsv tsvector, rec record_t)`)
		p.exec(p.db, `INSERT INTO t VALUES (1, -32768, 9223372036854775807, 4294967295, 1.5, 1e300, 1e40, 1.28, true, 'ü', 'v',
			'b', 'c', 'name', '\x00ff', B'101', B'1', '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02',
			'23:59:59.5', '23:59:59+01', '1 year 2 days 3 hours', '6a5f1c9e-3b1e-4c7b-9d5c-0c8b6a7e1f11', '{"a": 1}', '[null]',
			'<a/>', '::1', '10.0.0.0/8', '08:00:2b:01:02:03', '{1,NULL,3}', '{"a b",c}', '{{1,2},{3,4}}', '[1,5)',
			'{[1,2),[5,9)}', '(1,2)', '12.34', 'ok', 7, 'a b', '(1,x)')`)
		p.exec(p.db, "INSERT INTO t (id) VALUES (2)")
		for _, q := range []execer{p.db, preparing{p.db}} {
			p.query(q, "SELECT * FROM t ORDER BY id")
			p.query(q, "SELECT * FROM t WHERE false")
			p.query(q, "SELECT id, NULL AS nothing, 1::numeric(4,1) AS n, id AS id FROM t WHERE id = $1", 1)
		}
	}}, parityScript{name: "Errors", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n < 10), u int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		p.exec(p.db, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
		for _, q := range []execer{p.db, preparing{p.db}} {
			for _, query := range []string{
				"SELECT", "SELEC 1", "SELECT 1 FROM missing", "SELECT missing FROM t", "SELECT missing(1)", "SELECT 'open", "", " ", ";",
				"SELECT 1/0", "SELECT id / (id - 2) FROM t ORDER BY id", "SELECT 'x'::int", "SELECT * FROM t WHERE id = 'x'",
				"SELECT id, count(*) FROM t", "SELECT 1 UNION SELECT 'x'", "INSERT INTO t VALUES (1, 1, 3)",
				"INSERT INTO t VALUES (3, 99, 3)", "INSERT INTO t VALUES (3, NULL, 3)", "INSERT INTO t VALUES (4, 4, 1)",
				"INSERT INTO t VALUES (4, 4, 1) RETURNING id", "INSERT INTO missing VALUES (1)", "UPDATE t SET n = n + 8",
				"DELETE FROM t WHERE id = 'x'", "SELECT * FROM t FOR UPDATE", "SELECT $1::int",
				"DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'RR001', DETAIL = 'd', HINT = 'h'; END$$",
			} {
				p.query(q, query)
				p.exec(q, query)
			}
		}
		p.query(p.db, "SELECT id FROM t ORDER BY id")
		var n int
		p.note("no rows: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1 WHERE false").Scan(&n)))
		p.note("scan: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 'x'").Scan(&n)))
		p.note("scan null: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT NULL").Scan(&n)))
		p.note("scan range: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 300").Scan(new(int8))))
		p.note("scan two: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1, 2").Scan(&n)))
		p.note("scan nil: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1").Scan(nil)))
		p.note("row error: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1/0").Err()))
	}})
}

// parityValuer is a driver.Valuer by value, so that a nil pointer to it has no method to call.
type parityValuer struct{ v driver.Value }

func (v parityValuer) Value() (driver.Value, error) { return v.v, nil }

// parityPointerValuer is one by pointer, which copes with nil.
type parityPointerValuer struct{ s string }

func (v *parityPointerValuer) Value() (driver.Value, error) {
	if v == nil {
		return "nil", nil
	}
	return v.s, nil
}

type parityFailingValuer struct{}

func (parityFailingValuer) Value() (driver.Value, error) { return nil, errors.New("has no value") }

type (
	parityInt    int
	parityString string
)

// parityArguments are kinds of arguments, and the types that they are given for.
func parityArguments() map[string][]any {
	big1 := new(big.Int).Lsh(big.NewInt(1), 70)
	when := time.Date(2024, 2, 29, 12, 34, 56, 789000, time.FixedZone("", 7200))
	one := 1
	return map[string][]any{
		"int": {1, int8(-1), int16(2), int32(3), int64(4), uint(5), uint8(6), uint16(7), uint32(8), uint64(9), &one, (*int)(nil), nil,
			parityInt(10), "11", parityString("12"), "x", 1.5, true, int64(math.MaxInt64), []byte("13"), sql.NullInt32{Int32: 14, Valid: true},
			sql.NullInt32{}, pgtype.Int4{Int32: 15, Valid: true}, json.Number("16"), rune('a'), struct{ A int }{1}},
		"bigint": {int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), uint64(1) << 63, big1, "9223372036854775808"},
		"numeric": {uint64(math.MaxUint64), big1, *big1, "1e40", 1.5, float32(1.5), math.NaN(), math.Inf(1),
			pgtype.Numeric{Int: big1, Exp: -3, Valid: true}, new(big.Float).SetFloat64(1.5), new(big.Rat)},
		"float8": {1, 1.5, float32(1.5), math.NaN(), math.Inf(-1), "1.5", uint64(math.MaxUint64)},
		"bool":   {true, false, "true", "x", 1, parityValuer{true}},
		"text": {"a", "", "ü\u2028", "nul\x00", "\xff", []byte("b"), []byte(nil), 1, 1.5, true, parityString("c"), parityValuer{"v"},
			parityValuer{nil}, parityValuer{int64(1)}, (*parityValuer)(nil), &parityValuer{"p"}, (*parityPointerValuer)(nil),
			&parityPointerValuer{"pp"}, parityFailingValuer{}, sql.NullString{String: "n", Valid: true}, sql.NullString{},
			sql.Null[string]{V: "g", Valid: true}, pgtype.Text{String: "t", Valid: true}, when, json.RawMessage(`{"a":1}`),
			sql.Named("name", "n"), sql.Named("", "n"), sql.Out{Dest: new(string)}, make(chan int), func() {}, []string{"a"},
			map[string]any{"a": 1}, fmt.Stringer(netip.MustParseAddr("::1")), strings.Repeat("x", 1<<17)},
		"bytea": {[]byte{0, 255}, []byte{}, []byte(nil), "\\x00ff", sql.RawBytes("raw"), [2]byte{1, 2}, json.RawMessage("{}")},
		"timestamptz": {when, when.UTC(), time.Time{}, &when, (*time.Time)(nil), "2024-02-29", sql.NullTime{Time: when, Valid: true},
			pgtype.Timestamptz{Time: when, Valid: true}, pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}},
		"date":      {when, "2024-02-29", pgtype.Date{Time: when, Valid: true}},
		"interval":  {90 * time.Minute, "1 day", pgtype.Interval{Days: 1, Valid: true}},
		"uuid":      {[16]byte{1, 2}, "6a5f1c9e-3b1e-4c7b-9d5c-0c8b6a7e1f11", pgtype.UUID{Bytes: [16]byte{3}, Valid: true}},
		"json":      {map[string]any{"a": []int{1}}, []string{"a"}, struct{ A int }{1}, `{"a":1}`, []byte(`{"a":1}`), json.RawMessage(`1`), nil, "bad", 1},
		"jsonb":     {map[string]any{"a": nil}, `[]`, []byte(`{}`), json.RawMessage(`{"b":2}`), (*struct{ A int })(nil)},
		"inet":      {netip.MustParseAddr("10.0.0.1"), netip.MustParsePrefix("10.0.0.0/8"), "::1"},
		"int4range": {"[1,5)", pgtype.Range[pgtype.Int4]{LowerType: pgtype.Unbounded, UpperType: pgtype.Unbounded, Valid: true}},
		"int[]": {[]int{1, 2}, []int64{}, []int(nil), []*int{&one, nil}, "{1,2}", [2]int{1, 2}, []uint64{1 << 63}, []any{1, 2}, []string{"1"},
			pgtype.FlatArray[int32]{1}, pgtype.Array[int32]{Elements: []int32{1}, Dims: []pgtype.ArrayDimension{{Length: 1, LowerBound: 1}}, Valid: true}},
		"int[][]": {[][]int{{1, 2}, {3, 4}}, [][]int{}},
		"text[]": {[]string{"a", "b c", `"`, "NULL"}, []string(nil), []parityString{"x"}, []sql.NullString{{String: "a", Valid: true}, {}},
			[]parityValuer{{"v"}, {nil}}, []*string{nil}, [][]byte{{65}}},
	}
}

func TestK3_18_ParityArguments(t *testing.T) {
	run := func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id serial, v text)")
		arguments := parityArguments()
		for _, typ := range slices.Sorted(maps.Keys(arguments)) {
			for i, arg := range arguments[typ] {
				p.note("%s from %T:", typ, arg)
				for _, q := range []execer{p.db, preparing{p.db}} {
					p.query(q, "SELECT $1::"+typ+" AS v, $1::"+typ+" IS NULL", arg)
					if i < 3 {
						p.exec(q, "INSERT INTO t (v) VALUES (($1::"+typ+")::text)", arg)
					}
				}
			}
		}
		p.query(p.db, "SELECT v FROM t ORDER BY id")
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		compareParity(t, parityScript{
			name:      mode.String(),
			replica:   true,
			configure: func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode },
			run:       run,
		})
	}
	compareParity(t, parityScript{name: "CountAndOptions", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		for _, q := range []execer{p.db, preparing{p.db}} {
			for _, query := range []string{
				"SELECT 1", "SELECT $1::int", "SELECT $1::int, $2::text", "SELECT $2::int", "INSERT INTO t VALUES ($1)", "SELECT ?", "SELECT :a",
				"SELECT @a::int", "SELECT $1::int, $1::text",
			} {
				p.query(q, query)
				p.query(q, query, 1)
				p.query(q, query, 1, "b")
				p.query(q, query, 1, "b", 3)
				p.query(q, query, sql.Named("a", 1))
				p.query(q, query, pgx.NamedArgs{"a": 1})
				p.query(q, query, pgx.StrictNamedArgs{"b": 1})
				p.query(q, query, pgx.QueryExecModeSimpleProtocol, 1)
				p.query(q, query, pgx.QueryExecModeExec, 1)
				p.query(q, query, pgx.QueryExecModeDescribeExec, pgx.QueryResultFormats{pgx.TextFormatCode}, 1)
				p.query(q, query, pgx.QueryResultFormats{pgx.BinaryFormatCode}, 1)
				p.exec(q, query, 1)
			}
		}
	}})
}

// parityScanner takes any value.
type parityScanner struct{ got any }

func (s *parityScanner) Scan(v any) error {
	if b, ok := v.([]byte); ok {
		v = string(b)
	}
	s.got = v
	return nil
}

func TestParityScan(t *testing.T) {
	compareParity(t, parityScript{name: "Destinations", replica: true, run: func(p *parity) {
		m := pgtype.NewMap()
		for _, query := range []string{
			"SELECT 1", "SELECT 1.5::numeric", "SELECT 'x'::text", "SELECT NULL::text", "SELECT '\\x00'::bytea", "SELECT true",
			"SELECT '2024-02-29'::timestamptz", "SELECT ARRAY[1,2]", "SELECT ARRAY[]::text[]", `SELECT '{"a":1}'::jsonb`, "SELECT int4range(1, 5)",
			"SELECT '1 day'::interval", "SELECT 9223372036854775807",
		} {
			for _, dest := range []any{
				new(any), new(string), new(*string), new([]byte), new(int), new(*int), new(uint8), new(float64), new(bool), new(time.Time),
				new(sql.NullString), new(sql.NullInt64), new(sql.Null[bool]), new([]int64), new([]string), new(map[string]any), new(json.RawMessage),
				new(pgtype.Numeric), new(pgtype.Interval), new(parityScanner), new(parityString),
				m.SQLScanner(new([]int64)), m.SQLScanner(new([]string)), m.SQLScanner(new(pgtype.Range[pgtype.Int4])),
			} {
				err := p.db.QueryRowContext(p.ctx, query).Scan(dest)
				got, jsonErr := json.Marshal(dest)
				p.note("%s into %T: %s %s %v", query, dest, errorText(err), got, jsonErr)
			}
		}
		// Of a type that is not its own pgx scans a NULL into a range on one connection and not on the next.
		var r pgtype.Range[pgtype.Int4]
		p.note("%s %v", errorText(p.db.QueryRowContext(p.ctx, "SELECT int4range(1, 5)").Scan(&r)), r)
	}}, parityScript{name: "RawBytes", replica: true, run: func(p *parity) {
		rows, err := p.db.QueryContext(p.ctx, "SELECT i, repeat(chr(65 + i % 26), i), NULL::text FROM generate_series(0, 200) i")
		p.must(err)
		for rows.Next() {
			var a, b, c sql.RawBytes
			err := rows.Scan(&a, &b, &c)
			p.note("%s %s %t %s", a, b, c == nil, errorText(err))
		}
		p.note("%s %s", errorText(rows.Err()), errorText(rows.Close()))
		p.note("row: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1").Scan(new(sql.RawBytes))))
	}}, parityScript{name: "ManyRows", replica: true, run: func(p *parity) {
		rows, err := p.db.QueryContext(p.ctx, "SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i")
		p.must(err)
		var sum, n int64
		for rows.Next() {
			var i int64
			var s string
			p.must(rows.Scan(&i, &s))
			sum, n = sum+i, n+int64(len(s))
		}
		p.note("%d %d %s %s", sum, n, errorText(rows.Err()), errorText(rows.Close()))
		var b []byte
		err = p.db.QueryRowContext(p.ctx, "SELECT $1::bytea", make([]byte, 5<<20)).Scan(&b)
		p.note("%d %s", len(b), errorText(err))
		rows, err = p.db.QueryContext(p.ctx, "SELECT 10 / (500 - i) FROM generate_series(1, 1000) i")
		p.must(err)
		n = 0
		for rows.Next() {
			n++
		}
		p.note("%d rows, then %s, %s", n, errorText(rows.Err()), errorText(rows.Close()))
	}})
}

func TestParitySimpleProtocol(t *testing.T) {
	compareParity(t, parityScript{
		name:      "SeveralStatements",
		replica:   true,
		configure: func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
		run: func(p *parity) {
			p.exec(p.db, "CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2)")
			for _, query := range []string{
				"SELECT 1; SELECT 2", "SELECT 1; SELECT 'x', 2", "SELECT 1; SELECT 1/0", "INSERT INTO t VALUES (3); SELECT count(*) FROM t",
				"SELECT 1;", ";;", "SELECT 1; INSERT INTO missing VALUES (1)", "BEGIN; INSERT INTO t VALUES (4); COMMIT",
				"INSERT INTO t VALUES (5); INSERT INTO t VALUES (1/0)", "-- nothing", "/* nothing */;",
			} {
				p.query(p.db, query)
				p.exec(p.db, query)
			}
			p.query(p.db, "SELECT id FROM t ORDER BY id; SELECT 1")
		},
	}, parityScript{name: "SeveralStatementsExtended", replica: true, run: func(p *parity) {
		p.query(p.db, "SELECT 1; SELECT 2")
		p.exec(p.db, "CREATE TABLE t (id int); INSERT INTO t VALUES (1)")
		p.query(p.db, "SELECT 1; SELECT $1::int", 2)
		p.query(p.db, "SELECT 1; SELECT 2", pgx.QueryExecModeSimpleProtocol)
	}}, parityScript{name: "Notices", run: func(p *parity) {
		p.exec(p.db, "DO $$BEGIN RAISE NOTICE 'one'; RAISE WARNING 'two'; END$$")
		p.exec(p.db, "DROP TABLE IF EXISTS missing")
		p.note("%q", *p.notices)
	}})
}

func TestParityCancellation(t *testing.T) {
	compareParity(t, parityScript{name: "BeforeTheStart", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		ctx, cancel := context.WithCancel(p.ctx)
		cancel()
		past, cancel := context.WithDeadline(p.ctx, time.Now().Add(-time.Second))
		defer cancel()
		for _, over := range []context.Context{ctx, past} {
			_, err := p.db.ExecContext(over, "INSERT INTO t VALUES (1)")
			p.note("exec: %s", errorText(err))
			_, err = p.db.QueryContext(over, "SELECT 1")
			p.note("query: %s", errorText(err))
			_, err = p.db.PrepareContext(over, "SELECT 1")
			p.note("prepare: %s", errorText(err))
			_, err = p.db.BeginTx(over, nil)
			p.note("begin: %s", errorText(err))
			_, err = p.db.Conn(over)
			p.note("conn: %s", errorText(err))
			p.note("ping: %s", errorText(p.db.PingContext(over)))
			tx, err := p.db.BeginTx(p.ctx, nil)
			p.must(err)
			_, err = tx.ExecContext(over, "INSERT INTO t VALUES (1)")
			p.note("tx exec: %s", errorText(err))
			p.exec(tx, "INSERT INTO t VALUES (3)")
			p.note("commit: %s", errorText(tx.Commit()))
		}
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.query(tx, "SELECT id FROM t ORDER BY id")
		p.must(tx.Rollback())
		p.note("in use: %d", p.db.Stats().InUse)
	}}, parityScript{name: "Underway", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		for _, statement := range []string{"SELECT pg_sleep(10)", "INSERT INTO t SELECT 1 FROM pg_sleep(10)", "SELECT count(*) FROM generate_series(1, 1000000000)"} {
			ctx, cancel := context.WithTimeout(p.ctx, 50*time.Millisecond)
			start := time.Now()
			_, err := p.db.ExecContext(ctx, statement)
			p.note("exec: deadline %t, quick %t", errors.Is(err, context.DeadlineExceeded), time.Since(start) < 5*time.Second)
			cancel()
			ctx, cancel = context.WithCancel(p.ctx)
			timer := time.AfterFunc(20*time.Millisecond, cancel)
			err = p.db.QueryRowContext(ctx, statement).Scan(new(any))
			p.note("query: canceled %t", errors.Is(err, context.Canceled))
			timer.Stop()
			cancel()
		}
		ctx, cancel := context.WithCancel(p.ctx)
		tx, err := p.db.BeginTx(ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (7)")
		cancel()
		err = tx.Commit()
		p.note("commit of a cancelled transaction: %t", errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone))
		eventually(p, "the transaction is rolled back", func() bool { return p.db.Stats().InUse == 0 })
		p.query(p.db, "SELECT count(*) FROM t WHERE id = 7")
		p.exec(p.db, "INSERT INTO t VALUES (8)")
	}})
}

// TestParityEndedContextOnConn is a difference on purpose: pgx calls a connection bad on which it has not sent a statement
// because the context had ended, and database/sql closes the *sql.Conn for it.
func TestParityEndedContextOnConn(t *testing.T) {
	c := sharedCluster(t)
	for _, kind := range []string{"", parityPlain, parityCovered, parityPaused} {
		runParity(t, c, parityScript{replica: true, run: func(p *parity) {
			ended, cancel := context.WithCancel(p.ctx)
			cancel()
			conn, err := p.db.Conn(p.ctx)
			p.must(err)
			_, err = conn.ExecContext(ended, "INSERT INTO begun VALUES (2)")
			if p.routed == nil {
				require.ErrorIs(p, err, driver.ErrBadConn)
				require.ErrorIs(p, conn.Close(), sql.ErrConnDone)
				return
			}
			require.ErrorIs(p, err, context.Canceled)
			p.exec(conn, "INSERT INTO begun VALUES (3)")
			p.query(p.db, "SELECT 1")
			p.must(conn.Close())
			var n int
			p.must(p.db.QueryRowContext(p.ctx, "SELECT count(*) FROM begun WHERE id = 3").Scan(&n))
			require.Equal(p, 1, n)
		}}, kind)
	}
}
