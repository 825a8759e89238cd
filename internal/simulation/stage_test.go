package simulation_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/simulation"
)

// routed is a routed pool over a stage, with what its hook has heard.
type routed struct {
	*readroute.DB
	mu        sync.Mutex
	decisions []readroute.Decision
}

// route opens one that is ready, and closes it with the test. It runs in a bubble.
func route(t *testing.T, s *simulation.Stage, prepares bool, changes ...func(*readroute.Config)) *routed {
	t.Helper()
	r := &routed{}
	nodes := s.Nodes(prepares)
	config := readroute.Config{Primary: nodes[0], Replicas: nodes[1:], CatalogueInterval: -1}
	config.Hooks.Decision = func(_ context.Context, d readroute.Decision) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.decisions = append(r.decisions, d)
	}
	for _, change := range changes {
		change(&config)
	}
	var err error
	r.DB, err = readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	require.NoError(t, r.WaitReady(t.Context()))
	return r
}

// texts are those of a write and of a read.
func texts(engine simulation.Engine) (insert, read string) {
	if engine == simulation.Postgres {
		return "INSERT INTO kv (k, v) VALUES ($1, $2)", "SELECT v FROM kv WHERE k = $1"
	}
	return "INSERT INTO kv (k, v) VALUES (?, ?)", "SELECT v FROM kv WHERE k = ?"
}

// told returns what was decided since it was called last.
func (r *routed) told() []readroute.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.decisions
	r.decisions = nil
	return told
}

// TestARetryOfWhatIsPreparedHasOneReason: the driver of the second node wants the read prepared first. It has run once more by
// then: it is reported once, and does not run a third time.
func TestARetryOfWhatIsPreparedHasOneReason(t *testing.T) {
	for _, engine := range []simulation.Engine{simulation.Postgres, simulation.MySQL, simulation.MariaDB} {
		t.Run(engine.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulation.NewStage(engine, 3, 1)
				db := route(t, s, true)
				_, text := texts(engine)
				ctx := readroute.WithSession(t.Context())
				conn, err := db.Conn(ctx)
				require.NoError(t, err)
				defer func() { require.NoError(t, conn.Close()) }()
				read := func(ctx context.Context) error {
					rows, err := conn.QueryContext(ctx, text, 1)
					if err == nil {
						err = rows.Close()
					}
					return err
				}
				require.NoError(t, read(ctx))
				first := db.told()
				require.Len(t, first, 1)

				// The caller gives up, and the connection with it: the checkout has a dead one.
				node := int(first[0].Node[0] - 'a')
				s.Freeze(node)
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, read(short), context.DeadlineExceeded)
				s.Thaw(node)
				db.told()

				require.NoError(t, read(ctx))
				second := db.told()
				require.Len(t, second, 1)
				require.Equal(t, readroute.RetryConnection, second[0].Retry)
			})
		})
	}
}

// TestAConnectionThatCannotProveIsRefusedOnce: the one replica answers a dial when it has just been found silent, so nobody asks the
// connection what it shows. Nobody else may serve the read, and database/sql does not try again because of it.
func TestAConnectionThatCannotProveIsRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulation.NewStage(simulation.Postgres, 2, 1)
		db := route(t, s, false, func(c *readroute.Config) { c.Replicas[0].SharedEndpoint = true })
		insert, text := texts(simulation.Postgres)
		ctx := readroute.WithFallback(readroute.WithSession(t.Context()), readroute.FallbackError)
		_, err := db.ExecContext(ctx, insert, 1, 1)
		require.NoError(t, err)
		_, err = readroute.SessionFrom(ctx).Token(ctx)
		require.NoError(t, err)
		db.told()
		time.Sleep(3 * time.Second) // the replica is seen to have it
		s.Freeze(1)
		time.Sleep(950 * time.Millisecond) // less than a probe may take
		time.AfterFunc(850*time.Millisecond, func() { s.Thaw(1) })
		rows, err := db.QueryContext(ctx, text, 1)
		if err == nil {
			require.NoError(t, rows.Close())
		}
		require.ErrorIs(t, err, readroute.ErrNoReplica)
		require.Len(t, db.told(), 1)
	})
}

