package readroute_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
)

// gtidSessions has sessions write and read at once, rounds times each, and returns how many reads a replica served. No session
// reads what is older than its own writes.
func gtidSessions(t testing.TB, db *readroute.DB, seen *decisions, table string, sessions, rounds int) (onReplicas int) {
	t.Helper()
	seen.take()
	first := int(tables.Add(1)) * 1_000_000 // ids that no other call has
	errs := make([]error, sessions)
	var wg sync.WaitGroup
	for s := range sessions {
		wg.Go(func() {
			ctx := readroute.WithSession(context.Background())
			for i := range rounds {
				id := first + s*rounds + i
				if _, err := db.ExecContext(ctx, "INSERT INTO "+table+" (id) VALUES (?)", id); err != nil {
					errs[s] = err
					return
				}
				var n int
				err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id BETWEEN ? AND ?", first+s*rounds, id).Scan(&n)
				if err == nil && n != i+1 {
					err = fmt.Errorf("session %d has written %d rows and reads %d", s, i+1, n)
				}
				if err != nil {
					errs[s] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	for _, d := range seen.take() {
		if d.Class == readroute.ClassRead && d.Role == readroute.RoleReplica {
			require.Contains(t, []readroute.Reason{readroute.ReasonCovered, readroute.ReasonWaited}, d.Reason)
			onReplicas++
		}
	}
	return onReplicas
}

// TestGTIDReadYourWrites: whatever the replicas do, no session reads what is older than its own writes.
func TestGTIDReadYourWrites(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		quick(&config)
		seen := record(&config)
		db := open(t, config)
		patient(&config)
		patientDB := open(t, config)

		t.Run("replicas that keep up", func(t *testing.T) {
			// A starved machine may take a replica for one that is too far behind to be waited for.
			require.Greater(t, gtidSessions(t, patientDB, seen, table, 8, 25), 8*25/2, "reads wait for their replica")
			n := gtidSessions(t, db, seen, table, 8, 25)
			t.Logf("%d of %d reads on a replica within 20 ms", n, 8*25)
		})
		t.Run("a steady delay", func(t *testing.T) {
			delay := func(n *dbtest.MySQLNode, d time.Duration) {
				require.NoError(t, n.SetApplyDelay(context.Background(), d))
			}
			for _, n := range replicasOf(c) {
				t.Cleanup(func() { delay(n, 0) })
				delay(n, time.Second)
			}
			require.Zero(t, gtidSessions(t, db, seen, table, 8, 10), "a second is more than a read waits")
			ctx := sessionContext(t)
			add(t, ctx, patientDB, table, 1)
			require.Equal(t, 1, rowsOf(t, ctx, patientDB, table, 1))
			d := seen.take()
			require.Equal(t, readroute.ReasonWaited, d[len(d)-1].Reason)
			delay(replicasOf(c)[0], 0)
			require.Greater(t, gtidSessions(t, patientDB, seen, table, 8, 5), 8*5/3, "the other replica has no delay")
		})
		t.Run("stopped appliers", func(t *testing.T) {
			require.NoError(t, c.WaitCaughtUp(testContext(t)))
			for _, n := range replicasOf(c) {
				t.Cleanup(func() { require.NoError(t, n.ResumeReplay(context.Background())) })
				require.NoError(t, n.PauseReplay(testContext(t)))
			}
			require.Zero(t, gtidSessions(t, db, seen, table, 8, 10))
			require.NoError(t, replicasOf(c)[1].ResumeReplay(testContext(t)))
			eventually(t, "the replica that goes on serves", func() bool { return !status(t, patientDB, replicasOf(c)[1].Name()).Stopped })
			require.Greater(t, gtidSessions(t, patientDB, seen, table, 8, 5), 8*5/3)
		})
	})
}

// TestGTIDWaitsThenCovers: a read waits for the replica, which then covers the session without a wait.
func TestGTIDWaitsThenCovers(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		config.Strategy = readroute.PositionWait(10 * time.Second)
		seen := record(&config)
		db := open(t, config)
		holdBack(t, c, db)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		tokenOf(t, ctx)
		seen.take()
		read := make(chan int, 1)
		go func() {
			n := 0
			_ = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n)
			read <- n
		}()
		eventually(t, "it waits", func() bool { return db.RouteStats().Waiting == 1 })
		require.Empty(t, seen.take())
		letGo(t, c)
		require.Equal(t, 1, <-read)
		d := seen.one(t)
		require.Equal(t, []string{"replica waited"}, where([]readroute.Decision{d}))
		require.Positive(t, d.Waited)
		require.Zero(t, db.RouteStats().Waiting)
		eventually(t, "both replicas cover it", func() bool {
			for range 20 {
				require.Equal(t, 1, rowsOf(t, ctx, db, table, 1))
			}
			nodes := map[string]int{}
			for _, d := range seen.take() {
				if d.Reason != readroute.ReasonCovered {
					return false
				}
				nodes[d.Node]++
			}
			return len(nodes) == 2
		})
	})
}

