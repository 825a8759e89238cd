// Package mysql makes clusters of package replicatest of private MySQL servers.
package mysql

import (
	"context"
	"fmt"

	"github.com/readroute/readroute/replicatest"
	"github.com/readroute/readroute/replicatest/internal/private"
)

// ErrNoServer is matched by the error of [New] where no MySQL is installed. The error says what to install.
var ErrNoServer = private.ErrNoServer

// New starts a primary with replicas from the MySQL that is installed, on free ports of 127.0.0.1, as
// [replicatest.New] does of SQLite, in a second or a few. The caller closes them; should the process end first, however it ends, the servers end
// and nothing of them is left. ctx bounds the start. There are no passwords: whoever can reach 127.0.0.1 can connect while they run.
func New(ctx context.Context, options replicatest.Options) (*replicatest.Cluster, error) {
	servers, err := private.StartMySQL(ctx, options.Count())
	if err != nil {
		return nil, fmt.Errorf("replicatest: start MySQL: %w", err)
	}
	return replicatest.Over(ctx, servers, options)
}

// NewT is [New] for a test: it fails the test on an error, and the servers end when the test is over.
func NewT(t replicatest.TB, options replicatest.Options) *replicatest.Cluster {
	t.Helper()
	c, err := New(context.Background(), options)
	return replicatest.ClosedBy(t, c, err)
}
