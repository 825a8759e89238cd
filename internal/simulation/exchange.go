package simulation

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// ask sends a statement and waits for its answer.
func (k *conn) ask(ctx context.Context, st statement) (*answer, error) {
	if k.dead() {
		k.shut()
		return nil, driver.ErrBadConn
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := k.net.c
	c.mu.Lock()
	out, back, lost := k.latency(st.op, outward), k.latency(st.op, backward), k.chance(st.op, isLost, k.net.loses)
	early := k.chance(st.op, half, 0.5)
	if c.late > 0 && k.changes(&st) {
		lost, early = true, true
	}
	k.pend(1)
	c.mu.Unlock()
	err := k.travel(ctx, out)
	var a *answer
	var refused error
	if err == nil && lost && early {
		err = errCut // the question is still on its way, and may arrive
	}
	if err == nil {
		a, refused, err = k.reach(ctx, &st)
	}
	if err != nil {
		k.abandon(st)
		return nil, err
	}
	c.mu.Lock()
	k.pend(-1)
	back += k.hold
	k.hold = 0
	c.mu.Unlock()
	if lost {
		err = errCut
	} else {
		err = k.travel(ctx, back)
	}
	if err != nil {
		k.shut()
		return nil, k.why(err)
	}
	if c.fatal(refused) {
		k.shut()
	}
	return a, refused
}

// why is the server's last word, when it has had one.
func (k *conn) why(err error) error {
	k.net.c.mu.Lock()
	defer k.net.c.mu.Unlock()
	if k.session != nil && k.session.word != nil && errors.Is(err, errCut) {
		return k.session.word
	}
	return err
}

// pend counts what the session has to do. cluster.mu is held.
func (k *conn) pend(n int) {
	if k.session != nil {
		k.session.pending += n
		k.session.done()
	}
}

// reach runs a statement on its server, once that answers. refused is what the server says, and err that it was not reached.
func (k *conn) reach(ctx context.Context, st *statement) (a *answer, refused, err error) {
	for {
		c := k.net.c
		c.mu.Lock()
		s := k.at()
		switch {
		case k.severed:
			c.mu.Unlock()
			return nil, nil, errCut
		case s == nil:
			c.mu.Unlock()
			return nil, c.noServer(), nil
		case !s.frozen:
			a, refused = k.run(s, st)
			c.mu.Unlock()
			return a, refused, nil
		}
		thawed := s.thawed
		c.mu.Unlock()
		if err := k.await(ctx, thawed); err != nil {
			return nil, nil, err
		}
	}
}

// at is the server that runs the next statement; nil when there is none. cluster.mu is held.
func (k *conn) at() *server {
	if !k.net.to.pooled || k.tx != nil {
		return k.s
	}
	k.s = nil
	for _, s := range k.net.to.targets {
		if s.running {
			k.s = s
		}
	}
	return k.s
}

// abandon gives a connection up of which a statement is on its way. What it changes may be done all the same, and later.
func (k *conn) abandon(st statement) {
	c := k.net.c
	c.mu.Lock()
	changes, delay := k.changes(&st), k.between(st.op, delayed, 0, 300*time.Millisecond)
	if changes && c.late > 0 {
		delay, c.late = c.late, 0
	} else if !changes || k.chance(st.op, arrives, 0.4) {
		k.pend(-1)
		changes = false
	}
	c.mu.Unlock()
	k.shut()
	if changes {
		time.AfterFunc(delay, func() { k.arrive(st) })
	}
}

// arrive runs a statement that nobody waits for any more.
func (k *conn) arrive(st statement) {
	c := k.net.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s := k.s
	if s == nil || !s.running || k.session != nil && k.session.killed {
		return
	}
	if s.frozen || k.net.hole {
		time.AfterFunc(k.between(st.op, again, time.Millisecond, 50*time.Millisecond), func() { k.arrive(st) })
		return
	}
	st.returns = nil
	_, _ = k.run(s, &st) // nobody hears of it
	k.pend(-1)
}

// handOut commits a write that has handed out its row, a moment later.
func (k *conn) handOut(s *server, st statement) {
	c := k.net.c
	k.pend(1)
	x := k.session
	var end func()
	end = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case x != nil && x.killed || !s.running || !s.writes():
			st.returns <- errCut
		case s.frozen:
			time.AfterFunc(k.between(st.op, again, time.Millisecond, 20*time.Millisecond), end)
			return
		default:
			hold := c.commit(s, []write{{st.key, st.version, st.op}})
			time.AfterFunc(hold, func() { st.returns <- nil })
		}
		k.pend(-1)
	}
	time.AfterFunc(k.between(st.op, commits, 100*time.Microsecond, 5*time.Millisecond), end)
}

