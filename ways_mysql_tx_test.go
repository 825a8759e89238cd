package readroute_test

import (
	"context"
	"database/sql"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// rolledBack is a way that uses a transaction of the writing session that is rolled back, and what it has written stands.
func rolledBack(name, methods string, use func(*writing, *sql.Tx)) way {
	return way{name: name, methods: methods, write: func(w *writing) {
		tx := w.begin(w.ctx)
		use(w, tx)
		w.ok(tx.Rollback())
	}}
}

var mysqlTxWays = []way{
	inTx("Tx", "DB.BeginTx Tx.ExecContext Tx.Commit", func(w *writing, tx *sql.Tx) {
		w.done(tx.ExecContext(w.ctx, w.text(insertMark), w.id))
	}),
	{name: "Begin without a context", methods: "DB.Begin", process: true, write: func(w *writing) {
		tx, err := w.db.Begin() //nolint:noctx // the way that is tested
		w.ok(err)
		w.done(tx.ExecContext(context.Background(), w.text(insert)))
		w.ok(tx.Commit())
	}},
	{name: "Tx of which only a statement has the session", write: func(w *writing) {
		tx := w.begin(context.Background())
		w.execs(w.ctx, tx, insert)
		w.ok(tx.Commit())
	}},
	{name: "Tx of which only a read has the session", both: true, write: func(w *writing) {
		tx := w.begin(w.other)
		w.execs(w.other, tx, insert)
		w.scan(tx.QueryRowContext(w.ctx, w.text("SELECT id FROM {t} WHERE id = {id}")))
		w.ok(tx.Commit())
	}},
	{name: "Tx of two sessions", both: true, write: func(w *writing) {
		tx := w.begin(w.ctx)
		w.execs(w.other, tx, insert)
		w.ok(tx.Commit())
	}},
	inTx("Tx Exec without a context", "Tx.Exec", func(w *writing, tx *sql.Tx) {
		w.done(tx.Exec(w.text(insert))) //nolint:noctx // the way that is tested
	}),
	inTx("Tx Query", "Tx.QueryContext", func(w *writing, tx *sql.Tx) { w.drain(tx.QueryContext(w.ctx, w.text(give))) }),
	inTx("Tx Query without a context", "Tx.Query", func(w *writing, tx *sql.Tx) {
		w.drain(tx.Query(w.text(give))) //nolint:noctx // the way that is tested
	}),
	inTx("Tx QueryRow", "Tx.QueryRowContext", func(w *writing, tx *sql.Tx) { w.scan(tx.QueryRowContext(w.ctx, w.text(give))) }),
	inTx("Tx QueryRow without a context", "Tx.QueryRow", func(w *writing, tx *sql.Tx) {
		w.scan(tx.QueryRow(w.text(give))) //nolint:noctx // the way that is tested
	}),
	inTx("Tx Prepare", "Tx.PrepareContext", func(w *writing, tx *sql.Tx) {
		stmt, err := tx.PrepareContext(w.ctx, w.text(insertMark))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.ctx, w.id)) })
	}),
	inTx("Tx Prepare without a context", "Tx.Prepare", func(w *writing, tx *sql.Tx) {
		stmt, err := tx.Prepare(w.text(insertMark)) //nolint:noctx // the way that is tested
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.Exec(w.id)) })
	}),
	{name: "Tx Stmt", methods: "Tx.StmtContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(insertMark))
		w.prepared(stmt, err, func(s *sql.Stmt) {
			tx := w.begin(w.ctx)
			w.done(tx.StmtContext(w.ctx, s).ExecContext(w.ctx, w.id))
			w.ok(tx.Commit())
		})
	}},
	{name: "Tx Stmt without a context", methods: "Tx.Stmt", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(insertMark))
		w.prepared(stmt, err, func(s *sql.Stmt) {
			tx := w.begin(w.ctx)
			w.done(tx.Stmt(s).Exec(w.id)) //nolint:noctx // the way that is tested
			w.ok(tx.Commit())
		})
	}},
	inTx("Tx with a savepoint rolled back", "", func(w *writing, tx *sql.Tx) {
		w.execs(w.ctx, tx, insert, "SAVEPOINT s", "INSERT INTO {t}_other (id) VALUES (1)", "ROLLBACK TO s", "RELEASE SAVEPOINT s")
	}),
	inTx("Tx with a statement that fails", "", func(w *writing, tx *sql.Tx) {
		w.execs(w.ctx, tx, insert)
		_, err := tx.ExecContext(w.ctx, w.text("INSERT INTO {t}_old VALUES (0, 0)"))
		require.Error(w, err)
	}),
	inTx("Tx with a lock that is waited for in vain", "", func(w *writing, tx *sql.Tx) {
		other := w.begin(w.other)
		defer func() { w.ok(other.Rollback()) }()
		w.execs(w.other, other, "UPDATE {t}_old SET n = 1 WHERE id = 498")
		w.execs(w.ctx, tx, "SET innodb_lock_wait_timeout = 1", insert)
		_, err := tx.ExecContext(w.ctx, w.text("UPDATE {t}_old SET n = 2 WHERE id = 498"))
		requireNumber(w, err, 1205)
	}),
	rolledBack("Tx that a deadlock has ended", "Tx.Rollback", func(w *writing, tx *sql.Tx) {
		w.deadlock(w.ctx, tx)
		w.execs(w.ctx, tx, insert)
	}),
	{name: "Tx that a deadlock has ended, of another session", both: true, write: func(w *writing) {
		tx := w.begin(w.other)
		w.later(func() { _ = tx.Rollback() })
		w.deadlock(w.other, tx)
		w.execs(w.ctx, tx, insert)
	}},
	seen(rolledBack("Tx that is rolled back, rows of MyISAM", "", func(w *writing, tx *sql.Tx) {
		w.execs(w.ctx, tx, "INSERT INTO {t}_plain VALUES ({id})")
	}), inPlain),
	onlyMariaDB(seen(rolledBack("Tx that is rolled back, rows of Aria", "", func(w *writing, tx *sql.Tx) {
		w.execs(w.ctx, tx, insert, "INSERT INTO {t}_aria VALUES ({id})")
	}), inAria)),
	seen(way{name: "Tx that its context rolls back, rows of MyISAM", write: func(w *writing) {
		ctx, cancel := context.WithCancel(w.ctx)
		tx := w.begin(ctx)
		w.execs(w.ctx, tx, "INSERT INTO {t}_plain VALUES ({id})")
		cancel()
		for tx.Rollback() == nil { //nolint:revive // until it is rolled back
		}
		eventually(w, "it is rolled back", func() bool { return w.db.Stats().InUse == 0 })
	}}, inPlain),
	seen(rolledBack("Tx rolled back to a savepoint, rows of MyISAM", "", func(w *writing, tx *sql.Tx) {
		w.execs(w.ctx, tx, "SAVEPOINT s", "INSERT INTO {t}_plain VALUES ({id})", "ROLLBACK TO SAVEPOINT s")
	}), inPlain),
	{name: "Tx that text commits", write: func(w *writing) {
		tx := w.begin(w.ctx)
		w.execs(w.ctx, tx, insert, "COMMIT")
		_ = tx.Rollback() // there is nothing left to roll back
	}},
	{name: "Tx that text commits before another session writes", write: func(w *writing) {
		tx := w.begin(w.other)
		w.later(func() { _ = tx.Rollback() })
		w.execs(w.other, tx, "COMMIT")
		w.execs(w.ctx, tx, insert)
	}},
	{name: "Tx that text commits and chains", write: func(w *writing) {
		tx := w.begin(w.other)
		w.execs(w.other, tx, "COMMIT AND CHAIN")
		w.execs(w.ctx, tx, insert)
		w.settled(w.ctx)
		w.ok(tx.Commit())
	}},
	{name: "Tx with a CALL that leaves another transaction open", write: func(w *writing) {
		tx := w.begin(w.other)
		w.execs(w.ctx, tx, "CALL opens_{t}({id})")
		w.settled(w.ctx)
		w.ok(tx.Commit())
	}},
}

