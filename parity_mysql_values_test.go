package readroute_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// mysqlTypes makes a table with a column of every type.
func mysqlTypes(p *mysqlParity) {
	p.exec(p.db, `CREATE TABLE t (id INT PRIMARY KEY, tiny TINYINT, utiny TINYINT UNSIGNED NOT NULL DEFAULT 7, small SMALLINT,
		med MEDIUMINT UNSIGNED, big BIGINT, ubig BIGINT UNSIGNED, zf INT(5) UNSIGNED ZEROFILL, flt FLOAT, dbl DOUBLE,
		num DECIMAL(65,30), num92 DECIMAL(9,2) NOT NULL DEFAULT 0, flag BOOL, ch CHAR(10), vc VARCHAR(255), lat VARCHAR(9)
		CHARACTER SET latin1, tt TINYTEXT, txt TEXT, lt LONGTEXT, bin BINARY(4), vb VARBINARY(50), tb TINYBLOB, bl BLOB, lb LONGBLOB,
		bits BIT(3), bits64 BIT(64), d DATE, ts TIMESTAMP(3) NULL, dt DATETIME(6), dt0 DATETIME, tm TIME(2), y YEAR,
		e ENUM('sad', 'ok', 'ü'), s SET('a', 'b', 'c'), j JSON, g GEOMETRY)`)
	p.exec(p.db, `INSERT INTO t VALUES (1, -128, 255, -32768, 16777215, -9223372036854775808, 18446744073709551615, 42, 1.5, 1e300,
		123456789012345678901234567890.000000000000000000000000000001, -1.28, true, 'c', 'ü€😀', 'é', 'tt', 'text', 'long', x'00ff',
		x'00', 'tb', x'ff00', 'lb', b'101', x'ffffffffffffffff', '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012',
		'9999-12-31 23:59:59', '-838:59:59.00', 2155, 'ü', 'a,c', '{"a": [1, null, "x"]}', ST_GeomFromText('POINT(1 2)'))`)
	p.exec(p.db, "INSERT INTO t (id) VALUES (2)")
	p.exec(p.db, "INSERT IGNORE INTO t (id, d, dt) VALUES (3, '0000-00-00', '0000-00-00 00:00:00')")
}

func TestParityMySQLColumns(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	run := func(p *mysqlParity) {
		mysqlTypes(p)
		for _, q := range []execer{p.db, preparing{p.db}} {
			p.query(q, "SELECT * FROM t ORDER BY id")
			p.query(q, "SELECT * FROM t WHERE FALSE")
			p.query(q, `SELECT id, NULL AS nothing, CAST(1 AS DECIMAL(4,1)) AS n, id AS id, ubig + 0, num92 * 2, big IS NULL, t.vc
				FROM t WHERE id = ?`, 1)
			p.query(q, "SELECT COUNT(*), SUM(id), AVG(id), MAX(dt), GROUP_CONCAT(vc), BIT_OR(bits) FROM t")
			p.query(q, "SELECT dt, ts, d FROM t WHERE dt = ?", time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC))
		}
		p.query(p.db, "DESCRIBE t")
		p.query(p.db, "SHOW TABLES")
		p.query(p.db, "EXPLAIN SELECT 1")
		p.query(p.db, "SELECT JSON_EXTRACT(j, '$.a[2]'), ST_AsText(g), HEX(bits64), e + 0, s + 0 FROM t WHERE id = 1")
	}
	compareMySQLParity(t,
		mysqlScript{name: "Types", replica: true, run: run},
		mysqlScript{name: "TypesParseTime", replica: true, run: run, configure: func(c *mysql.Config) {
			c.ParseTime, c.Loc, c.InterpolateParams, c.ColumnsWithAlias = true, berlin, true, true
			c.Params = map[string]string{"time_zone": "'+05:30'"}
		}},
		mysqlScript{name: "TypesCompressed", replica: true, run: run, configure: func(c *mysql.Config) {
			c.ParseTime = true
			require.NoError(t, c.Apply(mysql.EnableCompression(true), mysql.TimeTruncate(time.Millisecond),
				mysql.Charset("latin1", "latin1_swedish_ci")))
		}},
	)
}

