package simulation

import (
	"fmt"
	"strconv"
	"strings"

	engine "github.com/readroute/readroute/internal/mysql"
)

// askMySQL answers what the library asks of MySQL and MariaDB. cluster.mu is held.
func (c *cluster) askMySQL(k *conn, s *server, query string) (*answer, error) {
	e := engine.Engine{MariaDB: c.engine == MariaDB}
	probe := e.ProbeSQL()
	short, _, _ := strings.Cut(probe, "(SELECT")
	switch {
	case query == probe:
		return one(append(s.probeMySQL(k), fmt.Sprint(s.started.Unix()), "")...), nil
	case query == short+"'', ''":
		return one(append(s.probeMySQL(k), "", "")...), nil
	case query == e.SettingsSQL():
		return one(yes(s.fenced), "off", "0", "1000"), nil
	case query == e.ReadOnlySQL():
		k.readOnly = true
		return &answer{}, nil
	case query == e.SelfSQL():
		return one(fmt.Sprint(k.session.pid), fmt.Sprint(s.started.Unix()), "1", "NO_CHAIN"), nil
	case query == "SHOW REPLICA STATUS" && !e.MariaDB, query == "SHOW ALL SLAVES STATUS" && e.MariaDB:
		return s.status(), nil
	case query == "SELECT @@GLOBAL.gtid_owned":
		return one(s.owned()), nil
	case strings.Contains(query, "information_schema.PROCESSLIST WHERE ID = "):
		return s.listed(query), nil
	case strings.HasPrefix(query, "KILL CONNECTION "):
		pid, _ := strconv.ParseUint(strings.TrimPrefix(query, "KILL CONNECTION "), 10, 32)
		x := s.sessions[uint32(pid)]
		if x == nil {
			return nil, mysqlError(1094, "Unknown thread id")
		}
		x.end()
		return &answer{}, nil
	}
	return nil, mysqlError(1064, "simulation: not a statement that is known: "+query)
}

// probeMySQL is a row of the probe without what hardly ever changes.
func (s *server) probeMySQL(k *conn) []string {
	fenced := "0"
	if s.fenced {
		fenced = "1"
	}
	if s.c.engine == MySQL {
		return []string{uuid(s.id), fmt.Sprint(k.session.pid), fenced, "1", "ON", s.owned(), s.executed()}
	}
	last, replayed, logged := s.posted().last(), s.posted().last(), s.at.last()
	if s.neverReplica {
		replayed = ""
	}
	return []string{
		"host:" + fmt.Sprint(3300+s.id) + ":" + fmt.Sprint(s.id), fmt.Sprint(k.session.pid), fenced, "1", "0", last, replayed,
		s.binlogState(), logged, "1",
	}
}

// status is what feeds a replica.
func (s *server) status() *answer {
	a := &answer{columns: []string{"Replica_IO_Running", "Replica_SQL_Running", "Last_IO_Errno", "Last_SQL_Errno", "Seconds_Behind_Source"}}
	if s.c.engine == MariaDB {
		a.columns = []string{"Slave_IO_Running", "Slave_SQL_Running", "Last_IO_Errno", "Last_SQL_Errno", "Seconds_Behind_Master"}
	}
	if s.primary || s.source == nil {
		return a
	}
	receiver, applier, lag := "Connecting", "Yes", "0"
	if s.fed() {
		receiver = "Yes"
	}
	if s.paused {
		applier, lag = "No", ""
	}
	a.rows = [][]string{{receiver, applier, "0", "0", lag}}
	return a
}

// listed answers whether a session is there, and whether the server's run is the one that is meant.
func (s *server) listed(query string) *answer {
	_, rest, _ := strings.Cut(query, "WHERE ID = ")
	id, rest, _ := strings.Cut(rest, ")")
	pid, _ := strconv.ParseUint(id, 10, 32)
	there, same := "0", "0"
	if s.sessions[uint32(pid)] != nil {
		there = "1"
	}
	if strings.HasSuffix(rest, fmt.Sprintf(" = %d", s.started.Unix())) {
		same = "1"
	}
	return one(there, same)
}
