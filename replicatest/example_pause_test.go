package replicatest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// exampleCluster is a cluster with a table t and a pool over it that tells where its reads go. Close ends both.
func exampleCluster(edit ...func(*readroute.Config)) (*replicatest.Cluster, *readroute.DB) {
	c, err := replicatest.New(replicatest.Options{Schema: []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)"}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	db, err := c.Open(ctx, edit...)
	if err != nil {
		panic(err)
	}
	return c, db
}

// report prints an error. There should be none.
func report(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

// tellReads prints where reads go.
func tellReads(config *readroute.Config) {
	config.Hooks.Decision = func(_ context.Context, d readroute.Decision) {
		if d.Class == readroute.ClassRead {
			fmt.Println("a read on the", d.Role)
		}
	}
}

// A test of what a service does while replication stands still, and afterwards.
func ExampleNode_Pause() {
	c, db := exampleCluster(tellReads)
	defer c.Close()
	ctx := readroute.WithSession(context.Background())
	for _, n := range c.Nodes()[1:] {
		if err := n.Pause(ctx); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1, 'one')"); err != nil {
		fmt.Println(err)
	}
	read := func(wait time.Duration) {
		if err := db.QueryRowContext(readroute.WithWait(ctx, wait), "SELECT text FROM t WHERE id = 1").Scan(new(string)); err != nil {
			fmt.Println(err)
		}
	}
	read(time.Millisecond)
	if err := c.Resume(ctx); err != nil {
		fmt.Println(err)
	}
	if err := c.WaitCaughtUp(ctx); err != nil {
		fmt.Println(err)
	}
	read(10 * time.Second)

	// Output:
	// a read on the primary
	// a read on the replica
}
