package marker

import (
	"errors"
	"strings"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
	"github.com/readroute/readroute/internal/vconn"
)

// Marking moves the rows of Writers. It implements vconn.Marking.
type Marking struct {
	Writers *Writers
	// Dialect returns the dialect of the servers; 0 while it is not known, and for one that never will be.
	Dialect func() sqlclass.Dialect
}

var _ vconn.Marking = Marking{}

// Mark implements vconn.Marking.
func (m Marking) Mark(seen core.Position) vconn.Mark {
	if mark := m.Writers.Mark(seen); mark != nil {
		mark.dialect = m.Dialect()
		return mark
	}
	return nil
}

// SQLSTATEs of PostgreSQL.
const (
	activeTransaction  = "25001" // it cannot run inside a transaction block
	invalidTermination = "2D000" // it commits by itself
	failedTransaction  = "25P02"
)

func sqlState(err error) string {
	var said interface{ SQLState() string }
	if errors.As(err, &said) {
		return said.SQLState()
	}
	return ""
}

// RefusedInTx implements vconn.Marking.
func (m Marking) RefusedInTx(err error) bool {
	switch sqlState(err) {
	case activeTransaction, invalidTermination:
		return true
	}
	var sqlite interface{ Code() int }
	return errors.As(err, &sqlite) && sqlite.Code() == sqliteError && strings.Contains(err.Error(), "within a transaction")
}

// Aborted implements vconn.Marking.
func (m Marking) Aborted(err error) bool { return sqlState(err) == failedTransaction }

// Untold implements vconn.Marking. On SQLite each transaction begins by a text that says so.
func (m Marking) Untold() bool { return m.Dialect() != sqlclass.SQLite }

// Transactional implements vconn.Marking. It knows the statements that it names, and says no of all others: one that
// cannot run in a transaction, that ends it, or that does nothing in it (PRAGMA foreign_keys), and all that it cannot read.
func (m Marking) Transactional(query string) bool {
	words := leadingWords(query)
	switch words[0] {
	case "select", "with", "values", "table", "insert", "replace", "update", "delete", "merge", "explain":
		return true
	case "create", "alter", "drop", "truncate", "comment", "grant", "revoke", "refresh", "analyze", "notify":
	default:
		return false
	}
	switch m.Dialect() {
	case sqlclass.PostgreSQL, sqlclass.SQLite:
	default:
		return false // MySQL and MariaDB commit by themselves, and so may any other
	}
	return transactionalDefinition(words) && !mentions(query, "concurrently")
}

// transactionalDefinition reports that DDL is about something that both PostgreSQL and SQLite make and drop in transactions.
func transactionalDefinition(words [4]string) bool {
	switch words[0] {
	case "truncate", "comment", "grant", "revoke", "refresh", "analyze", "notify":
		return true
	}
	for _, w := range words[1:] {
		switch w {
		case "or", "replace", "unique", "materialized", "temp", "temporary", "unlogged", "virtual":
			continue
		case "table", "view", "index", "trigger", "sequence", "type", "domain", "function", "procedure", "schema", "policy", "rule", "aggregate", "operator":
			return true
		}
		return false
	}
	return false
}