// deadlock makes tx the victim of one.
func (w *writing) deadlock(ctx context.Context, tx *sql.Tx) {
	w.Helper()
	heavy := w.begin(context.Background())
	defer func() { w.ok(heavy.Rollback()) }()
	w.execs(context.Background(), heavy, "INSERT INTO {t}_other (id) VALUES (1)"+strings.Repeat(", (1)", 50), "UPDATE {t}_old SET n = -1 WHERE id = 400")
	w.execs(ctx, tx, "UPDATE {t}_old SET n = -2 WHERE id = 499")
	waits := make(chan error, 1)
	go func() {
		_, err := heavy.ExecContext(context.Background(), w.text("UPDATE {t}_old SET n = -1 WHERE id = 499"))
		waits <- err
	}()
	var err error
	for err == nil { // the other one may not be waiting yet
		_, err = tx.ExecContext(ctx, w.text("UPDATE {t}_old SET n = -2 WHERE id = 400"))
	}
	requireNumber(w, err, 1213)
	w.ok(<-waits)
}

func requireNumber(w *writing, err error, number uint16) {
	w.Helper()
	var answer *mysql.MySQLError
	require.ErrorAs(w, err, &answer)
	require.Equal(w, number, answer.Number, "%v", err)
}

// twoSessions is a way on a connection of its own: before is run by nobody's session, then the session writes, and the other one
// runs what commits it.
func twoSessions(name string, before []string, commit ...string) way {
	return way{name: name, both: true, write: func(w *writing) {
		conn := w.conn()
		w.later(func() { _ = conn.Close() })
		w.execs(context.Background(), conn, before...)
		w.execs(w.ctx, conn, insert)
		w.settled(w.ctx)
		w.execs(w.other, conn, commit...)
	}}
}

