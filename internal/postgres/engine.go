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
// is a receiver.
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
 (extract(epoch FROM current_setting('wal_writer_delay')::interval) * 1000000)::bigint::text
FROM (SELECT pg_is_in_recovery() AS rec OFFSET 0) r`

// probeColumns is how many columns probeSQL has.
const probeColumns = 10

// Ask implements monitor.Engine.
func (e Engine) Ask(ctx context.Context, link monitor.Link) (core.Sample, error) {
	row, err := link.QueryRow(ctx, probeSQL)
	if err != nil {
		return core.Sample{}, err
	}
	return e.ParseProbe(row)
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
	return s, nil
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

// BackendSQL implements monitor.Engine. A process id alone could be another session's by now. Its own role may end a
// session (pg_terminate_backend).
func (Engine) BackendSQL(b monitor.Backend, end bool) string {
	if b.PID == 0 {
		return ""
	}
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
