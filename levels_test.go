package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// writer commits numbers, one higher than the other, past the routed pool, and knows when each was acknowledged.
type writer struct {
	mu    sync.Mutex
	acked []time.Time // by number
}

// ack notes that the next number is committed.
func (w *writer) ack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, time.Now())
}

// before returns how many were acknowledged before a moment.
func (w *writer) before(moment time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < len(w.acked) && w.acked[n].Before(moment) {
		n++
	}
	return n
}

// writes keeps committing until the test calls stop.
func writes(t *testing.T, c *engineCluster, table string, every time.Duration) (w *writer, stop func()) {
	t.Helper()
	w = &writer{}
	ctx, cancel := context.WithCancel(testContext(t))
	db := c.bare(t, 0)
	insert := c.sql("INSERT INTO " + table + " VALUES (?)")
	done := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for id := 1; ; id++ {
			if _, err := db.ExecContext(ctx, insert, id); err != nil {
				if ctx.Err() == nil {
					done <- err
					return
				}
				done <- nil
				return
			}
			w.ack()
			<-ticker.C
		}
	}()
	return w, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func newest(t testing.TB, ctx context.Context, db *readroute.DB, table string) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM "+table).Scan(&n))
	return n
}

// TestLevelGlobal: a read sees every commit that was acknowledged before it began, also of others, wherever it runs.
func TestLevelGlobal(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		seen := record(&config)
		db := open(t, config)
		c.pause(t, 2)
		w, stop := writes(t, c, table, time.Millisecond)
		eventually(t, "something is written", func() bool { return w.before(time.Now()) > 0 })
		ctx := readroute.WithLevel(testContext(t), readroute.LevelGlobal)
		for range 200 {
			began := time.Now()
			got := newest(t, ctx, db, table)
			require.GreaterOrEqual(t, got, w.before(began), "a commit that was acknowledged is missing")
		}
		stop()
		where := served(seen.take())
		require.NotZero(t, where[c.nodes[1].Name()], "none has gone to the replica that follows: %v", where)
		require.Zero(t, where[c.nodes[2].Name()], "the replica that stands still")
	})
}

// TestLevelBounded: no read is older than it may be, by the clock of whoever reads.
func TestLevelBounded(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		seen := record(&config)
		db := open(t, config)
		w, stop := writes(t, c, table, time.Millisecond)
		resume := c.pause(t, 2)
		end, stale := time.Now().Add(2*time.Second), 0
		for i := 0; time.Now().Before(end); i++ {
			bound := []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, time.Second}[i%3]
			if i == 300 {
				resume()
			}
			began := time.Now()
			got := newest(t, readroute.WithLevel(testContext(t), readroute.LevelBounded(bound)), db, table)
			if must := w.before(began.Add(-bound)); got < must {
				t.Errorf("with a bound of %v the read sees %d, and %d were acknowledged that long before it", bound, got, must)
			}
			if got < w.before(began) {
				stale++
			}
		}
		stop()
		where := served(seen.take())
		require.Positive(t, where[c.nodes[1].Name()], "%v", where)
		require.Less(t, where[c.nodes[0].Name()], 4*where[c.nodes[1].Name()], "on a starved machine many are later than the least bound: %v", where)
		t.Logf("%v, %d of the reads were behind, within their bound", where, stale)
	})
}

// TestK2_10_LevelCausal: reads of a session never go back in time, whichever nodes serve them, and in whichever process; those of
// the session level do.
func TestK2_10_LevelCausal(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		config.MaxLag = time.Hour
		seen := record(&config)
		var told atomic.Bool
		config.Hooks.Event = func(e readroute.Event) {
			if e.Kind == readroute.EventReadAhead {
				told.Store(true)
			}
		}
		db, other := open(t, config), open(t, config)
		resume := c.pause(t, 2)
		w, stop := writes(t, c, table, time.Millisecond)
		defer stop()
		eventually(t, "something is written", func() bool { return w.before(time.Now()) > 20 })

		back := func(level readroute.Level) bool {
			ctx := readroute.WithLevel(sessionContext(t), level)
			first := newest(t, readroute.WithNode(ctx, c.nodes[1].Name()), db, table)
			return newest(t, readroute.WithNode(ctx, c.nodes[2].Name()), db, table) < first
		}
		require.True(t, back(readroute.LevelSession), "the session level promises nothing here, or the test shows nothing")
		for range 10 {
			require.False(t, back(readroute.LevelCausal))
		}
		seen.take()

		ctx := readroute.WithLevel(sessionContext(t), readroute.LevelCausal)
		last := 0
		for i := range 300 {
			if i == 150 {
				resume()
			}
			node := c.nodes[i%3].Name()
			told.Store(false)
			got := newest(t, readroute.WithNode(ctx, node), db, table)
			if !told.Load() { // a starved primary takes its time to show a commit
				require.GreaterOrEqual(t, got, last, "read %d goes back in time", i)
			}
			last = max(last, got)
			if i%10 == 0 && got == last {
				token, err := readroute.SessionFrom(ctx).Token(testContext(t))
				require.NoError(t, err)
				text, err := readroute.ParseToken(token.String())
				require.NoError(t, err)
				elsewhere := readroute.ContextWithSession(testContext(t), readroute.NewSession(text))
				require.GreaterOrEqual(t, newest(t, elsewhere, other, table), last, "in another process")
			}
		}
		where := served(seen.take())
		require.Positive(t, where[c.nodes[1].Name()])
	})
}