func TestParityMySQLErrors(t *testing.T) {
	run := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, n TINYINT NOT NULL, u INT UNIQUE, s VARCHAR(3), CHECK (n < 10))")
		p.exec(p.db, "CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES t (id))")
		p.exec(p.db, "INSERT INTO t VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b')")
		for _, q := range []execer{p.db, preparing{p.db}} {
			for _, query := range []string{
				"SELECT", "SELEC 1", "SELECT 1 FROM missing", "SELECT missing FROM t", "SELECT missing(1)", "SELECT 'open", "", " ", ";", "-- x",
				"/* open", "SELECT 1/0", "SELECT 1 % 0, CAST('x' AS SIGNED)", "SELECT * FROM t WHERE id = 'x'", "SELECT id, COUNT(*) FROM t",
				"SELECT 1 UNION SELECT 1, 2", "SELECT (SELECT id FROM t)", "SELECT 9223372036854775807 + 1", "SELECT EXP(1000)",
				"INSERT INTO t VALUES (1, 1, 3, '')", "INSERT INTO t VALUES (3, 99, 3, '')", "INSERT INTO t VALUES (3, NULL, 3, '')",
				"INSERT INTO t VALUES (3, 300, 3, '')", "INSERT INTO t VALUES (3, 3, 3, 'long')", "INSERT INTO t VALUES (4, 4, 1, '')",
				"INSERT INTO t VALUES (4)", "INSERT INTO t VALUES (4, 4, 4, 'x'), (1, 1, 1, 'y')", "INSERT INTO child VALUES (9)",
				"DELETE FROM t WHERE id = 'x'", "INSERT INTO missing VALUES (1)", "UPDATE t SET n = n + 8", "DROP TABLE t", "DROP TABLE missing",
				"CREATE TABLE t (id INT)", "SELECT * FROM t FOR UPDATE", "SELECT ?", "SELECT 1; SELECT 2", "CALL missing()", "USE missing",
				"KILL 4294967295", "SET missing = 1", "SELECT @@missing", "SELECT ST_GeomFromText('x')", "SELECT JSON_EXTRACT('{', '$')",
				"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own', MYSQL_ERRNO = 4242", "SELECT * FROM t WHERE id = ? AND u = ?",
				"INSERT INTO t (id, n) VALUES (7, 7) ON DUPLICATE KEY UPDATE n = 99", "REPLACE INTO t VALUES (8, 99, 8, '')", "GRANT ALL ON *.* TO nobody@nowhere",
				"LOAD DATA LOCAL INFILE '/nowhere' INTO TABLE t", "LOCK TABLES missing WRITE", "ROLLBACK TO SAVEPOINT missing", "XA COMMIT 'missing'",
				"ALTER TABLE t ADD COLUMN n INT", "TRUNCATE t",
			} {
				p.both(q, query)
			}
		}
		p.query(p.db, "SELECT id FROM t ORDER BY id")
		var n int
		p.note("no rows: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1 FROM DUAL WHERE FALSE").Scan(&n)))
		p.note("scan: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 'x'").Scan(&n)))
		p.note("scan null: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT NULL").Scan(&n)))
		p.note("scan range: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 300").Scan(new(int8))))
		p.note("scan two: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1, 2").Scan(&n)))
		p.note("scan nil: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1").Scan(nil)))
		p.note("scan time: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT NOW()").Scan(new(time.Time))))
		p.note("row error: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT missing").Err()))
	}
	compareMySQLParity(t, mysqlScript{name: "Errors", replica: true, run: run})
}

