package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// semiSync are the statements that turn semi-synchronous replication on or off, for the source and for a replica.
func semiSync(c *dbtest.MySQLCluster, on int, timeout time.Duration) (source, replica []string) {
	names := []string{"rpl_semi_sync_source_enabled", "rpl_semi_sync_source_timeout", "rpl_semi_sync_replica_enabled", "REPLICA"}
	point := "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC"
	if c.IsMariaDB() {
		names = []string{"rpl_semi_sync_master_enabled", "rpl_semi_sync_master_timeout", "rpl_semi_sync_slave_enabled", "SLAVE"}
		point = "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC"
	}
	source = []string{point, fmt.Sprintf("SET GLOBAL %s = %d", names[1], timeout.Milliseconds()), fmt.Sprintf("SET GLOBAL %s = %d", names[0], on)}
	replica = []string{
		fmt.Sprintf("SET GLOBAL %s = %d", names[2], on), "STOP " + names[3] + " IO_THREAD", "START " + names[3] + " IO_THREAD",
	}
	return source, replica
}

// makeSemiSync lets commits of c wait for replicas, for the length of a test.
func makeSemiSync(t testing.TB, c *dbtest.MySQLCluster, replicas ...*dbtest.MySQLNode) {
	t.Helper()
	source, replica := semiSync(c, 1, 30*time.Second)
	offSource, offReplica := semiSync(c, 0, 30*time.Second)
	t.Cleanup(func() {
		require.NoError(t, c.Primary().Exec(context.Background(), offSource...))
		for _, n := range replicas {
			require.NoError(t, n.Exec(context.Background(), offReplica...))
		}
		require.NoError(t, c.WaitCaughtUp(context.Background()))
	})
	for _, n := range replicas {
		execOn(t, n, replica...)
	}
	execOn(t, c.Primary(), source...)
	clients := "SELECT VARIABLE_VALUE FROM " + globalStatus(c) + " WHERE VARIABLE_NAME IN ('Rpl_semi_sync_source_clients', 'Rpl_semi_sync_master_clients')"
	eventually(t, "the replicas answer", func() bool { return ask(t, c.Primary(), clients) == fmt.Sprint(len(replicas)) })
}

// TestGTIDSemiSync: a commit waits until a replica has it. Reads are as fresh as ever.
func TestGTIDSemiSync(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDWritable(t, c)
		makeSemiSync(t, c, replicasOf(c)...)
		config := gtidConfig(c)
		quick(&config)
		seen := record(&config)
		db := open(t, config)
		patient(&config)
		require.Less(t, 8*15/2, gtidSessions(t, open(t, config), seen, table, 8, 15))

		// No replica answers: the commit is in the log and waits, and nobody can say when it is over.
		ctx := sessionContext(t)
		require.NoError(t, db.PingContext(ctx))
		for _, n := range replicasOf(c) {
			require.NoError(t, n.StopReceiver(testContext(t)))
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(short, "INSERT INTO "+table+" (id) VALUES (-1)")
		require.ErrorIs(t, err, readroute.ErrCommitUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		stands := func() bool { return ask(t, c.Primary(), "SELECT COUNT(*) FROM "+table+" WHERE id = -1") == "1" }
		for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
			seen.take()
			before := stands()
			n := rowsOf(t, ctx, db, table, -1)
			d := seen.one(t)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			require.False(t, before && n == 0)
		}
		for _, n := range replicasOf(c) {
			require.NoError(t, n.StartReceiver(testContext(t)))
		}
		eventually(t, "a replica shows it to its session", func() bool {
			seen.take()
			before := stands()
			n := rowsOf(t, ctx, db, table, -1)
			require.False(t, before && n == 0)
			return n == 1 && seen.one(t).Role == readroute.RoleReplica
		})
	})
}