// TestLevelCausalRemembersWhatGoesToThePrimary: what a session has read in a transaction, or where session state holds it to the primary,
// counts for its later reads as any other read does, whatever becomes of the transaction.
func TestLevelCausalRemembersWhatGoesToThePrimary(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		config.MaxLag = time.Hour
		db := open(t, config)
		c.pause(t, 2)
		bare := c.bare(t, 0)
		maximum := "SELECT coalesce(max(id), 0) FROM " + table
		inTx := func(options *sql.TxOptions, query string) func(context.Context) (n int) {
			return func(ctx context.Context) (n int) {
				tx, err := db.BeginTx(ctx, options)
				require.NoError(t, err)
				require.NoError(t, tx.QueryRowContext(ctx, query).Scan(&n))
				require.NoError(t, tx.Rollback())
				return n
			}
		}
		after := func(before, last string) func(context.Context) (n int) {
			return func(ctx context.Context) (n int) {
				conn, err := db.Conn(ctx)
				require.NoError(t, err)
				defer func() { require.NoError(t, conn.Close()) }()
				_, err = conn.ExecContext(ctx, before)
				require.NoError(t, err)
				require.NoError(t, conn.QueryRowContext(ctx, maximum).Scan(&n))
				if last != "" {
					_, err = conn.ExecContext(ctx, last)
					require.NoError(t, err)
				}
				return n
			}
		}
		setting := "SET @here = 1"
		if c.driver == "pgx" {
			setting = "SET application_name = 'here'"
		}
		ways := map[string]func(context.Context) int{
			"a transaction":               inTx(nil, maximum),
			"a row that was locked":       inTx(nil, "SELECT id FROM "+table+" ORDER BY id DESC LIMIT 1 FOR UPDATE"),
			"a serializable transaction":  inTx(&sql.TxOptions{ReadOnly: true, Isolation: sql.LevelSerializable}, maximum),
			"a transaction begun by text": after("BEGIN", "ROLLBACK"),
			"a connection with a setting": after(setting, ""),
			"a context of the transaction": func(ctx context.Context) (n int) {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				require.NoError(t, tx.QueryRowContext(testContext(t), maximum).Scan(&n)) // its statements have none
				require.NoError(t, tx.Commit())
				return n
			},
		}
		wrote := 0
		for name, way := range ways {
			back := func(level readroute.Level) bool {
				wrote++
				_, err := bare.ExecContext(testContext(t), c.sql("INSERT INTO "+table+" VALUES (?)"), wrote)
				require.NoError(t, err)
				ctx := readroute.WithLevel(sessionContext(t), level)
				require.Equal(t, wrote, way(ctx))
				return newest(t, readroute.WithNode(ctx, c.nodes[2].Name()), db, table) < wrote
			}
			if name != "a row that was locked" { // on MySQL and MariaDB it counts as a write, also when it is rolled back
				require.True(t, back(readroute.LevelSession), "%s: the session level promises nothing here, or the test shows nothing", name)
			}
			require.False(t, back(readroute.LevelCausal), "%s", name)
			require.False(t, back(readroute.LevelGlobal), "%s", name)
		}
	})
}

// TestLevelCausalStaysWhereItIs: a session that reads from one replica asks nobody anything, and sees its writes.
func TestLevelCausalStaysWhereItIs(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		config.ProbeInterval = 10 * time.Second
		config.Level = readroute.LevelCausal
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		for i := range 3 {
			_, err := db.ExecContext(ctx, c.sql("INSERT INTO "+table+" VALUES (?)"), i+1)
			require.NoError(t, err)
			require.Equal(t, i+1, newest(t, ctx, db, table))
		}
		var on string
		eventually(t, "a replica serves the session", func() bool {
			newest(t, ctx, db, table)
			d := seen.take()
			on = d[len(d)-1].Node
			return on != c.nodes[0].Name()
		})
		for range 200 {
			require.Equal(t, 3, newest(t, ctx, db, table))
		}
		for _, d := range seen.take() {
			require.Equal(t, on, d.Node, "the session has no reason to leave the server that it reads from")
			require.Zero(t, d.Waited)
			require.Equal(t, readroute.ReasonCovered, d.Reason)
			require.Equal(t, readroute.LevelCausal, d.Level)
		}
	})
}