// mysqlArguments are kinds of arguments.
func mysqlArguments() []any {
	when := time.Date(2024, 2, 29, 12, 34, 56, 789012345, time.FixedZone("", 7200))
	one := 1
	return []any{
		1, int8(-1), int16(2), int32(3), int64(4), uint(5), uint8(6), uint16(7), uint32(8), uint64(9), &one, (*int)(nil), nil,
		parityInt(10), "11", parityString("12"), 1.5, float32(1.5), math.NaN(), math.Inf(1), true, false, 'a', struct{ A int }{1},
		int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), uint64(1) << 63, json.Number("16"),
		"", "ü€😀\u2028", "nul\x00", "\xff", `back\slash 'single' "double" ?`, []byte("b"), []byte{0, 255, '\'', '\\'}, []byte{}, []byte(nil),
		sql.RawBytes("raw"), json.RawMessage(`{"a":1}`), json.RawMessage(nil), strings.Repeat("x", 1<<17), strings.Repeat("ü", 1<<13),
		when, when.UTC(), time.Time{}, &when, (*time.Time)(nil), time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), time.Minute,
		sql.NullInt32{Int32: 14, Valid: true}, sql.NullInt32{}, sql.NullString{String: "n", Valid: true}, sql.NullString{},
		sql.Null[string]{V: "g", Valid: true}, sql.NullTime{Time: when, Valid: true}, mysql.NullTime{Time: when, Valid: true},
		parityValuer{"v"}, parityValuer{nil}, parityValuer{int64(1)}, parityValuer{int8(1)}, parityValuer{uint64(math.MaxUint64)},
		parityValuer{when}, parityValuer{[]byte("vb")}, (*parityValuer)(nil), &parityValuer{"p"}, (*parityPointerValuer)(nil),
		&parityPointerValuer{"pp"}, parityFailingValuer{}, sql.Named("name", "n"), sql.Named("", "n"), sql.Out{Dest: new(string)},
		make(chan int), func() {}, []string{"a"}, []int{1}, map[string]any{"a": 1}, [2]byte{1, 2}, complex(1, 2),
	}
}

func TestParityMySQLArguments(t *testing.T) {
	run := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)")
		p.exec(p.db, "CREATE TABLE typed (id INT PRIMARY KEY AUTO_INCREMENT, i INT, u BIGINT UNSIGNED, f DOUBLE, n DECIMAL(30,3), s VARCHAR(200), "+
			"b BIT(64), dt DATETIME(6), d DATE, j JSON)")
		for i, arg := range mysqlArguments() {
			p.note("%d from %T:", i, arg)
			for _, q := range []execer{p.db, preparing{p.db}} {
				p.query(q, "SELECT ?, ? IS NULL, LENGTH(?)", arg, arg, arg)
				p.exec(q, "INSERT INTO t (v) VALUES (?)", arg)
			}
		}
		p.inTx(nil, func(tx *sql.Tx) { // only for the speed of it
			for _, arg := range mysqlArguments()[:60] {
				for _, column := range []string{"i", "u", "f", "n", "s", "b", "dt", "d", "j"} {
					p.exec(tx, "INSERT INTO typed ("+column+") VALUES (?)", arg)
				}
			}
		})
		p.query(p.db, "SELECT id, LENGTH(v), MD5(v) FROM t ORDER BY id")
		p.query(p.db, "SELECT * FROM typed ORDER BY id")
		for _, q := range []execer{p.db, preparing{p.db}} {
			for _, query := range []string{
				"SELECT 1", "SELECT ?", "SELECT ?, ?", "SELECT '?', ? -- ?", "SELECT ? /* ? */ FROM DUAL # ?", "INSERT INTO t (v) VALUES (?)",
				"SELECT :a", "SELECT $1", "SELECT ? LIMIT ?", "SELECT * FROM t WHERE id IN (?) AND id < ?", "CREATE TABLE x (id INT DEFAULT ?)",
				"SELECT ? FROM ?", "SET @a = ?", "DO ?",
			} {
				p.query(q, query)
				p.query(q, query, 1)
				p.query(q, query, 1, "2")
				p.query(q, query, 1, "2", 3)
				p.query(q, query, sql.Named("a", 1))
				p.both(q, query, 1)
			}
		}
	}
	compareMySQLParity(t,
		mysqlScript{name: "Prepared", replica: true, run: run},
		mysqlScript{name: "Interpolated", replica: true, kinds: []string{parityCovered}, run: run, configure: func(c *mysql.Config) {
			c.InterpolateParams, c.ParseTime, c.Loc = true, true, time.FixedZone("", -3600)
		}},
	)
}

