// Package marker makes positions for databases whose servers tell none: of a small table that the transactions themselves
// write to.
//
// Each writer has a row with a sequence number, and a transaction moves the row of one writer by one. Whoever shows a row at a
// number shows all transactions that have moved it so far. A row belongs to one transaction at a time: a process has as many as
// it has had transactions open at once, so nobody waits for anybody. The names have a random part, so two processes never share
// a row, whatever they are called; a row that is not where its owner has left it (a failover has lost what it moved, a backup was
// put back, the process was copied) is left behind for a new one.
package marker
