package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Errors of the servers: what they say of a call says whether they have the function.
const (
	errSyntax        = 1064
	errNoSuchRoutine = 1305
	errNoSuchUDF     = 1630
	errReadOnly      = 1290
	errReadOnlyTx    = 1792
)

// lasting functions are those that wait, or that need an argument which does not fit: they are called without any.
var lasting = map[string]bool{
	"sleep": true, "benchmark": true, "master_pos_wait": true, "source_pos_wait": true, "master_gtid_wait": true,
	"wait_for_executed_gtid_set": true, "get_lock": true,
}

// grammar are calls of functions that are part of the grammar and take no plain list of arguments.
var grammar = map[string]string{
	"cast": "CAST(1 AS CHAR)", "convert": "CONVERT(1, CHAR)", "extract": "EXTRACT(DAY FROM '2000-01-01')", "position": "POSITION('a' IN 'b')",
	"trim": "TRIM(BOTH 'a' FROM 'b')", "count": "COUNT(*)", "group_concat": "GROUP_CONCAT(1 SEPARATOR ',')", "date_add": "DATE_ADD('2000-01-01', INTERVAL 1 DAY)",
	"date_sub": "DATE_SUB('2000-01-01', INTERVAL 1 DAY)", "timestampadd": "TIMESTAMPADD(DAY, 1, '2000-01-01')", "timestampdiff": "TIMESTAMPDIFF(DAY, '2000-01-01', '2000-01-02')",
	"get_format": "GET_FORMAT(DATE, 'USA')", "weight_string": "WEIGHT_STRING('a' AS CHAR(1))", "row_number": "ROW_NUMBER() OVER ()", "rank": "RANK() OVER ()",
	"dense_rank": "DENSE_RANK() OVER ()", "percent_rank": "PERCENT_RANK() OVER ()", "cume_dist": "CUME_DIST() OVER ()", "ntile": "NTILE(1) OVER ()",
	"lag": "LAG(1) OVER ()", "lead": "LEAD(1) OVER ()", "first_value": "FIRST_VALUE(1) OVER ()", "last_value": "LAST_VALUE(1) OVER ()",
	"nth_value": "NTH_VALUE(1, 1) OVER ()", "median": "MEDIAN(1) OVER ()", "grouping": "GROUPING(a) FROM (SELECT 1 AS a) q GROUP BY a WITH ROLLUP",
	"percentile_cont": "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) OVER () FROM (SELECT 1 AS a) q",
	"percentile_disc": "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY a) OVER () FROM (SELECT 1 AS a) q",
	"column_create":   "COLUMN_CREATE('a', 1)", "column_add": "COLUMN_ADD(COLUMN_CREATE('a', 1), 'b', 2)", "column_get": "COLUMN_GET(COLUMN_CREATE('a', 1), 'a' AS CHAR)",
	"column_delete": "COLUMN_DELETE(COLUMN_CREATE('a', 1), 'a')", "char": "CHAR(65)", "json_value": "JSON_VALUE('{\"a\":1}', '$.a')", "match": "1",
	"json_table": "a FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) q",
}

// modifiers are words that may stand between SELECT and a parenthesis and are no functions.
var modifiers = regexp.MustCompile(`^(sql_.*|all|distinct|distinctrow|high_priority|straight_join|unique|not|binary|interval|row)$`)

var functionName = regexp.MustCompile(`^([a-z_0-9]+)(?: function)?(?:\(\))?$`)

func onMySQL(ctx context.Context, engine, dsn string) error {
	if dsn == "" {
		return nil
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	from := map[string]string{"mysql": "MySQL ", "mariadb": "MariaDB "}[engine] + version
	words, keywords, err := mysqlKeywords(ctx, db, engine)
	if err != nil {
		return err
	}
	if err := write(engine+"_keywords.txt", from, "keywords: R reserved, U not", keywords); err != nil {
		return err
	}
	candidates := words
	for _, query := range []string{
		"SELECT LOWER(t.name) FROM mysql.help_topic t JOIN mysql.help_category c USING (help_category_id)",
		"SELECT LOWER(function) FROM information_schema.sql_functions",
	} {
		list, err := column(ctx, db, query)
		if err != nil && !strings.Contains(query, "sql_functions") {
			return err
		}
		for _, name := range list {
			if m := functionName.FindStringSubmatch(name); m != nil {
				candidates[m[1]] = true
			}
		}
	}
	functions := map[string]bool{}
	for name := range candidates {
		if modifiers.MatchString(name) {
			continue
		}
		found, err := call(ctx, db, name)
		if err != nil {
			return err
		}
		functions[name] = found
	}
	return write(engine+"_functions.txt", from, "functions that the server has and that ran on a read-only one; what they do besides is in the code", functions)
}

// mysqlKeywords returns the words, and the words with their kind.
func mysqlKeywords(ctx context.Context, db *sql.DB, engine string) (words, kinds map[string]bool, err error) {
	query := "SELECT LOWER(word) FROM information_schema.keywords"
	if engine == "mysql" {
		query = "SELECT CONCAT(LOWER(word), IF(reserved, ' R', ' U')) FROM information_schema.keywords"
	}
	list, err := column(ctx, db, query)
	words, kinds = map[string]bool{}, map[string]bool{}
	for _, line := range list {
		word, kind, ok := strings.Cut(line, " ")
		if !functionName.MatchString(word) {
			continue // an operator
		}
		if !ok { // MariaDB does not say: a reserved word cannot be an alias
			kind = "U"
			if _, err := column(ctx, db, "SELECT 1 AS "+word); number(err) == errSyntax {
				kind = "R"
			}
		}
		words[word], kinds[word+" "+kind] = true, true
	}
	return words, kinds, err
}

// call reports whether the server has a function of this name. A function that a read-only server refuses is not listed.
func call(ctx context.Context, db *sql.DB, name string) (bool, error) {
	calls := []string{name + "()", name + "(1)", name + "(1, 1)", name + "(1, 1, 1)", name + "(1, 1, 1, 1)"}
	if lasting[name] {
		calls = calls[:1]
	}
	if c := grammar[name]; c != "" {
		calls = []string{c}
	}
	found := false
	for _, c := range calls {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := column(ctx, db, "SELECT "+c)
		cancel()
		var refused *mysql.MySQLError
		switch number(err) {
		case errSyntax, errNoSuchRoutine, errNoSuchUDF:
		case errReadOnly, errReadOnlyTx:
			return false, nil
		default:
			if err != nil && !errors.As(err, &refused) {
				return false, fmt.Errorf("SELECT %s: %w", c, err)
			}
			found = true
		}
	}
	return found, nil
}

func column(ctx context.Context, db *sql.DB, query string) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var value sql.NullString
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		list = append(list, value.String)
	}
	return list, rows.Err()
}

func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