// TestK2_25_GTIDWaitThatEndsCoversNothing: what becomes of a read that no replica can serve in time, and that it says so. No server is
// asked to wait, so that no answer of one can be taken for the position.
func TestK2_25_GTIDWaitThatEndsCoversNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		config.Strategy = readroute.PositionWait(50 * time.Millisecond)
		seen := record(&config)
		db := open(t, config)
		holdBack(t, c, db)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		tokenOf(t, ctx)
		seen.take()
		read := func(ctx context.Context) (rows int, took time.Duration, d readroute.Decision) {
			at := time.Now()
			rows = rowsOf(t, ctx, db, table, 1)
			return rows, time.Since(at), seen.one(t)
		}

		rows, took, d := read(ctx)
		require.Equal(t, 1, rows)
		require.Equal(t, []string{"primary wait_timeout"}, where([]readroute.Decision{d}))
		require.GreaterOrEqual(t, took, 50*time.Millisecond)
		require.Less(t, took, 2*time.Second, "the wait has an end")
		rows, _, d = read(readroute.WithWait(ctx, 0))
		require.Equal(t, 1, rows)
		require.Equal(t, []string{"primary lagging"}, where([]readroute.Decision{d}))
		eventually(t, "the replicas are known to stand still", func() bool {
			rows, _, d = read(ctx)
			require.Equal(t, 1, rows)
			return d.Reason == readroute.ReasonHopeless
		})
		require.Zero(t, d.Waited)

		rows, _, d = read(readroute.WithFallback(ctx, readroute.FallbackStale))
		require.Zero(t, rows, "asked for")
		require.Equal(t, []string{"replica stale"}, where([]readroute.Decision{d}))
		err := db.QueryRowContext(readroute.WithFallback(ctx, readroute.FallbackError), "SELECT 1").Scan(new(int))
		require.ErrorIs(t, err, readroute.ErrNotCaughtUp)
		var behind *readroute.NotCaughtUpError
		require.ErrorAs(t, err, &behind)
		require.EqualValues(t, 1, behind.BehindTransactions)
		require.Zero(t, behind.BehindBytes)
		require.ErrorContains(t, err, "1 transactions behind")
		for _, n := range replicasOf(c) {
			waiting := ask(t, n, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%WAIT%' AND ID <> CONNECTION_ID()")
			require.Equal(t, "0", waiting, "nothing waits on a server for which nobody waits")
			require.EqualValues(t, 1, status(t, db, n.Name()).LagTransactions)
		}
	})
}

