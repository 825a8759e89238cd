package simulation

import (
	"database/sql/driver"
	"time"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/check"
)

// Stage is a simulated cluster that a test breaks by hand. Nothing else goes wrong, so that it can be held against real servers
// to which the same is done. Server 0 is the primary at first. Its methods may be called from several goroutines.
type Stage struct {
	w *world
	c *cluster
}

// NewStage makes a cluster of servers.
func NewStage(engine Engine, servers int, seed uint64) *Stage {
	seedChance(seed)
	c := newCluster(engine, check.NewRecorder(), seed, servers)
	return &Stage{newWorld(c, Direct), c}
}

// Nodes are the nodes of a routed pool of a new process. prepares makes a driver of it that has a statement with arguments
// prepared first, as go-sql-driver/mysql has.
func (s *Stage) Nodes(prepares bool) []readroute.Node {
	nodes := s.w.nodes(s.c.system)
	for _, n := range s.w.networks[len(s.w.networks)-len(nodes):] {
		n.prepares = prepares
	}
	return nodes
}

// Connector leads to one server, as one of Nodes does.
func (s *Stage) Connector(i int) driver.Connector { return s.Nodes(false)[i].Connector }

// do changes something about a server.
func (s *Stage) do(i int, change func(*server)) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.settle(time.Now())
	change(s.c.servers[i])
}

// Pause makes a replica replay nothing until Resume.
func (s *Stage) Pause(i int) { s.do(i, func(x *server) { x.paused = true }) }

// Resume ends Pause.
func (s *Stage) Resume(i int) { s.do(i, func(x *server) { x.paused = false }) }

// Freeze makes a server answer nothing until Thaw. It goes on accepting connections.
func (s *Stage) Freeze(i int) { s.do(i, (*server).freeze) }

// Thaw ends Freeze.
func (s *Stage) Thaw(i int) { s.do(i, (*server).thaw) }

// FillPages makes every record of the log end where a page does.
func (s *Stage) FillPages() { s.do(0, func(x *server) { x.c.fill = 1 }) }

// Kill ends a server at once.
func (s *Stage) Kill(i int) { s.do(i, func(x *server) { x.stop(false) }) }

// Stop ends a server in order: PostgreSQL's sends its standbys what it has.
func (s *Stage) Stop(i int) { s.do(i, func(x *server) { x.stop(true) }) }

// Start starts a server that was ended, as what it was.
func (s *Stage) Start(i int) { s.do(i, func(x *server) { x.start(0) }) }

// Promote makes a replica the primary. Nothing else changes.
func (s *Stage) Promote(i int) { s.do(i, (*server).promote) }

// Follow makes a server a replica of another. One that does not run is started.
func (s *Stage) Follow(i, source int) { s.do(i, func(x *server) { x.follow(s.c.servers[source]) }) }

// Rebuild makes a server anew as a replica of another.
func (s *Stage) Rebuild(i, source int) {
	s.do(i, func(x *server) { x.rebuild(s.c.servers[source], 0) })
}

// Hide says whether users may not see a standby's timeline.
func (s *Stage) Hide(hide bool) { s.do(0, func(x *server) { x.c.tells = !hide }) }

// Lag makes a replica replay everything so late.
func (s *Stage) Lag(i int, d time.Duration) { s.do(i, func(x *server) { x.lag = d }) }

// LoseNextWrite cuts the connection of the next statement that may change something, which arrives so late all the same.
func (s *Stage) LoseNextWrite(late time.Duration) { s.do(0, func(x *server) { x.c.late = late }) }

// Unguarded is how many reads a replica has served in a session that does not refuse writes by itself.
func (s *Stage) Unguarded() int {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.unguarded
}

// ShowLate makes commits so late to be seen on the primary, and acknowledged. They are in the log, and on their way to replicas, before.
func (s *Stage) ShowLate(d time.Duration) { s.do(0, func(x *server) { x.c.unseenFor = d }) }