// TestGTIDReplicaAheadOfThePrimary: while a commit waits for one replica, another shows what the primary does not show yet.
func TestGTIDReplicaAheadOfThePrimary(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		late, ahead := replicasOf(c)[0], replicasOf(c)[1]
		makeSemiSync(t, c, late) // only this one is waited for
		config := gtidConfig(c)
		config.ProbeInterval = 20 * time.Millisecond
		seen := record(&config)
		db := open(t, config)
		ctx := sessionContext(t)
		add(t, ctx, db, table, 1)
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		require.NoError(t, late.StopReceiver(testContext(t)))
		t.Cleanup(func() { require.NoError(t, late.StartReceiver(context.Background())) })
		wrote := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(context.WithoutCancel(ctx), "INSERT INTO "+table+" (id) VALUES (2)")
			wrote <- err
		}()
		eventually(t, "the other replica shows it", func() bool { return ask(t, ahead, "SELECT COUNT(*) FROM "+table+" WHERE id = 2") == "1" })
		require.Equal(t, "0", ask(t, c.Primary(), "SELECT COUNT(*) FROM "+table+" WHERE id = 2"))
		// Whoever reads there is served, and so is a session that asks for what the primary shows.
		onAhead := readroute.WithNode(sessionContext(t), ahead.Name())
		for range 20 {
			seen.take()
			require.Equal(t, 1, rowsOf(t, onAhead, db, table, 2))
			require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
		}
		fenced := sessionContext(t)
		require.NoError(t, db.Fence(fenced))
		require.Equal(t, 1, rowsOf(t, fenced, db, table, 1))
		s := status(t, db, ahead.Name())
		require.True(t, s.Healthy)
		require.False(t, s.Stopped)
		require.True(t, s.LagKnown)
		require.Zero(t, s.LagTransactions)
		require.NoError(t, late.StartReceiver(testContext(t)))
		require.NoError(t, <-wrote)
		require.Equal(t, 1, rowsOf(t, ctx, db, table, 2))
	})
}

// block holds a lock on the rows of table with the id on a replica, so that its applier waits there. The replica takes writes of
// anybody meanwhile.
func block(t testing.TB, c *dbtest.MySQLCluster, n *dbtest.MySQLNode, table string, id int) (release func()) {
	t.Helper()
	execOn(t, n, "SET GLOBAL read_only = OFF")
	pool, err := sql.Open("mysql", n.DSN())
	require.NoError(t, err)
	tx, err := pool.BeginTx(testContext(t), nil)
	require.NoError(t, err)
	rows, err := tx.QueryContext(testContext(t), fmt.Sprintf("SELECT * FROM %s WHERE id = %d FOR UPDATE", table, id))
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Err())
	released := false
	release = func() {
		if !released {
			released = true
			require.NoError(t, tx.Rollback())
			require.NoError(t, pool.Close())
			execOn(t, n, readOnlyAgain(c)...)
		}
	}
	t.Cleanup(release)
	return release
}

// parallel gives the appliers of c workers, for the length of a test. Without order, a MySQL replica commits what does not depend
// on each other as it comes.
func parallel(t testing.TB, c *dbtest.MySQLCluster, order bool) {
	t.Helper()
	set := func(workers, order int) []string {
		if c.IsMariaDB() {
			return []string{"STOP SLAVE", fmt.Sprintf("SET GLOBAL slave_parallel_threads = %d", workers), "START SLAVE"}
		}
		return []string{
			"STOP REPLICA", fmt.Sprintf("SET GLOBAL replica_parallel_workers = %d", max(1, workers)),
			fmt.Sprintf("SET GLOBAL replica_preserve_commit_order = %d", order), "START REPLICA",
		}
	}
	keep := 0
	if order {
		keep = 1
	}
	for _, n := range replicasOf(c) {
		t.Cleanup(func() { require.NoError(t, n.Exec(context.Background(), set(0, 1)...)) })
		execOn(t, n, set(8, keep)...)
	}
}

