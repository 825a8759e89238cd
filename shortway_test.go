package readroute_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/fakedb"
)

// TestShortWayEndsLikeTheLongOne: a statement whose text its virtual connection has just had takes a short way. Whatever goes wrong on
// it, its caller, the servers, the counts and the session are told what the long way would have told them.
func TestShortWayEndsLikeTheLongOne(t *testing.T) {
	const (
		read  = "SELECT n FROM t WHERE id = $1"
		write = "UPDATE t SET n = 0 WHERE id = $1"
	)
	conflict := &pgconn.PgError{Severity: "ERROR", Code: "40001", Message: "conflict with recovery"}
	twice := &pgconn.PgError{Severity: "ERROR", Code: "23505", Message: "there is one already"}
	for name, c := range map[string]struct {
		query, argument string
		wrong           []error // of the statements of that text, one after the other
		unprepared      []error // of their preparation
		broken          bool    // the first of them that is no ErrSkip leaves its connection broken
		runs            []string
		err             string
		unknown         bool // the error says so
		clean           bool // the session needs nothing after it
	}{
		"a read":  {query: read, runs: []string{"b +1"}, clean: true},
		"a write": {query: write, runs: []string{"a +1"}},
		"a read on a dead connection": {
			query: read, wrong: []error{driver.ErrBadConn}, broken: true, runs: []string{"b +1", "b +1"}, clean: true,
		},
		"a write on a dead connection": {
			query: write, wrong: []error{driver.ErrBadConn}, runs: []string{"a +1", "a +1"},
		},
		"a read that replay has ended": {
			query: read, wrong: []error{conflict}, runs: []string{"b +1", "a +1"}, clean: true,
		},
		"a read that is wrong": {
			query: read, wrong: []error{twice}, runs: []string{"b +1"}, err: "there is one already", clean: true,
		},
		"a write that is refused": {
			query: write, wrong: []error{twice}, runs: []string{"a +1"}, err: "there is one already", clean: true,
		},
		"a write whose answer is lost": {
			query: write, wrong: []error{io.ErrUnexpectedEOF}, broken: true, runs: []string{"a +1"}, err: "unexpected EOF", unknown: true,
		},
		"a write that was not sent, says a driver whose connection has broken": {
			query: write, wrong: []error{driver.ErrBadConn}, broken: true, runs: []string{"a +1"}, err: "broke in the middle", unknown: true,
		},
		"an argument that the driver does not take": {
			query: read, argument: "bad", err: "converting argument $1 type", clean: true,
		},
		"an argument of a write that the driver does not take": {
			query: write, argument: "bad", err: "converting argument $1 type", clean: true,
		},
		"a read that the driver wants prepared":  {query: read, wrong: []error{driver.ErrSkip}, runs: []string{"b +1", "b prepares", "b +1"}, clean: true},
		"a write that the driver wants prepared": {query: write, wrong: []error{driver.ErrSkip}, runs: []string{"a +1", "a prepares", "a +1"}},
		"a read that cannot be prepared": {
			query: read, wrong: []error{driver.ErrSkip}, unprepared: []error{twice}, runs: []string{"b +1", "b prepares"}, err: "there is one already", clean: true,
		},
		"a write that cannot be prepared": {
			query: write, wrong: []error{driver.ErrSkip}, unprepared: []error{twice}, runs: []string{"a +1", "a prepares"}, err: "there is one already", clean: true,
		},
		"a read that replay has ended while it was prepared": {
			query: read, wrong: []error{driver.ErrSkip}, unprepared: []error{conflict}, runs: []string{"b +1", "b prepares", "a prepares", "a +1"}, clean: true,
		},
		"a read that is prepared on a dead connection": {
			query: read, wrong: []error{driver.ErrSkip}, unprepared: []error{driver.ErrBadConn}, broken: true, runs: []string{"b +1", "b prepares", "b prepares", "b +1"}, clean: true,
		},
		"a write that is prepared on a dead connection": {
			query: write, wrong: []error{driver.ErrSkip}, unprepared: []error{driver.ErrBadConn}, runs: []string{"a +1", "a prepares", "a prepares", "a +1"},
		},
		"a read whose connection dies once it is prepared": {
			query: read, wrong: []error{driver.ErrSkip, driver.ErrBadConn}, runs: []string{"b +1", "b prepares", "b +1", "a prepares", "a +1"}, clean: true,
		},
		"a write whose connection dies once it is prepared": {
			query: write, wrong: []error{driver.ErrSkip, driver.ErrBadConn}, runs: []string{"a +1", "a prepares", "a +1", "a +1"},
		},
		"a prepared read that replay has ended": {
			query: read, wrong: []error{driver.ErrSkip, conflict}, runs: []string{"b +1", "b prepares", "b +1", "a prepares", "a +1"}, clean: true,
		},
		"a prepared read that is wrong": {
			query: read, wrong: []error{driver.ErrSkip, twice}, runs: []string{"b +1", "b prepares", "b +1"}, err: "there is one already", clean: true,
		},
		"a prepared write that is refused": {
			query: write, wrong: []error{driver.ErrSkip, twice}, runs: []string{"a +1", "a prepares", "a +1"}, err: "there is one already", clean: true,
		},
		"a prepared write whose answer is lost": {
			query: write, wrong: []error{driver.ErrSkip, io.ErrUnexpectedEOF}, broken: true, runs: []string{"a +1", "a prepares", "a +1"}, err: "unexpected EOF", unknown: true,
		},
	} {
		for _, hooked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/hooked=%v", name, hooked), func(t *testing.T) {
				var ends []string
				for _, short := range []bool{false, true} {
					w := newShortWay(t, hooked)
					// One virtual connection asks for the texts in turn: the last one is what it has just had.
					texts := []string{read, write, "SELECT 1 WHERE 1 = $1"}
					if short {
						texts[slices.Index(texts, c.query)], texts[2] = texts[2], c.query
					}
					for _, text := range texts {
						for range 4 {
							w.ctx = readroute.WithSession(testContext(t))
							require.NoError(t, w.run(text, "1"))
						}
					}
					w.arm(c.query, c.wrong, c.unprepared, c.broken)
					w.ctx = readroute.WithSession(testContext(t))
					before := w.counts()
					argument := c.argument
					if argument == "" {
						argument = "1"
					}
					err := w.run(c.query, argument)
					if c.err == "" {
						require.NoError(t, err)
					} else {
						require.ErrorContains(t, err, c.err)
					}
					require.Equal(t, c.unknown, errors.Is(err, readroute.ErrCommitUnknown), "%v", err)
					require.Equal(t, c.runs, w.ran())
					if c.unknown { // until the server has said what became of it
						d, _ := w.db.Explain(w.ctx, read)
						require.True(t, d.WouldWait || d.Role == readroute.RolePrimary, "the session may have written: %+v", d)
					} else {
						token, err := readroute.SessionFrom(w.ctx).Token(w.ctx)
						require.NoError(t, err)
						require.Equal(t, c.clean, token.IsZero(), "whether the session has written: %+v", token)
					}
					ends = append(ends, fmt.Sprint(err, w.since(before)))
				}
				require.Equal(t, ends[0], ends[1])
			})
		}
	}
}

