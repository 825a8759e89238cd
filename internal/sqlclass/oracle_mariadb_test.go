package sqlclass_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

// mariadbOracle asks a real server whether what is called a read is one: a read-only server must not refuse it, and it must leave
// nothing behind in a session that could write.
type mariadbOracle struct {
	root, app *sql.Conn
}

func newMariaDBOracle(t testing.TB, schema ...string) *mariadbOracle {
	o := new(mariadbOracle)
	o.root, o.app = openMariaDB(t)
	for _, s := range schema {
		_, err := o.root.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
	return o
}

// Errors of a read-only server.
const (
	errReadOnlyServer = 1290
	errReadOnlyTx     = 1792
)

func query(ctx context.Context, conn *sql.Conn, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// refused returns the server's refusal of a statement. Other errors say nothing.
func (o *mariadbOracle) refused(ctx context.Context, text string) (refusal error, ran bool) {
	err := query(ctx, o.app, text)
	var e *mysql.MySQLError
	if errors.As(err, &e) && (e.Number == errReadOnlyServer || e.Number == errReadOnlyTx) {
		return e, false
	}
	return nil, err == nil
}

// What a session has, but for what changes by itself. RELEASE_ALL_LOCKS says how many locks there were.
const mariadbState = `SELECT CONCAT_WS(', ',
	(SELECT GROUP_CONCAT(variable_name, '=', variable_value ORDER BY variable_name SEPARATOR ', ') FROM information_schema.session_variables
		WHERE variable_name NOT IN ('TIMESTAMP', 'ERROR_COUNT', 'WARNING_COUNT', 'RAND_SEED1', 'RAND_SEED2', 'LAST_INSERT_ID', 'IDENTITY')
		AND variable_name NOT LIKE 'GTID%'),
	CONCAT('last insert id ', @@last_insert_id), CONCAT('in transaction ', @@in_transaction),
	(SELECT CONCAT('variables ', GROUP_CONCAT(variable_name, '=', IFNULL(variable_value, 'NULL') ORDER BY variable_name)) FROM information_schema.user_variables),
	CONCAT('locks ', RELEASE_ALL_LOCKS()),
	(SELECT GROUP_CONCAT(variable_name, '=', variable_value ORDER BY variable_name) FROM information_schema.session_status
		WHERE variable_name IN ('COM_CREATE_TEMPORARY_TABLE', 'COM_LOCK_TABLES')),
	@@gtid_binlog_pos)`

// leaves returns what a statement leaves behind in a session that may write.
func (o *mariadbOracle) leaves(ctx context.Context, text string) (left string, ran bool) {
	if query(ctx, o.root, "DO RELEASE_ALL_LOCKS()") != nil { // of earlier statements
		return "", false
	}
	before := o.state(ctx)
	if before == "" || query(ctx, o.root, text) != nil {
		return "", false
	}
	if after := o.state(ctx); after != before {
		return difference(before, after), true
	}
	return "", true
}

// difference returns the parts of two states that differ.
func difference(before, after string) string {
	a, b := strings.Split(before, ", "), strings.Split(after, ", ")
	only := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
	}
	return fmt.Sprintf("%q -> %q", only(a, b), only(b, a))
}

func (o *mariadbOracle) state(ctx context.Context) string {
	var s sql.NullString
	if o.root.QueryRowContext(ctx, mariadbState).Scan(&s) != nil {
		return ""
	}
	return s.String
}

// rowLocks returns how many locks of rows and tables a statement holds while its transaction is open.
func (o *mariadbOracle) rowLocks(ctx context.Context, text string) (n int, err error) {
	if err := query(ctx, o.root, "START TRANSACTION"); err != nil {
		return 0, err
	}
	defer func() { _ = query(ctx, o.root, "ROLLBACK") }()
	if err := query(ctx, o.root, text); err != nil {
		return 0, err
	}
	// The table below is a copy that is at most 0.1 s old.
	if err := query(ctx, o.app, "DO SLEEP(0.11)"); err != nil {
		return 0, err
	}
	var locks sql.NullInt64
	err = o.root.QueryRowContext(ctx,
		"SELECT SUM(trx_lock_structs + trx_rows_modified) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()").Scan(&locks)
	return int(locks.Int64), err
}

var mariadbSchema = []string{
	"DROP DATABASE app", "CREATE DATABASE app", "USE app", "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20), n INT)",
	"INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)", "CREATE TABLE victim (id INT)", "INSERT INTO victim VALUES (1)", "CREATE SEQUENCE s",
	"CREATE FUNCTION app_fn(a INT) RETURNS INT BEGIN INSERT INTO victim VALUES (a); RETURN a; END",
	"CREATE VIEW harmless AS SELECT id, UPPER(name) AS name, NOW() AS at FROM t", "CREATE VIEW logging AS SELECT app_fn(id) FROM t", "CREATE VIEW above AS SELECT * FROM logging",
}

// TestOracleMariaDB asks a read-only server about every statement of the cases of MySQL and MariaDB.
func TestOracleMariaDB(t *testing.T) {
	o := newMariaDBOracle(t, mariadbSchema...)
	require.NoError(t, query(t.Context(), o.app, "USE app"))
	reads := 0
	for _, c := range allCases(t) {
		if c.Dialect == "pg" || sqlclass.ClassifyText(dialects[c.Dialect], c.SQL).Class != sqlclass.Read {
			continue
		}
		reads++
		refusal, _ := o.refused(t.Context(), c.SQL)
		require.NoError(t, refusal, "the read-only server refuses %q", c.SQL)
		left, ran := o.leaves(t.Context(), c.SQL)
		require.Empty(t, left, "left behind by %q", c.SQL)
		if ran {
			locks, err := o.rowLocks(t.Context(), c.SQL)
			require.NoError(t, err, c.SQL)
			require.Zero(t, locks, c.SQL)
		}
	}
	require.Greater(t, reads, 60)
}

// TestOracleMariaDBCatalogue: views over functions that write, and sequences, belong on the primary.
func TestOracleMariaDBCatalogue(t *testing.T) {
	o := newMariaDBOracle(t, mariadbSchema...)
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.MariaDB})
	require.NoError(t, err)
	rows, err := o.root.QueryContext(t.Context(), sqlclass.MySQLCatalogueQuery)
	require.NoError(t, err)
	defer rows.Close()
	var catalogue []sqlclass.CatalogueRow
	for rows.Next() {
		var r sqlclass.CatalogueRow
		require.NoError(t, rows.Scan(&r.Kind, &r.Schema, &r.Name, &r.Text))
		catalogue = append(catalogue, r)
	}
	require.NoError(t, rows.Err())
	c.SetCatalogue(catalogue)
	for text, read := range map[string]bool{
		"SELECT * FROM harmless": true, "SELECT * FROM t": true, "SELECT * FROM logging": false, "SELECT * FROM `above`": false, "SELECT * FROM app.logging": false,
		"SELECT * FROM s": false, "SELECT next_not_cached_value FROM `s`": false,
	} {
		require.Equal(t, read, c.Classify(text).Class == sqlclass.Read, text)
	}
}

