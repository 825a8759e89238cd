// Command generate writes the lists in internal/sqlclass/data from a running PostgreSQL: its own functions that are not
// volatile, its keywords and its catalog tables. Run it with "go generate ./internal/sqlclass".
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/readroute/readroute/internal/dbtest"
)

var lists = []struct{ file, what, query string }{
	{
		"postgres_functions.txt", "functions of which every overload is immutable or stable",
		`SELECT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
		 GROUP BY 1 HAVING bool_and(provolatile IN ('i', 's') AND prokind IN ('f', 'a', 'w')) ORDER BY 1`,
	},
	{
		"postgres_keywords.txt", "keywords and their kind: R reserved, T reserved but a function or type, C a column name, U unreserved",
		`SELECT word::text || ' ' || catcode::text FROM pg_get_keywords() ORDER BY 1`,
	},
	{
		"postgres_catalogs.txt", "tables of the system catalog",
		`SELECT relname::text FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' ORDER BY 1`,
	},
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	cluster, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{})
	if err != nil {
		return err
	}
	defer func() {
		if closed := cluster.Close(); err == nil {
			err = closed
		}
	}()
	conn, err := pgx.Connect(ctx, cluster.Primary().DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, l := range lists {
		rows, err := conn.Query(ctx, l.query)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("%s: %w", l.file, err)
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "# PostgreSQL %s: %s.\n", conn.PgConn().ParameterStatus("server_version"), l.what)
		for _, line := range lines {
			fmt.Fprintln(&b, line)
		}
		if err := os.WriteFile("data/"+l.file, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
