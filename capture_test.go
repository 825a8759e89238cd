package readroute_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestCaptureEveryWay makes a write in every way in which one can be made, while no replica replays, and reads it.
func TestCaptureEveryWay(t *testing.T) {
	c := sharedCluster(t)
	for _, commit := range []string{"on", "off"} {
		t.Run("synchronous_commit="+commit, func(t *testing.T) {
			setOnPrimary(t, c, "synchronous_commit", commit)
			setOnPrimary(t, c, "wal_writer_delay", "50ms") // after which the log of an asynchronous commit goes out
			table := newWritable(t, c)
			config := configFor(c)
			config.Strategy = readroute.PositionWait(20 * time.Millisecond)
			config.ProbeInterval = 10 * time.Millisecond
			seen := record(&config)
			db := open(t, config)
			config.WithoutSession = readroute.WithoutSessionProcess
			processDB := open(t, config)
			for i, by := range ways() {
				if by.name == mergeWay && c.Version() < 15 {
					continue
				}
				t.Run(by.name, func(t *testing.T) {
					w := &writing{TB: t, ctx: sessionContext(t), other: sessionContext(t), db: db, table: table, id: i}
					if by.process {
						w.db = processDB
					}
					captureWay(w, c, seen, by)
				})
			}
		})
	}
}

func captureWay(w *writing, c *dbtest.PostgresCluster, seen *decisions, by way) {
	readers := []context.Context{w.ctx}
	if by.process {
		readers[0] = testContext(w)
	}
	if by.both {
		readers = append(readers, w.other)
	}
	visible := by.visible
	if visible == "" {
		visible = "SELECT count(*) FROM {t} WHERE id = {id}"
	}
	read := func(ctx context.Context) (int, readroute.Decision) {
		seen.take()
		var n int
		require.NoError(w, w.db.QueryRowContext(ctx, w.text(visible)).Scan(&n))
		return n, seen.one(w)
	}

	pauseReplay(w, c)
	by.write(w)
	for _, ctx := range readers {
		n, d := read(ctx)
		require.Equal(w, 1, n, "%+v", d)
		require.Equal(w, readroute.RolePrimary, d.Role, "%+v", d)
		require.Contains(w, []readroute.Reason{
			readroute.ReasonCapturePending, readroute.ReasonWaitTimeout, readroute.ReasonHopeless,
		}, d.Reason)
	}
	resumeReplay(w, c)
	for _, ctx := range readers {
		eventually(w, "a replica serves the session", func() bool {
			n, d := read(ctx)
			require.Equal(w, 1, n, "%+v", d)
			return d.Role == readroute.RoleReplica && (d.Reason == readroute.ReasonCovered || d.Reason == readroute.ReasonWaited)
		})
	}
}

// setOnPrimary changes a setting for the length of a test.
func setOnPrimary(t testing.TB, c *dbtest.PostgresCluster, name, value string) {
	t.Helper()
	before := onPrimary(t, c, "SHOW "+name)
	require.NoError(t, c.Primary().Set(testContext(t), name, value))
	t.Cleanup(func() { require.NoError(t, c.Primary().Set(testContext(t), name, before)) })
}

// noWrite says why a method needs no way of its own.
var noWrite = map[string]string{
	"DB.MayCache":           "asks nothing of any server",
	"DB.Close":              "ends the pool",
	"DB.Driver":             "no statement",
	"DB.Explain":            "runs nothing",
	"DB.Fence":              "only reads a position",
	"DB.Nodes":              "no statement",
	"DB.Ping":               "no statement",
	"DB.PingContext":        "no statement",
	"DB.PrimaryDB":          "leaves no position by contract: Fence is for that",
	"DB.RouteStats":         "no statement",
	"DB.SetConnMaxIdleTime": "no statement",
	"DB.SetConnMaxLifetime": "no statement",
	"DB.SetMaxIdleConns":    "no statement",
	"DB.SetMaxOpenConns":    "no statement",
	"DB.SetMode":            "no statement",
	"DB.SetReadShare":       "no statement",
	"DB.Stats":              "no statement",
	"DB.WaitReady":          "no statement",
	"Tx.Rollback":           "undoes the write: see TestCaptureRefusedWritesLeaveNothing",
	"Stmt.Close":            "no statement",
	"Conn.PingContext":      "no statement",
}

// TestK2_03_CaptureKnowsEveryMethod (K2-03) fails when database/sql or this package grows a method through which a write may pass.
func TestK2_03_CaptureKnowsEveryMethod(t *testing.T) {
	requireEveryMethod(t, ways())
}

// requireEveryMethod fails when there is a method that none of the ways goes through and that noWrite does not know.
func requireEveryMethod(t *testing.T, ways []way) {
	t.Helper()
	covered := map[string]string{}
	for _, by := range ways {
		for _, m := range strings.Fields(by.methods) {
			covered[m] = by.name
		}
	}
	db := reflect.TypeFor[*readroute.DB]()
	embedded, ok := db.Elem().FieldByName("DB")
	require.True(t, ok)
	types := map[string]reflect.Type{
		"DB":   db,
		"Tx":   methodResult(t, embedded.Type, "Begin"),
		"Conn": methodResult(t, embedded.Type, "Conn"),
		"Stmt": methodResult(t, embedded.Type, "Prepare"),
	}
	exist := map[string]bool{}
	for name, typ := range types {
		for i := range typ.NumMethod() {
			m := name + "." + typ.Method(i).Name
			exist[m] = true
			if noWrite[m] == "" {
				require.Contains(t, covered, m, "%s can carry a write: give ways() one that goes through it, or say in noWrite why not", m)
			}
		}
	}
	for i := range embedded.Type.NumMethod() {
		require.True(t, exist["DB."+embedded.Type.Method(i).Name], "the routed DB hides a method")
	}
	for m := range covered {
		require.True(t, exist[m], "%s is gone", m)
	}
	for m := range noWrite {
		require.True(t, exist[m], "%s is gone", m)
	}
}

func methodResult(t *testing.T, typ reflect.Type, name string) reflect.Type {
	t.Helper()
	m, ok := typ.MethodByName(name)
	require.True(t, ok)
	return m.Type.Out(0)
}
