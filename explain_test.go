package readroute_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// explained are the statements of the comparison. Each returns rows, or none.
var explained = []string{
	"SELECT count(*) FROM {t}",
	"SELECT 1 /* route:primary */",
	"SELECT 1 /* route:replica */",
	"SELECT pg_backend_pid()",
	"/* route:replica */ SELECT add_{t}(-1)",
	"SELECT id FROM {t} FOR UPDATE",
	"INSERT INTO {t} VALUES (-1) RETURNING id",
	"WITH w AS (INSERT INTO {t} VALUES (-1) RETURNING id) SELECT id FROM w",
	"SHOW search_path",
	"SET application_name = 'explained'",
	"BEGIN",
	"SELECT",
	"no SQL at all",
	"",
}

// TestExplainIsRight compares what Explain says with what then happens, over statements, contexts and states of the
// replicas.
func TestExplainIsRight(t *testing.T) {
	c := breakable(t)
	table := newWritable(t, c)
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db, other := open(t, config), open(t, configFor(c))

	contexts := map[string]func() context.Context{
		"none":     func() context.Context { return testContext(t) },
		"session":  func() context.Context { return sessionContext(t) },
		"eventual": func() context.Context { return readroute.WithLevel(testContext(t), readroute.LevelEventual) },
		"primary":  func() context.Context { return readroute.WithLevel(sessionContext(t), readroute.LevelPrimary) },
		"node":     func() context.Context { return readroute.WithNode(sessionContext(t), config.Replicas[1].Name) },
		"unknown":  func() context.Context { return readroute.WithNode(sessionContext(t), "nobody") },
		"error":    func() context.Context { return readroute.WithFallback(wrote(t, db, table), readroute.FallbackError) },
		"stale":    func() context.Context { return readroute.WithFallback(wrote(t, db, table), readroute.FallbackStale) },
		"wrote":    func() context.Context { return wrote(t, db, table) },
		"a moment": func() context.Context { return justWrote(t, db, table) },
		"to node":  func() context.Context { return readroute.WithNode(justWrote(t, db, table), config.Replicas[1].Name) },
		"elsewhere": func() context.Context {
			token, err := readroute.SessionFrom(wrote(t, other, table)).Token(testContext(t))
			require.NoError(t, err)
			return readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
		},
		"global":  func() context.Context { return readroute.WithLevel(testContext(t), readroute.LevelGlobal) },
		"bounded": func() context.Context { return readroute.WithLevel(testContext(t), readroute.LevelBounded(1)) },
		"no wait": func() context.Context { return readroute.WithWait(wrote(t, db, table), 0) },
	}
	states := []struct {
		name string
		set  func()
	}{
		{"live", func() {}},
		{"paused", func() { pauseReplay(t, c) }},
		{"one down", func() {
			resumeReplay(t, c)
			require.NoError(t, standbys(c)[0].StopFast(testContext(t)))
			eventually(t, "the monitor knows", func() bool { return !status(t, db, config.Replicas[0].Name).Healthy })
		}},
		{"all down", func() {
			require.NoError(t, standbys(c)[1].StopFast(testContext(t)))
			eventually(t, "the monitor knows", func() bool { return !status(t, db, config.Replicas[1].Name).Healthy })
		}},
	}
	would := map[string]int{} // waits that were foretold and came true, by context
	for _, state := range states {
		state.set()
		for name, newContext := range contexts {
			for _, text := range explained {
				text = (&writing{table: table}).text(text)
				t.Run(fmt.Sprintf("%s/%s/%s", state.name, name, text), func(t *testing.T) {
					if compareExplained(t, db, seen, newContext(), text, state.name) {
						would[name]++
					}
				})
			}
		}
	}
	for _, name := range []string{"a moment", "to node", "elsewhere", "global", "bounded"} {
		require.Positive(t, would[name], "%s: %v", name, would)
	}
}

// justWrote returns the context of a session that has written this moment.
func justWrote(t testing.TB, db *readroute.DB, table string) context.Context {
	t.Helper()
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (0)")
	require.NoError(t, err)
	return ctx
}

// wrote returns the context of a session that has just written, and whose position is known.
func wrote(t testing.TB, db *readroute.DB, table string) context.Context {
	t.Helper()
	ctx := justWrote(t, db, table)
	_, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	return ctx
}