// TestK2_01_GTIDTokenOutlivesTheProcess: a burst of writes of one session is one small token, which another process takes up.
func TestK2_01_GTIDTokenOutlivesTheProcess(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		quick(&config)
		first := open(t, config)
		seen := record(&config)
		second := open(t, config)
		holdBack(t, c)
		ctx := sessionContext(t)
		for i := range 1000 {
			_, err := first.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", table, i))
			require.NoError(t, err)
		}
		token := tokenOf(t, ctx)
		t.Logf("%d characters: %s", len(token.String()), token)
		require.Less(t, len(token.String()), 200)

		next := carrying(t, token)
		require.Equal(t, 1000, countIn(t, next, second, table))
		require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
		letGo(t, c)
		eventually(t, "a replica serves the token", func() bool {
			require.Equal(t, 1000, countIn(t, next, second, table))
			return seen.one(t).Role == readroute.RoleReplica
		})
		// A write that changes nothing asks for as much: its session has seen what was there.
		execOn(t, c.Primary(), "DELETE FROM "+table+" WHERE id > 0")
		holdBack(t, c)
		other := sessionContext(t)
		execOn(t, c.Primary(), "UPDATE "+table+" SET id = 5000 WHERE id = 0")
		result, err := first.ExecContext(other, "INSERT IGNORE INTO "+table+" (id) VALUES (5000)")
		require.NoError(t, err)
		changed, err := result.RowsAffected()
		require.NoError(t, err)
		require.Zero(t, changed)
		require.Equal(t, 1, rowsOf(t, other, first, table, 5000))
		// So it is in a process that has seen nothing move.
		late, err := readroute.Open(config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, late.Close()) })
		require.NoError(t, late.PingContext(testContext(t)))
		lateCtx := sessionContext(t)
		_, err = late.ExecContext(lateCtx, "INSERT IGNORE INTO "+table+" (id) VALUES (5000)")
		require.NoError(t, err)
		require.Equal(t, 1, rowsOf(t, lateCtx, late, table, 5000))
		require.Less(t, len(tokenOf(t, lateCtx).String()), 200)
		require.Less(t, len(tokenOf(t, other).String()), 200)
		require.Equal(t, 1, rowsOf(t, carrying(t, tokenOf(t, other)), second, table, 5000))
	})
}

// TestK2_07_GTIDOneWriterDoesNotPinTheOthers: a session that only reads stays on the replicas.
func TestK2_07_GTIDOneWriterDoesNotPinTheOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		config := gtidConfig(c)
		seen := record(&config)
		db := open(t, config)
		writer, stop := context.WithCancel(sessionContext(t))
		var wg sync.WaitGroup
		wg.Go(func() {
			for writer.Err() == nil {
				_, _ = db.ExecContext(writer, "INSERT INTO "+table+" (id) VALUES (1)")
			}
		})
		reader := sessionContext(t)
		for range 300 {
			rowsOf(t, reader, db, table, 1)
		}
		stop()
		wg.Wait()
		for _, d := range seen.take() {
			if d.Class == readroute.ClassRead {
				require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
				require.Equal(t, readroute.ReasonCovered, d.Reason)
			}
		}
	})
}

// TestK2_27_GTIDReceivedIsNotVisible: what a replica has in its relay log, no read sees there.
func TestK2_27_GTIDReceivedIsNotVisible(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		quick(&config)
		seen := record(&config)
		db := open(t, config)
		holdBack(t, c)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		token := tokenOf(t, ctx)
		position, err := c.Primary().Position(testContext(t))
		require.NoError(t, err)
		for _, n := range replicasOf(c) {
			eventually(t, "it has been received", func() bool {
				if c.IsMariaDB() {
					s, err := n.ReplicaStatus(testContext(t))
					require.NoError(t, err)
					return s["Gtid_IO_Pos"] == position
				}
				return ask(t, n, "SELECT GTID_SUBSET('"+oneLine(position)+"', CONCAT(@@GLOBAL.gtid_executed, ',', RECEIVED_TRANSACTION_SET))"+
					" FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''") == "1"
			})
		}
		for range 20 {
			seen.take()
			require.Equal(t, 1, rowsOf(t, carrying(t, token), db, table, 1))
			require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
		}
	})
}

