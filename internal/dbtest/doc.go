// Package dbtest starts real, private database servers: for the tests of this module, and for programs that show it at
// work. It does not import testing.
//
// StartPostgres makes a PostgreSQL primary and any number of streaming standbys on free ports of 127.0.0.1, in about a
// second, from whatever PostgreSQL is installed. Every fault that replication can have is a method: a standby that
// pauses or delays replay, a server that stops, crashes, freezes, is promoted or follows another. A Proxy in front of
// any server cuts, refuses, delays, swallows and re-points its connections.
//
// StartMySQL and StartMariaDB make a primary with replicas by GTID, from an installed MySQL or MariaDB, with the same
// faults. MariaDB has to be there; MySQL may be missing, and Untested says so.
//
// No server and no data folder outlives the process that started them, however it ends. On Linux the kernel tells a
// server that its parent is gone; everywhere a small watchdog process, in a session of its own, sees the end of a pipe,
// stops what is still running and removes the folder. What even that leaves behind (the machine went down) is removed
// by the next start.
//
// Whoever can reach 127.0.0.1 can connect to these servers while they run: there are no passwords.
package dbtest