func TestParityMySQLScan(t *testing.T) {
	destinations := func(p *mysqlParity) {
		for _, query := range []string{
			"SELECT 1", "SELECT 1.50", "SELECT 'x'", "SELECT NULL", "SELECT x'00ff'", "SELECT TRUE", "SELECT CAST('2024-02-29 01:02:03' AS DATETIME)",
			"SELECT DATE '2024-02-29'", "SELECT 18446744073709551615", "SELECT 1e0", `SELECT CAST('{"a":1}' AS JSON)`, "SELECT b'1'",
		} {
			for _, dest := range []any{
				new(any), new(string), new(*string), new([]byte), new(int), new(*int), new(uint8), new(uint64), new(float64), new(bool),
				new(time.Time), new(sql.NullString), new(sql.NullInt64), new(sql.NullTime), new(sql.Null[bool]), new([]int64), new(map[string]any),
				new(json.RawMessage), new(parityScanner), new(parityString),
			} {
				for i, args := range [][]any{nil, {1}} {
					text := query
					if i > 0 { // the binary protocol
						text += " FROM DUAL WHERE 1 = ?"
					}
					err := p.db.QueryRowContext(p.ctx, text, args...).Scan(dest)
					got, jsonErr := json.Marshal(dest)
					p.note("%s into %T: %s %s %v", text, dest, errorText(err), got, jsonErr)
				}
			}
		}
	}
	compareMySQLParity(t, mysqlScript{name: "Destinations", replica: true, run: destinations},
		mysqlScript{name: "DestinationsParseTime", replica: true, kinds: []string{parityCovered}, run: destinations, configure: func(c *mysql.Config) { c.ParseTime = true }},
		mysqlScript{name: "ManyRows", replica: true, run: func(p *mysqlParity) {
			const numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT "
			for _, args := range [][]any{{}, {1}} {
				where := ""
				if len(args) > 0 {
					where = " WHERE 1 = ?"
				}
				rows, err := p.db.QueryContext(p.ctx, fmt.Sprintf(numbers, 200)+"i, REPEAT(CHAR(65 + i % 26), i), NULL FROM n"+where, args...)
				p.must(err)
				for rows.Next() {
					var a, b, c sql.RawBytes
					err := rows.Scan(&a, &b, &c)
					p.note("%s %s %t %s", a, b, c == nil, errorText(err))
				}
				p.note("%s %s", errorText(rows.Err()), errorText(rows.Close()))
				rows, err = p.db.QueryContext(p.ctx, fmt.Sprintf(numbers, 999)+"i, REPEAT('x', 1000) FROM n"+where, args...)
				p.must(err)
				var sum, n int64
				for rows.Next() {
					var i int64
					var s string
					p.must(rows.Scan(&i, &s))
					sum, n = sum+i, n+int64(len(s))
				}
				p.note("%d %d %s %s", sum, n, errorText(rows.Err()), errorText(rows.Close()))
				rows, err = p.db.QueryContext(p.ctx, fmt.Sprintf(numbers, 900)+"i, EXP(i) FROM n"+where, args...) // overflows on the way
				if err == nil {
					for rows.Next() {
					}
					err = rows.Err()
					p.must(rows.Close())
				}
				p.note("%s", errorText(err))
			}
			p.note("row: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT 1").Scan(new(sql.RawBytes))))
			p.note("rows that are closed early: %t", func() bool {
				rows, err := p.db.QueryContext(p.ctx, fmt.Sprintf(numbers, 999)+"REPEAT('x', 1000) FROM n")
				p.must(err)
				defer func() { p.must(rows.Close()) }()
				return rows.Next()
			}())
			p.query(p.db, "SELECT 1")
			p.note("in use: %d", p.db.Stats().InUse)
		}},
	)
}