// run runs a statement. cluster.mu is held.
func (k *conn) run(s *server, st *statement) (*answer, error) {
	c := k.net.c
	s.advance(time.Now())
	if k.tx != nil && k.tx.failed && st.kind != commit && st.kind != rollback {
		return nil, c.aborted()
	}
	switch st.kind {
	case nothing:
		return one("1"), nil
	case selectKey:
		return k.read(s, st)
	case insert:
		return k.insert(s, st)
	case begin:
		k.tx = &transaction{readOnly: st.readOnly}
	case commit:
		return k.commit(s)
	case rollback:
		k.tx = nil
	case question:
		return c.question(k, s, st.text)
	}
	return &answer{}, nil
}

func (k *conn) read(s *server, st *statement) (*answer, error) {
	c := k.net.c
	k.ran(st, s, false)
	if !s.primary && !k.readOnly {
		c.unguarded++
	}
	if !s.primary && k.chance(st.op, conflicts, c.conflicts) {
		err := c.conflict(int(k.draw(st.op, conflicts) % 3))
		k.fail(err)
		return nil, err
	}
	at, more := s.at, s.more
	if k.tx != nil && c.engine != Postgres {
		if k.tx.snapshot == nil {
			k.tx.snapshot, k.tx.more = &at, more
		}
		at, more = *k.tx.snapshot, k.tx.more
	}
	a := &answer{columns: []string{"v"}}
	for _, v := range s.shows(st.key, at, more) {
		a.rows = append(a.rows, []string{text(v)})
	}
	if k.tx != nil {
		for _, w := range k.tx.writes {
			if w.key == st.key {
				a.rows = append(a.rows, []string{text(w.version)})
			}
		}
	}
	return a, nil
}

// fail makes a transaction that had an error refuse everything, as PostgreSQL's do.
func (k *conn) fail(err error) {
	if k.tx != nil && err != nil && k.net.c.engine == Postgres {
		k.tx.failed = true
	}
}

func (k *conn) insert(s *server, st *statement) (*answer, error) {
	c := k.net.c
	if !s.writes() || k.readOnly || k.tx != nil && k.tx.readOnly {
		k.ran(st, s, false)
		err := c.readOnly(!s.writes())
		k.fail(err)
		return nil, err
	}
	k.ran(st, s, true)
	switch w := (write{st.key, st.version, st.op}); {
	case k.tx != nil:
		k.tx.writes = append(k.tx.writes, w)
	case st.returns != nil:
		k.handOut(s, *st)
	default:
		k.hold = c.commit(s, []write{w})
	}
	return one(text(st.version)), nil
}

func (k *conn) commit(s *server) (*answer, error) {
	t := k.tx
	k.tx = nil
	switch {
	case t == nil || t.readOnly:
	case t.failed:
		return nil, k.net.c.rolledBack()
	case len(t.writes) > 0:
		if !s.writes() {
			return nil, k.net.c.readOnly(true)
		}
		k.hold = k.net.c.commit(s, t.writes)
	}
	return &answer{}, nil
}

// writes reports that a server takes writes.
func (s *server) writes() bool { return s.primary && !s.fenced }
