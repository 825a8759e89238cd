package mysql

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/readroute/readroute/internal/core"
)

// The statements read everything at once, so that identity, role and position belong together. Each column is text or a
// number, whatever the session's sql_mode. UNIX_TIMESTAMP() is when the statement began, and the server counts its uptime up
// to then: the difference is the second of its start, the same every time, even when the clock is set.
//
// What cannot change while a connection lives, when the server has started, and what hardly ever does, groups and
// clusters, is asked for on a connection now and then only: it costs more than all the rest. MariaDB is not asked with GROUP_CONCAT:
// 10.11 dies of a statement that is ended while its temporary table is made.
const (
	mysqlSQL = `SELECT @@GLOBAL.server_uuid, CONNECTION_ID(), @@GLOBAL.read_only, @@GLOBAL.log_bin, @@GLOBAL.gtid_mode,
 @@GLOBAL.gtid_owned, @@GLOBAL.gtid_executed, `
	mysqlFacts = `(SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_status
 WHERE VARIABLE_NAME = 'Uptime'),
 (SELECT GROUP_CONCAT(CONCAT(LOWER(VARIABLE_NAME), '=', VARIABLE_VALUE)) FROM performance_schema.global_variables
 WHERE VARIABLE_NAME IN ('group_replication_group_name', 'group_replication_single_primary_mode', 'wsrep_on', 'wsrep_provider'))`

	mariadbSQL = `SELECT CONCAT(@@GLOBAL.hostname, ':', @@GLOBAL.port, ':', @@GLOBAL.server_id), CONNECTION_ID(),
 @@GLOBAL.read_only, @@GLOBAL.log_bin, @@GLOBAL.gtid_domain_id, @@GLOBAL.gtid_current_pos, @@GLOBAL.gtid_slave_pos,
 @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_binlog_pos, @@GLOBAL.log_slave_updates, `
	mariadbFacts = `(SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS
 WHERE VARIABLE_NAME = 'UPTIME'),
 CONCAT_WS(',',
 (SELECT CONCAT('wsrep_on=', VARIABLE_VALUE) FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'WSREP_ON'),
 (SELECT CONCAT('wsrep_provider=', VARIABLE_VALUE) FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'WSREP_PROVIDER'))`

	noFacts = `'', ''`
)

// How many columns the statements have.
const (
	mysqlColumns   = 9
	mariadbColumns = 12
)

// ProbeSQL returns the statement that reads identity, role and position at once. It has no arguments.
func (e Engine) ProbeSQL() string {
	if e.MariaDB {
		return mariadbSQL + mariadbFacts
	}
	return mysqlSQL + mysqlFacts
}

// shortSQL is ProbeSQL without what is remembered of a connection.
func (e Engine) shortSQL() string {
	if e.MariaDB {
		return mariadbSQL + noFacts
	}
	return mysqlSQL + noFacts
}

// ParseProbe reads its row. It knows no more of the role than whether the server is read-only, and takes a
// replica for one that nothing feeds: [Engine.Ask] asks for that.
func (e Engine) ParseProbe(row []string) (core.Sample, error) {
	p, err := e.parse(row)
	if err != nil {
		return core.Sample{}, err
	}
	if err := p.facts.check(); err != nil {
		return core.Sample{}, err
	}
	return p.report(p.role()).Sample, nil
}

// facts is what hardly ever changes on one connection.
type facts struct {
	start         int64 // of the server, in microseconds of the Unix epoch
	groupName     string
	singlePrimary bool
	galera        bool
}

// check refuses what replicates in a way that this package does not know.
func (f *facts) check() error {
	switch {
	case f.start == 0:
		return errors.New("read the server's position: it does not tell when it was started")
	case f.galera:
		return fmt.Errorf("%w: it is a node of a Galera cluster, whose positions do not say what a node shows", ErrUnsupported)
	}
	return nil
}

// maxAnswer bounds, in bytes, the GTIDs that a server says it has: their number is the server's own affair, and grows with every server
// that ever wrote and every gap. What the library reads of a caller is bounded by core.MaxGTIDText.
const maxAnswer = 64 << 20

