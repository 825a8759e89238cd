package dbtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// ownerEnv makes the test binary an owner of a cluster that ends in the way the variable names: see TestNothingStays.
const ownerEnv = "READROUTE_DBTEST_OWNER"

var shared struct {
	once    sync.Once
	cluster *dbtest.PostgresCluster
	err     error
}

func TestMain(m *testing.M) {
	if end := os.Getenv(ownerEnv); end != "" {
		ownCluster(end)
		return
	}
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sharedCluster is a primary with two standbys, for tests that leave them as they have found them.
func sharedCluster(t *testing.T) *dbtest.PostgresCluster {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{Standbys: 2})
	})
	require.NoError(t, shared.err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.cluster.Logs())
		}
	})
	return shared.cluster
}

// ownCluster starts a cluster, says where it is, and ends without closing it.
func ownCluster(end string) {
	if strings.HasSuffix(end, "unheard") {
		dbtest.WithoutParentDeathSignal()
	}
	if flavor, end, ok := strings.Cut(end, ": "); ok {
		ownMySQLCluster(flavor, end)
		return
	}
	c, err := dbtest.StartPostgres(context.Background(), dbtest.PostgresOptions{Standbys: 1})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if strings.HasPrefix(end, "frozen") {
		err = errors.Join(c.Primary().Freeze(context.Background()), c.Standby(0).Freeze(context.Background()))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println(c.Folder(), c.Primary().Pid(), c.Standby(0).Pid())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the test says when, or kills this process
	if end == "panic" {
		panic("on purpose")
	}
}

func query(t *testing.T, n *dbtest.PostgresNode, sql string) string {
	t.Helper()
	value, err := n.QueryValue(t.Context(), sql)
	require.NoError(t, err)
	return value
}

// eventually polls, for what other processes do in their own time.
func eventually(t *testing.T, cond func() bool, what string) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !cond() {
		select {
		case <-ticker.C:
		case <-deadline:
			require.Fail(t, "it never came to pass: "+what)
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// createTable makes a table, with one column id, that goes with the test.
func createTable(t *testing.T, c *dbtest.PostgresCluster, name string) {
	t.Helper()
	require.NoError(t, c.Primary().Exec(t.Context(), "CREATE TABLE "+name+" (id int)"))
	t.Cleanup(func() { require.NoError(t, c.Primary().Exec(context.Background(), "DROP TABLE "+name)) })
}
