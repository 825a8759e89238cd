package simulation_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/simulation"
)

// play is what is done to each site. What may differ between the engines is written where it does.
func play(s *script, engine simulation.Engine) {
	s.t.Helper()
	mysqls := engine == simulation.MySQL
	unlike := func(pg, my, maria string) string {
		return [...]string{simulation.Postgres: pg, simulation.MySQL: my, simulation.MariaDB: maria}[engine]
	}
	s.write(0, 1, 1)
	s.mark("first", 0)
	for i := 1; i < 3; i++ {
		s.shows(i, "first", "covered")
		s.read(i, 1, "[1]")
	}
	s.role(0, "primary")
	s.role(1, "replica that is fed")

	// What is refused.
	s.write(1, 1, 2)

	// A replica that stands still receives, and shows nothing.
	s.mark("b before", 1)
	s.do("pause", 1)
	s.write(0, 2, 3)
	s.mark("paused", 0)
	s.shows(2, "paused", "covered")
	s.read(2, 2, "[3]")
	s.shows(1, "paused", "not covered")
	s.shows(1, "first", "covered")
	s.read(1, 2, "[]")
	s.do("resume", 1)
	s.shows(1, "paused", "covered")
	s.read(1, 2, "[3]")

	// A server that is ended and started is another run of the same server, and has what it had. MySQL and MariaDB count seconds.
	s.pass(1500 * time.Millisecond)
	s.do("kill", 1)
	s.role(1, "none: cannot be reached")
	s.do("start", 1)
	s.role(1, "replica that is fed")
	s.sameRun("b before", 1)
	s.shows(1, "paused", "covered")

	// A frozen one accepts connections and answers nothing.
	s.do("freeze", 2)
	s.role(2, "none: no answer")
	s.read(2, 1, "no answer")
	s.do("thaw", 2)
	s.role(2, "replica that is fed")
	s.read(2, 1, "[1]")

	// A promotion, while the former primary goes on: what it takes from now on is on no other server.
	s.mark("b as a replica", 1)
	s.do("promote", 1)
	s.role(1, "primary")
	s.sameRun("b as a replica", 1)
	s.write(0, 3, 4)
	s.mark("lost", 0)
	s.write(1, 3, 5)
	s.mark("kept", 1)
	s.read(1, 3, "[5]")
	s.shows(1, "paused", unlike("incomparable", "covered", "incomparable")) // of the timeline, or the server, before
	s.shows(1, "lost", unlike("incomparable", "not covered", "incomparable"))
	s.shows(0, "kept", unlike("incomparable", "incomparable", "incomparable"))

	// c has the write that the new primary lacks, and follows it.
	s.shows(2, "lost", "covered")
	s.do("follow", 2, 1)
	if mysqls { // it keeps what it has, and goes on
		s.shows(2, "kept", "covered")
		s.shows(2, "lost", "covered")
		s.read(2, 3, "[4 5]")
	} else {
		s.pass(time.Second)
		s.shows(2, "kept", "incomparable")
		s.read(2, 3, "[4]")
	}

	// Made anew it is another run, of another server where the data do not say which system they are of.
	s.mark("c before", 2)
	s.do("rebuild", 2, 1)
	s.role(2, "replica that is fed")
	s.sameRun("c before", 2)
	s.shows(2, "kept", "covered")
	s.read(2, 3, "[5]")

	// A primary of PostgreSQL that stops in order has sent what it had; the others do not wait for that.
	s.do("follow", 2, 1)
	s.role(2, "replica that is fed")
	s.write(1, 4, 6)
	s.mark("last", 1)
	if engine != simulation.Postgres {
		s.shows(2, "last", "covered")
	}
	s.do("stop", 1)
	s.role(1, "none: cannot be reached")
	s.read(2, 4, "[6]")
	s.shows(2, "last", unlike("incomparable", "covered", "covered")) // a standby that nothing feeds does not tell its timeline
	s.do("start", 1)
	s.role(1, "primary")
	s.role(2, "replica that is fed")
	s.shows(2, "last", "covered")
}

