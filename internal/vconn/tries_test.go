package vconn_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// fullConnector has room for the monitor and for nobody else: its server is up and takes no more connections.
type fullConnector struct {
	driver.Connector
	dials atomic.Int64
}

// ReadOnly is what a reader's pool opens.
func (c *fullConnector) ReadOnly() driver.Connector { return refusingConnector{c} }

type refusingConnector struct{ *fullConnector }

func (c refusingConnector) Connect(context.Context) (driver.Conn, error) {
	c.dials.Add(1)
	return nil, &pgconn.PgError{Severity: "FATAL", Code: "53300", Message: "sorry, too many clients already"}
}

// TestAReadTriesTwoReplicas: what the library adds to a read is bounded however many replicas fail it, one after the other.
func TestAReadTriesTwoReplicas(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.Replicas = nil
	var full []*fullConnector
	for i := range 5 {
		full = append(full, &fullConnector{Connector: readroute.Postgres(c.Standby(0).DSN())})
		config.Replicas = append(config.Replicas, readroute.Node{Name: fmt.Sprintf("full%d", i), Connector: full[i]})
	}
	db := open(t, c, config)
	for range 20 {
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		d := db.last(t)
		require.Equal(t, readroute.RolePrimary, d.Role)
		require.Equal(t, readroute.RetryConnection, d.Retry)
		dials := int64(0)
		for _, f := range full {
			dials += f.dials.Swap(0)
		}
		require.Equal(t, int64(2), dials)
	}
}