// TestK5_10_GTIDTokenOfAnotherFlavor: which kind of token a cluster understands is the servers' affair, and one of another
// kind means the primary.
func TestK5_10_GTIDTokenOfAnotherFlavor(t *testing.T) {
	mysql, mariadb := sharedGTIDs(t, false), sharedGTIDs(t, true)
	for _, pair := range [][2]*dbtest.MySQLCluster{{mysql, mariadb}, {mariadb, mysql}} {
		t.Run(pair[0].Flavor()+" to "+pair[1].Flavor(), func(t *testing.T) {
			from, to := pair[0], pair[1]
			table := newGTIDTable(t, from, "id INT PRIMARY KEY")
			ctx := sessionContext(t)
			add(t, ctx, open(t, gtidConfig(from)), table, 1)
			token := tokenOf(t, ctx)

			other := newGTIDTable(t, to, "id INT PRIMARY KEY")
			config := gtidConfig(to)
			patient(&config)
			seen := record(&config)
			db := open(t, config)
			require.Equal(t, to.Flavor(), db.RouteStats().Engine)
			next := carrying(t, token)
			at := time.Now()
			require.Zero(t, rowsOf(t, next, db, other, 1))
			require.Less(t, time.Since(at), 5*time.Second)
			require.Equal(t, []string{"primary position_lost"}, where(seen.take()))
			eventually(t, "the session goes on", func() bool {
				require.Zero(t, rowsOf(t, next, db, other, 1))
				return seen.one(t).Role == readroute.RoleReplica
			})
		})
	}
}

// craftGTIDs makes a token that asks for a position, by its layout, as somebody else could.
func craftGTIDs(t testing.TB, mariadb bool, cluster, position string) readroute.Token {
	t.Helper()
	b := append([]byte{1, 1, byte(len(cluster))}, cluster...)
	b = binary.AppendUvarint(append(b, 1), uint64(time.Now().UnixMilli()))
	if mariadb {
		list, err := core.ParseMariaDBGTID(position)
		require.NoError(t, err)
		b = list.AppendBinary(append(b, 1, byte(core.KindMariaDB)))
	} else {
		set, err := core.ParseGTIDSet(position)
		require.NoError(t, err)
		b = set.AppendBinary(append(b, 1, byte(core.KindMySQL)))
	}
	token, err := readroute.ParseToken(base64.RawURLEncoding.EncodeToString(b))
	require.NoError(t, err)
	return token
}

// TestK5_16_GTIDTokenFromTheFuture: nothing that a token says makes a read wait for what cannot come.
func TestK5_16_GTIDTokenFromTheFuture(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		patient(&config)
		seen, happened := record(&config), listen(&config)
		db := open(t, config)
		tokens := map[string]string{"a server that nobody has heard of": "0-77-1000000,7-1-1"}
		if c.IsMariaDB() {
			tokens["above the primary"] = "0-1-18446744073709551615"
			tokens["just above"] = "0-1-1000000"
			tokens["another domain"] = "9-1-5"
		} else {
			uuid := ask(t, c.Primary(), "SELECT @@GLOBAL.server_uuid")
			tokens["a server that nobody has heard of"] = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
			tokens["above the primary"] = uuid + ":1-9223372036854775806"
			tokens["just above"] = uuid + ":1-1000000"
			tokens["a tag that nobody has used"] = uuid + ":nobody:1"
		}
		for name, position := range tokens {
			t.Run(name, func(t *testing.T) {
				token := craftGTIDs(t, c.IsMariaDB(), "main", position)
				seen.take()
				before := len(happened.of(readroute.EventPositionLost))
				var wg sync.WaitGroup
				var longest time.Duration
				var mu sync.Mutex
				for range 8 {
					wg.Go(func() {
						for range 25 {
							ctx := readroute.ContextWithSession(context.Background(), readroute.NewSession(token))
							at := time.Now()
							err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(new(int))
							mu.Lock()
							longest = max(longest, time.Since(at))
							mu.Unlock()
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				require.Less(t, longest, 5*time.Second, "nothing waits for a position that cannot come")
				require.Zero(t, db.RouteStats().Waiting)
				reasons := map[readroute.Reason]int{}
				for _, d := range seen.take() {
					reasons[d.Reason]++
					require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
				}
				t.Log(reasons, longest)
				if name == "above the primary" || name == "just above" {
					require.Equal(t, map[readroute.Reason]int{readroute.ReasonPositionLost: 200}, reasons)
					require.Greater(t, len(happened.of(readroute.EventPositionLost)), before)
				}
			})
		}
		ctx := readroute.ContextWithSession(testContext(t), readroute.NewSession(craftGTIDs(t, c.IsMariaDB(), "main", tokens["just above"])))
		seen.take()
		countIn(t, ctx, db, table)
		require.Equal(t, readroute.ReasonPositionLost, seen.one(t).Reason, "one session is held to the primary once, and goes on")
		eventually(t, "a replica serves the session", func() bool {
			countIn(t, ctx, db, table)
			return seen.one(t).Role == readroute.RoleReplica
		})
	})
}

// TestK5_21_GTIDClustersDoNotMix: a token of several clusters, of other kinds of servers, holds the reads of each to its own.
func TestK5_21_GTIDClustersDoNotMix(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		pg := sharedCluster(t)
		pgTable, table := newTable(t, pg, "id int"), newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := configFor(pg)
		quick(&config)
		main := open(t, config)
		config = gtidConfig(c)
		quick(&config)
		config.Name = "billing"
		seen := record(&config)
		billing := open(t, config)
		pauseReplay(t, pg)
		holdBack(t, c, billing)
		ctx := sessionContext(t)
		_, err := main.ExecContext(ctx, "INSERT INTO "+pgTable+" VALUES (1)")
		require.NoError(t, err)
		one := tokenOf(t, ctx)
		require.Zero(t, rowsOf(t, carrying(t, one), billing, table, 1))
		d := seen.one(t)
		require.Equal(t, readroute.RoleReplica, d.Role, "the other cluster's write is none of its business: %+v", d)
		add(t, ctx, billing, table, 1)
		both := tokenOf(t, ctx)
		require.Less(t, len(both.String()), 200)
		next := carrying(t, both)
		require.Equal(t, 1, rowsOf(t, next, billing, table, 1))
		require.Equal(t, 1, countIn(t, next, main, pgTable))
	})
}

