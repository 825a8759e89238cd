package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/readroute/readroute/internal/core"
)

// Numbers of servers' errors. Both servers use the same for the same, as far as both have it.
const (
	errSyntax         = 1064
	errTableDenied    = 1142
	errNotFoundTable  = 1146
	errSpecificAccess = 1227
)

// querier is a link that can read more than a row.
type querier interface {
	// Query runs a statement without arguments and returns its columns' names and its rows as text.
	Query(ctx context.Context, query string) (columns []string, rows [][]string, err error)
}

// status is what feeds a server.
type status struct {
	known   bool
	sources int  // configured
	active  bool // something of one of them runs: the server replicates, whether it is read-only or not
	from    []core.Source
	feeding bool // all of them run without an error
	denied  bool // for want of a right, and so on this connection for good
	missing string
	filters []string // what keeps a part from it, as the server calls it
	// lag is what the server says of the one that is furthest behind; negative when one does not say.
	lag time.Duration
}

// filters are columns of a replica's status, and of a primary's. What they keep from a replica no position tells of.
var filters = []string{
	"Replicate_Do_DB", "Replicate_Ignore_DB", "Replicate_Do_Table", "Replicate_Ignore_Table", "Replicate_Wild_Do_Table",
	"Replicate_Wild_Ignore_Table", "Replicate_Rewrite_DB", "Replicate_Do_Domain_Ids", "Replicate_Ignore_Domain_Ids", "Binlog_Do_DB", "Binlog_Ignore_DB",
}

// binlogFilters returns those of what the server writes, if the user may see them.
func binlogFilters(ctx context.Context, q querier) []string {
	for _, statement := range []string{"SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"} { // MySQL from 8.2 on; the others
		columns, rows, err := q.Query(ctx, statement)
		if err != nil || len(rows) != 1 {
			continue
		}
		var list []string
		for i, name := range columns {
			if slices.Contains(filters, name) && i < len(rows[0]) && rows[0][i] != "" {
				list = append(list, name+"="+rows[0][i])
			}
		}
		return list
	}
	return nil
}

// replicaStatus asks who feeds the server.
func (e Engine) replicaStatus(ctx context.Context, q querier) (status, error) {
	statements := []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"} // the old name is that of MySQL before 8.0.22
	if e.MariaDB {
		statements = []string{"SHOW ALL SLAVES STATUS"} // SHOW REPLICA STATUS is of one of several connections
	}
	var err error
	for _, statement := range statements {
		var columns []string
		var rows [][]string
		columns, rows, err = q.Query(ctx, statement)
		switch {
		case err == nil:
			return parseStatus(columns, rows)
		case isNumber(err, errSpecificAccess):
			return e.deniedStatus(ctx, q)
		case !isNumber(err, errSyntax):
			return status{}, err
		}
	}
	return status{}, err
}

// deniedStatus finds out what it can without the right to look at replication. MariaDB's counters tell anybody whether
// the one unnamed connection is fed, and how many appliers run.
func (e Engine) deniedStatus(ctx context.Context, q querier) (status, error) {
	s := status{denied: true}
	if !e.MariaDB {
		s.missing = "the user may not see whether the server replicates, so that a replica that nothing feeds is left out only " +
			"when it is further behind than MaxLag, and one that is not read-only passes for a primary: GRANT REPLICATION CLIENT ON *.* to it"
		return s, nil
	}
	_, rows, err := q.Query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slave_running', 'Slaves_running')")
	if err != nil {
		return s, err
	}
	running, appliers := false, "0"
	for _, row := range rows {
		if len(row) == 2 && strings.EqualFold(row[0], "Slave_running") {
			running = on(row[1])
		} else if len(row) == 2 {
			appliers = row[1]
		}
	}
	if s.active = running || appliers != "0"; s.active {
		s.from = []core.Source{{Active: true}}
	}
	switch {
	case running && appliers == "1":
		s.known, s.feeding, s.sources = true, true, 1
	case !s.active:
		s.known = true
	default:
		s.missing = "the user may not see what feeds the server, of which there is more than one, or a part that does not run: " +
			"GRANT SLAVE MONITOR ON *.* to it"
	}
	return s, nil
}

