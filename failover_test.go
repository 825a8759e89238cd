package readroute_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// events collects the kinds of what happens.
type events struct {
	mu   sync.Mutex
	list []readroute.Event
}

func listen(config *readroute.Config) *events {
	e := new(events)
	config.Hooks = readroute.JoinHooks(config.Hooks, readroute.Hooks{Event: func(got readroute.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.list = append(e.list, got)
	}})
	return e
}

// of returns the events of a kind.
func (e *events) of(kind readroute.EventKind) []readroute.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []readroute.Event
	for _, got := range e.list {
		if got.Kind == kind {
			list = append(list, got)
		}
	}
	return list
}

// first waits for an event, which is told of a little after Nodes shows what it is about.
func (e *events) first(t testing.TB, kind readroute.EventKind) readroute.Event {
	t.Helper()
	eventually(t, fmt.Sprintf("an event: %v", kind), func() bool { return len(e.of(kind)) > 0 })
	return e.of(kind)[0]
}

// failoverConfig notices changes soon.
func failoverConfig(c *dbtest.PostgresCluster) readroute.Config {
	config := configFor(c)
	config.ProbeInterval = 50 * time.Millisecond
	config.ProbeTimeout = 500 * time.Millisecond
	return config
}

// switchOver stops the primary in order, promotes the first standby and lets the other nodes follow it.
func switchOver(t testing.TB, c *dbtest.PostgresCluster) (former, primary *dbtest.PostgresNode) {
	t.Helper()
	former, primary = c.Primary(), standbys(c)[0]
	require.NoError(t, former.StopFast(testContext(t)))
	require.NoError(t, primary.Promote(testContext(t)))
	for _, n := range c.Nodes() {
		if n != primary {
			require.NoError(t, n.Follow(testContext(t), primary))
		}
	}
	return former, primary
}

// TestK3_03_FormerPrimary: connections to a node that is no primary any more serve no write.
func TestK3_03_FormerPrimary(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	config := failoverConfig(c)
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	write := func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		return err
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = write(sessionContext(t)) })
	}
	wg.Wait()
	before := sessionContext(t)
	require.NoError(t, write(before))
	_, err := readroute.SessionFrom(before).Token(before) // its position is known before the primary goes
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	rows := onPrimary(t, c, "SELECT count(*) FROM "+table)

	former, primary := switchOver(t, c)
	eventually(t, "the new primary takes writes", func() bool {
		err := write(sessionContext(t))
		if err != nil {
			require.NotErrorIs(t, err, readroute.ErrCommitUnknown, "an idle connection of the past is noticed before it is used")
		}
		return err == nil
	})
	for range 20 {
		require.NoError(t, write(sessionContext(t)))
	}
	require.Equal(t, onPrimary(t, c, "SELECT "+rows+" + 21"), onPrimary(t, c, "SELECT count(*) FROM "+table),
		"a write that failed was not run again")
	require.True(t, status(t, db, primary.Name()).Primary)
	require.Zero(t, db.RouteStats().Nodes[0].Writer.OpenConnections, "connections to the former primary are dropped")
	happened.first(t, readroute.EventPrimaryChanged)
	require.NoError(t, db.PrimaryDB().QueryRowContext(testContext(t), "SELECT 1 WHERE NOT pg_is_in_recovery()").Scan(new(int)))

	eventually(t, "the former primary serves reads", func() bool {
		seen.take()
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		return seen.one(t).Node == former.Name()
	})
	// A session of the time before goes on: nothing of it was lost.
	eventually(t, "a replica serves the session of the time before", func() bool {
		seen.take()
		require.Positive(t, countIn(t, before, db, table))
		return seen.one(t).Role == readroute.RoleReplica
	})
	require.Empty(t, happened.of(readroute.EventPositionLost))
}

