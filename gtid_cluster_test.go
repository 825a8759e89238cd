package readroute_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// watchful is a user that may write, and see what feeds a server: what the documentation asks for.
const watchful = "watchful"

// The driver logs every connection that a test breaks.
func init() { _ = mysql.SetLogger(log.New(io.Discard, "", 0)) }

// gtidShared are clusters for tests that leave them as they have found them, by whether they are MariaDB. They end with the
// process.
var gtidShared struct {
	mu       sync.Mutex
	clusters map[bool]*dbtest.MySQLCluster
}

// onBoth runs a test on a primary with two replicas of MariaDB and, where it can be had, of MySQL. The test leaves them as
// it has found them.
func onBoth(t *testing.T, test func(t *testing.T, c *dbtest.MySQLCluster)) {
	t.Helper()
	for _, mariadb := range []bool{true, false} {
		t.Run(flavorName(mariadb), func(t *testing.T) { test(t, sharedGTIDs(t, mariadb)) })
	}
}

// ownOnBoth runs a test on clusters of its own.
func ownOnBoth(t *testing.T, options dbtest.MySQLOptions, test func(t *testing.T, c *dbtest.MySQLCluster)) {
	t.Helper()
	for _, mariadb := range []bool{true, false} {
		t.Run(flavorName(mariadb), func(t *testing.T) { test(t, ownGTIDs(t, mariadb, options)) })
	}
}

func flavorName(mariadb bool) string {
	if mariadb {
		return "MariaDB"
	}
	return "MySQL"
}

// ownGTIDs is a cluster of the test's own, with the user watchful.
func ownGTIDs(t testing.TB, mariadb bool, options dbtest.MySQLOptions) *dbtest.MySQLCluster {
	t.Helper()
	start := dbtest.StartMySQLT
	if mariadb {
		start = dbtest.StartMariaDBT
	}
	c := start(t, options)
	makeWatchful(t, c)
	return c
}

func makeWatchful(t testing.TB, c *dbtest.MySQLCluster) {
	t.Helper()
	right := "REPLICATION CLIENT"
	if c.IsMariaDB() {
		right = "SLAVE MONITOR"
	}
	user := watchful + "@'127.0.0.1'"
	execOn(t, c.Primary(), "CREATE USER "+user, "GRANT ALL ON "+dbtest.AppDatabase+".* TO "+user, "GRANT "+right+" ON *.* TO "+user)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
}

