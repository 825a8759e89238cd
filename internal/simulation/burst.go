package simulation

import (
	"context"
	"database/sql"
	"time"

	"github.com/readroute/readroute/internal/check"
)

// bursts are how long many reads in a row may take together. A read that its caller gives up costs its connection, and reads that are
// given up because a machine has too much to do cost it more than those that go on.
var bursts = []time.Duration{300 * time.Millisecond, 2 * time.Second, 5 * time.Second}

// look does one thing of a user who only reads.
func (u *user) look() {
	switch n := u.rng.IntN(20); {
	case n < 13:
		u.burst()
	case n < 16:
		u.read()
	case n < 17:
		u.readOnly()
	case n < 18:
		u.token()
	default:
		u.merge()
	}
}

// burst reads again and again, in one of the ways that there are.
func (u *user) burst() {
	ctx, o := u.level(u.ctx)
	ctx, cancel := context.WithTimeout(ctx, bursts[u.rng.IntN(len(bursts))])
	defer cancel()
	switch u.rng.IntN(8) {
	case 0:
		u.burstInTx(ctx, o)
	case 1:
		conn, err := u.db.Conn(ctx)
		if err != nil {
			return
		}
		defer conn.Close()
		u.burstBy(ctx, conn, o)
	case 2, 3, 4:
		if st := u.prepare(u.w.texts.read); st != nil {
			defer st.Close()
			u.burstBy(ctx, preparedRead{st}, o)
		}
	default:
		u.burstBy(ctx, u.db, o)
	}
}

// burstInTx does so in a read-only transaction: what its reads must show is settled when that begins.
func (u *user) burstInTx(ctx context.Context, o check.Op) {
	all := u.operation(ctx, check.Op{Kind: check.Other, Statements: 1})
	defer all.end()
	o.Asked = u.w.Record.Now()
	tx, err := u.db.BeginTx(all.ctx, &sql.TxOptions{ReadOnly: true})
	u.w.Record.End(all.id, outcome(err), err)
	if err != nil {
		return
	}
	u.burstBy(all.ctx, tx, o)
	_ = tx.Commit() // nothing hangs on it
}

// burstBy reads until one read fails.
func (u *user) burstBy(ctx context.Context, db queryer, o check.Op) {
	deadline, _ := ctx.Deadline()
	o.Kind, o.Session, o.Statements = check.Read, u.session, 1
	for range 1 + u.rng.IntN(u.w.Burst) {
		o.Key, o.Limit = u.key(), time.Until(deadline)+u.w.Grace
		u.remember(o.Key)
		u.w.begun.Add(1)
		id := u.w.Record.Begin(o)
		saw, err := values(db.QueryContext(check.NewContext(ctx, id), u.w.texts.read, o.Key))
		u.w.Record.End(id, outcome(err), err, saw...)
		if err != nil {
			return
		}
	}
}

// preparedRead is a prepared statement where a pool is expected.
type preparedRead struct{ *sql.Stmt }

// QueryContext runs the statement, whatever the text.
func (s preparedRead) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return s.Stmt.QueryContext(ctx, args...)
}
