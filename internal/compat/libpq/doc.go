// Package libpq tests the routed pool over lib/pq, on a real primary and a real
// standby: a node's connector may be any PostgreSQL driver's. It is a module of
// its own because the library itself does not need lib/pq.
package libpq