var mysqlConnWays = []way{
	onConn("Conn Exec", "DB.Conn Conn.ExecContext Conn.Close", func(w *writing, c *sql.Conn) { w.execs(w.ctx, c, insert) }),
	{name: "Conn Exec while the Conn stays open", write: func(w *writing) {
		c := w.conn()
		w.later(func() { _ = c.Close() })
		w.execs(w.ctx, c, insert)
	}},
	onConn("Conn Query", "Conn.QueryContext", func(w *writing, c *sql.Conn) { w.drain(c.QueryContext(w.ctx, w.text(give))) }),
	onConn("Conn QueryRow", "Conn.QueryRowContext", func(w *writing, c *sql.Conn) { w.scan(c.QueryRowContext(w.ctx, w.text(give))) }),
	{name: "Conn Query, then a read while the Conn stays open", write: func(w *writing) {
		c := w.conn()
		w.later(func() { _ = c.Close() })
		w.scan(c.QueryRowContext(w.ctx, w.text(give)))
		w.scan(c.QueryRowContext(w.ctx, w.text("SELECT id FROM {t} WHERE id = {id}")))
	}},
	onConn("Conn Prepare", "Conn.PrepareContext", func(w *writing, c *sql.Conn) {
		stmt, err := c.PrepareContext(w.ctx, w.text(insertMark))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.ctx, w.id)) })
	}),
	onConn("Conn BeginTx", "Conn.BeginTx", func(w *writing, c *sql.Conn) {
		tx, err := c.BeginTx(w.ctx, nil)
		w.ok(err)
		w.execs(w.ctx, tx, insert)
		w.ok(tx.Commit())
	}),
	onConn("Conn BEGIN and COMMIT by text", "", func(w *writing, c *sql.Conn) { w.execs(w.ctx, c, "BEGIN", insert, "COMMIT") }),
	onConn("Conn BEGIN with the write in one text", "", func(w *writing, c *sql.Conn) { w.execs(w.ctx, c, "BEGIN; "+insert, "COMMIT") }),
	seen(onConn("Conn BEGIN and ROLLBACK by text, rows of MyISAM", "", func(w *writing, c *sql.Conn) {
		w.execs(w.ctx, c, "BEGIN", "INSERT INTO {t}_plain VALUES ({id})", "ROLLBACK")
	}), inPlain),
	seen(onConn("Conn closed in a transaction of text, rows of MyISAM", "", func(w *writing, c *sql.Conn) {
		w.execs(w.ctx, c, "BEGIN", "INSERT INTO {t}_plain VALUES ({id})")
	}), inPlain),
	onConn("Conn after SET", "", func(w *writing, c *sql.Conn) { w.execs(w.ctx, c, "SET @way = 1", insert) }),
	onConn("Conn with LOCK TABLES", "", func(w *writing, c *sql.Conn) { w.execs(w.ctx, c, "LOCK TABLES {t} WRITE", insert, "UNLOCK TABLES") }),
	onConn("Conn with HANDLER", "", func(w *writing, c *sql.Conn) { w.execs(w.ctx, c, "HANDLER {t} OPEN", insert, "HANDLER {t} CLOSE") }),
	onConn("Conn Raw", "Conn.Raw", func(w *writing, c *sql.Conn) { w.ok(w.raw(w.ctx, c, insert)) }),
}

