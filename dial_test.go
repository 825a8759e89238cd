package readroute_test

import (
	"context"
	"database/sql/driver"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// keepingConnector makes contexts of those that it is given, and ends them when the test says so: as a timer does that
// goes off at the moment when the connection is there.
type keepingConnector struct {
	driver.Connector
	mu   sync.Mutex
	kept []context.CancelFunc
}

func (k *keepingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	child, cancel := context.WithCancel(ctx)
	k.mu.Lock()
	k.kept = append(k.kept, cancel)
	k.mu.Unlock()
	return k.Connector.Connect(child)
}

// TestDialContextOutlivesTheCheckout: a context that a driver has made while it connected ends after the checkout that it
// connected for.
func TestDialContextOutlivesTheCheckout(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	kept := &keepingConnector{Connector: config.Primary.Connector}
	config.Primary.Connector = kept
	db := open(t, config)
	_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	for _, cancel := range kept.kept {
		require.NotPanics(t, func() { cancel() })
	}
}
