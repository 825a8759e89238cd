package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/fakedb"
)

// A driverRun is one run of a script on a pool over a scripted driver.
type driverRun struct {
	*parity
	script *fakedb.Script
}

// compareDrivers runs a script on the bare pool and on a routed one, each over a scripted driver of its own, and compares
// what the pool answers and what it has done to the driver's connections.
func compareDrivers(t *testing.T, newScript func() *fakedb.Script, run func(*driverRun)) {
	t.Helper()
	var records [2][]string
	for i := range records {
		r := runDriver(t, newScript(), i == 1, run)
		records[i] = append(r.record, calls(r.script)...)
	}
	require.NotEmpty(t, records[0])
	requireSameRecord(t, records[0], records[1])
}

// calls are what was done to a driver's connections. That statements are closed is counted apart: on the routed pool the
// next user of the connection closes them, or nobody when the connection itself is closed. A checkout in which database/sql refused the only statement left no trace but
// a reset on the bare pool, and none on the routed one. Whether a connection is valid may be asked at any time; what
// comes of it is that it is closed.
func calls(script *fakedb.Script) []string {
	closed := map[string]int{}
	gone := map[string]bool{}
	for _, call := range script.Calls() {
		if conn, ok := strings.CutSuffix(call, " close"); ok {
			gone[conn] = true
		}
	}
	list := slices.DeleteFunc(script.Calls(), func(call string) bool {
		conn, _, closes := strings.Cut(call, " close statement ")
		if closes && !gone[conn] {
			closed[call]++
		}
		return closes || strings.Contains(call, " valid ")
	})
	list = slices.CompactFunc(list, func(a, b string) bool { return a == b && strings.HasSuffix(a, " reset") })
	for _, call := range slices.Sorted(maps.Keys(closed)) {
		list = append(list, fmt.Sprintf("%s: %d", call, closed[call]))
	}
	return list
}

func runDriver(t *testing.T, script *fakedb.Script, routed bool, run func(*driverRun)) *driverRun {
	t.Helper()
	script.Answer = answerAs(false)
	r := &driverRun{parity: &parity{TB: t, ctx: testContext(t)}, script: script}
	if routed {
		r.routed = open(t, readroute.Config{Primary: readroute.Node{Name: "a", Connector: script.Connector()}})
		r.db = r.routed.DB
	} else {
		r.db = sql.OpenDB(script.Connector())
		r.db.SetMaxIdleConns(readroute.DefaultMaxIdleConns)
		t.Cleanup(func() { require.NoError(t, r.db.Close()) })
	}
	run(r)
	return r
}

// K3-20: the order of the argument rules, whatever interfaces a driver has.
func TestK3_20_ParityArgumentRules(t *testing.T) {
	errNo := errors.New("no such value")
	checkers := map[string]func(*driver.NamedValue) error{
		"none":    nil,
		"accepts": func(*driver.NamedValue) error { return nil },
		"skips":   func(*driver.NamedValue) error { return driver.ErrSkip },
		"refuses": func(*driver.NamedValue) error { return errNo },
		"removes": func(nv *driver.NamedValue) error {
			if nv.Value == "gone" {
				return driver.ErrRemoveArgument
			}
			return driver.ErrSkip
		},
		"changes": func(nv *driver.NamedValue) error { nv.Value = fmt.Sprintf("<%v>", nv.Value); return nil },
	}
	converters := map[string]func(int) driver.ValueConverter{
		"none": nil,
		"by index": func(i int) driver.ValueConverter {
			return []driver.ValueConverter{driver.String, driver.NotNull{Converter: driver.Int32}, driver.DefaultParameterConverter}[min(i, 2)]
		},
		"invalid": func(int) driver.ValueConverter { return invalidConverter{} },
	}
	one := 1
	arguments := [][]any{
		{}, {1}, {"x", 2}, {"gone", 2}, {"x", "gone", 3}, {nil}, {uint64(1) << 63}, {&one}, {(*int)(nil)}, {parityValuer{"v"}},
		{(*parityValuer)(nil)}, {(*parityPointerValuer)(nil)}, {parityFailingValuer{}}, {parityValuer{int8(1)}}, {sql.Named("n", 1)}, {sql.Named("1n", 1)},
		{sql.Named("n", "gone")}, {sql.Out{Dest: &one}}, {[]string{"a"}}, {struct{}{}}, {parityInt(3)}, {[]byte("b")},
	}
	for stmt, checkStmt := range checkers {
		for _, conn := range []string{"none", "skips", "changes"} {
			checkConn := checkers[conn]
			for converter, convert := range converters {
				t.Run(fmt.Sprintf("Stmt=%s,Conn=%s,Converter=%s", stmt, conn, converter), func(t *testing.T) {
					for _, inputs := range []int{-1, 2} {
						for _, skip := range []bool{false, true} {
							newScript := func() *fakedb.Script {
								return &fakedb.Script{
									Direct: true, Resetter: true, SkipDirect: skip,
									StmtChecker: checkStmt != nil, CheckStmt: checkStmt,
									ConnChecker: checkConn != nil, CheckConn: checkConn,
									Converter: convert != nil, Convert: convert,
									NumInput: func(string) int { return inputs },
								}
							}
							compareDrivers(t, newScript, func(r *driverRun) {
								for _, args := range arguments {
									for _, q := range []execer{r.db, preparing{r.db}} {
										_, err := q.ExecContext(r.ctx, "e", args...)
										r.note("exec: %s", errorText(err))
										rows, err := q.QueryContext(r.ctx, "q", args...)
										r.note("query: %s", errorText(err))
										if err == nil {
											r.must(rows.Close())
										}
									}
								}
								r.exec(r.db, "last")
							})
						}
					}
				})
			}
		}
	}
}