// TestGTIDParallelAppliers: replicas apply with eight workers. What they have is not always a prefix of what was written, and no
// read is stale because of it.
func TestGTIDParallelAppliers(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		for _, order := range []bool{true, false} {
			if !order && c.IsMariaDB() {
				continue // it keeps the order of each domain: see TestMariaDBDomains
			}
			t.Run(fmt.Sprintf("order kept: %v", order), func(t *testing.T) {
				table := newGTIDTable(t, c, "id INT PRIMARY KEY, v INT")
				execOn(t, c.Primary(), "INSERT INTO "+table+" VALUES (1, 0), (2, 0), (3, 0)")
				require.NoError(t, c.WaitCaughtUp(testContext(t)))
				parallel(t, c, order)
				config := gtidConfig(c)
				config.Replicas = config.Replicas[:1]
				quick(&config)
				seen := record(&config)
				db := open(t, config)
				patient(&config)
				require.Less(t, 8*15/2, gtidSessions(t, open(t, config), seen, table, 8, 15))

				replica := replicasOf(c)[0]
				release := block(t, c, replica, table, 1)
				first, second := sessionContext(t), sessionContext(t)
				update := func(ctx context.Context, id int) {
					_, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET v = 1 WHERE id = %d", table, id))
					require.NoError(t, err)
				}
				update(first, 1) // waits for the lock there
				update(second, 2)
				other := func() string { return ask(t, replica, "SELECT v FROM "+table+" WHERE id = 2") }
				if !order {
					eventually(t, "the second is there before the first", func() bool { return other() == "1" })
					gap, err := readroute.ParseGTIDSet(ask(t, replica, "SELECT @@GLOBAL.gtid_executed"))
					require.NoError(t, err)
					require.Regexp(t, `:1-[0-9]+:[0-9]+`, gap.String(), "there is a gap")
				}
				for range 10 {
					for id, ctx := range map[int]context.Context{1: first, 2: second} {
						seen.take()
						var v int
						require.NoError(t, db.QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM %s WHERE id = %d", table, id)).Scan(&v))
						require.Equal(t, 1, v)
						if id == 1 {
							require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
						}
					}
				}
				release()
				for id, ctx := range map[int]context.Context{1: first, 2: second} {
					eventually(t, "the replica serves the session", func() bool {
						seen.take()
						var v int
						require.NoError(t, db.QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM %s WHERE id = %d", table, id)).Scan(&v))
						require.Equal(t, 1, v)
						return seen.one(t).Role == readroute.RoleReplica
					})
				}
			})
		}
	})
}

// TestMySQLTags: transactions whose GTIDs have a tag are a log of their own.
func TestMySQLTags(t *testing.T) {
	c := sharedGTIDs(t, false)
	table := newGTIDTable(t, c, "id INT PRIMARY KEY")
	config := gtidConfig(c, dbtest.AdminUser)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	tagged := func(ctx context.Context, id int) {
		conn, err := db.Conn(ctx)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(ctx, "SET SESSION gtid_next = 'AUTOMATIC:routed'")
		require.NoError(t, err)
		_, err = conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, id))
		require.NoError(t, err)
	}
	for i := range 3 { // the first brings the tag into the world
		holdBack(t, c)
		ctx := sessionContext(t)
		tagged(ctx, i)
		token := tokenOf(t, ctx)
		require.Less(t, len(token.String()), 200)
		seen.take()
		for _, ctx := range []context.Context{ctx, carrying(t, token)} {
			require.Equal(t, 1, rowsOf(t, ctx, db, table, i))
			require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
		}
		plain := sessionContext(t)
		add(t, plain, db, table, 100+i)
		require.Equal(t, 1, rowsOf(t, plain, db, table, 100+i))
		letGo(t, c)
		for ctx, id := range map[context.Context]int{ctx: i, plain: 100 + i} {
			eventually(t, "a replica serves the session", func() bool {
				seen.take()
				require.Equal(t, 1, rowsOf(t, ctx, db, table, id))
				return seen.one(t).Role == readroute.RoleReplica
			})
		}
	}
	require.Contains(t, status(t, db, "a").GTIDSet.String(), ":routed:1-3")
}

