package replicatest_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	native "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
	"github.com/readroute/readroute/replicatest/mariadb"
	"github.com/readroute/readroute/replicatest/mysql"
	"github.com/readroute/readroute/replicatest/postgres"
)

// The driver logs every connection that a test breaks.
func init() { _ = native.SetLogger(log.New(io.Discard, "", 0)) }

// engine is a kind of servers with a kind of positions.
type engine struct {
	name    string
	cluster *replicatest.Cluster
	marked  bool // its positions are those of a marker table
	// role tells the role of a server that does not tell positions.
	role   string
	dollar bool // it wants $1 for an argument
}

// start makes the clusters of each kind.
var start = map[string]func(t *testing.T) *replicatest.Cluster{
	"SQLite":     func(t *testing.T) *replicatest.Cluster { return replicatest.NewT(t, replicatest.Options{}) },
	"PostgreSQL": func(t *testing.T) *replicatest.Cluster { return postgres.NewT(t, replicatest.Options{}) },
	"MariaDB":    func(t *testing.T) *replicatest.Cluster { return mariadb.NewT(t, replicatest.Options{}) },
	"MySQL": func(t *testing.T) *replicatest.Cluster {
		c, err := mysql.New(testContext(t), replicatest.Options{})
		if errors.Is(err, mysql.ErrNoServer) {
			t.Skipf("MySQL NOT TESTED: %v", err)
		}
		return replicatest.ClosedBy(t, c, err)
	},
}

// onEachEngine runs a test on clusters of each kind, with log positions where there are any, and with a marker.
func onEachEngine(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Helper()
	for _, name := range []string{"SQLite", "PostgreSQL", "MariaDB", "MySQL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start[name](t)
			for _, marked := range []bool{false, true} {
				if name == "SQLite" && !marked {
					continue // it has no other
				}
				e := &engine{name: name, cluster: c, marked: marked, dollar: name == "PostgreSQL"}
				if e.dollar {
					e.role = "SELECT CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE 'primary' END, pg_postmaster_start_time()::text"
				} else if name != "SQLite" {
					e.role = "SELECT IF(@@GLOBAL.read_only, 'replica', 'primary')"
				}
				t.Run(map[bool]string{false: "log", true: "marker"}[marked], func(t *testing.T) { test(t, e) })
			}
		})
	}
}

// open opens a pool that notices changes soon.
func (e *engine) open(t testing.TB, seen *decisions, edit ...func(*readroute.Config)) *readroute.DB {
	t.Helper()
	edits := []func(*readroute.Config){func(config *readroute.Config) {
		config.ProbeInterval = 50 * time.Millisecond
		config.ProbeTimeout = 500 * time.Millisecond
		if e.marked && config.Marker == nil {
			config.Marker = &readroute.Marker{StateSQL: e.role}
			require.NoError(t, readroute.CreateMarker(testContext(t), e.cluster.Primary().DB(), *config.Marker))
			require.NoError(t, e.cluster.WaitCaughtUp(testContext(t)))
		}
	}}
	if seen != nil {
		edits = append(edits, record(seen))
	}
	db, err := e.cluster.Open(testContext(t), append(edits, edit...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// sql puts the engine's own places for arguments into a text that has ? for them.
func (e *engine) sql(text string) string {
	for i := 1; e.dollar && strings.Contains(text, "?"); i++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", i), 1)
	}
	return text
}

var tables atomic.Int64

// table makes a table of the test's own.
func (e *engine) table(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d", tables.Add(1))
	require.NoError(t, e.cluster.Exec(testContext(t), "CREATE TABLE "+name+" (id int PRIMARY KEY, n int NOT NULL)"))
	return name
}

// pause stops all replicas until the end of the test, or the call of resume.
func (e *engine) pause(t testing.TB) (resume func()) {
	t.Helper()
	require.NoError(t, e.cluster.Pause(testContext(t)))
	resumed := false
	resume = func() {
		if !resumed {
			resumed = true
			require.NoError(t, e.cluster.Resume(testContext(t)))
		}
	}
	t.Cleanup(resume)
	return resume
}