type invalidConverter struct{}

func (invalidConverter) ConvertValue(v any) (driver.Value, error) { return struct{ v any }{v}, nil }

func TestParityDriverCalls(t *testing.T) {
	errOwn := errors.New("the driver's own")
	use := func(r *driverRun) {
		r.exec(r.db, "write", 1)
		r.query(r.db, "query", "a")
		r.exec(preparing{r.db}, "write", 2)
		r.query(preparing{r.db}, "query", 3)
		r.note("ping: %s", errorText(r.db.PingContext(r.ctx)))
		tx, err := r.db.BeginTx(r.ctx, nil)
		r.note("begin: %s", errorText(err))
		if err == nil {
			r.exec(tx, "in transaction", 4)
			r.query(tx, "in transaction", 5)
			r.note("commit: %s", errorText(tx.Commit()))
		}
		if tx, err = r.db.BeginTx(r.ctx, nil); err == nil {
			r.exec(tx, "in transaction", 6)
			r.note("rollback: %s", errorText(tx.Rollback()))
		}
		conn, err := r.db.Conn(r.ctx)
		r.note("conn: %s", errorText(err))
		if err == nil {
			r.exec(conn, "on a connection")
			r.query(conn, "on a connection")
			r.note("close: %s", errorText(conn.Close()))
		}
		ctx, cancel := context.WithCancel(r.ctx)
		if tx, err = r.db.BeginTx(ctx, nil); err == nil {
			cancel()
			eventually(r, "the pool has rolled back", func() bool { return r.db.Stats().InUse == 0 })
		}
		cancel()
		r.exec(r.db, "last")
	}
	scripts := map[string]func(s *fakedb.Script){
		"Plain":     func(*fakedb.Script) {},
		"Resetter":  func(s *fakedb.Script) { s.Resetter = true },
		"Validator": func(s *fakedb.Script) { s.Validator = true },
		"Invalid":   func(s *fakedb.Script) { s.Validator, s.IsValid = true, func(int) bool { return false } },
		"BadReset": func(s *fakedb.Script) {
			s.Resetter, s.ResetSession = true, func(context.Context, int) error { return driver.ErrBadConn }
		},
		"Skips": func(s *fakedb.Script) { s.Resetter, s.SkipDirect = true, true },
		"Result": func(s *fakedb.Script) {
			s.Exec = func(context.Context, int, string, []driver.NamedValue) (driver.Result, error) {
				return parityResult{}, nil
			}
		},
		"ExecFails": func(s *fakedb.Script) {
			s.Validator = true
			s.Exec = func(_ context.Context, _ int, query string, _ []driver.NamedValue) (driver.Result, error) {
				return nil, fmt.Errorf("%s: %w", query, errOwn)
			}
		},
		"QueryFails": func(s *fakedb.Script) {
			s.Validator = true
			s.Query = func(context.Context, int, string, []driver.NamedValue) (driver.Rows, error) { return nil, errOwn }
		},
		"PrepareFails":  func(s *fakedb.Script) { s.Prepare = func(int, string) error { return errOwn } },
		"BeginFails":    func(s *fakedb.Script) { s.Begin = func(int) error { return errOwn } },
		"CommitFails":   func(s *fakedb.Script) { s.Validator, s.Commit = true, func(int) error { return errOwn } },
		"RollbackFails": func(s *fakedb.Script) { s.Validator, s.Rollback = true, func(int) error { return errOwn } },
		"PingFails":     func(s *fakedb.Script) { s.Ping = func(int) error { return errOwn } },
	}
	for name, choose := range scripts {
		t.Run(name, func(t *testing.T) {
			compareDrivers(t, func() *fakedb.Script {
				s := &fakedb.Script{Direct: true}
				choose(s)
				return s
			}, use)
		})
	}
}

