package sqlclass_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/sqlclass"
)

// postgresOracle asks real servers whether what is called a read is one: a hot standby must not refuse it, and on the primary it
// must leave nothing behind.
type postgresOracle struct {
	primary, standby *pgx.Conn
	classifier       *sqlclass.Classifier
}

func newPostgresOracle(t testing.TB, c *dbtest.PostgresCluster, schema ...string) *postgresOracle {
	t.Helper()
	connect := func(n *dbtest.PostgresNode) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), n.DSN())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	o := &postgresOracle{primary: connect(c.Primary())}
	for _, sql := range schema {
		_, err := o.primary.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	require.NoError(t, c.WaitCaughtUp(t.Context()))
	o.standby = connect(c.Standby(0))
	var err error
	o.classifier, err = sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL, CacheBytes: -1})
	require.NoError(t, err)
	return o
}

// readCatalogue gives the classifier what the primary's catalogue says now.
func (o *postgresOracle) readCatalogue(t testing.TB) {
	t.Helper()
	rows, err := o.primary.Query(t.Context(), sqlclass.PostgresCatalogueQuery)
	require.NoError(t, err)
	catalogue, err := pgx.CollectRows(rows, pgx.RowToStructByName[sqlclass.CatalogueRow])
	require.NoError(t, err)
	o.classifier.SetCatalogue(catalogue)
}

// refusals are what a standby says of what is no read: a read-only transaction, recovery, a relation that it does not have.
var refusals = []string{"25006", "55000", "0A000"}

// refused returns the standby's refusal of a statement. Other errors say nothing: the statement is wrong, or an object is missing.
func (o *postgresOracle) refused(ctx context.Context, sql string) (refusal error, ran bool) {
	err := run(ctx, o.standby, sql)
	var e *pgconn.PgError
	if errors.As(err, &e) && slices.Contains(refusals, e.Code) && aboutRecovery(e) {
		return e, false
	}
	return nil, err == nil
}

// aboutRecovery tells a refusal from the other uses of its code: 55000 and 0A000 are said of much.
func aboutRecovery(e *pgconn.PgError) bool {
	return e.Code == "25006" || strings.Contains(e.Message, "recovery") || strings.Contains(e.Message, "temporary or unlogged")
}

func run(ctx context.Context, conn *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return conn.PgConn().Exec(ctx, sql).Close()
}

const leftBehind = `SELECT concat_ws(', ',
	'xid ' || pg_current_xact_id_if_assigned()::text,
	(SELECT 'advisory locks ' || string_agg(concat_ws('/', classid, objid, objsubid, mode), ' ' ORDER BY classid, objid, objsubid, mode) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
	(SELECT 'settings ' || md5(string_agg(name || '=' || setting, ' ' ORDER BY name)) FROM pg_settings WHERE name NOT IN ('in_hot_standby', 'transaction_read_only')),
	(SELECT 'channels ' || string_agg(c, ' ' ORDER BY c) FROM pg_listening_channels() c),
	(SELECT 'cursors ' || string_agg(name, ' ' ORDER BY name) FROM pg_cursors WHERE name <> ''),
	(SELECT 'prepared ' || string_agg(name, ' ' ORDER BY name) FROM pg_prepared_statements),
	(SELECT 'temporary ' || string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = pg_my_temp_schema()))`

// leaves returns what a statement leaves behind in a session of the primary, within its transaction.
func (o *postgresOracle) leaves(ctx context.Context, sql string) (left string, ran bool) {
	if o.primary.PgConn().TxStatus() == 'I' {
		if run(ctx, o.primary, "BEGIN") != nil {
			return "", false
		}
		defer func() { _ = run(ctx, o.primary, "ROLLBACK") }()
	}
	before := o.state(ctx)
	if before == "" || run(ctx, o.primary, sql) != nil {
		return "", false
	}
	if after := o.state(ctx); after != before {
		return before + " -> " + after, true
	}
	return "", true
}