// raw runs texts on the native connection that c has to the primary.
func (w *writing) raw(ctx context.Context, c *sql.Conn, patterns ...string) error {
	return c.Raw(func(v any) error {
		native, err := v.(readroute.Conn).Primary(ctx)
		if err != nil {
			return err
		}
		return w.nativeExec(patterns...)(native)
	})
}

// mysqlUntoldWays leave a transaction open that nothing tells of, and another session ends it.
func mysqlUntoldWays() []way {
	var list []way
	for _, off := range []string{
		"SET autocommit = 0", "set `AUTOCOMMIT` = off", "SET SESSION autocommit = 0", "SET LOCAL autocommit = 0", "SET @@autocommit = 0",
		"SET @@SESSION.autocommit = FALSE", "SET @@LOCAL.autocommit = 0", "SET @@autocommit := 'OFF'", "SET @way = 0; SET autocommit = @way",
		"SET sql_mode = '', SESSION autocommit = 1 - 1", "SET @way = 'SET autocommit = 0'; PREPARE s FROM @way; EXECUTE s",
		"CALL manual_{t}(0)",
	} {
		list = append(list, twoSessions(off, []string{off}, "COMMIT"))
	}
	for _, chain := range []string{
		"SET completion_type = 1", "SET completion_type = 'CHAIN'", "SET SESSION completion_type = CHAIN", "SET @@completion_type = 1",
	} {
		list = append(list, twoSessions(chain, []string{chain, "BEGIN", "COMMIT"}, "COMMIT"))
	}
	manual := func(name string, end func(*writing, *sql.Conn)) way {
		return way{name: "SET autocommit = 0, then " + name, both: true, write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.execs(w.ctx, conn, "SET autocommit = 0", insert)
			w.settled(w.ctx)
			end(w, conn)
		}}
	}
	return append(list,
		twoSessions("completion_type = 1, a rollback", []string{"SET completion_type = 1", "BEGIN", "ROLLBACK"}, "COMMIT"),
		twoSessions("completion_type = 2", []string{"SET completion_type = 2", "BEGIN"}, "COMMIT"),
		way{name: "completion_type = 1, after a Tx", both: true, write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.execs(w.other, conn, "SET completion_type = 1")
			tx, err := conn.BeginTx(w.other, nil)
			w.ok(err)
			w.ok(tx.Commit())
			w.execs(w.ctx, conn, insert)
			w.settled(w.ctx)
			w.execs(w.other, conn, "COMMIT")
		}},
		onlyMariaDB(twoSessions("SET STATEMENT completion_type", []string{"BEGIN", "SET STATEMENT completion_type = 1 FOR COMMIT"}, "COMMIT")),
		twoSessions("BEGIN by text", []string{"BEGIN"}, "COMMIT"),
		twoSessions("COMMIT AND CHAIN", []string{"BEGIN", "COMMIT AND CHAIN"}, "COMMIT"),
		twoSessions("XA in one phase", []string{"XA START '{t}{id}'"}, "XA END '{t}{id}'", "XA COMMIT '{t}{id}' ONE PHASE"),
		way{name: "XA in two phases", both: true, write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.execs(w.ctx, conn, "XA START '{t}{id}'", insert)
			w.execs(w.other, conn, "XA END '{t}{id}'", "XA PREPARE '{t}{id}'")
			w.settled(w.ctx)
			w.execs(w.other, conn, "XA COMMIT '{t}{id}'")
		}},
		way{name: "a routine that leaves a transaction open", both: true, write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.execs(w.ctx, conn, "CALL opens_{t}({id})")
			w.settled(w.ctx)
			w.execs(w.other, conn, "COMMIT")
		}},
		way{name: "a native connection that leaves a transaction open", both: true, write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.ok(w.raw(w.ctx, conn, "BEGIN", insert))
			w.execs(w.other, conn, "SELECT 1")
			w.settled(w.ctx)
			w.execs(w.other, conn, "COMMIT")
		}},
		way{name: "SET autocommit = 0, of which only a read has the session", both: true, write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.execs(w.other, conn, "SET autocommit = 0", insert)
			w.scan(conn.QueryRowContext(w.ctx, w.text("SELECT id FROM {t} WHERE id = {id}")))
			w.execs(w.other, conn, "COMMIT")
		}},
		manual("BeginTx", func(w *writing, c *sql.Conn) {
			tx, err := c.BeginTx(w.other, nil)
			w.ok(err)
			w.later(func() { _ = tx.Rollback() })
		}),
		manual("a prepared COMMIT", func(w *writing, c *sql.Conn) {
			stmt, err := c.PrepareContext(w.other, "COMMIT")
			w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.other)) })
		}),
		manual("a COMMIT through Query", func(w *writing, c *sql.Conn) { w.drainAll(c.QueryContext(w.other, "SELECT 1; COMMIT")) }),
		manual("a CALL through Query", func(w *writing, c *sql.Conn) { w.drainAll(c.QueryContext(w.other, w.text("CALL late_{t}(0)"))) }),
		manual("a native COMMIT", func(w *writing, c *sql.Conn) {
			w.ok(w.raw(w.other, c, "COMMIT"))
			w.execs(w.other, c, "SELECT 1")
		}),
		manual("a COMMIT in a text that fails", func(w *writing, c *sql.Conn) {
			_, err := c.ExecContext(w.other, "COMMIT; SELECT * FROM nowhere")
			require.Error(w, err)
		}),
		way{name: "BEGIN by text, then BeginTx", write: func(w *writing) {
			conn := w.conn()
			w.later(func() { _ = conn.Close() })
			w.execs(w.ctx, conn, "BEGIN", insert)
			w.settled(w.ctx)
			tx, err := conn.BeginTx(w.other, nil)
			w.ok(err)
			w.later(func() { _ = tx.Rollback() })
		}},
	)
}

