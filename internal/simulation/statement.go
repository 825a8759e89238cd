package simulation

import (
	"context"
	"database/sql/driver"

	"github.com/readroute/readroute/internal/check"
)

// kind is what a statement does.
type kind uint8

const (
	question kind = iota // about the server; its text says what
	nothing
	selectKey
	insert
	begin
	commit
	rollback
)

// statement is one that a client sends.
type statement struct {
	kind     kind
	text     string
	key      int
	version  int
	op       int // of the history; -1 when it belongs to none
	readOnly bool
	returns  chan error // of an insert that hands out rows: how its commit has gone
}

// changes reports that it may change something for good.
func (k *conn) changes(st *statement) bool {
	return st.kind == insert || st.kind == commit && k.tx != nil && len(k.tx.writes) > 0
}

// The texts of the workload, and of the clients' languages.
type texts struct{ read, insert, returning, create string }

func textsOf(e Engine) texts {
	if e == Postgres {
		return texts{
			read: "SELECT v FROM kv WHERE k = $1", insert: "INSERT INTO kv (k, v) VALUES ($1, $2)",
			returning: "INSERT INTO kv (k, v) VALUES ($1, $2) RETURNING v",
			create:    "CREATE TABLE kv (k bigint, v bigint); CREATE INDEX ON kv (k)",
		}
	}
	t := texts{
		read: "SELECT v FROM kv WHERE k = ?", insert: "INSERT INTO kv (k, v) VALUES (?, ?)",
		create: "CREATE TABLE kv (n BIGINT AUTO_INCREMENT PRIMARY KEY, k BIGINT, v BIGINT, KEY (k))",
	}
	if e == MariaDB {
		t.returning = "INSERT INTO kv (k, v) VALUES (?, ?) RETURNING v"
	}
	return t
}

// parse finds out what a client asks for.
func (c *cluster) parse(ctx context.Context, query string, args []driver.NamedValue) statement {
	st := statement{text: query, op: operation(ctx)}
	argument := func(i int) int {
		if i < len(args) {
			if n, ok := args[i].Value.(int64); ok {
				return int(n)
			}
		}
		return 0
	}
	switch t := c.texts; query {
	case t.read:
		st.kind, st.key = selectKey, argument(0)
	case t.insert, t.returning:
		st.kind, st.key, st.version = insert, argument(0), argument(1)
	case "BEGIN":
		st.kind = begin
	case "COMMIT":
		st.kind = commit
	case "ROLLBACK":
		st.kind = rollback
	case "SELECT 1":
		st.kind = nothing
	}
	return st
}

// operation is the one of the history that a context belongs to; -1 when it belongs to none.
func operation(ctx context.Context) int {
	if id, ok := check.FromContext(ctx); ok {
		return id
	}
	return -1
}