func sharedGTIDs(t testing.TB, mariadb bool) *dbtest.MySQLCluster {
	t.Helper()
	gtidShared.mu.Lock()
	defer gtidShared.mu.Unlock()
	c := gtidShared.clusters[mariadb]
	if c == nil {
		options := dbtest.MySQLOptions{Replicas: 2}
		var err error
		if mariadb {
			c, err = dbtest.StartMariaDB(context.Background(), options)
		} else {
			if _, _, missing := dbtest.FindMySQL(); missing != nil && os.Getenv(dbtest.MySQLEnv) == "" {
				t.Skipf("MySQL NOT TESTED: %v", missing)
			}
			options.Settings = map[string]string{"plugin-load-add": "semisync_source.so;semisync_replica.so"}
			c, err = dbtest.StartMySQL(context.Background(), options)
		}
		require.NoError(t, err)
		makeWatchful(t, c)
		if gtidShared.clusters == nil {
			gtidShared.clusters = map[bool]*dbtest.MySQLCluster{}
		}
		gtidShared.clusters[mariadb] = c
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

// replicasOf are the nodes of c that were made as replicas.
func replicasOf(c *dbtest.MySQLCluster) []*dbtest.MySQLNode { return c.Nodes()[1:] }

// execOn runs statements on a server as its administrator, past the routed pool.
func execOn(t testing.TB, n *dbtest.MySQLNode, statements ...string) {
	t.Helper()
	require.NoError(t, n.Exec(testContext(t), statements...))
}

// asked is a server of any kind.
type asked interface {
	QueryValue(ctx context.Context, query string) (string, error)
}

// ask runs a query on a server as its administrator, past the routed pool.
func ask(t testing.TB, n asked, query string) string {
	t.Helper()
	value, err := n.QueryValue(testContext(t), query)
	require.NoError(t, err, query)
	return value
}

// number is what ask returns, when it is one.
func number(t testing.TB, n *dbtest.MySQLNode, query string) int {
	t.Helper()
	value, err := strconv.Atoi(ask(t, n, query))
	require.NoError(t, err, query)
	return value
}

// globalStatus is the table of a server's counters.
func globalStatus(c *dbtest.MySQLCluster) string {
	if c.IsMariaDB() {
		return "information_schema.GLOBAL_STATUS"
	}
	return "performance_schema.global_status"
}

// newGTIDTable makes an empty table of its own for a test and returns its name.
func newGTIDTable(t testing.TB, c *dbtest.MySQLCluster, columns string) string {
	t.Helper()
	name := fmt.Sprintf("t%d", tables.Add(1))
	execOn(t, c.Primary(), fmt.Sprintf("CREATE TABLE %s (%s)", name, columns))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	return name
}

// gtidConfig returns a config over all nodes of c, as the user watchful unless another is named.
func gtidConfig(c *dbtest.MySQLCluster, user ...string) readroute.Config {
	user = append(user, watchful)
	config := readroute.Config{}
	for i, n := range c.Nodes() {
		node := readroute.Node{Name: n.Name(), Connector: readroute.MySQL(n.DSN(user[0]))}
		if i == 0 {
			config.Primary = node
		} else {
			config.Replicas = append(config.Replicas, node)
		}
	}
	return config
}

// holdBack lets the replicas come to where the primary is, and keeps them there until letGo or the end of the test. They are
// fed and their appliers run, so that they may serve whoever needs nothing newer. Their appliers stop for that: of each of
// dbs it waits until it has seen them run again.
func holdBack(t testing.TB, c *dbtest.MySQLCluster, dbs ...*readroute.DB) {
	t.Helper()
	t.Cleanup(func() { letGo(t, c) })
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	for _, n := range replicasOf(c) {
		if len(dbs) > 0 {
			require.NoError(t, n.PauseReplay(testContext(t)))
		}
		for _, db := range dbs {
			eventually(t, "the stop is seen", func() bool { return status(t, db, n.Name()).Stopped })
		}
		require.NoError(t, n.SetApplyDelay(testContext(t), time.Hour))
		for _, db := range dbs {
			eventually(t, "the start is seen", func() bool { return !status(t, db, n.Name()).Stopped })
		}
	}
}

func letGo(t testing.TB, c *dbtest.MySQLCluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for _, n := range replicasOf(c) {
		if n.IsRunning() {
			require.NoError(t, n.SetApplyDelay(ctx, 0))
		}
	}
}

// add writes a row with the id through the routed pool.
func add(t testing.TB, ctx context.Context, db *readroute.DB, table string, id int) {
	t.Helper()
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", id)
	require.NoError(t, err)
}

// rowsOf reads how many rows of table have the id, through the routed pool.
func rowsOf(t testing.TB, ctx context.Context, db *readroute.DB, table string, id int) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", table, id)).Scan(&n))
	return n
}

// tokenOf is what the session of ctx needs.
func tokenOf(t testing.TB, ctx context.Context) readroute.Token {
	t.Helper()
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	return token
}

// carrying is a context with a session of its own that needs what the tokens need, after they have travelled as text.
func carrying(t testing.TB, tokens ...readroute.Token) context.Context {
	t.Helper()
	session := readroute.NewSession()
	for _, token := range tokens {
		carried, err := readroute.ParseToken(token.String())
		require.NoError(t, err)
		session.Merge(carried)
	}
	return readroute.ContextWithSession(testContext(t), session)
}

// oneLine is a set of GTIDs as it is written in a statement.
func oneLine(set string) string { return strings.ReplaceAll(set, "\n", "") }