// probe is a row of ProbeSQL.
type probe struct {
	engine     Engine
	identity   string // in the words of the server
	connection string
	readOnly   bool
	logs       bool // what it writes
	gtidMode   string
	owned      core.GTIDSet // being committed: a read may see it before it is in executed, and so it is read first
	executed   core.GTIDSet
	domain     uint32
	current    core.MariaDBGTID // replayed and written
	replayed   core.MariaDBGTID
	logged     core.MariaDBGTID
	binlog     core.MariaDBGTID // the end of the log, in which a transaction is before anyone sees it
	logsAll    bool             // also what it has replayed
	facts      facts            // zero after shortSQL
}

func (e Engine) parse(row []string) (*probe, error) {
	want := mysqlColumns
	if e.MariaDB {
		want = mariadbColumns
	}
	if len(row) != want {
		return nil, fmt.Errorf("read the server's position: %d columns instead of %d", len(row), want)
	}
	p := &probe{engine: e, identity: row[0], connection: row[1], readOnly: on(row[2]), logs: on(row[3])}
	if p.identity == "" {
		return nil, errors.New("read the server's position: it does not tell who it is")
	}
	var err error
	if e.MariaDB {
		domain, domainErr := strconv.ParseUint(row[4], 10, 32)
		p.domain, err = uint32(domain), domainErr
		p.logsAll = on(row[9])
		for i, list := range []*core.MariaDBGTID{&p.current, &p.replayed, &p.logged, &p.binlog} {
			if err == nil {
				*list, err = core.ParseLongMariaDBGTID(row[5+i], maxAnswer)
			}
		}
	} else {
		p.gtidMode = row[4]
		if p.owned, err = core.ParseLongGTIDSet(withoutOwners(row[5]), maxAnswer); err == nil {
			p.executed, err = core.ParseLongGTIDSet(row[6], maxAnswer)
		}
	}
	if err == nil {
		err = p.facts.parse(row[want-2], row[want-1])
	}
	if err != nil {
		return nil, fmt.Errorf("read the server's position: %w", err)
	}
	return p, nil
}

// withoutOwners is @@gtid_owned as a set: "uuid:5#17:6#18" without the threads.
func withoutOwners(owned string) string {
	if !strings.Contains(owned, "#") {
		return owned
	}
	var b strings.Builder
	for at := 0; at < len(owned); at++ {
		if owned[at] != '#' {
			b.WriteByte(owned[at])
			continue
		}
		for at+1 < len(owned) && '0' <= owned[at+1] && owned[at+1] <= '9' {
			at++
		}
	}
	return b.String()
}

// on reads a switch of either server. MariaDB 12's read_only has several values that all mean yes.
func on(value string) bool { return value != "" && value != "0" && !strings.EqualFold(value, "OFF") }

func (f *facts) parse(start, variables string) error {
	if start != "" {
		seconds, err := strconv.ParseInt(start, 10, 64)
		if err != nil {
			return fmt.Errorf("when the server was started: %w", err)
		}
		f.start = seconds * 1_000_000
	}
	wsrep, provider := false, ""
	for _, v := range strings.Split(variables, ",") {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "group_replication_group_name":
			f.groupName = value
		case "group_replication_single_primary_mode":
			f.singlePrimary = on(value)
		case "wsrep_on":
			wsrep = on(value)
		case "wsrep_provider":
			provider = value
		}
	}
	f.galera = wsrep && provider != "" && !strings.EqualFold(provider, "none")
	return nil
}

// nameOf is a number for a server's name: UUIDs, hosts and ports are longer. It is 0 for none.
func nameOf(name string) uint64 {
	if name == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(name)) //nolint:errcheck // it never fails
	return h.Sum64()
}

func (p *probe) system() uint64 { return nameOf(p.identity) }

// self is what its replicas know the server by: MariaDB's know no more than its server_id.
func (p *probe) self() uint64 {
	if !p.engine.MariaDB {
		return p.system()
	}
	id, _ := strconv.ParseUint(p.identity[strings.LastIndexByte(p.identity, ':')+1:], 10, 64)
	return id
}

// role is what the server takes itself for.
func (p *probe) role() core.Role {
	if p.readOnly {
		return core.RoleReplica
	}
	return core.RolePrimary
}

// Report is a sample with what else the server has said.
type Report struct {
	core.Sample
	// Missing says, a sentence each, what could not be found out or had, and what can be done about it.
	Missing []string
}

