package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/readroute/readroute/internal/sqlclass"
)

const (
	functionsQuery = `SELECT proname::text, bool_and(provolatile IN ('i', 's')) FROM pg_proc
		WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a', 'w') GROUP BY 1`
	keywordsQuery = `SELECT word::text, catcode::text FROM pg_get_keywords()`
	tablesQuery   = `SELECT relname::text, true FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'`
	typesQuery    = `SELECT typname::text, true FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typname LIKE 'pg\_%' AND typtype IN ('b', 'p') AND typrelid = 0`
	viewsQuery    = `SELECT relname::text, pg_get_viewdef(oid) FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'v'`
)

// categories order the kinds of keywords: the later one leaves less to be a name.
const categories = "UCTR"

func postgresLists(ctx context.Context, dsns []string) error {
	functions, tables, views := map[string]bool{}, map[string]bool{}, map[string]string{}
	keywords := map[string]string{}
	var servers []string
	for _, dsn := range dsns {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		servers = append(servers, conn.PgConn().ParameterStatus("server_version"))
		err = each(ctx, conn, functionsQuery, func(name string, harmless bool) {
			before, known := functions[name]
			functions[name] = harmless && (before || !known)
		})
		if err == nil {
			err = each(ctx, conn, keywordsQuery, func(word, category string) {
				// Where versions differ it counts as the one that can be more: a name as well as a keyword.
				if old := keywords[word]; old == "" || strings.Index(categories, category) < strings.Index(categories, old) {
					keywords[word] = category
				}
			})
		}
		for _, q := range []string{tablesQuery, typesQuery} {
			if err == nil {
				err = each(ctx, conn, q, func(name string, _ bool) { tables[name] = true })
			}
		}
		if err == nil {
			err = each(ctx, conn, viewsQuery, func(name, definition string) { views[name] += definition })
		}
		if err != nil {
			return err
		}
	}
	from := "PostgreSQL " + strings.Join(servers, ", ")
	if err := write("postgres_functions.txt", from, "functions of which every overload is immutable or stable", functions); err != nil {
		return err
	}
	words := map[string]bool{}
	for word, category := range keywords {
		words[word+" "+category] = true
	}
	if err := write("postgres_keywords.txt", from, "keywords and their kind: R reserved, T reserved but a function or type, C a column name, U unreserved", words); err != nil {
		return err
	}
	if err := write("postgres_catalogs.txt", from, "tables and types of the system catalog", tables); err != nil {
		return err
	}
	harmless := map[string]bool{}
	for name, definition := range views {
		harmless[name] = harmlessView(definition)
	}
	return write("postgres_views.txt", from, "views of the system catalog over nothing that belongs to one node", harmless)
}

// harmlessView asks the classifier. It has the lists of the last run, so a list that has grown takes a second run.
func harmlessView(definition string) bool {
	return sqlclass.ClassifyText(sqlclass.PostgreSQL, definition).Class == sqlclass.Read
}

func each[T any](ctx context.Context, conn *pgx.Conn, query string, f func(string, T)) error {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return err
	}
	var name string
	var value T
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error { f(name, value); return nil })
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}