func TestParityMySQLBigValues(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 17<<20/16+1) // more than one packet
	compareMySQLParity(t,
		mysqlScript{name: "Values", replica: true, kinds: []string{parityCovered}, run: func(p *mysqlParity) {
			p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
			for i, n := range []int{0, 250, 251, 65535, 65536, 1<<24 - 1, len(big)} {
				_, err := p.db.ExecContext(p.ctx, "REPLACE INTO t VALUES (?, ?)", i, big[:n])
				p.note("%d bytes: %s", n, mysqlErrorText(err))
			}
			rows, err := p.db.QueryContext(p.ctx, "SELECT id, v FROM t ORDER BY id")
			p.must(err)
			for rows.Next() {
				var id int
				var v []byte
				p.must(rows.Scan(&id, &v))
				p.note("%d: %d bytes, %t", id, len(v), bytes.Equal(v, big[:len(v)]))
			}
			p.note("%s %s", errorText(rows.Err()), errorText(rows.Close()))
		}},
		mysqlScript{name: "TooBig", replica: true, configure: func(c *mysql.Config) {
			c.MaxAllowedPacket, c.InterpolateParams = 1<<16, true
		}, run: func(p *mysqlParity) {
			p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
			for _, n := range []int{1 << 15, 1<<16 - 100, 1 << 16, 1 << 17} {
				for _, q := range []execer{p.db, preparing{p.db}} {
					_, err := q.ExecContext(p.ctx, "REPLACE INTO t VALUES (?, ?)", 1, big[:n])
					p.note("%d bytes: %s", n, mysqlErrorText(err))
					_, err = q.ExecContext(p.ctx, "REPLACE INTO t VALUES (2, '"+string(big[:n])+"')")
					p.note("%d bytes in the text: %s", n, mysqlErrorText(err))
					var got int
					p.note("read: %s", mysqlErrorText(p.db.QueryRowContext(p.ctx, "SELECT LENGTH(?)", big[:n]).Scan(&got)))
					p.note("%d", got)
				}
			}
			p.query(p.db, "SELECT id, LENGTH(v) FROM t ORDER BY id")
			p.note("in use: %d", p.db.Stats().InUse)
		}},
	)
}

// TestParityMySQLCharsets looks at what goes over the wire in another character set and SQL mode.
func TestParityMySQLCharsets(t *testing.T) {
	texts := map[string]string{"ascii": "a", "latin": "é", "greek": "λ", "emoji": "😀", "quote": `it's \ "q"`}
	run := func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50) CHARACTER SET utf8mb4)")
		for _, kind := range slices.Sorted(maps.Keys(texts)) {
			p.exec(p.db, "INSERT INTO t (v) VALUES (?)", texts[kind])
			p.exec(preparing{p.db}, "INSERT INTO t (v) VALUES (?)", texts[kind])
			p.query(p.db, "SELECT ?, LENGTH(?)", texts[kind], texts[kind])
		}
		p.query(p.db, "SELECT v, HEX(v) FROM t ORDER BY id")
		p.query(p.db, `SELECT "v" FROM t ORDER BY id LIMIT 1`)
		p.query(p.db, `SELECT 'a\'`)
	}
	mode := func(name string) func(*mysql.Config) {
		return func(c *mysql.Config) {
			c.InterpolateParams, c.Params = true, map[string]string{"sql_mode": "'" + name + "'"}
		}
	}
	compareMySQLParity(t,
		mysqlScript{name: "latin1", replica: true, run: run, configure: func(c *mysql.Config) {
			c.InterpolateParams = true
			require.NoError(t, c.Apply(mysql.Charset("latin1", "")))
		}},
		mysqlScript{name: "binary", replica: true, run: run, configure: func(c *mysql.Config) {
			c.InterpolateParams, c.Collation = true, "binary"
		}},
		mysqlScript{name: "NO_BACKSLASH_ESCAPES", replica: true, run: run, configure: mode("NO_BACKSLASH_ESCAPES")},
		mysqlScript{name: "ANSI_QUOTES", replica: true, run: run, configure: mode("ANSI_QUOTES")},
	)
}