// TestShortWayThatPanics: a connection is one of its checkout from before the driver is asked anything, and goes back with it.
func TestShortWayThatPanics(t *testing.T) {
	const write = "UPDATE t SET n = 0 WHERE id = $1"
	w := newShortWay(t, false)
	for range 5 {
		w.ctx = readroute.WithSession(testContext(t))
		require.NoError(t, w.run(write, "1"))
	}
	conn, err := w.db.Conn(w.ctx)
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = conn.ExecContext(w.ctx, write, "panic") })
	_, err = conn.ExecContext(w.ctx, write, "1")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Zero(t, w.db.RouteStats().Nodes[0].Writer.InUse)
}

// shortWay is a routed pool of one virtual connection over scripted servers a and b.
type shortWay struct {
	db   *readroute.DB
	ctx  context.Context
	hits atomic.Int64

	armed      atomic.Pointer[string]
	wrong      chan error
	unprepared chan error
	broken     atomic.Int64 // a connection's number, and its node
	breaks     atomic.Bool
	seen       chan string
}

func newShortWay(t *testing.T, hooked bool) *shortWay {
	t.Helper()
	w := &shortWay{wrong: make(chan error, 9), unprepared: make(chan error, 9), seen: make(chan string, 99)}
	node := func(name string, replica bool) readroute.Node {
		number := func(conn int) int64 { return int64(conn)<<1 | map[bool]int64{true: 1}[replica] }
		next := func(conn int, query, what string, wrong chan error) error {
			if armed := w.armed.Load(); armed == nil || *armed != query {
				return nil
			}
			w.seen <- name + " " + what
			select {
			case err := <-wrong:
				if !errors.Is(err, driver.ErrSkip) && w.breaks.Swap(false) {
					w.broken.Store(number(conn))
				}
				return err
			default:
				return nil
			}
		}
		run := func(conn int, query string, args []driver.NamedValue) error {
			what := "nothing"
			if len(args) > 0 {
				what = fmt.Sprint(args[0].Value)
			}
			return next(conn, query, what, w.wrong)
		}
		script := &fakedb.Script{
			Answer: answerAs(replica), Direct: true, Resetter: true, Validator: true, ConnChecker: true,
			IsValid: func(conn int) bool { return w.broken.Load() != number(conn) },
			CheckConn: func(v *driver.NamedValue) error { // asked twice it would say something else
				if v.Value == "panic" {
					panic("of a driver, or a driver.Valuer")
				}
				if v.Value == "bad" {
					return errors.New("it is bad")
				}
				v.Value = "+" + v.Value.(string)
				return nil
			},
			Query: func(_ context.Context, conn int, query string, args []driver.NamedValue) (driver.Rows, error) {
				if err := run(conn, query, args); err != nil {
					return nil, err
				}
				return fakedb.TextRows([]string{"n"}, []string{"1"}), nil
			},
			Exec: func(_ context.Context, conn int, query string, args []driver.NamedValue) (driver.Result, error) {
				return driver.RowsAffected(1), run(conn, query, args)
			},
			Prepare: func(conn int, query string) error { return next(conn, query, "prepares", w.unprepared) },
		}
		return readroute.Node{Name: name, Connector: script.Connector()}
	}
	config := readroute.Config{Primary: node("a", false), Replicas: []readroute.Node{node("b", true)}}
	if hooked {
		config.Hooks.Decision = func(context.Context, readroute.Decision) { w.hits.Add(1) }
	}
	w.db = open(t, config)
	w.db.SetMaxOpenConns(1)
	return w
}