func (o *postgresOracle) state(ctx context.Context) string {
	results, err := o.primary.PgConn().Exec(ctx, leftBehind).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return ""
	}
	return string(results[0].Rows[0][0])
}

var oracleSchema = []string{
	`DROP SCHEMA IF EXISTS oracle CASCADE; CREATE SCHEMA oracle; SET search_path = oracle, public`,
	`CREATE TABLE t (id int PRIMARY KEY, name text, n int)`, `INSERT INTO t SELECT i, 'n' || i, i FROM generate_series(1, 5) i`,
	`CREATE TABLE victim (id int)`, `INSERT INTO victim VALUES (1), (2)`, `CREATE SEQUENCE seq1`, `CREATE UNLOGGED TABLE unlogged (id int)`,
	`CREATE FUNCTION log_and_get(int) RETURNS int LANGUAGE sql AS 'INSERT INTO victim VALUES ($1) RETURNING id'`,
	`CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1 * 2'`,
	`CREATE FUNCTION half(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 2'`, `CREATE FUNCTION half(text) RETURNS int LANGUAGE sql AS 'INSERT INTO victim VALUES (9) RETURNING id'`,
	`CREATE FUNCTION lower(int) RETURNS int LANGUAGE sql AS 'INSERT INTO victim VALUES ($1) RETURNING id'`,
	`CREATE FUNCTION counted(int DEFAULT nextval('seq1')::int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'`,
	`CREATE VIEW harmless AS SELECT id, upper(name) AS name FROM t`, `CREATE VIEW locking AS SELECT pg_try_advisory_lock(id) FROM t`,
	`CREATE VIEW above AS SELECT * FROM locking`, `CREATE VIEW logging AS SELECT log_and_get(id) AS id FROM t`,
	`CREATE OPERATOR +! (FUNCTION = log_and_get, RIGHTARG = int)`,
	`CREATE TYPE wrapped AS (v int)`, `CREATE FUNCTION wrap(int) RETURNS wrapped LANGUAGE sql AS 'INSERT INTO victim VALUES ($1) RETURNING row(id)::wrapped'`,
	`CREATE CAST (int AS wrapped) WITH FUNCTION wrap(int)`,
	`CREATE DOMAIN checked AS int CHECK (VALUE <> log_and_get(77))`,
	`CREATE FUNCTION noted(t) RETURNS int LANGUAGE sql AS 'INSERT INTO victim VALUES ($1.id) RETURNING id'`,
	`CREATE FUNCTION doubled(t) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1.n * 2'`,
	`CREATE AGGREGATE logged_sum (int) (SFUNC = add_logged, STYPE = int, INITCOND = '0')`,
}

func init() { // the aggregate's function comes before it
	i := len(oracleSchema) - 1
	oracleSchema = slices.Insert(oracleSchema, i, `CREATE FUNCTION add_logged(int, int) RETURNS int LANGUAGE sql AS 'INSERT INTO victim VALUES ($2) RETURNING id + $1'`)
}