// TestMariaDBDomains: each domain is a log of its own, and a session needs all that it has written to.
func TestMariaDBDomains(t *testing.T) {
	c := sharedGTIDs(t, true)
	table := newGTIDTable(t, c, "id INT PRIMARY KEY, v INT")
	execOn(t, c.Primary(), "INSERT INTO "+table+" VALUES (1, 0), (2, 0)")
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	parallel(t, c, true)
	config := gtidConfig(c, dbtest.AdminUser)
	config.Replicas = config.Replicas[:1]
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	write := func(ctx context.Context, domain, id int) {
		conn, err := db.Conn(ctx)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(ctx, fmt.Sprintf("SET SESSION gtid_domain_id = %d", domain))
		require.NoError(t, err)
		_, err = conn.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET v = v + 1 WHERE id = %d", table, id))
		require.NoError(t, err)
	}
	read := func(ctx context.Context, id int) (v int, d readroute.Decision) {
		seen.take()
		require.NoError(t, db.QueryRowContext(ctx, fmt.Sprintf("SELECT v FROM %s WHERE id = %d", table, id)).Scan(&v))
		return v, seen.one(t)
	}
	for round := 1; round <= 2; round++ { // in the first the domain is new to the replica
		release := block(t, c, replicasOf(c)[0], table, 1)
		seven := sessionContext(t)
		write(seven, 7, 1) // waits for the lock there
		both := sessionContext(t)
		write(both, 0, 2)
		eventually(t, "the other domain has gone on", func() bool {
			return ask(t, replicasOf(c)[0], "SELECT v FROM "+table+" WHERE id = 2") == fmt.Sprint(round)
		})
		for range 10 {
			v, d := read(seven, 1)
			require.Equal(t, round, v)
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
			v, _ = read(both, 2)
			require.Equal(t, round, v)
		}
		token := tokenOf(t, seven)
		require.Less(t, len(token.String()), 200)
		release()
		for ctx, id := range map[context.Context]int{seven: 1, both: 2, carrying(t, token): 1} {
			eventually(t, "the replica serves the session", func() bool {
				v, d := read(ctx, id)
				require.Equal(t, round, v)
				return d.Role == readroute.RoleReplica
			})
		}
	}
}

// TestGTIDCascade: a replica that is fed by another shows a write when both have it.
func TestGTIDCascade(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, numbered)
		relay, leaf := replicasOf(c)[0], replicasOf(c)[1]
		require.NoError(t, leaf.Follow(testContext(t), relay))
		t.Cleanup(func() {
			require.NoError(t, leaf.Follow(context.Background(), c.Primary()))
			require.NoError(t, c.WaitCaughtUp(context.Background()))
		})
		config := gtidConfig(c)
		config.Replicas = config.Replicas[1:]
		quick(&config)
		seen := record(&config)
		db := open(t, config)
		require.False(t, status(t, db, leaf.Name()).Stopped)
		patient(&config)
		require.Less(t, 4*15/2, gtidSessions(t, open(t, config), seen, table, 4, 15))
		require.NoError(t, relay.PauseReplay(testContext(t)))
		t.Cleanup(func() { require.NoError(t, relay.ResumeReplay(context.Background())) })
		require.Zero(t, gtidSessions(t, db, seen, table, 4, 5), "the leaf runs, and has nothing new")
		require.NoError(t, relay.ResumeReplay(testContext(t)))
		require.Less(t, 4*5/2, gtidSessions(t, open(t, config), seen, table, 4, 5))
	})
}