// TestAPageBoundaryIsReached: the primary names the end of its log otherwise than replicas do when that is the end of a page. While
// nobody else writes, a replica serves the read all the same.
func TestAPageBoundaryIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulation.NewStage(simulation.Postgres, 2, 1)
		s.FillPages()
		db := route(t, s, false)
		insert, text := texts(simulation.Postgres)
		for i := range 300 { // more than a segment
			ctx := readroute.WithWait(readroute.WithFallback(readroute.WithSession(t.Context()), readroute.FallbackError), time.Second)
			_, err := db.ExecContext(ctx, insert, 1, i)
			require.NoError(t, err)
			rows, err := db.QueryContext(ctx, text, 1)
			require.NoError(t, err)
			require.NoError(t, rows.Close())
			told := db.told()
			require.Equal(t, readroute.RoleReplica, told[len(told)-1].Role)
		}
	})
}

// TestAWriteThatArrivesAfterItsAnswerWasLost: nobody knows of a write whose connection was cut, until the server runs it. From then on
// its session is shown it, although the replicas are late and the position that a capture read at once is before it.
func TestAWriteThatArrivesAfterItsAnswerWasLost(t *testing.T) {
	for _, engine := range []simulation.Engine{simulation.Postgres, simulation.MySQL, simulation.MariaDB} {
		t.Run(engine.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulation.NewStage(engine, 2, 1)
				db := route(t, s, false)
				insert, text := texts(engine)
				s.Lag(1, 200*time.Millisecond)
				_, err := db.ExecContext(readroute.WithSession(t.Context()), insert, -1, 0) // MariaDB's log is empty before
				require.NoError(t, err)
				time.Sleep(3 * time.Second)
				db.told()
				for version := range 20 {
					ctx := readroute.WithSession(t.Context())
					s.LoseNextWrite(100 * time.Millisecond)
					_, err := db.ExecContext(ctx, insert, version, version)
					require.ErrorIs(t, err, readroute.ErrCommitUnknown)
					time.Sleep(110 * time.Millisecond) // the server has run it
					for range 100 {
						var saw int
						require.NoError(t, db.QueryRowContext(ctx, text, version).Scan(&saw))
						require.Equal(t, version, saw)
						time.Sleep(10 * time.Millisecond)
					}
				}
				replicas := 0
				for _, d := range db.told() {
					if d.Role == readroute.RoleReplica {
						replicas++
					}
				}
				require.Greater(t, replicas, 500, "the test shows nothing")
			})
		})
	}
}

// TestADoubtEndsWithWhatThePrimaryHas: behind a pooler nobody can say when a write of unknown outcome has ended. Its session is on the
// primary for the window, in which it has arrived, and is shown it after that as well, by replicas that are later than the window.
func TestADoubtEndsWithWhatThePrimaryHas(t *testing.T) {
	const window = 200 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := simulation.NewStage(simulation.Postgres, 2, 1)
		db := route(t, s, false, func(c *readroute.Config) {
			c.StickyWindow, c.Primary.Pooled, c.Replicas[0].Pooled = window, true, true
		})
		insert, text := texts(simulation.Postgres)
		s.Lag(1, 3*window)
		for version := range 20 {
			ctx := readroute.WithSession(t.Context())
			s.LoseNextWrite(window / 2)
			_, err := db.ExecContext(ctx, insert, version, version)
			require.ErrorIs(t, err, readroute.ErrCommitUnknown)
			time.Sleep(window*3/4 + time.Millisecond) // the server has run it
			db.told()
			began := time.Now()
			roles := map[readroute.Role]int{}
			for roles[readroute.RoleReplica] < 10 {
				var saw int
				require.NoError(t, db.QueryRowContext(ctx, text, version).Scan(&saw))
				require.Equal(t, version, saw)
				for _, d := range db.told() {
					roles[d.Role]++
				}
				require.Less(t, time.Since(began), 20*window, "the doubt ends")
				time.Sleep(10 * time.Millisecond)
			}
			require.Greater(t, roles[readroute.RolePrimary], 5)
		}
	})
}

// TestReadersRefuseWrites: a session for reads refuses writes by itself, whatever becomes of its server. PostgreSQL's is opened so,
// the others' are told.
func TestReadersRefuseWrites(t *testing.T) {
	for _, engine := range []simulation.Engine{simulation.Postgres, simulation.MySQL, simulation.MariaDB} {
		t.Run(engine.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulation.NewStage(engine, 2, 1)
				db := route(t, s, false)
				_, text := texts(engine)
				ctx := readroute.WithLevel(t.Context(), readroute.LevelEventual)
				rows, err := db.QueryContext(ctx, text, 1)
				require.NoError(t, err)
				require.NoError(t, rows.Close())
				require.Equal(t, readroute.RoleReplica, db.told()[0].Role)
				require.Zero(t, s.Unguarded())
			})
		})
	}
}

