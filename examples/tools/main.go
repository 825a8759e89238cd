// Tools shows that what takes a *sql.DB works with a routed one as it is: sqlx, GORM, ent, bun, sqlc, squirrel, goose.
// Each has a folder with a small store that is written as its tool's own documents say; none of them imports readroute.
// This program gives one of them a routed pool, lets it write and read, and prints where its statements went:
//
//	go run . -tool gorm -primary postgres://app@db-a/app -replica postgres://app@db-b/app
//
// It makes the tables authors, books and reviews. The tests start servers of their own.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/examples/tools/bunstore"
	"github.com/readroute/readroute/examples/tools/entstore"
	"github.com/readroute/readroute/examples/tools/goosestore"
	"github.com/readroute/readroute/examples/tools/gormstore"
	"github.com/readroute/readroute/examples/tools/sqlcstore"
	"github.com/readroute/readroute/examples/tools/sqlxstore"
	"github.com/readroute/readroute/examples/tools/squirrelstore"
)

// opener hands db to a tool.
type opener func(ctx context.Context, db *sql.DB) (store, error)

// open adapts the constructor of one store.
func open[S store](construct func(context.Context, *sql.DB) (S, error)) opener {
	return func(ctx context.Context, db *sql.DB) (store, error) { return construct(ctx, db) }
}

func openGORM(prepare bool) opener {
	return func(ctx context.Context, db *sql.DB) (store, error) { return gormstore.New(ctx, db, prepare) }
}

var tools = map[string]opener{
	"bun":           open(bunstore.New),
	"ent":           open(entstore.New),
	"goose":         open(goosestore.New),
	"gorm":          openGORM(false),
	"gorm-prepared": openGORM(true),
	"sqlc":          open(sqlcstore.New),
	"sqlx":          open(sqlxstore.New),
	"squirrel":      open(squirrelstore.New),
}

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(tools)), ", ")
	tool := flag.String("tool", "sqlx", "one of "+names)
	primary := flag.String("primary", "", "connection URL of the primary")
	replica := flag.String("replica", "", "connection URL of a replica")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := run(ctx, os.Stdout, *tool, *primary, *replica)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, tool, primary, replica string) (err error) {
	construct, ok := tools[tool]
	if !ok {
		return fmt.Errorf("unknown tool %q", tool)
	}
	var seen log
	db, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "primary", Connector: readroute.Postgres(primary)},
		Replicas: []readroute.Node{{Name: "replica", Connector: readroute.Postgres(replica)}},
		Hooks:    readroute.Hooks{Decision: seen.note},
	})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.WaitReady(ctx); err != nil {
		return err
	}
	s, err := construct(ctx, db.DB) // nothing else is different from a plain pool
	if err != nil {
		return err
	}
	defer s.Close()
	seen.take()
	for _, step := range steps {
		if err := step.run(readroute.WithSession(ctx), s); err != nil {
			return fmt.Errorf("%s, %s: %w", tool, step.name, err)
		}
		report(out, step.name, seen.take())
	}
	return nil
}

// report prints how often statements went somewhere for a reason.
func report(out io.Writer, name string, decisions []readroute.Decision) {
	type route struct {
		node, class, reason string
	}
	count := map[route]int{}
	for _, d := range decisions {
		count[route{d.Node, d.Class.String(), d.Reason.String()}]++
	}
	fmt.Fprintln(out, name)
	byNode := func(a, b route) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.class, b.class), cmp.Compare(a.reason, b.reason))
	}
	for _, r := range slices.SortedFunc(maps.Keys(count), byNode) {
		fmt.Fprintf(out, "  %-8s %-14s %-16s %d\n", r.node, r.class, r.reason, count[r])
	}
}

// log keeps decisions. Its note method is a hook of readroute.
type log struct {
	mu        sync.Mutex
	decisions []readroute.Decision
}

func (l *log) note(_ context.Context, d readroute.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decisions = append(l.decisions, d)
}

// take returns the decisions since it was called last.
func (l *log) take() []readroute.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.decisions
	l.decisions = nil
	return taken
}