// TestGTIDMultiSource: a replica of two primaries serves the sessions of both clusters, each when it has that one's writes.
func TestGTIDMultiSource(t *testing.T) {
	for _, mariadb := range []bool{true, false} {
		t.Run(flavorName(mariadb), func(t *testing.T) {
			c := ownGTIDs(t, mariadb, dbtest.MySQLOptions{Replicas: 1})
			start, settings := dbtest.StartMySQLT, map[string]string{"server-id": "9"}
			if mariadb {
				start, settings["gtid-domain-id"] = dbtest.StartMariaDBT, "9"
			}
			second, replica := start(t, dbtest.MySQLOptions{Settings: settings}).Primary(), c.Replica(0)
			theirs, err := second.Position(testContext(t)) // all that it has, the replica is taken to have
			require.NoError(t, err)
			stop, release := "STOP SLAVE 'second'", ""
			if mariadb {
				execOn(t, replica, "STOP SLAVE", "SET GLOBAL gtid_slave_pos = CONCAT(@@GLOBAL.gtid_slave_pos, ',"+theirs+"')",
					fmt.Sprintf("CHANGE MASTER 'second' TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='repl', MASTER_USE_GTID=slave_pos, "+
						"MASTER_DELAY=3600", second.Port()), "START ALL SLAVES")
				release = "STOP SLAVE 'second'; CHANGE MASTER 'second' TO MASTER_DELAY=0; START SLAVE 'second'"
			} else {
				execOn(t, replica, "SET GLOBAL gtid_purged = CONCAT('+', GTID_SUBTRACT('"+oneLine(theirs)+"', @@GLOBAL.gtid_executed))",
					fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='repl', SOURCE_AUTO_POSITION=1, "+
						"SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, SOURCE_DELAY=3600 FOR CHANNEL 'second'", second.Port()), "START REPLICA FOR CHANNEL 'second'")
				stop = "STOP REPLICA FOR CHANNEL 'second'"
				release = "STOP REPLICA SQL_THREAD FOR CHANNEL 'second'; CHANGE REPLICATION SOURCE TO SOURCE_DELAY=0 FOR CHANNEL 'second'; " +
					"START REPLICA SQL_THREAD FOR CHANNEL 'second'"
			}
			user := watchful + "@'127.0.0.1'"
			right := "REPLICATION CLIENT"
			if mariadb {
				right = "SLAVE MONITOR"
			}
			execOn(t, second, "SET SESSION sql_log_bin = 0", "CREATE USER "+user, "GRANT ALL ON "+dbtest.AppDatabase+".* TO "+user, "GRANT "+right+" ON *.* TO "+user,
				"SET SESSION sql_log_bin = 1")
			execOn(t, c.Primary(), "CREATE TABLE one (id INT PRIMARY KEY)")
			connect := func(name string, primary *dbtest.MySQLNode) (*readroute.DB, *decisions) {
				config := readroute.Config{Name: name, Primary: nodeOf("primary", primary), Replicas: []readroute.Node{nodeOf("replica", replica)}}
				quick(&config)
				seen := record(&config)
				return open(t, config), seen
			}
			firstDB, firstSeen := connect("one", c.Primary())
			secondDB, secondSeen := connect("two", second)
			execOn(t, second, "CREATE TABLE two (id INT PRIMARY KEY)")

			ctx := sessionContext(t) // of both clusters
			add(t, ctx, firstDB, "one", 1)
			add(t, ctx, secondDB, "two", 1)
			eventually(t, "the first primary's write is there", func() bool {
				firstSeen.take()
				require.Equal(t, 1, rowsOf(t, ctx, firstDB, "one", 1))
				return firstSeen.one(t).Role == readroute.RoleReplica
			})
			for range 10 {
				secondSeen.take()
				require.Equal(t, 1, rowsOf(t, ctx, secondDB, "two", 1))
				require.Equal(t, readroute.RolePrimary, secondSeen.one(t).Role, "the second's is held back")
			}
			execOn(t, replica, strings.Split(release, "; ")...)
			eventually(t, "the second primary's write is there", func() bool {
				secondSeen.take()
				require.Equal(t, 1, rowsOf(t, ctx, secondDB, "two", 1))
				return secondSeen.one(t).Role == readroute.RoleReplica
			})
			execOn(t, replica, stop)
			for _, db := range []*readroute.DB{firstDB, secondDB} {
				eventually(t, "one that is not fed by all of its sources is out", func() bool { return status(t, db, "replica").Stopped })
			}
		})
	}
}
