package sqlclass_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// postgresServers are a primary and a standby, started when a test first asks for them.
var postgresServers struct {
	once    sync.Once
	cluster *dbtest.PostgresCluster
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if postgresServers.cluster != nil {
		if err := postgresServers.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := mariadbServer.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func postgresCluster(t testing.TB) *dbtest.PostgresCluster {
	t.Helper()
	s := &postgresServers
	s.once.Do(func() {
		s.cluster, s.err = dbtest.StartPostgres(context.Background(), dbtest.PostgresOptions{Standbys: 1})
	})
	require.NoError(t, s.err)
	return s.cluster
}
