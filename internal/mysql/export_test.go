package mysql

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// ReportOf is what a row says by itself.
func ReportOf(t *testing.T, e Engine, row []string) Report {
	t.Helper()
	p, err := e.parse(row)
	require.NoError(t, err)
	return p.report(p.role())
}

// OpenSockets is how many sockets are known.
func OpenSockets() (n int) {
	sockets.Range(func(any, any) bool { n++; return true })
	return n
}

// StatusOf reads the answer to SHOW REPLICA STATUS.
func StatusOf(columns []string, rows ...[]string) (active, feeding bool, err error) {
	s, err := parseStatus(columns, rows)
	return s.active, s.feeding, err
}

// AskStatus asks for it.
func AskStatus(ctx context.Context, e Engine, q querier) (active, feeding bool, lag time.Duration, err error) {
	s, err := e.replicaStatus(ctx, q)
	return s.active, s.feeding, s.lag, err
}

var (
	LastWords    = lastWords
	Transactions = func(s core.GTIDSet) uint64 { return uint64(transactions(s)) }
)
