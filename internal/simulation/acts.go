package simulation

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/check"
)

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// begins begins a write to some key.
func (u *user) begins(ctx context.Context, statements int, limit ...time.Duration) (b begun, key, version int) {
	key, version = u.w.write()
	u.remember(key)
	return u.operation(ctx, check.Op{Kind: check.Write, Key: key, Version: version, Statements: statements}, limit...), key, version
}

// write writes in a statement of its own.
func (u *user) write() {
	b, key, version := u.begins(u.ctx, 1)
	_, err := u.db.ExecContext(b.ctx, u.w.texts.insert, key, version)
	u.done(b, outcome(err), err)
}

// transaction writes and reads in a transaction: what its reads must show is settled when that begins. Its statements end with it at the latest: database/sql waits for them under a
// lock when it rolls back, and a bubble's time stands still while somebody waits for a lock.
func (u *user) transaction() {
	ctx, o := u.level(u.ctx)
	all := u.operation(ctx, check.Op{Kind: check.Other, Statements: 1})
	defer all.end()
	o.Asked = u.w.Record.Now()
	tx, err := u.db.BeginTx(all.ctx, nil)
	u.w.Record.End(all.id, outcome(err), err)
	if err != nil {
		return
	}
	var open []begun
	var mine []int
	for range 1 + u.rng.IntN(3) {
		if u.rng.IntN(3) == 0 {
			u.readBy(all.ctx, tx, o, mine...)
			continue
		}
		b, key, version := u.begins(all.ctx, 1, limits[len(limits)-1]) // its end is that of the transaction
		mine = append(mine, version)
		if _, err = tx.ExecContext(b.ctx, u.w.texts.insert, key, version); err != nil {
			u.done(b, outcome(err), err)
			break
		}
		open = append(open, b)
	}
	if err != nil || u.rng.IntN(8) == 0 {
		_ = tx.Rollback() // whatever it says, nothing was committed
		err = sql.ErrTxDone
	} else {
		err = tx.Commit()
	}
	for _, b := range open {
		u.done(b, outcome(err), err)
	}
}

// readOnly reads in a read-only transaction: what it must show is settled when that begins.
func (u *user) readOnly() {
	ctx, o := u.level(u.ctx)
	all := u.operation(ctx, check.Op{Kind: check.Other, Statements: 1})
	defer all.end()
	o.Asked = u.w.Record.Now()
	tx, err := u.db.BeginTx(all.ctx, &sql.TxOptions{ReadOnly: true})
	u.w.Record.End(all.id, outcome(err), err)
	if err != nil {
		return
	}
	for range 1 + u.rng.IntN(3) {
		u.readBy(all.ctx, tx, o)
	}
	_ = tx.Commit() // nothing hangs on it
}