// report makes a sample of a server in a role.
func (p *probe) report(role core.Role) Report {
	r := Report{Sample: core.Sample{Start: core.Start{System: p.system(), At: p.facts.start}, Role: role}}
	if p.engine.MariaDB {
		p.mariadbPosition(&r)
	} else {
		p.mysqlPosition(&r)
	}
	r.Reported = r.Position.LSN
	if role == core.RolePrimary {
		r.Flush = r.Position.LSN // a GTID is there when its transaction is in the log, or is lost with it
	}
	return r
}

func (p *probe) mysqlPosition(r *Report) {
	switch {
	case p.gtidMode != "ON":
		r.miss("gtid_mode is %s, so the server has no position: turn it ON, or use Sticky", p.gtidMode)
		return
	case r.Role == core.RolePrimary && !p.logs:
		r.miss("log_bin is off, so what the server writes has no position: turn it on, or use Sticky")
		return
	}
	size := transactions(p.executed)
	r.Position = core.MySQLPosition(p.executed, size)
	if !p.owned.IsZero() {
		r.Seen = core.MySQLPosition(p.executed.Union(p.owned), size)
	}
	if own, ok := core.ParseUUID(p.stream()); ok {
		r.Own = core.MySQLPosition(p.executed.MovedSince(p.executed, own), size)
	}
}

// stream is the UUID that the server writes under: all members of a group write under the group's name.
func (p *probe) stream() string {
	if p.facts.groupName != "" {
		return p.facts.groupName
	}
	return p.identity
}

func (p *probe) mariadbPosition(r *Report) {
	r.History = p.logged.Union(p.replayed) // not all that was replayed is logged: log_slave_updates, a copy of another server
	list := p.replayed
	if r.Role == core.RolePrimary {
		// What was written last counts in gtid_current_pos only when that was under the server_id that the server has now. A session
		// may have another, and the server may have had one before: then the position is where the server was as a replica.
		list = p.current.Furthest(p.binlog)
		if !p.logs {
			r.miss("log_bin is off, so what the server writes has no position: turn it on, or use Sticky")
			return
		}
	} else if list.IsZero() {
		r.miss("gtid_slave_pos is empty, so the replica has no position: it has never replicated a transaction with a GTID")
	}
	size := core.LSN(0)
	for e := range list.Entries() {
		size += core.LSN(e.Sequence)
	}
	r.Position = core.MariaDBPosition(list, size)
	if r.Seen = core.MariaDBPosition(p.binlog.Union(list), size); !p.logs || r.Role == core.RoleReplica && !p.logsAll {
		r.SeenUnknown = true
	}
	r.Own = core.MariaDBPosition(list.MovedSince(list, p.domain), size)
}

func (r *Report) miss(format string, args ...any) {
	r.Missing = append(r.Missing, fmt.Sprintf(format, args...))
}

// transactions is how many there are in a set.
func transactions(set core.GTIDSet) core.LSN {
	var sum, first, number uint64
	// The canonical text is of UUIDs and tags, which are no intervals, and of numbers and pairs of them.
	for _, stream := range strings.Split(set.String(), ",") {
		for _, part := range strings.Split(stream, ":")[1:] {
			low, high, pair := strings.Cut(part, "-")
			var err error
			if first, err = strconv.ParseUint(low, 10, 64); err != nil {
				continue // a tag
			}
			if number = first; pair {
				number, _ = strconv.ParseUint(high, 10, 64)
			}
			sum += number - first + 1
		}
	}
	return core.LSN(sum)
}

// Need implements monitor.Engine. It is the position of s in every stream that has moved since base, and in the primary's
// own in any case: a write that changes nothing has no GTID, and yet its session has seen what was there. It is never
// empty unless s has no position, and never a bare difference: when nothing has moved and the primary has written
// nothing, it is all of s. A base without a position is one that has nothing.
func (Engine) Need(base, s core.Sample) core.Position {
	full := s.Position
	need := full
	switch full.Kind {
	case core.KindMySQL:
		need = core.MySQLPosition(full.GTIDs().MovedSince(base.Position.GTIDs()).Union(s.Own.GTIDs()), full.LSN)
	case core.KindMariaDB:
		need = core.MariaDBPosition(full.Domains().MovedSince(base.Position.Domains()).Union(s.Own.Domains()), full.LSN)
	case core.KindNone, core.KindPostgres:
	}
	if need.IsZero() {
		return full
	}
	return need
}
