package replicatest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestConformance holds every engine, with every kind of positions, to the same promises.
func TestConformance(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e *engine) {
		t.Run("own writes", e.ownWrites)
		t.Run("refused writes", e.refusedWrites)
		t.Run("token", e.token)
		t.Run("fence", e.fence)
		t.Run("levels", e.levels)
		t.Run("causal", e.causal)
		t.Run("many sessions", e.manySessions)
		t.Run("nodes that are down", e.nodesDown)
	})
}

// count reads how many rows have an id.
func (e *engine) count(t testing.TB, ctx context.Context, db *readroute.DB, table string, id int) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(ctx, e.sql("SELECT count(*) FROM "+table+" WHERE id = ?"), id).Scan(&n))
	return n
}

func (e *engine) insert(t testing.TB, ctx context.Context, db *readroute.DB, table string, id int) {
	t.Helper()
	_, err := db.ExecContext(ctx, e.sql("INSERT INTO "+table+" VALUES (?, 0)"), id)
	require.NoError(t, err)
}

// ownWrites: whatever the way in which a write is made, its session sees it at once, and from a replica as soon as one shows it.
func (e *engine) ownWrites(t *testing.T) {
	table := e.table(t)
	var seen decisions
	db := e.open(t, &seen)
	insert := e.sql("INSERT INTO " + table + " VALUES (?, 0)")
	text := func(id int) string { return fmt.Sprintf("INSERT INTO %s VALUES (%d, 0)", table, id) }
	ways := []struct {
		name  string
		write func(t *testing.T, ctx context.Context, id int) error
	}{
		{"Exec", func(_ *testing.T, ctx context.Context, id int) error {
			_, err := db.ExecContext(ctx, text(id))
			return err
		}},
		{"Exec with arguments", func(_ *testing.T, ctx context.Context, id int) error {
			_, err := db.ExecContext(ctx, insert, id)
			return err
		}},
		{"prepared Exec", func(t *testing.T, ctx context.Context, id int) error {
			stmt, err := db.PrepareContext(ctx, insert)
			require.NoError(t, err)
			defer stmt.Close()
			_, err = stmt.ExecContext(ctx, id)
			return err
		}},
		{"RETURNING", func(t *testing.T, ctx context.Context, id int) error {
			if e.name == "MySQL" {
				return e.exec(ctx, db, text(id))
			}
			return db.QueryRowContext(ctx, text(id)+" RETURNING id").Scan(new(int))
		}},
		{"Tx", func(t *testing.T, ctx context.Context, id int) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, insert, id)
			require.NoError(t, err)
			return tx.Commit()
		}},
		{"Tx with a savepoint that is rolled back", func(t *testing.T, ctx context.Context, id int) error {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			for _, s := range []string{"SAVEPOINT s", text(id + 1000), "ROLLBACK TO SAVEPOINT s", text(id)} {
				_, err = tx.ExecContext(ctx, s)
				require.NoError(t, err)
			}
			return tx.Commit()
		}},
		{"BEGIN and COMMIT by text", func(t *testing.T, ctx context.Context, id int) error {
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			defer conn.Close()
			for _, s := range []string{"BEGIN", text(id), "COMMIT"} {
				if _, err := conn.ExecContext(ctx, s); err != nil {
					return err
				}
			}
			return nil
		}},
		{"Conn", func(t *testing.T, ctx context.Context, id int) error {
			conn, err := db.Conn(ctx)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.ExecContext(ctx, insert, id)
			return err
		}},
	}
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			ctx := sessionContext(t)
			resume := e.pause(t)
			require.NoError(t, way.write(t, ctx, i+1))
			seen.take()
			require.Equal(t, 1, e.count(t, ctx, db, table, i+1))
			d := seen.last(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			require.NotEqual(t, readroute.ReasonSticky, d.Reason, "it has a position")
			resume()
			eventually(t, "a replica serves the session", func() bool {
				require.Equal(t, 1, e.count(t, ctx, db, table, i+1))
				return seen.last(t).Role == readroute.RoleReplica
			})
		})
	}
}

func (e *engine) exec(ctx context.Context, db *readroute.DB, text string) error {
	_, err := db.ExecContext(ctx, text)
	return err
}

