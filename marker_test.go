package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// markedConfig is the cluster's config with positions of a marker table of its own, which is made.
func (c *engineCluster) markedConfig(t testing.TB) readroute.Config {
	t.Helper()
	config := c.config()
	config.Marker = &readroute.Marker{Table: fmt.Sprintf("marker_%d", tables.Add(1)), Writer: "Test.Host 7"}
	require.NoError(t, readroute.CreateMarker(testContext(t), c.bare(t, 0), *config.Marker))
	require.NoError(t, c.caught(testContext(t)))
	return config
}

// heldWays are the ways whose writes are not marked, and why: their sessions are on the primary for StickyWindow.
var heldWays = map[string]string{
	"several statements in one text":        "the text may commit",
	"a read before the write in one text":   "the text may commit",
	"a transaction in one text":             "the text commits",
	"Tx that text commits":                  "it is over before Commit is called",
	"Conn BEGIN with the write in one text": "the text may commit",
	"PREPARE and EXECUTE":                   "it leaves session state",
	"two-phase commit":                      "another session commits what this one has marked",
	"CALL":                                  "it may commit",
	"DO":                                    "it may commit",
	"COPY":                                  "done on the native connection",
	"Conn Raw":                              "done on the native connection",
}

// TestMarkerEveryWay makes a write in every way in which one can be made, while no replica replays, and reads it: what is marked
// comes from a replica as soon as one has replayed it, and what cannot be marked from the primary.
func TestMarkerEveryWay(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		pg := sharedCluster(t)
		c := &engineCluster{name: "PostgreSQL", driver: "pgx", caught: pg.WaitCaughtUp, config: func() readroute.Config { return configFor(pg) }}
		for _, n := range pg.Nodes() {
			c.nodes = append(c.nodes, n)
		}
		table := newWritable(t, pg)
		config := c.markedConfig(t)
		config.Strategy = readroute.PositionWait(20 * time.Millisecond)
		config.ProbeInterval = 10 * time.Millisecond
		config.StickyWindow = 300 * time.Millisecond
		seen := record(&config)
		db := open(t, config)
		config.WithoutSession = readroute.WithoutSessionProcess
		processDB := open(t, config)
		for i, by := range ways() {
			t.Run(by.name, func(t *testing.T) {
				w := &writing{TB: t, ctx: sessionContext(t), other: sessionContext(t), db: db, table: table, id: i}
				if by.process {
					w.db = processDB
				}
				marked := markWay(w, seen, by, func() { pauseReplay(t, pg) }, func() { resumeReplay(t, pg) })
				require.Equal(t, heldWays[by.name] == "", marked)
			})
		}
	})
}

// markWay reports whether the write was marked.
func markWay(w *writing, seen *decisions, by way, pause, resume func()) (marked bool) {
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
	pause()
	by.write(w)
	for _, ctx := range readers {
		n, d := read(ctx)
		require.Equal(w, 1, n, "%+v", d)
		require.Equal(w, readroute.RolePrimary, d.Role, "%+v", d)
		marked = d.Reason != readroute.ReasonSticky
		if marked {
			require.Contains(w, []readroute.Reason{readroute.ReasonWaitTimeout, readroute.ReasonHopeless}, d.Reason)
		}
	}
	resume()
	for _, ctx := range readers {
		eventually(w, "a replica serves the session", func() bool {
			n, d := read(ctx)
			require.Equal(w, 1, n, "%+v", d)
			return d.Role == readroute.RoleReplica && (d.Reason == readroute.ReasonCovered || d.Reason == readroute.ReasonWaited)
		})
	}
	return marked
}

// TestMarkerReadsYourWrites: on each engine, many sessions of two processes write and read at once, over a replica that pauses now
// and then; no read misses its own session's write, most of them come from replicas, and no write waits for another's row.
func TestMarkerReadsYourWrites(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *engineCluster) {
		table := c.table(t, "id int PRIMARY KEY, n int NOT NULL")
		config := c.markedConfig(t)
		seen := record(&config)
		dbs := []*readroute.DB{open(t, config), open(t, config)}
		upsert := c.sql("UPDATE " + table + " SET n = ? WHERE id = ?")
		const sessions, rounds = 12, 25
		for s := range sessions {
			_, err := dbs[0].ExecContext(testContext(t), c.sql("INSERT INTO "+table+" VALUES (?, 0)"), s)
			require.NoError(t, err)
		}
		require.NoError(t, c.caught(testContext(t)))
		resume := c.pause(t, 2)
		var all sync.WaitGroup
		errs := make(chan error, sessions)
		for s := range sessions {
			all.Go(func() {
				errs <- func() error {
					ctx := sessionContext(t)
					for i := 1; i <= rounds; i++ {
						db := dbs[s%2]
						var err error
						switch i % 3 {
						case 0:
							var tx *sql.Tx
							if tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}); err == nil {
								if _, err = tx.ExecContext(ctx, upsert, i, s); err == nil {
									err = tx.Commit()
								}
							}
						default:
							_, err = db.ExecContext(ctx, upsert, i, s)
						}
						if err != nil {
							return err
						}
						if i%5 == 0 { // the next read is another process's
							token, err := readroute.SessionFrom(ctx).Token(ctx)
							if err != nil {
								return err
							}
							parsed, err := readroute.ParseToken(token.String())
							if err != nil {
								return err
							}
							ctx = readroute.ContextWithSession(testContext(t), readroute.NewSession(parsed))
							db = dbs[(s+1)%2]
						}
						var n int
						if err := db.QueryRowContext(ctx, c.sql("SELECT n FROM "+table+" WHERE id = ?"), s).Scan(&n); err != nil {
							return err
						}
						if n != i {
							return fmt.Errorf("session %d wrote %d and reads %d", s, i, n)
						}
					}
					return nil
				}()
			})
		}
		all.Wait()
		resume()
		for range sessions {
			require.NoError(t, <-errs)
		}
		where := served(seen.take())
		require.Greater(t, where[c.nodes[1].Name()], sessions*rounds/2, "most reads must have come from a replica: %v", where)
		require.Zero(t, where[c.nodes[2].Name()], "the replica that stands still")
		rows := markerRows(t, c, config.Marker.Table)
		require.Less(t, len(rows), 2*sessions+3, "as many rows as transactions were open at once, and that of the table")
		for writer, seq := range rows {
			require.Positive(t, seq)
			require.True(t, writer == "readroute" || strings.HasPrefix(writer, "test-host7."), writer)
		}
	})
}

// markerRows reads the table past the pool.
func markerRows(t testing.TB, c *engineCluster, table string) map[string]int {
	t.Helper()
	rows, err := c.bare(t, 0).QueryContext(testContext(t), "SELECT writer, seq FROM "+table)
	require.NoError(t, err)
	defer rows.Close()
	all := make(map[string]int)
	for rows.Next() {
		var writer string
		var seq int
		require.NoError(t, rows.Scan(&writer, &seq))
		all[writer] = seq
	}
	require.NoError(t, rows.Err())
	return all
}
