// Package lite is a primary with replicas in one process: databases of SQLite, of which the primary's log of pages is read after
// each commit and written into the others, whole transactions in their order, when their time has come.
//
// A replica is the same database page by page, as with physical replication: whatever a transaction does arrives, its DDL, triggers and
// random numbers included. Readers of a replica see one transaction after the other appear, as SQLite shows any commit.
package lite