// oracleStatements are asked beside the cases: what only the catalogue can tell, and the edges of what the text tells.
var oracleStatements = []struct {
	sql  string
	read bool
}{
	{`SELECT * FROM oracle.t`, true}, {`SELECT twice(1)`, true}, {`SELECT oracle.twice(n) FROM t`, true}, {`SELECT * FROM harmless`, true},
	{`SELECT half(1)`, false}, {`SELECT lower(1)`, false}, {`SELECT pg_catalog.lower('A')`, true}, {`SELECT counted()`, false},
	{`SELECT * FROM locking`, false}, {`SELECT * FROM above`, false}, {`TABLE logging`, false}, {`SELECT +! 1`, false},
	{`SELECT 1::wrapped`, false}, {`SELECT CAST(1 AS "wrapped")`, false}, {`SELECT 1::checked`, false}, {`SELECT last_value FROM seq1`, false}, {`SELECT * FROM "seq1"`, false},
	{`SELECT * FROM unlogged`, false}, {`SELECT logged_sum(id) FROM t`, false}, {`SELECT "log_and_get"(1)`, false},
	{`SELECT t.noted FROM t`, false}, {`SELECT (t).noted FROM t`, false}, {`SELECT x."noted" FROM t AS x`, false},
	{`SELECT t.doubled, t.n AS noted FROM t`, true}, {`SELECT noted FROM (SELECT 1 AS noted) x`, true},
	{`SELECT 1 - 2 + 3`, true}, {`EXPLAIN SELECT * FROM t FOR UPDATE`, true}, {`EXPLAIN INSERT INTO victim VALUES (1)`, true},
	{`EXPLAIN (ANALYZE, COSTS off) SELECT * FROM t`, true}, {`COPY t TO STDOUT`, true}, {`COPY (TABLE t) TO STDOUT (FORMAT csv)`, true},
	{`SELECT random(), gen_random_uuid(), clock_timestamp()`, true}, {`SELECT txid_current_snapshot()`, true},
	{`SELECT count(*) FROM pg_class`, true}, {`SELECT * FROM information_schema.columns LIMIT 1`, true}, {`SELECT * FROM pg_tables`, true},
}

// TestOraclePostgres asks a primary and its standby about every statement of the cases and of the list above.
func TestOraclePostgres(t *testing.T) {
	o := newPostgresOracle(t, postgresCluster(t), oracleSchema...)
	_, err := o.standby.Exec(t.Context(), "SET search_path = oracle, public")
	require.NoError(t, err)
	o.readCatalogue(t)
	for _, s := range oracleStatements {
		require.Equal(t, s.read, o.classifier.Classify(s.sql).Class == sqlclass.Read, "%s: %+v", s.sql, o.classifier.Classify(s.sql))
		if s.read {
			o.check(t, s.sql, true)
		}
	}
	reads := 0
	for _, c := range allCases(t) {
		if c.Dialect == "pg" && o.classifier.Classify(c.SQL).Class == sqlclass.Read {
			o.check(t, c.SQL, false)
			reads++
		}
	}
	require.Greater(t, reads, 30)
}

// check holds that a statement called a read is one; must: it also has to run.
func (o *postgresOracle) check(t *testing.T, sql string, must bool) {
	t.Helper()
	refusal, ran := o.refused(t.Context(), sql)
	require.NoError(t, refusal, "the standby refuses %q", sql)
	left, ranToo := o.leaves(t.Context(), sql)
	require.Empty(t, left, "left behind by %q", sql)
	if must {
		require.True(t, ran && ranToo, sql)
	}
}

// TestOraclePostgresSeesWhatIsNoRead: the oracle notices what it is there for.
func TestOraclePostgresSeesWhatIsNoRead(t *testing.T) {
	o := newPostgresOracle(t, postgresCluster(t), oracleSchema...)
	_, err := o.standby.Exec(t.Context(), "SET search_path = oracle, public")
	require.NoError(t, err)
	for _, sql := range []string{`DELETE FROM victim`, `SELECT nextval('seq1')`, `SELECT * FROM t FOR SHARE`, `SELECT log_and_get(1)`, `TABLE unlogged`} {
		refusal, _ := o.refused(t.Context(), sql)
		require.Error(t, refusal, sql)
	}
	for _, sql := range []string{
		`SELECT pg_advisory_lock(3)`, `SELECT txid_current()`, `SELECT set_config('statement_timeout', '99s', false)`, `SET statement_timeout = 123`,
		`DECLARE c CURSOR FOR SELECT 1`, `PREPARE p AS SELECT 1`, `CREATE TEMP TABLE x (id int)`,
	} {
		left, ran := o.leaves(t.Context(), sql)
		require.True(t, ran, sql)
		require.NotEmpty(t, left, sql)
	}
}
