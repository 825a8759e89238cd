package simulation

import (
	"fmt"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/monitor"
	engine "github.com/readroute/readroute/internal/postgres"
)

// question answers what the library asks of a server. cluster.mu is held.
func (c *cluster) question(k *conn, s *server, query string) (*answer, error) {
	if query == "SELECT VERSION()" {
		return one([...]string{"PostgreSQL 16.3 (simulated)", "8.4.2", "10.11.19-MariaDB-log"}[c.engine]), nil
	}
	if c.engine != Postgres {
		return c.askMySQL(k, s, query)
	}
	var e engine.Engine
	switch {
	case strings.HasPrefix(query, "SELECT r.rec::text"):
		return one(s.probe(query)...), nil
	case query == e.SettingsSQL():
		return one(yes(!s.primary), "off", "0", "1000"), nil
	case query == e.ReadOnlySQL():
		k.readOnly = true
		return &answer{}, nil
	case query == e.SelfSQL():
		return one(fmt.Sprint(k.session.pid), fmt.Sprint(k.session.began.UnixMicro())), nil
	case strings.Contains(query, " WHERE l.locktype = 'transactionid'"):
		return one(s.committing()), nil
	case strings.Contains(query, "FROM pg_stat_activity WHERE pid = "):
		return c.backend(s, query), nil
	}
	return nil, postgres("42601", "ERROR", "simulation: not a statement that is known: "+query)
}

func yes(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// backend answers whether a server session is there, and ends it when that is asked for.
func (c *cluster) backend(s *server, query string) *answer {
	for _, x := range s.ordered() {
		b := monitor.Backend{PID: x.pid, Start: x.began.UnixMicro()}
		switch query {
		case engine.BackendSQL(b, false):
			return one("1")
		case engine.BackendSQL(b, true):
			x.end()
			return one("1")
		}
	}
	return one("0")
}

// probe is a row of PostgreSQL's probe. What it says of a primary's position depends on which one is asked for.
func (s *server) probe(query string) []string {
	now := time.Now()
	lsn, flush, timeline, source, received := s.says(now).lsn(), "", "", "0", ""
	switch fed := s.fed(); {
	case s.primary:
		lsn = insertPosition(s.at.lsn())
		if !strings.Contains(query, "ELSE pg_current_wal_insert_lsn() END") {
			lsn = place{s.at.b, s.at.flushedBy(now, 0)}.lsn() // of what is not flushed, nothing is written
		}
		flush = place{s.at.b, s.at.flushedBy(now, 0)}.lsn().String()
		timeline = fmt.Sprintf("%08X", s.tli())
		if s.at.b.parent != nil {
			received = s.at.b.start.String() // how far it was replayed
		}
	case fed && s.c.tells:
		timeline = fmt.Sprint(s.received.b.timeline)
	default:
		if s.c.chance(0.05) { // a restart point
			s.control = max(s.control, s.at.origin().b.timeline)
		}
		timeline = fmt.Sprintf("%d+", s.control)
	}
	if !s.primary {
		if s.fed() {
			source = "1"
		}
		if s.streamed {
			received = s.received.lsn().String()
		}
	}
	return []string{
		yes(!s.primary), fmt.Sprint(s.system), fmt.Sprint(s.started.UnixMicro()), lsn.String(), flush, timeline, source,
		fmt.Sprint(pageSize), fmt.Sprint(segmentSize), fmt.Sprint((flushDelay / 3).Microseconds()), received,
	}
}

// committing are the numbers of the transactions that are not over, as far as a lock tells.
func (s *server) committing() string {
	var list []string
	for i := s.at.n - 1; i >= 0 && i >= s.at.n-50; i-- {
		if r := s.at.b.get(i); r.by == s && r.seen.After(time.Now()) {
			list = append(list, fmt.Sprint(1000+i))
		}
	}
	return strings.Join(list, ",")
}
