package simulation_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/mysql"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/simulation"
	"github.com/readroute/readroute/internal/vconn"
)

// site is a replicated database of three servers, the first of which is the primary: a simulated one, or real ones.
type site struct {
	app, watch func(i int) driver.Connector // of a user with rights to the data only, and of one who may look at replication
	do         func(what string, i, other int) error
}

// script does things to a site and writes down what is seen of it, in the words of the library: whatever it would be told. Two
// sites that are alike to the library write down the same.
type script struct {
	t      *testing.T
	ctx    context.Context
	engine vconn.Engine
	texts  [2]string // insert, read
	site   site
	marks  map[string]core.Sample
	log    []string
}

func newScript(t *testing.T, engine simulation.Engine, at site) *script {
	t.Helper()
	insert, read := texts(engine)
	s := &script{t: t, ctx: t.Context(), texts: [2]string{insert, read}, site: at, marks: map[string]core.Sample{}}
	switch engine {
	case simulation.Postgres:
		s.engine = postgres.Engine{}
	case simulation.MySQL:
		s.engine = mysql.Engine{}
	case simulation.MariaDB:
		s.engine = mysql.Engine{MariaDB: true}
	}
	return s
}

func (s *script) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *script) do(what string, servers ...int) {
	s.t.Helper()
	servers = append(servers, 0, 0)
	require.NoError(s.t, s.site.do(what, servers[0], servers[1]), what)
	s.note("%s %v", what, servers[:2])
}

// pass lets time pass.
func (s *script) pass(d time.Duration) { <-time.After(d) }

// asked asks a server what the library does, over a connection of its own.
func (s *script) asked(connector driver.Connector) (core.Sample, error) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	conn, err := connector.Connect(ctx)
	if err != nil {
		return core.Sample{}, err
	}
	defer conn.Close()
	return monitor.Ask(ctx, s.engine.Wire(conn).Link(), s.engine)
}

// mark remembers what a server says.
func (s *script) mark(name string, i int) {
	s.t.Helper()
	sample, err := s.asked(s.site.watch(i))
	require.NoError(s.t, err)
	require.False(s.t, sample.Position.IsZero())
	s.marks[name] = sample
}

// eventually waits until what is seen is what is wanted, and writes down what was seen last.
func (s *script) eventually(what, want string, see func() string) {
	s.t.Helper()
	saw := ""
	for began := time.Now(); time.Since(began) < time.Minute; {
		if saw = see(); saw == want {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	s.note("%s: %s", what, saw)
	require.Equal(s.t, want, saw, "%s, after %v", what, s.log)
}

// role is what a server takes itself for, and whether anything feeds it.
func (s *script) role(i int, want string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("the role of %d", i), want, func() string {
		sample, err := s.asked(s.site.watch(i))
		if err != nil {
			return "none: " + s.class(err)
		}
		if sample.Role == core.RoleReplica && sample.HasSource {
			return "replica that is fed"
		}
		return sample.Role.String()
	})
}

// shows is whether a server proves a mark.
func (s *script) shows(i int, name, want string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s on %d", name, i), want, func() string {
		sample, err := s.asked(s.site.watch(i))
		if err != nil {
			return "none: " + s.class(err)
		}
		p := s.marks[name].Position
		return [...]string{"incomparable", "not covered", "covered"}[p.CoveredBy(sample.Position)]
	})
}

// sameRun writes down whether a server is the run of the one that a mark was taken from.
func (s *script) sameRun(name string, i int) {
	s.t.Helper()
	sample, err := s.asked(s.site.watch(i))
	require.NoError(s.t, err)
	before := s.marks[name].Start
	s.note("%d is the run of %s: %t, the same server: %t", i, name, sample.Start == before, sample.Start.System == before.System)
}

// read is what a server shows of a key.
func (s *script) read(i, key int, want string) {
	s.t.Helper()
	db := sql.OpenDB(s.site.app(i))
	defer db.Close()
	s.eventually(fmt.Sprintf("%d shows key %d", i, key), want, func() string {
		ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
		defer cancel()
		rows, err := db.QueryContext(ctx, s.texts[1], key)
		if err != nil {
			return s.class(err)
		}
		defer rows.Close()
		var list []int
		for rows.Next() {
			var v int
			if err := rows.Scan(&v); err != nil {
				return s.class(err)
			}
			list = append(list, v)
		}
		slices.Sort(list)
		return fmt.Sprint(list)
	})
}

// write writes to a server.
func (s *script) write(i, key, version int) {
	s.t.Helper()
	db := sql.OpenDB(s.site.app(i))
	defer db.Close()
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	_, err := db.ExecContext(ctx, s.texts[0], key, version)
	s.note("%d takes write %d: %s", i, version, s.class(err))
}

// class is what the library makes of an error.
func (s *script) class(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer"
	case s.engine.ReadOnly(err):
		return "read-only"
	case s.engine.Refused(err):
		return "refused"
	case s.engine.Down(err) || s.engine.NotSent(err):
		return "cannot be reached"
	}
	return "cut off"
}
