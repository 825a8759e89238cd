package readroute_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestCaptureMySQLEveryWay makes a write in every way in which one can be made on MySQL and MariaDB, while no replica replays, and reads
// it.
func TestCaptureMySQLEveryWay(t *testing.T) {
	mysqlOnBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := mysqlWaysConfig(t, c)
		seen := record(&config)
		db := open(t, config)
		config.WithoutSession = readroute.WithoutSessionProcess
		processDB := open(t, config)
		table := newMySQLWritable(t, c)
		for i, by := range mysqlWays() {
			if by.mariadb && !c.IsMariaDB() || by.mysql && c.IsMariaDB() {
				continue
			}
			t.Run(by.name, func(t *testing.T) {
				w := &writing{TB: t, ctx: sessionContext(t), other: sessionContext(t), db: db, table: table, id: i + 1}
				if by.process {
					w.db = processDB
				}
				t.Cleanup(w.after)
				captureMySQLWay(w, c, seen, by)
			})
		}
	})
}

// mysqlWaysConfig is a config over the primary and one replica, whose user may write several statements in one text.
func mysqlWaysConfig(t testing.TB, c *dbtest.MySQLCluster) readroute.Config {
	t.Helper()
	config := mysqlConfigFor(c, func(n *dbtest.MySQLNode) *mysql.Config {
		config, err := mysql.ParseDSN(n.DSN(watchful))
		require.NoError(t, err)
		config.MultiStatements, config.Logger = true, mysqlSilent{}
		return config
	})
	quick(&config)
	return config
}

// holdOneBack lets the first replica come to where the primary is and keeps it there. Its applier runs, so that it stays eligible: what
// keeps a read from it is what its session needs.
func holdOneBack(t testing.TB, c *dbtest.MySQLCluster) {
	t.Helper()
	ctx := testContext(t)
	position, err := c.Primary().Position(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Replica(0).WaitFor(ctx, position))
	require.NoError(t, c.Replica(0).SetApplyDelay(ctx, time.Hour))
}

func captureMySQLWay(w *writing, c *dbtest.MySQLCluster, seen *decisions, by way) {
	readers := []context.Context{w.ctx}
	if by.process {
		readers[0] = testContext(w)
	}
	if by.both {
		readers = append(readers, w.other)
	}
	visible := by.visible
	if visible == "" {
		visible = "SELECT COUNT(*) FROM {t} WHERE id = {id}"
	}
	read := func(ctx context.Context) (int, readroute.Decision) {
		seen.take()
		var n int
		require.NoError(w, w.db.QueryRowContext(ctx, w.text(visible)).Scan(&n))
		return n, seen.one(w)
	}

	w.Cleanup(func() { letGo(w, c) })
	holdOneBack(w, c)
	by.write(w)
	for _, ctx := range readers {
		eventually(w, "the replica is eligible", func() bool { // its applier was stopped for a moment
			n, d := read(ctx)
			require.Equal(w, 1, n, "%+v", d)
			require.Equal(w, readroute.RolePrimary, d.Role, "%+v", d)
			return slices.Contains([]readroute.Reason{
				readroute.ReasonCapturePending, readroute.ReasonWaitTimeout, readroute.ReasonHopeless,
			}, d.Reason)
		})
	}
	w.after()
	letGo(w, c)
	for _, ctx := range readers {
		eventually(w, "a replica serves the session", func() bool {
			n, d := read(ctx)
			require.Equal(w, 1, n, "%+v", d)
			return d.Role == readroute.RoleReplica && (d.Reason == readroute.ReasonCovered || d.Reason == readroute.ReasonWaited)
		})
	}
}

// TestCaptureMySQLKnowsEveryMethod fails when database/sql or this package grows a method through which a write may pass.
func TestCaptureMySQLKnowsEveryMethod(t *testing.T) {
	requireEveryMethod(t, mysqlWays())
}

// noMySQLWrite says why a statement that the classifier knows needs no way of its own.
var noMySQLWrite = map[string]string{
	"desc": "tells of a table", "describe": "tells of a table", "help": "reads the server's own tables", "checksum": "reads", "show": "reads",
	"get": "reads what the last statement left", "use": "leaves state",
	"grant": "of accounts, which no routed read shows", "revoke": "as GRANT",
	"cache": "keys in memory", "install": "of the server's plugins", "uninstall": "as INSTALL", "import": "takes the server's own files",
	"change": "of replication", "reset": "of replication", "stop": "of replication", "purge": "of the log", "binlog": "what the log holds",
	"kill": "ends sessions, whose transactions are rolled back", "shutdown": "ends the server", "restart": "ends the server",
	"clone": "takes another server's data", "backup": "locks for a copy",
	"flush": "needs a right with which a replica that nothing feeds is seen, and left out; it commits as ANALYZE TABLE does",
}