// parityResult is what a driver for another kind of server may say.
type parityResult struct{}

func (parityResult) LastInsertId() (int64, error) { return 42, nil }
func (parityResult) RowsAffected() (int64, error) { return 7, errors.New("about seven") }

// TestParityBadConns has idle connections that turn out to be dead at their next use. How many are tried differs: the
// routed pool goes on until it has a new one.
func TestParityBadConns(t *testing.T) {
	const idle = 8
	for name, fail := range map[string]func(*fakedb.Script, func(conn int) error){
		"Exec": func(s *fakedb.Script, bad func(int) error) {
			s.Exec = func(_ context.Context, conn int, _ string, _ []driver.NamedValue) (driver.Result, error) {
				return driver.RowsAffected(1), bad(conn)
			}
		},
		"Query": func(s *fakedb.Script, bad func(int) error) {
			s.Query = func(_ context.Context, conn int, _ string, _ []driver.NamedValue) (driver.Rows, error) {
				return fakedb.TextRows([]string{"n"}, []string{"1"}), bad(conn)
			}
		},
		"Prepare": func(s *fakedb.Script, bad func(int) error) {
			s.Prepare = func(conn int, _ string) error { return bad(conn) }
		},
		"Begin": func(s *fakedb.Script, bad func(int) error) { s.Begin = bad },
		"Ping":  func(s *fakedb.Script, bad func(int) error) { s.Ping = bad },
		"Reset": func(s *fakedb.Script, bad func(int) error) {
			s.Resetter = true
			s.ResetSession = func(_ context.Context, conn int) error { return bad(conn) }
		},
	} {
		for _, routed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/routed=%t", name, routed), func(t *testing.T) {
				dead := map[int]bool{}
				s := &fakedb.Script{Direct: true}
				fail(s, func(conn int) error {
					if dead[conn] {
						return driver.ErrBadConn
					}
					return nil
				})
				runDriver(t, s, routed, func(r *driverRun) {
					for round := range 3 {
						conns := make([]*sql.Conn, idle)
						for i := range conns {
							var err error
							conns[i], err = r.db.Conn(r.ctx)
							r.must(err)
							r.must(conns[i].Raw(func(dc any) error {
								if c, ok := dc.(readroute.Conn); ok {
									_, err := c.Primary(r.ctx)
									return err
								}
								return nil
							}))
						}
						for _, conn := range conns {
							r.must(conn.Close())
						}
						for i := range 1000 {
							dead[i] = i <= s.Opened()
						}
						for i := range idle {
							_, err := r.db.ExecContext(r.ctx, "write")
							require.NoError(t, err, "round %d, %d", round, i)
							rows, err := r.db.QueryContext(r.ctx, "query")
							require.NoError(t, err)
							r.must(rows.Close())
							stmt, err := r.db.PrepareContext(r.ctx, "prepared")
							require.NoError(t, err)
							r.must(stmt.Close())
							tx, err := r.db.BeginTx(r.ctx, nil)
							require.NoError(t, err)
							require.NoError(t, tx.Commit())
							if err := r.db.PingContext(r.ctx); routed || name != "Ping" {
								require.NoError(t, err) // database/sql does not ping twice
							}
						}
					}
				})
			})
		}
	}
}

// K3-21: a connection that could not be reset is not used again; database/sql takes only ErrBadConn seriously.
func TestK3_21_ParityResetFails(t *testing.T) {
	for _, routed := range []bool{false, true} {
		s := &fakedb.Script{Direct: true, Resetter: true, ResetSession: func(_ context.Context, conn int) error {
			return fmt.Errorf("reset: %w", context.DeadlineExceeded)
		}}
		r := runDriver(t, s, routed, func(r *driverRun) {
			for range 5 {
				_, err := r.db.ExecContext(r.ctx, "write")
				require.NoError(t, err)
			}
		})
		if routed {
			require.Equal(t, 5, r.script.Count("connect"), "on purpose: a connection that is dirty serves nobody")
			require.Equal(t, 4, r.script.Count("close"))
		} else {
			require.Equal(t, 1, r.script.Count("connect"))
		}
	}
}