// compareExplained reports whether Explain said that the statement would have to wait, and it was served after that.
func compareExplained(t *testing.T, db *readroute.DB, seen *decisions, ctx context.Context, text, state string) bool {
	t.Helper()
	seen.take()
	said, err := db.Explain(ctx, text)
	require.Equal(t, said.Err, err)
	require.Empty(t, seen.take(), "Explain runs nothing and reports nothing")

	rows, err := db.QueryContext(ctx, text)
	if err == nil {
		for rows.Next() {
		}
		require.NoError(t, rows.Close())
	}
	did := seen.one(t)
	if said.Err != nil {
		require.Error(t, err)
		require.Empty(t, did.Node)
		for _, sentinel := range []error{readroute.ErrNotCaughtUp, readroute.ErrNoReplica, readroute.ErrUnknownNode} {
			require.Equal(t, errors.Is(said.Err, sentinel), errors.Is(err, sentinel), "%v", err)
		}
	}
	if did.Retry == readroute.RetryRefused || did.Retry == readroute.RetrySchema {
		return false // what the replica says cannot be known before
	}
	require.Equal(t, said.Class, did.Class)
	require.Equal(t, said.Level, did.Level)
	inVain := []readroute.Reason{
		readroute.ReasonWaitTimeout, readroute.ReasonHopeless, readroute.ReasonCapturePending, readroute.ReasonLagging, readroute.ReasonStale,
	}
	alone := state != "live" && state != "paused" || did.Reason == readroute.ReasonContext // there is no choice between replicas
	switch {
	case said.WouldWait && !slices.Contains(inVain, did.Reason):
		require.Equal(t, said.Role, did.Role, "%+v %+v", said, did)
		if alone || said.Role == readroute.RolePrimary {
			require.Equal(t, said.Node, did.Node)
		}
		if said.Reason != readroute.ReasonWaited && did.Reason != readroute.ReasonWaited { // whether the replica has it already
			require.Equal(t, said.Reason, did.Reason, "%+v %+v", said, did)
		}
		return true
	case said.WouldWait:
		require.NotEqual(t, readroute.RolePrimary, said.Role, "%+v %+v", said, did)
	case state != "paused" && said.Reason != did.Reason:
		// Replay went on in between.
		require.Contains(t, []readroute.Reason{
			readroute.ReasonWaited, readroute.ReasonWaitTimeout, readroute.ReasonHopeless, readroute.ReasonCovered, readroute.ReasonLagging,
		}, did.Reason, "%+v %+v", said, did)
	default:
		require.Equal(t, said.Reason, did.Reason, "%+v %+v", said, did)
		require.Equal(t, said.Role, did.Role)
		if alone || said.Role == readroute.RolePrimary {
			require.Equal(t, said.Node, did.Node)
		}
	}
	return false
}

func TestExplainBeforeAnyServerAnswers(t *testing.T) {
	db, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres("postgres://app@127.0.0.1:1/app")},
		Replicas: []readroute.Node{{Name: "b", Connector: readroute.Postgres("postgres://app@127.0.0.1:1/app")}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d, err := db.Explain(sessionContext(t), "SELECT 1")
	require.NoError(t, err)
	require.Equal(t, readroute.Decision{
		Node: "a", Role: readroute.RolePrimary, Reason: readroute.ReasonNoReplica,
		Class: readroute.ClassRead, Level: readroute.LevelSession,
	}, d)
	_, err = db.Explain(readroute.WithNode(sessionContext(t), "nobody"), "SELECT 1")
	require.ErrorIs(t, err, readroute.ErrUnknownNode)
}

// TestExplainSaysThatItWouldWait: a session whose position is not known yet waits for it first.
func TestExplainSaysThatItWouldWait(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Strategy = readroute.PositionWait(time.Second)
	db := open(t, config)
	pauseReplay(t, c)
	d, err := db.Explain(wrote(t, db, table), "SELECT count(*) FROM "+table)
	require.NoError(t, err)
	require.True(t, d.WouldWait)
	require.Equal(t, readroute.RoleReplica, d.Role)
	require.Equal(t, readroute.ReasonWaited, d.Reason)
}