// TestOracleMariaDBSeesWhatIsNoRead: the oracle notices what it is there for.
func TestOracleMariaDBSeesWhatIsNoRead(t *testing.T) {
	o := newMariaDBOracle(t, mariadbSchema...)
	require.NoError(t, query(t.Context(), o.app, "USE app"))
	for _, text := range []string{"DELETE FROM victim", "SELECT * FROM t FOR UPDATE", "SELECT app_fn(1)", "SELECT NEXT VALUE FOR s"} {
		refusal, _ := o.refused(t.Context(), text)
		require.Error(t, refusal, text)
	}
	for _, text := range []string{"SELECT GET_LOCK('k', 0)", "SELECT @v := 7", "SET SESSION sort_buffer_size = 262144", "SELECT LAST_INSERT_ID(7)", "SELECT app_fn(3)"} {
		left, ran := o.leaves(t.Context(), text)
		require.True(t, ran, text)
		require.NotEmpty(t, left, text)
	}
	for _, text := range []string{"SELECT * FROM t LOCK IN SHARE MODE", "SELECT * FROM t FOR UPDATE"} {
		locks, err := o.rowLocks(t.Context(), text)
		require.NoError(t, err)
		require.NotZero(t, locks, text)
	}
}

var (
	mysqltestLine = regexp.MustCompile(`(?m)^\s*(--[^ \t\n]|(let|echo|source|eval|connect|connection|disconnect|error|delimiter|disable_|enable_|replace_|sorted_result|if|while|\}|perl|EOF)\b).*$`)
	unsafe        = regexp.MustCompile(`(?is)\b(shutdown|kill|restart|global|change\s+master|reset|install|uninstall|lock\s+tables?|flush|password|drop\s+user|rename\s+user|alter\s+user|grant|revoke|create\s+user|set\s+role|set\s+default|drop\s+database|sleep|benchmark|purge|sql_log_bin|read_only|backup|use|load|outfile|dumpfile|start\s+slave|stop\s+slave|xa|handler|binlog|max_statement_time|autocommit)\b`)
)

// TestOracleCorpusMariaDB runs a corpus of MySQL and MariaDB on the read-only server and asks the oracle about every statement that
// is called a read, in both dialects.
func TestOracleCorpusMariaDB(t *testing.T) {
	files := corpusFiles(t, mysqlCorpusEnv)
	o := newMariaDBOracle(t, mariadbSchema...)
	require.NoError(t, query(t.Context(), o.app, "USE app"))
	count := tally{kept: map[string]int{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, _ = o.root.Close(), o.app.Close()
		o.root, o.app = openMariaDB(t)
		o.corpusFile(t, filepath.Base(file), sqlclass.Split(sqlclass.MariaDB, mysqltestLine.ReplaceAllString(string(text), "")), &count)
	}
	count.report(t)
}

func (o *mariadbOracle) corpusFile(t *testing.T, file string, statements []string, count *tally) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, text := range statements {
		count.statements++
		my, maria := sqlclass.ClassifyText(sqlclass.MySQL, text), sqlclass.ClassifyText(sqlclass.MariaDB, text)
		if my.Class != sqlclass.Read && maria.Class != sqlclass.Read {
			if unsafe.MatchString(text) {
				continue
			}
			if err := query(ctx, o.root, text); err == nil && isSelect(text) {
				count.kept[fmt.Sprintf("%v %s", maria.Class, strings.ToLower(maria.Token))]++
			}
			_ = query(ctx, o.root, "ROLLBACK")
			continue
		}
		count.reads++
		refusal, ran := o.refused(ctx, text)
		if refusal != nil {
			count.refused++
			count.failures = append(count.failures, fmt.Sprintf("%s: the read-only server refuses %q: %v", file, text, refusal))
		}
		left, ranToo := o.leaves(ctx, text)
		if left != "" {
			count.left++
			count.failures = append(count.failures, fmt.Sprintf("%s: %q leaves %s", file, text, left))
		}
		if ran && ranToo {
			count.ran++
		}
	}
}
