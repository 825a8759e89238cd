// Package postgres knows how a PostgreSQL server is asked for its identity, role and position, and what its errors
// mean to a router. It does not import database/sql.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/sqlclass"
)

// closeTimeout bounds the farewell to a server.
const closeTimeout = time.Second

// Engine asks PostgreSQL 13 and later. The zero Engine is ready for use.
type Engine struct{}

// probeSQL reads everything in one statement, so that role, identity and position belong together. Each column is text
// and never NULL. pg_is_in_recovery is read once: OFFSET 0 keeps the subquery apart. After a promotion the replay
// position freezes and does not become NULL, so only the role says which function counts. The insert position is right
// for a capture, and pg_current_wal_lsn is not: with synchronous_commit off it is behind a commit that has been
// acknowledged. received_tli is NULL for a role without pg_read_all_stats; such a role reads from the control file, which
// lags, a timeline that the standby has certainly reached (marked with a +). The process id tells every role that there
// is a receiver. Where replay ended on a primary is where it left the timeline before, until the server is started again.
const probeSQL = `SELECT r.rec::text,
 (SELECT system_identifier::text FROM pg_control_system()),
 (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text,
 coalesce(CASE WHEN r.rec THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text, ''),
 coalesce(CASE WHEN r.rec THEN NULL ELSE pg_current_wal_flush_lsn() END::text, ''),
 coalesce(CASE WHEN r.rec THEN coalesce((SELECT received_tli::text FROM pg_stat_get_wal_receiver()),
   (SELECT greatest(c.timeline_id, m.min_recovery_end_timeline)::text || '+' FROM pg_control_checkpoint() c, pg_control_recovery() m))
  ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END, ''),
 CASE WHEN r.rec THEN (SELECT count(w.pid)::text FROM pg_stat_get_wal_receiver() w) ELSE '0' END,
 current_setting('wal_block_size'),
 pg_size_bytes(current_setting('wal_segment_size'))::text,
 (extract(epoch FROM current_setting('wal_writer_delay')::interval) * 1000000)::bigint::text,
 coalesce(CASE WHEN r.rec THEN pg_last_wal_receive_lsn() ELSE pg_last_wal_replay_lsn() END::text, '')
FROM (SELECT pg_is_in_recovery() AS rec OFFSET 0) r`

// probeColumns is how many columns probeSQL has.
const probeColumns = 11

// Name is the kind's name.
func (Engine) Name() string { return "PostgreSQL" }

// Dialect is the language of its statements.
func (Engine) Dialect() sqlclass.Dialect { return sqlclass.PostgreSQL }

// Capabilities implements the pools' engine. What a user may not see of a standby's timeline makes it prove less, not wrong.
func (Engine) Capabilities(ctx context.Context, link monitor.Link) []string {
	if _, err := link.QueryRow(ctx, probeSQL); hidesPositions(err) {
		if row, shown := link.QueryRow(ctx, isolationSQL); shown == nil && len(row) == 1 && row[0] == "serializable" && refusesSerializable(err) {
			return []string{fmt.Sprintf("default_transaction_isolation is serializable for this user, which a standby refuses (%v), so it serves "+
				"nothing: set it to 'repeatable read' in the DSN of this node, if that will do for reads there, and begin what must be serializable "+
				"with sql.LevelSerializable, which goes to the primary", err)}
		}
		return []string{fmt.Sprintf("the server does not tell its position (%v), so sessions are on the sticky window: grant the user "+
			"EXECUTE on pg_control_system, pg_current_wal_insert_lsn and pg_last_wal_replay_lsn where the service has them", err)}
	}
	return nil
}

// Ask implements monitor.Engine.
//
// A server that does not have the functions for it, or does not let the user call them, has a sample without a position.
func (e Engine) Ask(ctx context.Context, link monitor.Link) (core.Sample, error) {
	row, err := link.QueryRow(ctx, probeSQL)
	if err == nil {
		return e.ParseProbe(row)
	}
	if !hidesPositions(err) {
		return core.Sample{}, err
	}
	row, limited := link.QueryRow(ctx, roleSQL)
	if limited != nil || len(row) != 2 {
		return core.Sample{}, err
	}
	p := parser{row: row}
	s := core.Sample{Role: core.RolePrimary, Start: core.Start{At: int64(p.number(1, 10))}}
	if row[0] == "true" || row[0] == "t" {
		s.Role, s.SourceUnknown = core.RoleReplica, true
	}
	return s, p.err
}

