// Command mysql runs the test suite of go-sql-driver/mysql on the bare driver
// and through the routed pool, on MySQL and on MariaDB, and fails when a test
// does not give the same result in both.
//
// The suite comes from the module cache, in the version that go.mod names. It
// is copied to a temporary folder and edited there by patch.go; nothing of it
// is kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/readroute/readroute/internal/dbtest"
)

func main() {
	toolchains := flag.String("go", "local,go1.27.3", "toolchains to run the suite with (GOTOOLCHAIN), comma separated")
	only := flag.String("on", "", "run only on this kind of server: MySQL or MariaDB")
	pool := flag.String("pool", "", "compare only this routed pool with the bare one: primary, replica or process")
	run := flag.String("run", "", "run only tests matching this")
	verbose := flag.Bool("v", false, "print the whole output of every run that differs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()

	c := comparison{toolchains: strings.Split(*toolchains, ","), only: *only, pool: *pool, run: *run, verbose: *verbose}
	same, err := c.compare(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat-mysql:", err)
		os.Exit(2)
	}
	if err := dbtest.Untested(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "compat-mysql:", err)
	}
	if !same {
		os.Exit(1)
	}
}
