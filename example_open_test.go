package readroute_test

import (
	"context"
	"fmt"
	"time"

	"github.com/readroute/readroute"
)

// A routed pool is a *sql.DB with a few methods more.
func ExampleOpen() {
	cluster := exampleCluster() // yours is there already

	db, err := readroute.Open(readroute.Config{
		Primary: readroute.Node{Name: "a", Connector: readroute.Postgres(cluster.Primary().DSN())},
		Replicas: []readroute.Node{
			{Name: "b", Connector: readroute.Postgres(cluster.Standby(0).DSN())},
			{Name: "c", Connector: readroute.Postgres(cluster.Standby(1).DSN())},
		},
	})
	if err != nil {
		fmt.Println(err) // names everything that is wrong with the Config
		return
	}
	defer db.Close()

	// Open waits for no server. A service that wants its replicas from the first request on waits here.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := db.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range db.Nodes() {
		fmt.Println(n.Name, n.Role)
	}

	// Output:
	// a primary
	// b replica
	// c replica
}

// Everything that is wrong is said at once, without the DSN.
func ExampleOpen_badConfig() {
	_, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres("postgres://app:secret@db-a:port/app")},
		Replicas: []readroute.Node{{Name: "a"}},
		MaxLag:   -time.Second,
	})
	fmt.Println(err)

	// Output:
	// readroute: bad configuration: MaxLag is -1s, it must not be negative
	// Primary "a": the PostgreSQL DSN cannot be parsed, or a file that it names cannot be read: want a URL (postgres://user@host/db) or keyword=value pairs
	// Replicas[0] "a": it has no Connector
	// Replicas[0]: another node is called "a"
}