// mysqlEnders are texts that commit what is open.
var mysqlEnders = []string{
	"COMMIT", "COMMIT AND CHAIN", "COMMIT RELEASE", "commit work", "BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY",
	"CREATE TABLE {t}_{id} (id INT)", "DROP TABLE IF EXISTS {t}_nowhere", "ALTER TABLE {t}_other COMMENT = '{id}'", "TRUNCATE {t}_other",
	"CREATE INDEX i{id} ON {t}_other (id)", "CREATE VIEW {t}_{id} AS SELECT 1", "DROP VIEW IF EXISTS {t}_nowhere",
	"CREATE PROCEDURE {t}_{id}() DO 1", "DROP FUNCTION IF EXISTS {t}_nowhere", "CREATE TRIGGER {t}_{id} BEFORE INSERT ON {t}_other FOR EACH ROW SET @way = 1",
	"LOCK TABLES {t}_other READ", "ANALYZE TABLE {t}_other", "OPTIMIZE TABLE {t}_other", "CHECK TABLE {t}_other", "REPAIR TABLE {t}_plain",
	"CALL commits_{t}()", "CALL prepare_{t}()", "SELECT 1; COMMIT", "PREPARE p FROM 'COMMIT'; EXECUTE p",
	"BEGIN; ROLLBACK",
}

// mysqlEndedWays end a transaction of one session by what another one runs in it.
func mysqlEndedWays() []way {
	var list []way
	for i, ender := range mysqlEnders {
		list = append(list, twoSessions("SET autocommit = 0, then "+ender, []string{"SET autocommit = 0"}, ender))
		list = append(list, twoSessions("BEGIN, then "+ender, []string{"BEGIN"}, ender))
		list = append(list, way{name: "Tx, then " + ender, both: true, write: func(w *writing) {
			tx := w.begin(context.Background())
			w.later(func() { _ = tx.Rollback() })
			w.execs(w.ctx, tx, insert)
			w.settled(w.ctx)
			if i%2 == 0 {
				w.execs(w.other, tx, ender)
			} else {
				w.drainAll(tx.QueryContext(w.other, w.text(ender)))
			}
		}})
	}
	for _, on := range []string{"SET autocommit = 1", "SET SESSION autocommit = ON", "SET @@autocommit = 1", "SET @@LOCAL.autocommit = TRUE"} {
		list = append(list, twoSessions("SET autocommit = 0, then "+on, []string{"SET autocommit = 0"}, on))
	}
	for _, failing := range []string{"CREATE TABLE {t} (id INT)", "CALL commits_{t}(); CALL fails_{t}(0)", "COMMIT; SELECT * FROM nowhere"} {
		list = append(list, way{name: "Tx, then, failing, " + failing, both: true, write: func(w *writing) {
			tx := w.begin(context.Background())
			w.later(func() { _ = tx.Rollback() })
			w.execs(w.ctx, tx, insert)
			w.settled(w.ctx)
			_, err := tx.ExecContext(w.other, w.text(failing))
			require.Error(w, err)
		}})
	}
	return list
}
