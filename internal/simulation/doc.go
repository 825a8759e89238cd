// Package simulation runs the whole library against a simulated replicated database, in which everything goes wrong that can,
// and lets package check judge what its sessions were shown.
//
// The database is below database/sql: [Run] opens pools with readroute.Open over connectors of its own, and only the network
// and the servers are simulated. A server has a log, as PostgreSQL does (positions, pages, timelines) or as MySQL and MariaDB do
// (GTIDs), is behind its source by a lag, loses what it had not flushed, is frozen, killed, promoted and made anew, and
// answers the questions that the library asks.
//
// It runs in a bubble of testing/synctest: its time is not the machine's, and everything that is left to chance comes from
// the seed of a [Scenario]. What happens at one moment happens in an order that nobody can tell, so chance never depends on it:
// it is drawn from the seed, the moment and whose message it is. A scenario that fails is the same when it is run
// again, on one processor and without the race detector, which makes up an order of its own.
//
// [Workload] is of use without the rest: it judges real servers as well.
package simulation
