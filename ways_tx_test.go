package readroute_test

import (
	"context"
	"database/sql"

	"github.com/readroute/readroute"
)

// inTx is a way that uses a transaction of the writing session.
func inTx(name, methods string, use func(*writing, *sql.Tx)) way {
	return way{name: name, methods: methods, write: func(w *writing) {
		tx := w.begin(w.ctx)
		use(w, tx)
		w.ok(tx.Commit())
	}}
}

// onConn is a way that uses a connection of its own.
func onConn(name, methods string, use func(*writing, *sql.Conn)) way {
	return way{name: name, methods: methods, write: func(w *writing) {
		conn := w.conn()
		use(w, conn)
		w.ok(conn.Close())
	}}
}

var txWays = []way{
	inTx("Tx", "DB.BeginTx Tx.ExecContext Tx.Commit", func(w *writing, tx *sql.Tx) {
		w.done(tx.ExecContext(w.ctx, w.text(insertArg), w.id))
	}),
	{name: "Begin without a context", methods: "DB.Begin", process: true, write: func(w *writing) {
		tx, err := w.db.Begin() //nolint:noctx // the way that is tested
		w.ok(err)
		w.done(tx.ExecContext(context.Background(), w.text(insert)))
		w.ok(tx.Commit())
	}},
	{name: "Tx of which only a statement has the session", write: func(w *writing) {
		tx := w.begin(context.Background())
		w.done(tx.ExecContext(w.ctx, w.text(insert)))
		w.ok(tx.Commit())
	}},
	{name: "Tx of which only a read has the session", both: true, write: func(w *writing) {
		tx := w.begin(w.other)
		w.done(tx.ExecContext(w.other, w.text(insert)))
		w.scan(tx.QueryRowContext(w.ctx, w.text("SELECT id FROM {t} WHERE id = {id}")))
		w.ok(tx.Commit())
	}},
	{name: "Tx of two sessions", both: true, write: func(w *writing) {
		tx := w.begin(w.ctx)
		w.done(tx.ExecContext(w.other, w.text(insert)))
		w.ok(tx.Commit())
	}},
	inTx("Tx Exec without a context", "Tx.Exec", func(w *writing, tx *sql.Tx) {
		w.done(tx.Exec(w.text(insert))) //nolint:noctx // the way that is tested
	}),
	inTx("Tx Query", "Tx.QueryContext", func(w *writing, tx *sql.Tx) {
		w.drain(tx.QueryContext(w.ctx, w.text(returning)))
	}),
	inTx("Tx Query without a context", "Tx.Query", func(w *writing, tx *sql.Tx) {
		w.drain(tx.Query(w.text(returning))) //nolint:noctx // the way that is tested
	}),
	inTx("Tx QueryRow", "Tx.QueryRowContext", func(w *writing, tx *sql.Tx) {
		w.scan(tx.QueryRowContext(w.ctx, w.text(returning)))
	}),
	inTx("Tx QueryRow without a context", "Tx.QueryRow", func(w *writing, tx *sql.Tx) {
		w.scan(tx.QueryRow(w.text(returning))) //nolint:noctx // the way that is tested
	}),
	inTx("Tx Prepare", "Tx.PrepareContext", func(w *writing, tx *sql.Tx) {
		stmt, err := tx.PrepareContext(w.ctx, w.text(insertArg))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.ctx, w.id)) })
	}),
	inTx("Tx Prepare without a context", "Tx.Prepare", func(w *writing, tx *sql.Tx) {
		stmt, err := tx.Prepare(w.text(insertArg)) //nolint:noctx // the way that is tested
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.Exec(w.id)) })
	}),
	{name: "Tx Stmt", methods: "Tx.StmtContext", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(insertArg))
		w.prepared(stmt, err, func(s *sql.Stmt) {
			tx := w.begin(w.ctx)
			w.done(tx.StmtContext(w.ctx, s).ExecContext(w.ctx, w.id))
			w.ok(tx.Commit())
		})
	}},
	{name: "Tx Stmt without a context", methods: "Tx.Stmt", write: func(w *writing) {
		stmt, err := w.db.PrepareContext(w.ctx, w.text(insertArg))
		w.prepared(stmt, err, func(s *sql.Stmt) {
			tx := w.begin(w.ctx)
			w.done(tx.Stmt(s).Exec(w.id)) //nolint:noctx // the way that is tested
			w.ok(tx.Commit())
		})
	}},
	inTx("Tx with a function", "", func(w *writing, tx *sql.Tx) {
		w.drain(tx.QueryContext(w.ctx, w.text("SELECT add_{t}({id})")))
	}),
	inTx("Tx with a savepoint rolled back", "", func(w *writing, tx *sql.Tx) {
		w.done(tx.ExecContext(w.ctx, w.text(insert)))
		w.done(tx.ExecContext(w.ctx, "SAVEPOINT s"))
		_, err := tx.ExecContext(w.ctx, "SELECT 1/0")
		if err == nil {
			w.Fatal("a division by zero succeeded")
		}
		w.done(tx.ExecContext(w.ctx, "ROLLBACK TO SAVEPOINT s"))
	}),
	{name: "Tx that text commits", write: func(w *writing) {
		tx := w.begin(w.ctx)
		w.done(tx.ExecContext(w.ctx, w.text(insert)))
		w.done(tx.ExecContext(w.ctx, "COMMIT"))
		_ = tx.Rollback() // there is nothing left to roll back
	}},
}