// TestLevelOfNodesThatAreGone: what the session has read cannot be found out any more when the server is another run.
func TestLevelOfNodesThatAreGone(t *testing.T) {
	c := breakable(t)
	config := configFor(c)
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	ctx := readroute.WithLevel(sessionContext(t), readroute.LevelCausal)
	b := standbys(c)[0]
	require.NoError(t, db.QueryRowContext(readroute.WithNode(ctx, b.Name()), "SELECT 1").Scan(new(int)))
	require.Equal(t, 1, served(seen.take())[b.Name()])
	require.NoError(t, b.Kill(testContext(t)))
	require.NoError(t, b.Start(testContext(t)))
	happened.first(t, readroute.EventRestarted)
	eventually(t, "the replica is back", func() bool { return status(t, db, b.Name()).Healthy })
	require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	d := seen.take()
	require.Equal(t, readroute.RolePrimary, d[0].Role, "%+v", d)
	_, err := readroute.SessionFrom(ctx).Token(testContext(t))
	require.NoError(t, err)
}

// TestLevelCausalTellsOfEachReadThatMayGoBack: while the primary waits for a standby to confirm a commit that replicas show already,
// every read there is announced, not only the first that waits in vain. A transaction that is merely open is none of that.
func TestLevelCausalTellsOfEachReadThatMayGoBack(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	ctx := testContext(t)
	require.NoError(t, c.Primary().Exec(ctx, "CREATE TABLE ahead (id int PRIMARY KEY)"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	config := configFor(c)
	config.MaxLag = time.Hour
	config.CaptureTimeout = 10 * time.Second // however busy the machine is
	var told atomic.Int64
	config.Hooks.Event = func(e readroute.Event) {
		if e.Kind == readroute.EventReadAhead {
			told.Add(1)
		}
	}
	db := open(t, config)
	both := func() (first, second int) {
		ctx := readroute.WithLevel(sessionContext(t), readroute.LevelCausal)
		first = newest(t, readroute.WithNode(ctx, c.Standby(0).Name()), db, "ahead")
		return first, newest(t, readroute.WithNode(ctx, c.Primary().Name()), db, "ahead")
	}

	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, "INSERT INTO ahead VALUES (1)")
	require.NoError(t, err)
	for range 5 {
		both()
	}
	require.Zero(t, told.Load(), "a transaction is open, and nobody commits it")
	require.NoError(t, tx.Rollback())

	require.NoError(t, c.Primary().Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"))
	wait, release := context.WithCancel(ctx)
	var written atomic.Int64
	var writer sync.WaitGroup
	writer.Go(func() { // the setting takes a moment
		for written.Load() < 1000 && c.Primary().Exec(wait, fmt.Sprintf("INSERT INTO ahead VALUES (%d)", written.Load()+1)) == nil {
			written.Add(1)
		}
	})
	defer writer.Wait()
	defer release()
	eventually(t, "a commit waits, and the replica shows it", func() bool {
		n := int(written.Load())
		return onPrimary(t, c, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1" &&
			newest(t, readroute.WithLevel(ctx, readroute.LevelEventual), db, "ahead") == n+1
	})
	n := int(written.Load())
	told.Store(0)
	for i := range 5 {
		first, second := both()
		require.Equal(t, []int{n + 1, n}, []int{first, second})
		require.EqualValues(t, i+1, told.Load(), "read %d went back, and nobody was told", i)
	}
	require.NoError(t, c.Primary().Exec(ctx, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"))
	writer.Wait()
	told.Store(0)
	first, second := both()
	require.LessOrEqual(t, first, second)
	require.Zero(t, told.Load())
}

// TestLevelsWithoutASession: what a level needs a session for goes to the primary, and says so.
func TestLevelsWithoutASession(t *testing.T) {
	c := sharedCluster(t)
	db := open(t, configFor(c))
	for level, want := range map[readroute.Level]string{
		readroute.LevelEventual:              "replica level",
		readroute.LevelBounded(time.Hour):    "replica covered",
		readroute.LevelSession:               "primary no_session",
		readroute.LevelCausal:                "primary no_session",
		readroute.LevelGlobal:                "replica covered",
		readroute.LevelBounded(0):            "replica covered",
		readroute.LevelBounded(-time.Second): "replica covered",
		readroute.LevelBounded(1):            "replica covered",
		readroute.LevelPrimary:               "primary level",
		readroute.Level(-6):                  "primary level",
	} {
		t.Run(level.String(), func(t *testing.T) {
			ctx := readroute.WithLevel(testContext(t), level)
			d, err := db.Explain(ctx, "SELECT 1")
			require.NoError(t, err)
			require.Equal(t, want, fmt.Sprintf("%s %s", d.Role, d.Reason))
			require.Equal(t, level == readroute.LevelGlobal || level == 1, d.WouldWait)
			require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
		})
	}
}

// TestTagsKeepNodesForTheirReads: an analytics replica takes nothing else, and what asks for it goes nowhere else.
func TestTagsKeepNodesForTheirReads(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		config := c.config()
		config.Replicas[1].Tags = []string{"analytics", "big"}
		seen := record(&config)
		db := open(t, config)
		read := func(ctx context.Context) error { return db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)) }
		eventual := readroute.WithLevel(testContext(t), readroute.LevelEventual)
		for range 20 {
			require.NoError(t, read(eventual))
			require.NoError(t, read(readroute.WithTags(readroute.WithTags(eventual, "analytics"))), "taken back")
		}
		require.Equal(t, map[string]int{c.nodes[1].Name(): 40}, served(seen.take()))
		for _, tags := range [][]string{{"analytics"}, {"big"}, {"big", "analytics"}} {
			require.NoError(t, read(readroute.WithTags(eventual, tags...)))
		}
		require.NoError(t, read(readroute.WithNode(eventual, c.nodes[2].Name())), "asked for by name")
		require.Equal(t, map[string]int{c.nodes[2].Name(): 4}, served(seen.take()))
		require.ErrorIs(t, read(readroute.WithTags(eventual, "analytic")), readroute.ErrUnknownTag)

		seen.take()
		reports := readroute.WithTags(eventual, "analytics")
		require.NoError(t, read(readroute.WithNode(reports, c.nodes[1].Name())), "it has not the tag: the fallback")
		require.Equal(t, map[string]int{c.nodes[0].Name(): 1}, served(seen.take()))
		require.ErrorIs(t, read(readroute.WithNode(readroute.WithFallback(reports, readroute.FallbackError), c.nodes[1].Name())), readroute.ErrNoReplica)
		_, err := db.ExecContext(reports, "DROP TABLE IF EXISTS none_of_that_name")
		require.NoError(t, err, "a write does not ask for tags")
	})
}

// TestTagsOfAllReplicas: where every replica is kept for other reads, the primary serves those that ask for no tag, as many at one
// time as there are.
func TestTagsOfAllReplicas(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		config := c.config()
		config.FallbackLimit = 2
		for i := range config.Replicas {
			config.Replicas[i].Tags = []string{"analytics"}
		}
		db := open(t, config)
		for range 5 { // all open at one time
			rows, err := db.QueryContext(sessionContext(t), "SELECT 1")
			require.NoError(t, err)
			defer func() { require.NoError(t, rows.Close()) }()
			require.True(t, rows.Next())
		}
		reasons := db.RouteStats().Nodes[0].Reasons
		require.EqualValues(t, 5, reasons[readroute.ReasonNoReplica], "%v", reasons)
		require.NoError(t, db.QueryRowContext(readroute.WithTags(sessionContext(t), "analytics"), "SELECT 1").Scan(new(int)))
		require.Equal(t, reasons, db.RouteStats().Nodes[0].Reasons, "a replica served it")
	})
}

// TestLevelHeavyReadsOnly: the library is used for chosen reads, and everything else stays where it was.
func TestLevelHeavyReadsOnly(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY")
		config := c.config()
		config.Level = readroute.LevelPrimary
		config.Replicas[1].Tags = []string{"analytics"}
		seen := record(&config)
		db := open(t, config)
		for _, ctx := range []context.Context{testContext(t), sessionContext(t)} {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" SELECT 1 + count(*) FROM "+table)
			require.NoError(t, err)
			newest(t, ctx, db, table)
			newest(t, readroute.WithLevel(ctx, readroute.LevelEventual), db, table)
			newest(t, readroute.WithTags(readroute.WithLevel(ctx, readroute.LevelBounded(time.Minute)), "analytics"), db, table)
			require.Equal(t, map[string]int{c.nodes[0].Name(): 2, c.nodes[1].Name(): 1, c.nodes[2].Name(): 1}, served(seen.take()))
		}
	})
}
