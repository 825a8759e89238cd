package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// Every tool writes and reads while replay is paused on replica b and goes on on replica c. A read on b would show a
// state from before the step. Reads must go to c: on the primary they would prove nothing.
func TestTools(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	frozen, live := cluster.Standby(0), cluster.Standby(1)
	ctx := t.Context()
	require.NoError(t, cluster.Primary().Exec(ctx, "GRANT pg_monitor TO app"))
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			schema := strings.ReplaceAll(name, "-", "_")
			require.NoError(t, cluster.Primary().Exec(ctx, "CREATE SCHEMA "+schema+" AUTHORIZATION app"))
			var seen log
			db := openRouted(t, schema, seen.note, cluster.Nodes()...)
			s, err := tools[name](ctx, db.DB)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			require.NoError(t, cluster.WaitCaughtUp(ctx))
			require.NoError(t, frozen.PauseReplay(ctx))
			t.Cleanup(func() { require.NoError(t, frozen.ResumeReplay(context.WithoutCancel(ctx))) })
			onFrozen := readroute.WithLevel(readroute.WithNode(readroute.WithSession(ctx), frozen.Name()), readroute.LevelEventual)
			require.Eventually(t, func() bool {
				d, err := db.Explain(onFrozen, "SELECT 1")
				return err == nil && d.Node == frozen.Name()
			}, 20*time.Second, 10*time.Millisecond, "a busy machine may have been late to answer")

			for _, step := range steps {
				if _, ok := s.(preparer); step.prepares && !ok {
					continue
				}
				t.Run(step.name, func(t *testing.T) {
					if !step.newTable {
						stale := readroute.WithNode(readroute.WithSession(t.Context()), frozen.Name())
						err := step.run(readroute.WithLevel(stale, readroute.LevelEventual), s)
						require.ErrorIs(t, err, errUnseen, "the step does not notice a stale read: %+v", seen.take())
					}
					seen.take()
					require.NoError(t, step.run(readroute.WithSession(t.Context()), s))
					offPrimary := 0
					for _, d := range seen.take() {
						require.NotEqual(t, frozen.Name(), d.Node, "%+v", d)
						if d.Node == live.Name() {
							offPrimary++
						}
						// Migrations read catalogues under locks, and sequences: what of it leaves the primary is up to the tool.
						if isRead := d.Class != readroute.ClassWrite && d.Class != readroute.ClassTxControl; isRead && !step.newTable {
							require.True(t, d.Node == live.Name() || d.Reason == readroute.ReasonTx, "%+v", d)
						}
					}
					require.Positive(t, offPrimary, "no read has left the primary")
				})
			}
		})
	}
}

// openRouted opens a pool over the nodes, the primary first, whose connections use the schema.
func openRouted(t *testing.T, schema string, note func(context.Context, readroute.Decision), nodes ...*dbtest.PostgresNode) *readroute.DB {
	t.Helper()
	cfg := readroute.Config{
		Strategy:       readroute.PositionWait(10 * time.Second), // a busy machine is no reason to read on the primary
		MaxLag:         time.Hour,
		CaptureTimeout: 10 * time.Second,
		Hooks:          readroute.Hooks{Decision: note},
	}
	for i, n := range nodes {
		node := readroute.Node{Name: n.Name(), Connector: readroute.Postgres(withSchema(t, n, schema))}
		if i == 0 {
			cfg.Primary = node
		} else {
			cfg.Replicas = append(cfg.Replicas, node)
		}
	}
	db, err := readroute.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.WaitReady(t.Context()))
	return db
}

func withSchema(t *testing.T, n *dbtest.PostgresNode, schema string) string {
	t.Helper()
	u, err := url.Parse(n.AppDSN())
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestProgram(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	require.NoError(t, cluster.Primary().Exec(t.Context(), "GRANT pg_monitor TO app"))
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, "sqlx", cluster.Primary().AppDSN(), cluster.Standby(0).AppDSN()))
	require.Contains(t, out.String(), "replica")
	require.Error(t, run(t.Context(), &out, "nothing", "", ""))
}

func TestUnseen(t *testing.T) {
	require.NoError(t, unseen("a", nil, "a"))
	require.ErrorIs(t, unseen("a", nil, "b"), errUnseen)
	require.ErrorIs(t, unseen("a", fmt.Errorf("x"), "a"), errUnseen)
}