// TestCaptureMySQLKnowsEveryStatement fails when the classifier grows a kind of statement that no way runs.
func TestCaptureMySQLKnowsEveryStatement(t *testing.T) {
	run := map[string]bool{}
	for _, file := range []string{"ways_mysql_test.go", "ways_mysql_tx_test.go"} {
		for _, literal := range literalsOf(t, file, "") {
			for part := range strings.SplitSeq(literal, ";") {
				if words := strings.Fields(part); len(words) > 0 {
					run[strings.ToLower(words[0])] = true
				}
			}
		}
	}
	kinds := literalsOf(t, "internal/sqlclass/mysql.go", "mysqlCommand")
	require.Greater(t, len(kinds), 40)
	for _, kind := range kinds {
		if kind == "not" || kind == "index" || kind == "transaction" || strings.ToLower(kind) != kind || kind == "" || kind == "immediate" {
			continue // of a second word
		}
		if noMySQLWrite[kind] == "" {
			require.Contains(t, run, kind, "%s is a kind of statement: give mysqlWays() one that runs it, or say in noMySQLWrite why not", kind)
		}
	}
}

// literalsOf returns the strings in a source file, or in one of its functions.
func literalsOf(t *testing.T, file, function string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var list []string
	ast.Inspect(tree, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && function != "" && f.Name.Name != function {
			return false
		}
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			require.NoError(t, err)
			list = append(list, text)
		}
		return true
	})
	return list
}

// TestMySQLTransactionThatARoutineLeavesOpen ends with the checkout: whoever has the connection next writes and reads outside of it.
func TestMySQLTransactionThatARoutineLeavesOpen(t *testing.T) {
	mysqlOnBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := mysqlWaysConfig(t, c)
		config.Primary.MaxOpenConns = 1
		db := open(t, config)
		table := newMySQLWritable(t, c)
		w := &writing{TB: t, ctx: sessionContext(t), db: db, table: table, id: 1}
		for name, leave := range map[string]func(){
			"Exec":       func() { w.done(db.ExecContext(w.ctx, w.text("CALL opens_{t}({id})"))) },
			"Query":      func() { w.drainAll(db.QueryContext(w.ctx, w.text("CALL opens_{t}({id})"))) },
			"PrimaryRaw": func() { w.ok(db.PrimaryRaw(w.ctx, w.nativeExec("BEGIN", w.text(insert)))) },
			"failure": func() {
				_, err := db.ExecContext(w.ctx, w.text("CALL opens_{t}({id}); CALL fails_{t}({id})"))
				require.Error(t, err)
			},
		} {
			t.Run(name, func(t *testing.T) {
				leave()
				next := sessionContext(t)
				var n int
				primary := readroute.WithLevel(next, readroute.LevelPrimary)
				require.NoError(t, db.QueryRowContext(primary, w.text("SELECT COUNT(*) FROM {t}")).Scan(&n))
				require.Zero(t, n)
				w.done(db.ExecContext(next, w.text("INSERT INTO {t}_other (id) VALUES (77)")))
				require.Equal(t, "1", ask(t, c.Primary(), w.text("SELECT COUNT(*) FROM {t}_other WHERE id = 77")), "it is committed")
				execOn(t, c.Primary(), w.text("DELETE FROM {t}_other WHERE id = 77"))
			})
		}
	})
}

// TestMySQLSessionsThatDoNotCommitAreRefused: where every session begins so that a write is not committed when it returns, and reads see
// an old snapshot, the primary's connections are refused in a sentence, and those to a replica are set right.
func TestMySQLSessionsThatDoNotCommitAreRefused(t *testing.T) {
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster) {
		table := newGTIDTable(t, c, "id INT")
		for setting, words := range map[string]string{
			"autocommit = 0":              "begins with autocommit off",
			"completion_type = 'CHAIN'":   "begins with completion_type CHAIN",
			"completion_type = 'RELEASE'": "begins with completion_type RELEASE",
		} {
			t.Run(setting, func(t *testing.T) {
				name, _, _ := strings.Cut(setting, " ")
				for _, n := range c.Nodes() {
					t.Cleanup(func() { execOn(t, n, "SET GLOBAL "+name+" = DEFAULT") })
					execOn(t, n, "SET GLOBAL "+setting)
				}
				db, err := readroute.Open(gtidConfig(c))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, db.Close()) })
				ctx := sessionContext(t)
				_, err = db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
				require.ErrorContains(t, err, words)
				require.ErrorContains(t, err, "autocommit=1 and completion_type=0")
				require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
				eventually(t, "a replica serves", func() bool { return status(t, db, "b").Healthy })
				require.True(t, status(t, db, "a").Healthy, "the server is well")

				config := gtidConfig(c)
				config.Primary.Connector = readroute.MySQL(c.Primary().DSN(watchful) + "?autocommit=1&completion_type=0")
				config.Replicas[0].MaxOpenConns = 1
				config.Strategy = readroute.PositionWait(10 * time.Second)
				seen := record(&config)
				db = open(t, config)
				require.Positive(t, gtidSessions(t, db, seen, table, 1, 10), "no read sees an old snapshot")
				for range 3 {
					tx, err := db.BeginTx(ctx, readOnly)
					require.NoError(t, err)
					require.NoError(t, tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(new(int)))
					require.NoError(t, tx.Commit())
					require.Positive(t, gtidSessions(t, db, seen, table, 1, 2))
				}
			})
		}
	})
}
