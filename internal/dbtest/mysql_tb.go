package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// StartMariaDBT starts a cluster of MariaDB for a test and closes it when the test is over. A missing MariaDB fails the
// test. A test that fails logs the end of every server's log.
func StartMariaDBT(tb TB, options MySQLOptions) *MySQLCluster {
	tb.Helper()
	c, err := StartMariaDB(context.Background(), options)
	return closeWithTest(tb, c, err)
}

// StartMySQLT starts a cluster of MySQL for a test and closes it when the test is over. Not every system has a MySQL to
// install: where there is none the test is skipped, and Untested says so; where READROUTE_MYSQL names one that cannot be
// used, the test fails. A test that fails logs the end of every server's log.
func StartMySQLT(tb TB, options MySQLOptions) *MySQLCluster {
	tb.Helper()
	c, err := StartMySQL(context.Background(), options)
	if errors.Is(err, ErrNoServer) && options.Program == "" && os.Getenv(MySQLEnv) == "" {
		if s, ok := tb.(interface{ Skipf(string, ...any) }); ok {
			s.Skipf("%s%v", mysqlNotTested, err)
		}
	}
	return closeWithTest(tb, c, err)
}

func closeWithTest(tb TB, c *MySQLCluster, err error) *MySQLCluster {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", tb.Name(), err)
		return nil
	}
	tb.Cleanup(func() {
		if f, ok := tb.(interface{ Failed() bool }); ok && f.Failed() {
			tb.Logf("%s", c.Logs())
		}
		if err := c.Close(); err != nil {
			tb.Logf("closing the cluster: %v", err)
		}
	})
	return c
}

const mysqlNotTested = "MySQL NOT TESTED: "

// Untested writes a line for each server that may be missing and is: nothing when all tests could run. The go command does
// not show what a passing package prints, so whoever runs all packages runs internal/dbtest/untested at the end.
func Untested(w io.Writer) error {
	if _, _, err := FindMySQL(); err != nil {
		_, err = fmt.Fprintf(w, "%s%v\n", mysqlNotTested, err)
		return err
	}
	return nil
}
