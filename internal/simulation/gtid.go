package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// gtidSets are the transactions that a server has, by the server that wrote them, as intervals that ascend.
type gtidSets map[int][]interval

type interval struct{ first, last uint64 }

// add adds one.
func (g gtidSets) add(t gtid) {
	list := g[t.server]
	i, found := slices.BinarySearchFunc(list, t.number, func(v interval, n uint64) int {
		switch {
		case v.last < n:
			return -1
		case v.first > n:
			return 1
		}
		return 0
	})
	if found {
		return
	}
	before := i > 0 && list[i-1].last+1 == t.number
	after := i < len(list) && list[i].first == t.number+1
	switch {
	case before && after:
		list[i-1].last = list[i].last
		list = slices.Delete(list, i, i+1)
	case before:
		list[i-1].last = t.number
	case after:
		list[i].first = t.number
	default:
		list = slices.Insert(list, i, interval{t.number, t.number})
	}
	g[t.server] = list
}

// servers are those that wrote any.
func (g gtidSets) servers() []int { return slices.Sorted(maps.Keys(g)) }

// highest is the highest number of any server.
func (g gtidSets) highest() uint64 {
	var n uint64
	for _, list := range g {
		for _, v := range list {
			n = max(n, v.last)
		}
	}
	return n
}

// posted is what a server says that it has: of what it has written itself, what counts by now.
func (s *server) posted() place {
	now := time.Now()
	if !s.primary {
		return s.says(now)
	}
	p := s.at
	for p.n > 0 && p.b.get(p.n-1).by == s && p.b.get(p.n-1).said.After(now) {
		p.n--
	}
	return p
}

// count brings sets up to what the server says that it has.
func (s *server) count() {
	if s.c.engine == Postgres {
		return
	}
	at := s.posted()
	if s.counted.b == nil || !s.counted.within(at) {
		s.sets, s.counted = gtidSets{}, place{at.b, 0}
		for _, p := range s.more {
			if t := p.b.get(p.n - 1).gtid; t.number != 0 {
				s.sets.add(t)
			}
		}
	}
	for i := s.counted.n; i < at.n; i++ {
		if t := at.b.get(i).gtid; t.number != 0 {
			s.sets.add(t)
		}
	}
	s.counted = at
}

// owned is MySQL's gtid_owned: what is in the log and does not count yet.
func (s *server) owned() string {
	var list []string
	for i := s.posted().n; i < s.at.n; i++ {
		if t := s.at.b.get(i).gtid; t.number != 0 {
			list = append(list, fmt.Sprintf("%s:%d#%d", uuid(t.server), t.number, 10+i%7))
		}
	}
	return strings.Join(list, ",")
}

// nextNumber is the number of the next transaction that a primary writes. Now and then one is left out, and used later: sets
// have gaps. MariaDB's numbers only ascend.
func (s *server) nextNumber() uint64 {
	if s.c.engine == MySQL {
		if n := len(s.spare); n > 0 && s.c.chance(0.3) {
			number := s.spare[n-1]
			s.spare = s.spare[:n-1]
			return number
		}
		if s.c.chance(0.02) {
			s.sequence++
			s.spare = append(s.spare, s.sequence)
		}
	}
	s.sequence++
	return s.sequence
}

// uuid is a MySQL server's name.
func uuid(server int) string { return fmt.Sprintf("%08x-0000-0000-0000-%012x", server, server) }

// executed is MySQL's gtid_executed.
func (s *server) executed() string {
	s.count()
	var b strings.Builder
	for _, id := range s.sets.servers() {
		list := s.sets[id]
		if b.Len() > 0 {
			b.WriteString(",\n")
		}
		b.WriteString(uuid(id))
		for _, v := range list {
			if v.first == v.last {
				fmt.Fprintf(&b, ":%d", v.first)
			} else {
				fmt.Fprintf(&b, ":%d-%d", v.first, v.last)
			}
		}
	}
	return b.String()
}

// last is the last transaction of a place: MariaDB's position in the one domain.
func (p place) last() string {
	for i := p.n - 1; i >= 0; i-- {
		if t := p.b.get(i).gtid; t.number != 0 {
			return fmt.Sprintf("0-%d-%d", t.server, t.number)
		}
	}
	return ""
}

// binlogState is MariaDB's gtid_binlog_state: the last transaction of each server in its log.
func (s *server) binlogState() string {
	s.count()
	var parts []string
	for i := s.counted.n; i < s.at.n; i++ { // it is in the log before it counts
		if t := s.at.b.get(i).gtid; t.number != 0 {
			s.sets.add(t)
		}
	}
	s.counted = s.at
	for _, id := range s.sets.servers() {
		list := s.sets[id]
		parts = append(parts, fmt.Sprintf("0-%d-%d", id, list[len(list)-1].last))
	}
	return strings.Join(parts, ",")
}