// stageSite is a simulated one.
func stageSite(s *simulation.Stage) site {
	return site{
		app: s.Connector, watch: s.Connector,
		do: func(what string, i, other int) error {
			switch what {
			case "pause":
				s.Pause(i)
			case "resume":
				s.Resume(i)
			case "kill":
				s.Kill(i)
			case "stop":
				s.Stop(i)
			case "start":
				s.Start(i)
			case "freeze":
				s.Freeze(i)
			case "thaw":
				s.Thaw(i)
			case "promote":
				s.Promote(i)
			case "follow":
				s.Follow(i, other)
			case "rebuild":
				s.Rebuild(i, other)
			default:
				return fmt.Errorf("a stage cannot %s", what)
			}
			return nil
		},
	}
}

// realServer is one of a cluster of any kind.
type realServer[N any] interface {
	AppDSN() string
	WatchDSN() string
	PauseReplay(context.Context) error
	ResumeReplay(context.Context) error
	Kill(context.Context) error
	StopFast(context.Context) error
	Start(context.Context) error
	Freeze(context.Context) error
	Thaw(context.Context) error
	Promote(context.Context) error
	Follow(context.Context, N) error
	Rebuild(context.Context, N) error
	Exec(context.Context, ...string) error
}

// realSite is of servers. renames is what makes one that was made anew another server, where its data do not.
func realSite[N realServer[N]](t *testing.T, nodes []N, connector func(dsn string) driver.Connector, renames ...string) site {
	return site{
		app:   func(i int) driver.Connector { return connector(nodes[i].AppDSN()) },
		watch: func(i int) driver.Connector { return connector(nodes[i].WatchDSN()) },
		do: func(what string, i, other int) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n := nodes[i]
			switch what {
			case "pause":
				return n.PauseReplay(ctx)
			case "resume":
				return n.ResumeReplay(ctx)
			case "kill":
				return n.Kill(ctx)
			case "stop":
				return n.StopFast(ctx)
			case "start":
				return n.Start(ctx)
			case "freeze":
				return n.Freeze(ctx)
			case "thaw":
				return n.Thaw(ctx)
			case "promote":
				return n.Promote(ctx)
			case "follow":
				return n.Follow(ctx, nodes[other])
			case "rebuild":
				if err := n.Rebuild(ctx, nodes[other]); err != nil || len(renames) == 0 {
					return err
				}
				return n.Exec(ctx, renames...)
			}
			return fmt.Errorf("a server cannot %s", what)
		},
	}
}

// alike plays the script on a stage and on real servers.
func alike(t *testing.T, engine simulation.Engine, real func(t *testing.T) site) {
	t.Helper()
	var simulated []string
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, engine, stageSite(simulation.NewStage(engine, 3, 1)))
		play(s, engine)
		simulated = s.log
	})
	s := newScript(t, engine, real(t))
	play(s, engine)
	require.Equal(t, s.log, simulated)
	require.Greater(t, len(simulated), 50)
}

// TestPostgresIsSimulatedAsItIs: what is done to a simulated cluster and to a real one is seen alike, and so for the others.
func TestPostgresIsSimulatedAsItIs(t *testing.T) {
	alike(t, simulation.Postgres, func(t *testing.T) site {
		c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 2})
		require.NoError(t, c.Primary().Exec(t.Context(), simulation.Postgres.CreateTable()))
		require.NoError(t, c.WaitCaughtUp(t.Context()))
		return realSite(t, c.Nodes(), readroute.Postgres)
	})
}

// Without a key that the servers count up by themselves, no two of them write the same one.
func TestMySQLIsSimulatedAsItIs(t *testing.T) {
	alike(t, simulation.MySQL, func(t *testing.T) site {
		c := dbtest.StartMySQLT(t, dbtest.MySQLOptions{Replicas: 2})
		require.NoError(t, c.Primary().Exec(t.Context(), "CREATE TABLE kv (k BIGINT, v BIGINT)"))
		require.NoError(t, c.WaitCaughtUp(t.Context()))
		return realSite(t, c.Nodes(), readroute.MySQL)
	})
}

func TestMariaDBIsSimulatedAsItIs(t *testing.T) {
	alike(t, simulation.MariaDB, func(t *testing.T) site {
		c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{Replicas: 2})
		require.NoError(t, c.Primary().Exec(t.Context(), "CREATE TABLE kv (k BIGINT, v BIGINT)"))
		require.NoError(t, c.WaitCaughtUp(t.Context()))
		return realSite(t, c.Nodes(), readroute.MySQL, "SET GLOBAL server_id = 9")
	})
}