// parseStatus reads the rows of either server and any version, a source each.
func parseStatus(columns []string, rows [][]string) (status, error) {
	s := status{known: true, feeding: len(rows) > 0}
	column := func(row []string, names ...string) string {
		for i, c := range columns {
			if slices.Contains(names, c) && i < len(row) {
				return row[i]
			}
		}
		return ""
	}
	for _, row := range rows {
		if strings.HasPrefix(column(row, "Channel_Name"), "group_replication_") {
			continue // the group's own, of which its members' table tells
		}
		receiver := column(row, "Replica_IO_Running", "Slave_IO_Running")
		applier := column(row, "Replica_SQL_Running", "Slave_SQL_Running")
		if receiver == "" || applier == "" {
			return status{}, errors.New("read the replica's status: it does not tell whether receiver and applier run")
		}
		s.sources++
		from := core.Source{Active: applier != "No" || receiver != "No"}
		if slices.Contains(columns, "Source_UUID") || slices.Contains(columns, "Master_UUID") {
			from.Self = nameOf(column(row, "Source_UUID", "Master_UUID"))
		} else {
			from.Self, _ = strconv.ParseUint(column(row, "Master_Server_Id"), 10, 64) // 0, too, is a server that is not known
		}
		s.from = append(s.from, from)
		s.active = s.active || from.Active
		for i, name := range columns {
			if slices.Contains(filters, name) && i < len(row) && row[i] != "" {
				s.filters = append(s.filters, name+"="+row[i])
			}
		}
		number := column(row, "Last_IO_Errno") + column(row, "Last_SQL_Errno")
		s.feeding = s.feeding && applier == "Yes" && receiver == "Yes" && strings.Trim(number, "0") == ""
		seconds, err := strconv.ParseUint(column(row, "Seconds_Behind_Source", "Seconds_Behind_Master"), 10, 31)
		if err != nil {
			s.lag = -1
		} else if s.lag >= 0 {
			s.lag = max(s.lag, time.Duration(seconds)*time.Second)
		}
	}
	s.feeding = s.feeding && s.sources > 0
	return s, nil
}

// role is a server's, and whether anything feeds it. A server whose replication does not run and that is not read-only is
// a primary: what is left of a configuration does not matter. One that does both is a replica that may have a claim: nothing on the
// server tells a primary that pulls from its standby from a standby that nobody has made read-only.
func (s *status) role(p *probe) (role core.Role, fed bool) {
	if p.readOnly || s.active {
		return core.RoleReplica, s.feeding
	}
	return core.RolePrimary, false
}

// claims reports that the server accepts writes although it replicates.
func (s *status) claims(p *probe) bool { return s.active && !p.readOnly }

// groupSQL reads a server's own place in a replication group. The columns' names are those of 8.0 and later.
const groupSQL = "SELECT m.MEMBER_STATE, m.MEMBER_ROLE, (SELECT COUNT(*) FROM performance_schema.replication_group_members o" +
	" WHERE o.MEMBER_ROLE = 'PRIMARY') FROM performance_schema.replication_group_members m WHERE m.MEMBER_ID = @@GLOBAL.server_uuid"

// group is a server's place in a replication group.
type group struct {
	known         bool
	state, member string // as the server writes them: ONLINE, PRIMARY
	missing       string
}

func (e Engine) groupStatus(ctx context.Context, q querier, f *facts) (group, error) {
	_, rows, err := q.Query(ctx, groupSQL)
	switch {
	case isNumber(err, errTableDenied), isNumber(err, errNotFoundTable):
		if !f.singlePrimary {
			return group{}, errMultiPrimary
		}
		return group{missing: "the user may not see the server's place in its replication group, so that a secondary does not count " +
			"as fed by anything: GRANT SELECT ON performance_schema.replication_group_members to it"}, nil
	case err != nil:
		return group{}, err
	case len(rows) == 0:
		return group{known: true, state: "OFFLINE"}, nil
	case len(rows[0]) != 3:
		return group{}, fmt.Errorf("read the replication group: %d columns instead of 3", len(rows[0]))
	}
	g := group{known: true, state: rows[0][0], member: rows[0][1]}
	if g.state != "OFFLINE" && (!f.singlePrimary || rows[0][2] != "0" && rows[0][2] != "1") {
		return group{}, errMultiPrimary
	}
	return g, nil
}

var errMultiPrimary = fmt.Errorf("%w: its replication group has several primaries, and a read may be sent where a write of "+
	"the same session is not yet known", ErrUnsupported)

// role is the server's in its group, if it takes part in one.
func (g *group) role(p *probe, s *status) (role core.Role, fed bool) {
	switch {
	case !g.known && p.readOnly:
		return core.RoleReplica, false
	case !g.known:
		return core.RolePrimary, false
	case g.state == "OFFLINE":
		return s.role(p)
	case g.member == "PRIMARY" && g.state == "ONLINE" && !p.readOnly:
		return core.RolePrimary, false
	default:
		return core.RoleReplica, g.state == "ONLINE" && g.member == "SECONDARY"
	}
}

func isNumber(err error, numbers ...uint16) bool {
	var refusal *mysql.MySQLError
	return errors.As(err, &refusal) && slices.Contains(numbers, refusal.Number)
}