// conn does several things on one connection.
func (u *user) conn() {
	conn, err := u.db.Conn(u.ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	byText := u.rng.IntN(3) == 0
	if byText && !u.byText(conn) {
		return
	}
	for range 1 + u.rng.IntN(3) {
		if u.rng.IntN(3) == 0 {
			b, key, version := u.begins(u.ctx, 1)
			_, err := conn.ExecContext(b.ctx, u.w.texts.insert, key, version)
			u.done(b, outcome(err), err)
			continue
		}
		ctx, o := u.level(u.ctx)
		u.readBy(ctx, conn, o)
	}
}

// byText writes in a transaction that is begun and ended by text. It reports whether that is over: what is written after a ROLLBACK
// that has not run is acknowledged, and is still in it.
func (u *user) byText(conn execer) (over bool) {
	b, key, version := u.begins(u.ctx, 0)
	_, err := conn.ExecContext(b.ctx, "BEGIN")
	if err == nil {
		_, err = conn.ExecContext(b.ctx, u.w.texts.insert, key, version)
	}
	if err == nil {
		_, err = conn.ExecContext(b.ctx, "COMMIT")
	}
	u.done(b, outcome(err), err)
	if err != nil {
		ctx, cancel := context.WithTimeout(u.ctx, limits[len(limits)-1]) // the time of the write may be over, and be why
		defer cancel()
		_, err = conn.ExecContext(ctx, "ROLLBACK")
	}
	return err == nil
}

// prepared uses statements that are prepared, more than once.
func (u *user) prepared() {
	insert := u.prepare(u.w.texts.insert)
	if insert == nil {
		return
	}
	defer insert.Close()
	read := u.prepare(u.w.texts.read)
	if read == nil {
		return
	}
	defer read.Close()
	for range 1 + u.rng.IntN(2) {
		b, key, version := u.begins(u.ctx, 1)
		_, err := insert.ExecContext(b.ctx, key, version)
		u.done(b, outcome(err), err)
		o := u.operation(u.ctx, check.Op{Kind: check.Read, Level: check.Session, Key: key, Statements: 1})
		saw, err := values(read.QueryContext(o.ctx, key))
		u.done(o, outcome(err), err, saw...)
	}
}

func (u *user) prepare(text string) *sql.Stmt {
	b := u.operation(u.ctx, check.Op{Kind: check.Other})
	st, err := u.db.PrepareContext(b.ctx, text)
	u.done(b, outcome(err), err)
	if err != nil {
		return nil
	}
	return st
}

// returning writes with a statement that hands out rows.
func (u *user) returning() {
	if u.w.texts.returning == "" {
		u.write()
		return
	}
	b, key, version := u.begins(u.ctx, 1)
	rows, err := u.db.QueryContext(b.ctx, u.w.texts.returning, key, version)
	if err != nil {
		u.done(b, outcome(err), err)
		return
	}
	if _, err = values(rows, nil); err != nil {
		u.done(b, check.Unknown, err) // the rows are the driver's own, and so is what they say
		return
	}
	u.done(b, check.OK, nil)
}

// native writes on the driver's own connection.
func (u *user) native() {
	b, key, version := u.begins(u.ctx, 1)
	reached := false
	err := u.db.PrimaryRaw(b.ctx, func(conn any) error {
		reached = true
		return executeNative(b.ctx, conn, u.w.texts.insert, key, version)
	})
	if err != nil && reached {
		u.done(b, check.Unknown, err) // the driver's own word
		return
	}
	u.done(b, outcome(err), err)
}

// executeNative runs a statement on a driver's connection, as database/sql would.
func executeNative(ctx context.Context, conn any, text string, numbers ...int) error {
	var args []driver.NamedValue
	for i, n := range numbers {
		args = append(args, driver.NamedValue{Ordinal: i + 1, Value: int64(n)})
	}
	if native, ok := conn.(driver.ExecerContext); ok {
		if _, err := native.ExecContext(ctx, text, args); !errors.Is(err, driver.ErrSkip) {
			return err
		}
	}
	prepared, err := conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	_, err = prepared.(driver.StmtExecContext).ExecContext(ctx, args)
	return errors.Join(err, prepared.Close())
}

// token leaves a token for others.
func (u *user) token() {
	b := u.operation(u.ctx, check.Op{Kind: check.Token})
	token, _ := readroute.SessionFrom(u.ctx).Token(b.ctx) // it is safe whatever the error says
	parsed, err := readroute.ParseToken(token.String())
	if err != nil {
		panic(fmt.Sprintf("simulation: a token that cannot be read: %v: %+v", err, token))
	}
	u.done(b, check.OK, nil)
	u.w.leave(letter{parsed, b.id})
}

// merge takes in a token that another has left.
func (u *user) merge() {
	l, ok := u.w.letter()
	if !ok {
		return
	}
	b := u.operation(u.ctx, check.Op{Kind: check.Merge, From: l.op})
	readroute.SessionFrom(u.ctx).Merge(l.token)
	u.done(b, check.OK, nil)
}

// fence makes the session need all that there is.
func (u *user) fence() {
	b := u.operation(u.ctx, check.Op{Kind: check.Fence})
	err := u.db.Fence(b.ctx)
	u.done(b, outcome(err), err)
}