// TestThePrimaryCatchesUpWithWhatWasRead: a session has read on a replica what the primary does not show yet. Its next read, there,
// shows it all the same, also in a transaction, which is begun after that.
func TestThePrimaryCatchesUpWithWhatWasRead(t *testing.T) {
	for _, engine := range []simulation.Engine{simulation.Postgres, simulation.MySQL} {
		t.Run(engine.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulation.NewStage(engine, 2, 1)
				db := route(t, s, false)
				insert, text := texts(engine)
				s.ShowLate(6 * time.Millisecond)
				for version := range 20 {
					var wrote sync.WaitGroup
					wrote.Go(func() {
						_, err := db.ExecContext(readroute.WithSession(t.Context()), insert, version, version)
						require.NoError(t, err)
					})
					ctx := readroute.WithLevel(readroute.WithSession(t.Context()), readroute.LevelCausal)
					saw := -1
					for saw < 0 {
						err := db.QueryRowContext(ctx, text, version).Scan(&saw)
						require.True(t, err == nil || errors.Is(err, sql.ErrNoRows))
					}
					told := db.told()
					require.Equal(t, readroute.RoleReplica, told[len(told)-1].Role, "the test shows nothing")
					switch version % 3 {
					case 0:
						require.NoError(t, db.QueryRowContext(readroute.WithNode(ctx, "a"), text, version).Scan(&saw))
					case 1:
						tx, err := db.BeginTx(ctx, nil)
						require.NoError(t, err)
						require.NoError(t, tx.QueryRowContext(ctx, text, version).Scan(&saw))
						require.NoError(t, tx.Rollback())
					case 2:
						conn, err := db.Conn(ctx)
						require.NoError(t, err)
						_, err = conn.ExecContext(ctx, "BEGIN")
						require.NoError(t, err)
						require.NoError(t, conn.QueryRowContext(ctx, text, version).Scan(&saw))
						_, err = conn.ExecContext(ctx, "ROLLBACK")
						require.NoError(t, err)
						require.NoError(t, conn.Close())
					}
					require.Equal(t, readroute.RolePrimary, db.told()[0].Role)
					wrote.Wait()
				}
			})
		})
	}
}

// TestAWriteOutlivesARestartOfThePrimary: another run of the primary's server answers the capture than the one that has written. The
// write stands, and its session is shown it, also when its window is over and the replica is still behind it.
func TestAWriteOutlivesARestartOfThePrimary(t *testing.T) {
	const window = 300 * time.Millisecond
	for _, engine := range []simulation.Engine{simulation.Postgres, simulation.MySQL, simulation.MariaDB} {
		for name, lost := range map[string]bool{"acknowledged": false, "of unknown outcome": true} {
			t.Run(engine.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := simulation.NewStage(engine, 2, 1)
					db := route(t, s, false, func(c *readroute.Config) { c.StickyWindow, c.ProbeInterval = window, 50*time.Millisecond })
					insert, text := texts(engine)
					_, err := db.ExecContext(readroute.WithSession(t.Context()), insert, -1, 0) // MariaDB's log is empty before
					require.NoError(t, err)
					time.Sleep(time.Second)
					s.Lag(1, 5*time.Second)

					ctx := readroute.WithSession(t.Context())
					if lost {
						s.LoseNextWrite(time.Millisecond)
					} else { // whoever has just had a capture waits for the next one
						other := readroute.WithSession(t.Context())
						_, err = db.ExecContext(other, insert, -2, 0)
						require.NoError(t, err)
						_, err = readroute.SessionFrom(other).Token(other)
						require.NoError(t, err)
					}
					_, err = db.ExecContext(ctx, insert, 1, 1)
					require.Equal(t, lost, errors.Is(err, readroute.ErrCommitUnknown))
					time.Sleep(2 * time.Millisecond)
					s.Kill(0)
					time.Sleep(10 * time.Millisecond)
					s.Start(0)
					db.told()
					for range 20 {
						time.Sleep(window / 2)
						saw := -1
						err := db.QueryRowContext(ctx, text, 1).Scan(&saw)
						require.True(t, err == nil || !errors.Is(err, sql.ErrNoRows), "%v %+v", err, db.told())
					}
					time.Sleep(5 * time.Second)
					db.told()
					var saw int
					require.NoError(t, db.QueryRowContext(ctx, text, 1).Scan(&saw))
					require.Equal(t, readroute.RoleReplica, db.told()[0].Role, "it is not asked for more than will come")
				})
			})
		}
	}
}