// arm has the next statements of a text go wrong, one after the other, and their preparations.
func (w *shortWay) arm(query string, wrong, unprepared []error, broken bool) {
	for _, err := range wrong {
		w.wrong <- err
	}
	for _, err := range unprepared {
		w.unprepared <- err
	}
	w.breaks.Store(broken)
	w.armed.Store(&query)
}

func (w *shortWay) run(query, argument string) error {
	if strings.HasPrefix(query, "SELECT") {
		var n string
		return w.db.QueryRowContext(w.ctx, query, argument).Scan(&n)
	}
	_, err := w.db.ExecContext(w.ctx, query, argument)
	return err
}

// ran returns where the armed text has run, and with what.
func (w *shortWay) ran() (list []string) {
	for {
		select {
		case s := <-w.seen:
			list = append(list, s)
		default:
			return list
		}
	}
}

// counts are how many statements went where, and how many texts were known.
func (w *shortWay) counts() map[string]uint64 {
	s := w.db.RouteStats()
	counts := map[string]uint64{"hits": uint64(s.Classes.Hits), "told": uint64(w.hits.Load())}
	for _, n := range s.Nodes {
		for reason, c := range n.Reasons {
			counts[n.Name+" "+string(reason)] = c
		}
	}
	return counts
}

// since is what has been counted since.
func (w *shortWay) since(before map[string]uint64) string {
	now := w.counts()
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if now[k] != before[k] {
			lines = append(lines, fmt.Sprintf("%s %d", k, now[k]-before[k]))
		}
	}
	return strings.Join(lines, ", ")
}