// TestK4_21_PromotedNode: its replay position freezes and does not become NULL.
func TestK4_21_PromotedNode(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	config := failoverConfig(c)
	seen := record(&config)
	db := open(t, config)
	_, primary := switchOver(t, c)
	eventually(t, "the new primary is known", func() bool { return status(t, db, primary.Name()).Primary })
	ctx := sessionContext(t)
	for i := range 10 {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
		require.NoError(t, err)
		require.Equal(t, i+1, countIn(t, ctx, db, table))
	}
	frozen, err := readroute.ParseLSN(onPrimary(t, c, "SELECT pg_last_wal_replay_lsn()"))
	require.NoError(t, err)
	eventually(t, "the position moves on", func() bool { return status(t, db, primary.Name()).Position > frozen })
	s := status(t, db, primary.Name())
	require.Equal(t, readroute.RolePrimary, s.Role)
	require.Equal(t, uint32(2), s.Timeline)
	require.Zero(t, s.Lag)
	require.True(t, s.LagKnown)
	require.Zero(t, s.LagBytes)
	eventually(t, "replicas on the new timeline serve the session", func() bool {
		seen.take()
		require.Equal(t, 10, countIn(t, ctx, db, table))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestK4_23_ListIsOld: who is the primary comes from the nodes, not from the list.
func TestK4_23_ListIsOld(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Primary, config.Replicas[0] = config.Replicas[0], config.Primary
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	for i := range 20 {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1)", i)
		require.NoError(t, err)
		require.Equal(t, c.Primary().Name(), seen.one(t).Node)
		require.Equal(t, i+1, countIn(t, ctx, db, table))
		seen.take()
	}
	require.True(t, status(t, db, c.Primary().Name()).Primary)
}

// TestK5_22_TokenOfALostTimeline: a write that was acknowledged and never replicated is lost with the primary. Its
// session reads from the new primary, is told once, and goes on.
func TestK5_22_TokenOfALostTimeline(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	config := failoverConfig(c)
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	kept := sessionContext(t)
	_, err := db.ExecContext(kept, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, c.WaitCaughtUp(testContext(t)))

	// The standbys receive nothing more.
	former, primary := c.Primary(), standbys(c)[0]
	for _, n := range standbys(c) {
		require.NoError(t, n.Set(testContext(t), "primary_conninfo", ""))
		eventually(t, "the receiver ends", func() bool {
			return ask(t, n, "SELECT count(*) FROM pg_stat_wal_receiver") == "0"
		})
	}
	lost := sessionContext(t)
	for range 5 {
		_, err = db.ExecContext(lost, "INSERT INTO "+table+" VALUES (2)")
		require.NoError(t, err)
	}
	token, err := readroute.SessionFrom(lost).Token(lost)
	require.NoError(t, err)
	require.NoError(t, former.Kill(testContext(t)))
	require.NoError(t, primary.Promote(testContext(t)))
	require.NoError(t, standbys(c)[1].Follow(testContext(t), primary))
	eventually(t, "the new primary is known", func() bool { return status(t, db, primary.Name()).Primary })

	for range 3 { // its timeline grows past all that is lost
		require.NoError(t, primary.Exec(testContext(t), "INSERT INTO "+table+" VALUES (3)", "SELECT pg_switch_wal()"))
	}
	eventually(t, "the primary has judged the token", func() bool {
		seen.take()
		ctx := readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
		at := time.Now()
		require.Zero(t, count(t, ctx, db, table, 2))
		d := seen.one(t)
		require.Equal(t, primary.Name(), d.Node, "%+v", d)
		require.Less(t, time.Since(at), 5*time.Second)
		if d.Reason != readroute.ReasonPositionLost {
			return false
		}
		eventually(t, "its session goes on", func() bool {
			seen.take()
			require.Zero(t, count(t, ctx, db, table, 2))
			return seen.one(t).Role == readroute.RoleReplica
		})
		return true
	})
	happened.first(t, readroute.EventPositionLost)
	require.Empty(t, happened.of(readroute.EventPositionEnded), "what is lost is not merely of the timeline before")
	eventually(t, "a session whose write was kept goes on", func() bool {
		seen.take()
		require.Equal(t, 1, count(t, kept, db, table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestK4_10_EverythingDown: all nodes stop and come back in any order.
func TestK4_10_EverythingDown(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
	table := newTable(t, c, "id int")
	db := open(t, failoverConfig(c))
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.Equal(t, 1, countIn(t, ctx, db, table))
	goroutines := runtime.NumGoroutine()
	for _, n := range c.Nodes() {
		require.NoError(t, n.StopFast(testContext(t)))
	}
	down := time.Now()
	eventually(t, "two seconds of errors", func() bool {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		at := time.Now()
		require.Error(t, db.QueryRowContext(short, "SELECT count(*) FROM "+table).Scan(new(int)))
		_, err := db.ExecContext(short, "INSERT INTO "+table+" VALUES (2)")
		require.Error(t, err)
		require.Less(t, time.Since(at), 4*time.Second, "errors come fast")
		return time.Since(down) > 2*time.Second
	})
	for _, i := range []int{1, 0, 2} {
		require.NoError(t, c.Nodes()[i].Start(testContext(t)))
	}
	eventually(t, "writes", func() bool {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (3)")
		return err == nil
	})
	eventually(t, "reads of all replicas", func() bool {
		require.Equal(t, 2, countIn(t, ctx, db, table))
		return status(t, db, "b").Healthy && status(t, db, "c").Healthy
	})
	eventually(t, "no goroutine more", func() bool { return runtime.NumGoroutine() <= goroutines+8 })
}

// TestReadOnlyRefusalInATransactionAsksAtOnce: the node may be no primary any more. Its connection is not used again, and the node is
// asked now, not when its turn comes. In a user's own read-only transaction a refusal says nothing.
func TestReadOnlyRefusalInATransactionAsksAtOnce(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.ProbeInterval = time.Hour
	db := open(t, config)
	primary := c.Primary().Name()
	ctx := readroute.WithLevel(testContext(t), readroute.LevelPrimary)
	refused := func(options *sql.TxOptions) (pid int) {
		tx, err := db.BeginTx(ctx, options)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid))
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		var pg *pgconn.PgError
		require.True(t, errors.As(err, &pg), "%v", err)
		require.Equal(t, "25006", pg.Code)
		require.NoError(t, tx.Rollback())
		return pid
	}
	pid := refused(readOnly)
	require.Equal(t, pid, refused(readOnly), "the connection is used again")

	before := status(t, db, primary).Position
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (2)"))
	require.Equal(t, pid, refused(readOnly))
	require.Equal(t, before, status(t, db, primary).Position, "nobody has asked")

	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "SET TRANSACTION READ ONLY")
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.Error(t, err)
	require.NoError(t, tx.Rollback())
	eventually(t, "the node is asked", func() bool { return status(t, db, primary).Position > before })
	require.True(t, status(t, db, primary).Primary)
	require.NotEqual(t, pid, refused(readOnly), "the connection is not used again")
}

// TestReadOnlyRefusalIsNoVerdict: a user's own read-only transaction on the primary says nothing of the node.
func TestReadOnlyRefusalIsNoVerdict(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	happened := listen(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	for range 5 {
		tx, err := db.BeginTx(readroute.WithLevel(ctx, readroute.LevelPrimary), readOnly)
		require.NoError(t, err)
		_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		var pg *pgconn.PgError
		require.True(t, errors.As(err, &pg))
		require.Equal(t, "25006", pg.Code)
		require.NoError(t, tx.Rollback())
		_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
		require.NoError(t, err)
	}
	require.True(t, status(t, db, c.Primary().Name()).Primary)
	require.Empty(t, happened.of(readroute.EventPrimaryChanged))
	require.Empty(t, happened.of(readroute.EventDown))
}