// refusedWrites: what the server refuses, or is rolled back, holds no read, and leaves nothing.
func (e *engine) refusedWrites(t *testing.T) {
	table := e.table(t)
	var seen decisions
	db := e.open(t, &seen)
	e.insert(t, sessionContext(t), db, table, 1)
	require.NoError(t, e.cluster.WaitCaughtUp(testContext(t)))
	eventually(t, "a replica is known to have it", func() bool {
		e.count(t, sessionContext(t), db, table, 1)
		return seen.last(t).Role == readroute.RoleReplica
	})
	for name, write := range map[string]func(t *testing.T, ctx context.Context){
		"rolled back": func(t *testing.T, ctx context.Context) {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, e.sql("INSERT INTO "+table+" VALUES (?, 0)"), 2)
			require.NoError(t, err)
			require.NoError(t, tx.Rollback())
		},
		"transaction of reads": func(t *testing.T, ctx context.Context) {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int)))
			require.NoError(t, tx.Commit())
		},
		"refused": func(t *testing.T, ctx context.Context) {
			_, err := db.ExecContext(ctx, e.sql("INSERT INTO "+table+" VALUES (?, 0)"), 1)
			require.Error(t, err)
			require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "transaction of reads" && !e.marked && !e.dollar {
				t.Skip("without transactions a table keeps rows of what was refused or rolled back, so MySQL's sessions are held to a position")
			}
			resume := e.pause(t)
			e.insert(t, sessionContext(t), db, table, 100+len(name)) // so that the replicas are behind
			ctx := sessionContext(t)
			write(t, ctx)
			seen.take()
			require.Zero(t, e.count(t, ctx, db, table, 2))
			d := seen.last(t)
			require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
			resume()
		})
	}
}

// token: another process that is given the token of a session sees what it wrote.
func (e *engine) token(t *testing.T) {
	table := e.table(t)
	var seen decisions
	writer, reader := e.open(t, nil), e.open(t, &seen)
	ctx := sessionContext(t)
	resume := e.pause(t)
	e.insert(t, ctx, writer, table, 1)
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	parsed, err := readroute.ParseToken(token.String())
	require.NoError(t, err)
	carried := readroute.ContextWithSession(testContext(t), readroute.NewSession(parsed))
	require.Equal(t, 1, e.count(t, carried, reader, table, 1))
	require.Equal(t, readroute.RolePrimary, seen.last(t).Role)
	n := e.count(t, sessionContext(t), reader, table, 1)
	if d := seen.last(t); d.Reason != readroute.ReasonNoReplica { // as where a replica that stands still has been so for too long
		require.Zero(t, n, "a session without the token is served by a replica that is behind: %+v", d)
	}
	refusing := readroute.WithFallback(readroute.WithWait(carried, 10*time.Millisecond), readroute.FallbackError)
	err = reader.QueryRowContext(refusing, "SELECT count(*) FROM "+table).Scan(new(int))
	if !errors.Is(err, readroute.ErrNoReplica) { // for the same reason
		require.ErrorIs(t, err, readroute.ErrNotCaughtUp)
	}
	resume()
	eventually(t, "a replica serves the token", func() bool {
		require.Equal(t, 1, e.count(t, carried, reader, table, 1))
		return seen.last(t).Role == readroute.RoleReplica
	})
}

// fence: from then on a session sees what anybody has written.
func (e *engine) fence(t *testing.T) {
	table := e.table(t)
	var seen decisions
	writer, reader := e.open(t, nil), e.open(t, &seen)
	resume := e.pause(t)
	e.insert(t, sessionContext(t), writer, table, 1)
	ctx := sessionContext(t)
	require.Zero(t, e.count(t, ctx, reader, table, 1))
	require.NoError(t, reader.Fence(ctx))
	require.Equal(t, 1, e.count(t, ctx, reader, table, 1))
	resume()
	eventually(t, "a replica serves the session", func() bool {
		require.Equal(t, 1, e.count(t, ctx, reader, table, 1))
		return seen.last(t).Role == readroute.RoleReplica
	})
}

// acked are numbers that are written through a pool, one higher than the other, and when each was acknowledged.
type acked struct {
	mu   sync.Mutex
	list []time.Time
}

func (a *acked) before(moment time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.list) && a.list[n].Before(moment) {
		n++
	}
	return n
}