// roleSQL reads what a server has that keeps its positions to itself, as some managed services do.
const roleSQL = "SELECT pg_is_in_recovery()::text, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text"

// isolationSQL is answered also where every query is refused.
const isolationSQL = "SHOW default_transaction_isolation"

// refusesSerializable reports that err may be a standby's that is asked in a serializable transaction.
func refusesSerializable(err error) bool {
	a, _ := answerOf(err)
	return a.code == "0A000"
}

// hidesPositions reports that a server does not answer the probe because of what it is, or what the user may do.
func hidesPositions(err error) bool {
	a, _ := answerOf(err)
	return a.code == "0A000" || a.code == "42883" || a.code == "42501" // not supported, no such function, no right
}

// Committing implements monitor.Engine. A transaction holds the lock on its own number until its commit is seen; a snapshot
// does not name those that have begun since the newest one that has ended. One whose session waits for its client is not being
// committed; whose session may not be seen is taken for one that is.
func (Engine) Committing(ctx context.Context, link monitor.Link) ([]string, error) {
	row, err := link.QueryRow(ctx, "SELECT coalesce(string_agg(transactionid::text, ','), '') FROM pg_locks l"+
		" LEFT JOIN pg_stat_activity a ON a.pid = l.pid"+
		" WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND a.state IS DISTINCT FROM 'idle in transaction'")
	if err != nil || len(row) != 1 || row[0] == "" {
		return nil, err
	}
	return strings.Split(row[0], ","), nil
}

// Need implements monitor.Engine: a place in the log stands for all before it.
func (Engine) Need(_, _ core.Sample) core.Position { return core.Position{} }

// ProbeSQL returns the statement that reads identity, role and position at once.
func (Engine) ProbeSQL() string { return probeSQL }

// ParseProbe reads its row.
func (Engine) ParseProbe(row []string) (core.Sample, error) {
	if len(row) != probeColumns {
		return core.Sample{}, fmt.Errorf("read the server's position: %d columns instead of %d", len(row), probeColumns)
	}
	p := parser{row: row}
	var s core.Sample
	switch row[0] {
	case "true", "t":
		s.Role = core.RoleReplica
	case "false", "f":
		s.Role = core.RolePrimary
	default:
		return core.Sample{}, fmt.Errorf("read the server's position: column 1 is %q, neither true nor false", row[0])
	}
	replica := s.Role == core.RoleReplica
	s.Start = core.Start{System: p.number(1, 10), At: int64(p.number(2, 10))}
	s.Reported = p.lsn(3)
	s.Flush = p.lsn(4)
	var timeline uint32
	switch floor, lowerBound := strings.CutSuffix(row[5], "+"); {
	case !replica:
		timeline = p.timeline(row[5], 16) // the first part of a WAL file name
	case lowerBound:
		s.TimelineFloor = p.timeline(floor, 10)
	case row[5] != "":
		timeline = p.timeline(row[5], 10)
	}
	s.HasSource = row[6] != "0"
	block, segment := p.number(7, 10), p.number(8, 10)
	s.FlushDelay = 3 * time.Duration(p.number(9, 10)) * time.Microsecond
	if p.err != nil {
		return core.Sample{}, p.err
	}
	lsn := s.Reported
	if !replica {
		lsn = lsn.RoundDown(block, segment)
	}
	if !replica && s.Flush == 0 {
		return core.Sample{}, errors.New("read the server's position: a primary without one")
	}
	if s.Reported != 0 {
		s.Position = core.Position{Kind: core.KindPostgres, System: s.Start.System, Timeline: timeline, LSN: lsn}
	}
	if replica {
		s.Seen, s.SeenUnknown = seen(s.Position, p.lsn(10))
	} else {
		s.Recovered = p.lsn(10)
	}
	return s, p.err
}

// seen is a position that all that a read on a standby could see is at or below. What a commit record does can be seen a
// moment before the record counts as replayed. So while there is more to replay, one record more is asked for: whoever
// has replayed anything beyond the position has replayed the record that begins there.
func seen(replayed core.Position, received core.LSN) (p core.Position, unknown bool) {
	switch {
	case received == 0 || replayed.IsZero():
		return core.Position{}, true // it never streamed
	case received > replayed.LSN:
		replayed.LSN++
	}
	return replayed, false
}

