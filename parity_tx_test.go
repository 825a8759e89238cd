package readroute_test

import (
	"database/sql"
	"testing"
)

func TestParityTransactions(t *testing.T) {
	compareParity(t, parityScript{name: "Options", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		p.exec(p.db, "INSERT INTO t VALUES (1)")
		for level := sql.LevelDefault; level <= sql.LevelLinearizable+1; level++ {
			for _, readOnly := range []bool{false, true} {
				tx, err := p.db.BeginTx(p.ctx, &sql.TxOptions{Isolation: level, ReadOnly: readOnly})
				p.note("begin %v %t: %s", level, readOnly, errorText(err))
				if err != nil {
					continue
				}
				p.query(tx, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')")
				p.query(tx, "SELECT id FROM t")
				p.note("rollback: %s", errorText(tx.Rollback()))
				p.note("again: %s %s", errorText(tx.Rollback()), errorText(tx.Commit()))
				_, err = tx.ExecContext(p.ctx, "SELECT 1")
				p.note("after: %s", errorText(err))
			}
		}
		tx, err := p.db.BeginTx(p.ctx, &sql.TxOptions{ReadOnly: true})
		p.must(err)
		_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (2)")
		p.note("write in a read-only transaction: %s", errorText(err))
		p.query(tx, "SELECT 1")
		p.must(tx.Rollback())
		p.query(p.db, "SELECT id FROM t")
	}}, parityScript{name: "Failed", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (1, 1)")
		p.query(tx, "SELECT 1/0")
		p.query(tx, "SELECT 1")
		p.exec(tx, "INSERT INTO t VALUES (2, 2)")
		p.note("commit of a failed transaction: %s", errorText(tx.Commit()))
		tx, err = p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (1, 1), (2, 1)")
		p.note("commit of a deferred violation: %s", errorText(tx.Commit()))
		tx, err = p.db.BeginTx(p.ctx, nil)
		p.must(err)
		p.exec(tx, "INSERT INTO t VALUES (3, 3)")
		p.exec(tx, "SAVEPOINT s")
		p.exec(tx, "INSERT INTO t VALUES (3, 4)")
		p.exec(tx, "ROLLBACK TO s")
		p.exec(tx, "CREATE TABLE t2 (id int)")
		p.exec(tx, "SET LOCAL statement_timeout = '1min'")
		p.query(tx, "SHOW statement_timeout")
		p.note("commit: %s", errorText(tx.Commit()))
		p.exec(p.db, "INSERT INTO t2 VALUES (1)")
		p.note("in use: %d", p.db.Stats().InUse)
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		for _, statement := range []string{"COMMIT", "ROLLBACK", "BEGIN", "BEGIN", "INSERT INTO t VALUES (5, 5)", "COMMIT", "BEGIN", "SELECT 1/0", "COMMIT"} {
			p.exec(conn, statement)
		}
		p.query(conn, "SELECT id FROM t ORDER BY id")
		p.note("close: %s", errorText(conn.Close()))
	}}, parityScript{name: "Nested", replica: true, run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id int)")
		tx, err := p.db.BeginTx(p.ctx, nil)
		p.must(err)
		rows, err := tx.QueryContext(p.ctx, "SELECT generate_series(1, 3)")
		p.must(err)
		for rows.Next() {
			_, err = tx.ExecContext(p.ctx, "INSERT INTO t VALUES (1)")
			p.note("exec with rows open: %s", errorText(err))
			p.note("query with rows open: %s", errorText(tx.QueryRowContext(p.ctx, "SELECT 1").Scan(new(int))))
			_, err = tx.PrepareContext(p.ctx, "SELECT 1")
			p.note("prepare with rows open: %s", errorText(err))
			p.note("on another connection: %s", errorText(p.db.QueryRowContext(p.ctx, "SELECT count(*) FROM t").Scan(new(int))))
		}
		p.note("%s %s", errorText(rows.Err()), errorText(rows.Close()))
		p.exec(tx, "INSERT INTO t VALUES (1)")
		rows, err = tx.QueryContext(p.ctx, "SELECT generate_series(1, 3)")
		p.must(err)
		p.note("next: %t", rows.Next())
		p.note("commit with rows open: %s", errorText(tx.Commit()))
		p.note("rows: %t %s", rows.Next(), errorText(rows.Err()))
		p.exec(p.db, "INSERT INTO t VALUES (1)")
	}}, parityScript{name: "LikeOneConnection", run: func(p *parity) {
		p.exec(p.db, "CREATE TABLE t (id serial, v text)")
		for _, q := range []execer{p.db, preparing{p.db}} {
			p.query(q, "INSERT INTO t (v) VALUES ('a'), ('b'), ('c') RETURNING id, v")
			var id int
			p.note("returning: %s %d", errorText(p.db.QueryRowContext(p.ctx, "INSERT INTO t (v) VALUES ('d'), ('e') RETURNING id").Scan(&id)), id)
			rows, err := q.QueryContext(p.ctx, "INSERT INTO t (v) SELECT 'f' FROM generate_series(1, 100) RETURNING id")
			p.must(err)
			p.note("%t %s", rows.Next(), errorText(rows.Close()))
			p.query(q, "WITH x AS (DELETE FROM t WHERE v = 'b' RETURNING id) SELECT count(*) FROM x")
		}
		conn, err := p.db.Conn(p.ctx)
		p.must(err)
		p.exec(conn, "SET statement_timeout = '2min'")
		p.exec(conn, "CREATE TEMP TABLE mine (id int)")
		p.exec(conn, "INSERT INTO mine VALUES (1)")
		p.query(conn, "SELECT id FROM mine")
		p.query(conn, "SELECT current_setting('statement_timeout'), pg_try_advisory_lock(hashtext(current_setting('application_name')))")
		p.exec(conn, "PREPARE mine AS SELECT 1")
		p.query(conn, "EXECUTE mine")
		p.query(conn, "INSERT INTO t (v) VALUES ('x') RETURNING currval('t_id_seq') - id")
		p.exec(conn, "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 3)")
		p.query(conn, "FETCH 2 FROM c")
		p.note("close: %s %s", errorText(conn.Close()), errorText(conn.Close()))
		_, err = conn.ExecContext(p.ctx, "SELECT 1")
		p.note("after: %s", errorText(err))
		p.note("raw after: %s", errorText(conn.Raw(func(any) error { return nil })))
	}})
}