// writes keeps writing until stop is called.
func (e *engine) writes(t *testing.T, table string) (a *acked, stop func()) {
	t.Helper()
	db := e.open(t, nil)
	a = &acked{}
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for id := 1; ctx.Err() == nil; id++ {
			if _, err := db.ExecContext(context.WithoutCancel(ctx), e.sql("INSERT INTO "+table+" VALUES (?, 0)"), id); err != nil {
				done <- err
				return
			}
			a.mu.Lock()
			a.list = append(a.list, time.Now())
			a.mu.Unlock()
			<-ticker.C
		}
		done <- nil
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	eventually(t, "something is written", func() bool { return a.before(time.Now()) > 5 })
	return a, stop
}

func newest(t testing.TB, ctx context.Context, db *readroute.DB, table string) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM "+table).Scan(&n))
	return n
}

// manySessions: under load, with one replica late and the other stopping now and then, no session misses its own write.
func (e *engine) manySessions(t *testing.T) {
	table := e.table(t)
	var seen decisions
	db := e.open(t, &seen)
	const sessions = 8
	for id := range sessions {
		e.insert(t, testContext(t), db, table, id)
	}
	require.NoError(t, e.cluster.WaitCaughtUp(testContext(t)))
	end := time.Now().Add(700 * time.Millisecond)
	var all sync.WaitGroup
	var reads atomic.Int64
	for id := range sessions {
		all.Go(func() {
			ctx := sessionContext(t)
			for i := 1; time.Now().Before(end) && !t.Failed(); i++ {
				err := e.bump(ctx, db, table, id, i)
				if err != nil {
					t.Errorf("write %d of session %d: %v", i, id, err)
					return
				}
				for range 3 {
					var n int
					if err := db.QueryRowContext(ctx, e.sql("SELECT n FROM "+table+" WHERE id = ?"), id).Scan(&n); err != nil || n != i {
						t.Errorf("session %d wrote %d and reads %d: %v", id, i, n, err)
					}
					reads.Add(1)
				}
			}
		})
	}
	c := e.cluster.Replica(1)
	for range 3 {
		require.NoError(t, c.Pause(testContext(t)))
		require.NoError(t, c.Resume(testContext(t)))
	}
	all.Wait()
	where := served(seen.take())
	require.Positive(t, where["b"]+where["c"], "%v", where)
	t.Logf("%d reads: %v", reads.Load(), where)
}

// bump writes i, in a transaction now and then.
func (e *engine) bump(ctx context.Context, db *readroute.DB, table string, id, i int) error {
	update := e.sql("UPDATE " + table + " SET n = ? WHERE id = ?")
	if i%2 == 0 {
		_, err := db.ExecContext(ctx, update, i, id)
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{})
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, update, i, id); err != nil {
		return fmt.Errorf("%w (%w)", err, tx.Rollback())
	}
	return tx.Commit()
}

// nodesDown: a replica that is down serves nothing, and comes back; with the primary down, reads that need nothing newer go on.
func (e *engine) nodesDown(t *testing.T) {
	table := e.table(t)
	var seen decisions
	db := e.open(t, &seen)
	ctx := sessionContext(t)
	e.insert(t, ctx, db, table, 1)
	b := e.cluster.Replica(0)
	require.NoError(t, b.Stop(ctx))
	seen.take()
	for range 20 {
		require.Equal(t, 1, e.count(t, ctx, db, table, 1))
	}
	require.Zero(t, served(seen.take())["b"])
	require.NoError(t, b.Start(ctx))
	eventually(t, "the replica serves", func() bool {
		require.Equal(t, 1, e.count(t, ctx, db, table, 1))
		return served(seen.take())["b"] > 0
	})
	require.NoError(t, e.cluster.WaitCaughtUp(ctx))
	eventually(t, "a replica is known to have it", func() bool {
		e.count(t, ctx, db, table, 1)
		return seen.last(t).Role == readroute.RoleReplica
	})
	a := e.cluster.Primary()
	require.NoError(t, a.Stop(ctx))
	for range 20 {
		require.Equal(t, 1, e.count(t, ctx, db, table, 1))
	}
	_, err := db.ExecContext(sessionContext(t), "INSERT INTO "+table+" VALUES (2, 0)")
	require.Error(t, err)
	require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
	require.NoError(t, a.Start(ctx))
	eventually(t, "the primary takes writes", func() bool {
		_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (3, 0)")
		return err == nil
	})
	require.Equal(t, 1, e.count(t, ctx, db, table, 3))
}