type parser struct {
	row []string
	err error
}

func (p *parser) number(i, base int) uint64 {
	v, err := strconv.ParseUint(p.row[i], base, 64)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("read the server's position: column %d: %w", i+1, err)
	}
	return v
}

func (p *parser) timeline(text string, base int) uint32 {
	v, err := strconv.ParseUint(text, base, 32)
	if err == nil && v == 0 {
		err = strconv.ErrRange
	}
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("read the server's position: timeline %q: %w", text, err)
	}
	return uint32(v)
}

func (p *parser) lsn(i int) core.LSN {
	if p.row[i] == "" {
		return 0
	}
	l, err := core.ParseLSN(p.row[i])
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("read the server's position: column %d: %w", i+1, err)
	}
	return l
}

// Gone implements monitor.Engine. A session's own role may end it (pg_terminate_backend).
func (Engine) Gone(ctx context.Context, link monitor.Link, b monitor.Backend, end bool) (bool, error) {
	row, err := link.QueryRow(ctx, BackendSQL(b, end))
	if err != nil {
		return false, err
	}
	if len(row) != 1 {
		return false, errors.New("look for a server session: the server gave no answer")
	}
	return row[0] == "0", nil
}

// BackendSQL returns a statement whose single value is "0" once b is gone; with end it also ends b. A process id alone could
// be another session's by now.
func BackendSQL(b monitor.Backend, end bool) string {
	what := "count(*)"
	if end {
		what = "count(pg_terminate_backend(pid))"
	}
	return fmt.Sprintf("SELECT %s::text FROM pg_stat_activity WHERE pid = %d"+
		" AND (extract(epoch FROM backend_start) * 1000000)::bigint = %d", what, b.PID, b.Start)
}

// SettingsSQL returns the statement that tells what a session of this user is like: "t" on a replica,
// default_transaction_read_only, statement_timeout in milliseconds, and how many connections the user may have.
func (Engine) SettingsSQL() string {
	return "SELECT pg_is_in_recovery()::text, current_setting('default_transaction_read_only')," +
		" (SELECT setting FROM pg_settings WHERE name = 'statement_timeout')," +
		" least((SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user)," +
		" current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int)::text"
}

// SettingNames implements the pools' engine.
func (Engine) SettingNames() (readOnly, timeout, remedy string) {
	return "default_transaction_read_only", "statement_timeout",
		"ALTER ROLE, or ALTER DATABASE, ... RESET default_transaction_read_only"
}

// RemoteApplySQL implements the pools' engine. Without a synchronous standby the server would wait for nobody and say nothing.
// Who may not see the state of standbys (pg_monitor) sees none. pg_stat_replication would show a transaction the sessions of its first look.
func (Engine) RemoteApplySQL(local bool) string {
	return fmt.Sprintf("SELECT q.before, q.standbys::text, CASE WHEN q.standbys > 0 THEN set_config('synchronous_commit', 'remote_apply', %t) END"+
		" FROM (SELECT current_setting('synchronous_commit') AS before, (SELECT count(*) FROM pg_stat_get_wal_senders()"+
		" WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')) AS standbys OFFSET 0) q", local)
}

// RestoreSQL implements the pools' engine.
func (Engine) RestoreSQL(before string) string {
	return "SELECT set_config('synchronous_commit', '" + strings.ReplaceAll(before, "'", "''") + "', false)"
}

// SelfSQL returns the statement that tells a connection its own Backend.
func (Engine) SelfSQL() string {
	return "SELECT pid::text, (extract(epoch FROM backend_start) * 1000000)::bigint::text" +
		" FROM pg_stat_activity WHERE pid = pg_backend_pid()"
}

// ParseSelf reads SelfSQL's row.
func (Engine) ParseSelf(row []string) (monitor.Backend, error) {
	if len(row) != 2 {
		return monitor.Backend{}, fmt.Errorf("read the server session: %d columns instead of 2", len(row))
	}
	p := parser{row: row}
	b := monitor.Backend{PID: uint32(p.number(0, 10)), Start: int64(p.number(1, 10))}
	return b, p.err
}

// ReadOnlySQL makes a session refuse writes from now on. It is for connections that could not be opened so.
func (Engine) ReadOnlySQL() string { return "SET default_transaction_read_only = on" }
