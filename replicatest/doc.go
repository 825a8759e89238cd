// Package replicatest gives tests and demos a replicated database, with lag that they control.
//
// [New] makes a primary with replicas in this process: real SQL on SQLite, no server, no cgo, in milliseconds. The packages below this
// one make the same of private servers that they start, of PostgreSQL, MySQL and MariaDB. Each has every fault that replication can
// have as a method: a replica that is late, stands still, is down, is promoted, has a history of its own. [Cluster.Open] puts
// a routed pool over them.
//
//	c, err := replicatest.New(replicatest.Options{Schema: []string{"CREATE TABLE form (id INTEGER PRIMARY KEY, text TEXT)"}})
//	...
//	defer c.Close()
//	db, err := c.Open(ctx)
//	...
//	c.SetLag(ctx, time.Second)   // and the application under test shows what it does then
//
// In a test, NewT closes the cluster, and [RequireNoStaleReads] fails the test at each read that showed less than had been written, with the place
// in the code that made it.
//
// The package does not import testing, so a program can use it. Clusters know nothing of each other: parallel tests do not meet.
package replicatest
