package readroute_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func TestSlogHooksLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		hooks := readroute.SlogHooks(slog.New(slog.NewTextHandler(&out, nil)))
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSpace(out.String()), "\n")
		}
		lagging := readroute.Decision{Node: "a", Role: readroute.RolePrimary, Reason: readroute.ReasonWaitTimeout}
		for range 1000 {
			hooks.Decision(t.Context(), lagging)
			hooks.Decision(t.Context(), readroute.Decision{Node: "b", Role: readroute.RoleReplica, Reason: readroute.ReasonCovered})
			hooks.Decision(t.Context(), readroute.Decision{Node: "a", Role: readroute.RolePrimary, Reason: readroute.ReasonWrite})
			hooks.Event(readroute.Event{Kind: readroute.EventDown, Node: "b", Err: errors.New("refused")})
			hooks.Event(readroute.Event{Kind: readroute.EventDown, Node: "c", Err: errors.New("refused")})
		}
		got := lines()
		require.Len(t, got, 3, "one a node and kind or reason; what is well is not logged")
		require.Contains(t, got[0], "reason=wait_timeout")
		require.Contains(t, got[1], "event=down")
		require.Contains(t, got[1], "refused")

		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		hooks.Decision(t.Context(), lagging)
		hooks.Decision(t.Context(), lagging)
		got = lines()
		require.Len(t, got, 1)
		require.Contains(t, got[0], "skipped=999")
	})
}

// TestSlogHooksTellEveryChange: what is left out is the same thing again, never a change, so that the last line says what is.
func TestSlogHooksTellEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		hooks := readroute.SlogHooks(slog.New(slog.NewTextHandler(&out, nil)))
		told := func(e readroute.Event) bool {
			defer out.Reset()
			<-time.After(5 * time.Second)
			hooks.Event(e)
			return out.Len() > 0
		}
		for _, e := range []readroute.Event{
			{Kind: readroute.EventDown, Node: "b"},
			{Kind: readroute.EventUp, Node: "b"},
			{Kind: readroute.EventDown, Node: "b"},
			{Kind: readroute.EventDown, Node: "c"},
			{Kind: readroute.EventStopped, Node: "b"},
			{Kind: readroute.EventResumed, Node: "b"},
			{Kind: readroute.EventStopped, Node: "b"},
			{Kind: readroute.EventRoleChanged, Node: "b", Role: readroute.RolePrimary},
			{Kind: readroute.EventRoleChanged, Node: "b", Role: readroute.RoleReplica},
			{Kind: readroute.EventRoleChanged, Node: "b", Role: readroute.RolePrimary},
			{Kind: readroute.EventPrimaryChanged, Node: "b"},
			{Kind: readroute.EventPrimaryChanged, Node: "c"},
			{Kind: readroute.EventPrimaryChanged, Node: "b"},
			{Kind: readroute.EventSetting, Node: "b", Why: "one"},
			{Kind: readroute.EventSetting, Node: "b", Why: "another"},
		} {
			require.True(t, told(e), "%+v", e)
			require.False(t, told(e), "%+v again", e)
		}
	})
}

func TestJoinHooks(t *testing.T) {
	require.Nil(t, readroute.JoinHooks().Decision)
	require.Nil(t, readroute.JoinHooks(readroute.Hooks{}).Event)
	var order []string
	note := func(name string) readroute.Hooks {
		return readroute.Hooks{
			Decision: func(context.Context, readroute.Decision) { order = append(order, name) },
			Event:    func(readroute.Event) { order = append(order, name) },
		}
	}
	joined := readroute.JoinHooks(note("1"), readroute.Hooks{}, note("2"))
	joined.Decision(t.Context(), readroute.Decision{})
	joined.Event(readroute.Event{})
	require.Equal(t, []string{"1", "2", "1", "2"}, order)
}

// TestEveryStatementHasOneDecision counts what the hook and the statistics hear.
func TestEveryStatementHasOneDecision(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	one := func(what string, reason readroute.Reason) {
		t.Helper()
		d := seen.one(t)
		require.Equal(t, reason, d.Reason, "%s: %+v", what, d)
	}
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	one("a write", readroute.ReasonWrite)
	_, err = db.ExecContext(ctx, "INSERT INTO nothing VALUES (1)")
	require.Error(t, err)
	one("a write that fails", readroute.ReasonWrite)
	stmt, err := db.PrepareContext(ctx, "SELECT id FROM "+table)
	require.NoError(t, err)
	require.Empty(t, seen.take(), "preparing is no statement")
	require.NoError(t, stmt.QueryRowContext(readroute.WithLevel(ctx, readroute.LevelEventual)).Scan(new(int)))
	one("a prepared read", readroute.ReasonLevel)
	require.NoError(t, stmt.Close())
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	one("BEGIN", readroute.ReasonTx)
	require.Equal(t, 1, countIn(t, ctx, tx, table))
	one("a read in a transaction", readroute.ReasonTx)
	require.NoError(t, tx.Commit())
	require.Empty(t, seen.take())
	require.Error(t, db.QueryRowContext(readroute.WithNode(ctx, "nobody"), "SELECT 1").Scan(new(int)))
	one("a read that runs nowhere", readroute.ReasonContext)
	require.NoError(t, db.PrimaryRaw(ctx, func(any) error { return nil }))
	one("PrimaryRaw", readroute.ReasonWrite)

	var total uint64
	for _, n := range db.RouteStats().Nodes {
		total += n.Total()
	}
	require.EqualValues(t, 6, total)
	require.EqualValues(t, 1, db.RouteStats().Refused[readroute.ReasonContext])
}