// TestGTIDWaitersCostOnePoll: five thousand reads that wait for one position cost no more than one, and leave nothing.
func TestGTIDWaitersCostOnePoll(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		const waiters = 5000
		table := newGTIDTable(t, c, "id INT PRIMARY KEY")
		config := gtidConfig(c)
		config.Strategy = readroute.PositionWait(time.Minute)
		for i := range config.Replicas {
			config.Replicas[i].MaxOpenConns = 16
		}
		db := open(t, config)
		ctx := sessionContext(t)
		require.NoError(t, db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(new(int)))
		holdBack(t, c, db)
		add(t, ctx, db, table, 1)
		token := tokenOf(t, ctx)
		questions := func() (n int) {
			for _, r := range replicasOf(c) {
				n += number(t, r, "SELECT VARIABLE_VALUE FROM "+globalStatus(c)+" WHERE VARIABLE_NAME = 'Questions'")
			}
			return n
		}
		connections := func() (n int) {
			for _, r := range c.Nodes() {
				n += number(t, r, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER IN ('"+watchful+"', '"+dbtest.AppUser+"')")
			}
			return n
		}
		goroutines, before := runtime.NumGoroutine(), connections()
		for _, cancelled := range []bool{true, false} {
			waiting, cancel := context.WithCancel(testContext(t))
			errs := make(chan error, waiters)
			for range waiters {
				go func() {
					ctx := readroute.ContextWithSession(waiting, readroute.NewSession(token))
					var n int
					err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE id = 1").Scan(&n)
					if err == nil && n != 1 {
						err = fmt.Errorf("%d rows", n)
					}
					errs <- err
				}()
			}
			eventually(t, "all wait", func() bool {
				return db.RouteStats().Waiting == waiters
			})
			asked, at := questions(), time.Now()
			<-time.After(300 * time.Millisecond)
			rate := float64(questions()-asked) / time.Since(at).Seconds()
			t.Logf("%.0f questions a second on two replicas", rate)
			require.Less(t, rate, 2*2*250.0, "one poll at a time")
			require.LessOrEqual(t, connections(), before+2, "a read that waits holds no connection")
			if cancelled {
				cancel()
			} else {
				letGo(t, c)
			}
			for range waiters {
				err := <-errs
				if cancelled {
					require.ErrorIs(t, err, context.Canceled)
				} else {
					require.NoError(t, err)
				}
			}
			cancel()
			require.Zero(t, db.RouteStats().Waiting)
		}
		eventually(t, "no goroutine is left, but for the connections' own", func() bool {
			return runtime.NumGoroutine() <= goroutines+3*16+10
		})
		require.LessOrEqual(t, connections(), before+3*16)
	})
}