var connWays = []way{
	onConn("Conn Exec", "DB.Conn Conn.ExecContext Conn.Close", func(w *writing, c *sql.Conn) {
		w.done(c.ExecContext(w.ctx, w.text(insert)))
	}),
	{name: "Conn Exec while the Conn stays open", write: func(w *writing) {
		c := w.conn()
		w.Cleanup(func() { _ = c.Close() })
		w.done(c.ExecContext(w.ctx, w.text(insert)))
	}},
	onConn("Conn Query", "Conn.QueryContext", func(w *writing, c *sql.Conn) {
		w.drain(c.QueryContext(w.ctx, w.text(returning)))
	}),
	onConn("Conn QueryRow", "Conn.QueryRowContext", func(w *writing, c *sql.Conn) {
		w.scan(c.QueryRowContext(w.ctx, w.text(returning)))
	}),
	{name: "Conn Query, then a read while the Conn stays open", write: func(w *writing) {
		c := w.conn()
		w.Cleanup(func() { _ = c.Close() })
		w.scan(c.QueryRowContext(w.ctx, w.text(returning)))
		w.scan(c.QueryRowContext(w.ctx, w.text("SELECT id FROM {t} WHERE id = {id}")))
	}},
	onConn("Conn Prepare", "Conn.PrepareContext", func(w *writing, c *sql.Conn) {
		stmt, err := c.PrepareContext(w.ctx, w.text(insertArg))
		w.prepared(stmt, err, func(s *sql.Stmt) { w.done(s.ExecContext(w.ctx, w.id)) })
	}),
	onConn("Conn BeginTx", "Conn.BeginTx", func(w *writing, c *sql.Conn) {
		tx, err := c.BeginTx(w.ctx, nil)
		w.ok(err)
		w.done(tx.ExecContext(w.ctx, w.text(insert)))
		w.ok(tx.Commit())
	}),
	onConn("Conn BEGIN and COMMIT by text", "", func(w *writing, c *sql.Conn) {
		w.done(c.ExecContext(w.ctx, "BEGIN"))
		w.done(c.ExecContext(w.ctx, w.text(insert)))
		w.done(c.ExecContext(w.ctx, "COMMIT"))
	}),
	{name: "Conn BEGIN, one session writes, another one commits", both: true, write: func(w *writing) {
		c := w.conn()
		w.done(c.ExecContext(context.Background(), "BEGIN"))
		w.done(c.ExecContext(w.ctx, w.text(insert)))
		w.done(c.ExecContext(w.other, "COMMIT"))
		w.ok(c.Close())
	}},
	onConn("Conn BEGIN with the write in one text", "", func(w *writing, c *sql.Conn) {
		w.done(c.ExecContext(w.ctx, w.text("BEGIN; "+insert)))
		w.done(c.ExecContext(w.ctx, "END"))
	}),
	onConn("Conn after SET", "", func(w *writing, c *sql.Conn) {
		w.done(c.ExecContext(w.ctx, "SET application_name = 'way'"))
		w.done(c.ExecContext(w.ctx, w.text(insert)))
	}),
	onConn("Conn Raw", "Conn.Raw", func(w *writing, c *sql.Conn) {
		w.ok(c.Raw(func(v any) error {
			native, err := v.(readroute.Conn).Primary(w.ctx)
			if err != nil {
				return err
			}
			return w.copyRow(native)
		}))
	}),
}
