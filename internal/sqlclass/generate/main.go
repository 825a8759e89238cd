// Command generate writes the lists in internal/sqlclass/data from running servers: the functions of their own that are not
// volatile, their keywords, and the tables and views that are the same on every node.
//
//	go run ./generate -postgres DSN[,DSN] -mysql DSN -mariadb DSN
//
// Of PostgreSQL several versions can be given: a function is listed if no version calls it volatile. Without -postgres a server
// is started from the programs that the tests use. MySQL and MariaDB should be read-only for the user of the DSN: every function
// is called there once, with anything, to see that the server has it and does not take it for a write. Run it in
// internal/sqlclass.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/readroute/readroute/internal/dbtest"
)

func main() {
	postgres := flag.String("postgres", "", "DSNs of PostgreSQL servers, separated by commas")
	mysql := flag.String("mysql", "", "DSN of a read-only MySQL")
	mariadb := flag.String("mariadb", "", "DSN of a read-only MariaDB")
	flag.Parse()
	ctx := context.Background()
	err := errors.Join(
		onPostgres(ctx, *postgres),
		onMySQL(ctx, "mysql", *mysql),
		onMySQL(ctx, "mariadb", *mariadb),
	)
	if err != nil {
		log.Fatal(err)
	}
}

func onPostgres(ctx context.Context, dsns string) (err error) {
	if dsns == "" {
		cluster, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Close()) }()
		dsns = cluster.Primary().DSN()
	}
	return postgresLists(ctx, strings.Split(dsns, ","))
}

// write writes one list. Its first line says what it is and which servers it is from.
func write(file, servers, what string, list map[string]bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s.\n", servers, what)
	for _, line := range slices.Sorted(maps.Keys(list)) {
		if list[line] {
			fmt.Fprintln(&b, line)
		}
	}
	return os.WriteFile("data/"+file, b.Bytes(), 0o644)
}
