package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PauseReplay stops the standby's replay and waits until it has stopped; receiving goes on. While an apply delay runs
// for a commit, the pause begins only after it.
func (n *PostgresNode) PauseReplay(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := n.exec(ctx, controlDatabase, "SELECT pg_wal_replay_pause()"); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		state, err := n.value(ctx, controlDatabase, "SELECT pg_get_wal_replay_pause_state()")
		return state == "paused", err
	})
}

// ResumeReplay lets the standby's replay go on.
func (n *PostgresNode) ResumeReplay(ctx context.Context) error {
	return n.exec(ctx, controlDatabase, "SELECT pg_wal_replay_resume()")
}

// SetApplyDelay makes the standby replay each commit only when it is d old; 0 ends that, also for the commit that waits
// at the moment. PostgreSQL counts in milliseconds.
func (n *PostgresNode) SetApplyDelay(ctx context.Context, d time.Duration) error {
	return n.Set(ctx, "recovery_min_apply_delay", strconv.FormatInt(d.Milliseconds(), 10)+"ms")
}

// StopFast stops the server in order: sessions end, what is committed is sent to the standbys, a checkpoint is written.
func (n *PostgresNode) StopFast(ctx context.Context) error {
	return n.stop(ctx, "stopping", signalFast)
}

// StopImmediate stops the server at once and without a checkpoint: the next Start recovers as after a crash.
func (n *PostgresNode) StopImmediate(ctx context.Context) error {
	return n.stop(ctx, "stopping", signalImmediate)
}

// stop sends the signal and waits for the server's end. A server that does not run is stopped.
func (n *PostgresNode) stop(ctx context.Context, operation string, sig syscall.Signal) error {
	p := n.process.Load()
	if !p.running() {
		return nil
	}
	if n.frozen.Load() {
		return n.failed(operation, errors.New("it is frozen: Thaw or Kill it"))
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	n.dropIdle()
	if err := p.stop(ctx, sig); err != nil {
		return n.failed(operation, err)
	}
	return nil
}

// Kill ends all processes of the server with SIGKILL, frozen or not, and waits until they are gone. A server that does
// not run stays so.
func (n *PostgresNode) Kill(ctx context.Context) error {
	p := n.process.Load()
	if !p.running() {
		return nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	n.dropIdle()
	if err := p.kill(ctx); err != nil {
		return n.failed("killing", err)
	}
	n.frozen.Store(false)
	n.removeSharedMemory(ctx)
	return nil
}

// removeSharedMemory removes the one thing that a killed server leaves outside its folder, the segment by which
// PostgreSQL notices a second server on the same data: nobody else would if the server is not started again.
func (n *PostgresNode) removeSharedMemory(ctx context.Context) {
	data, err := os.ReadFile(filepath.Join(n.dataDir(), "postmaster.pid"))
	if err != nil {
		return
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) < 7 {
		return
	}
	if fields := strings.Fields(lines[6]); len(fields) == 2 {
		_ = exec.CommandContext(ctx, "ipcrm", "-m", fields[1]).Run() // a few bytes at worst
	}
}

// Freeze stops all processes of the server where they are (SIGSTOP). The kernel goes on accepting connections for it,
// and nothing answers. Close and Kill work on a frozen server, a stop is refused, all else waits for Thaw.
func (n *PostgresNode) Freeze(ctx context.Context) error {
	p := n.process.Load()
	if !p.running() {
		return n.failed("freezing", errNotRunning)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	n.frozen.Store(true)
	if _, err := p.freeze(ctx); err != nil {
		return n.failed("freezing", err)
	}
	return nil
}

// Thaw ends Freeze. A server that is not frozen goes on as it is.
func (n *PostgresNode) Thaw(context.Context) error {
	p := n.process.Load()
	if !p.running() || !n.frozen.Load() {
		return nil
	}
	if err := p.thaw(); err != nil {
		return n.failed("thawing", err)
	}
	n.frozen.Store(false)
	return nil
}

var errNotRunning = errors.New("it is not running")

// Promote makes the standby a primary, on a new timeline, and waits until it is one. Nothing else changes: the old
// primary, if it runs, goes on writing, and the other standbys follow it until Follow says otherwise.
func (n *PostgresNode) Promote(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	done, err := n.value(ctx, controlDatabase, fmt.Sprintf("SELECT pg_promote(true, %d)", int(operationTimeout.Seconds())))
	if err != nil {
		return err
	}
	if done != "t" {
		return n.failed("promoting", errors.New("the server did not end recovery in time"))
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.cluster.primary = n
	return nil
}

// Follow makes the node replicate from primary. A running standby reloads; any other node, such as an old primary, is
// stopped if it runs and started as a standby. Follow does not wait for replication: a node that has gone beyond the
// point where the new timeline began never follows, and can only be made anew with Rebuild.
func (n *PostgresNode) Follow(ctx context.Context, primary *PostgresNode) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if n.IsRunning() {
		standby, err := n.value(ctx, controlDatabase, "SELECT pg_is_in_recovery()")
		if err != nil {
			return err
		}
		if standby == "t" {
			return n.Set(ctx, "primary_conninfo", n.conninfo(primary))
		}
		if err := n.StopFast(ctx); err != nil {
			return err
		}
	}
	if err := n.writeFile("standby.signal", ""); err != nil {
		return n.failed("preparing", err)
	}
	// The last line of a name counts.
	auto, err := os.OpenFile(filepath.Join(n.dataDir(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return n.failed("preparing", err)
	}
	_, err = fmt.Fprintf(auto, "primary_conninfo = %s\n", quote(n.conninfo(primary)))
	if err := errors.Join(err, auto.Close()); err != nil {
		return n.failed("preparing", err)
	}
	return n.Start(ctx)
}

// Rebuild throws the node's data away and makes it a standby of primary from a fresh backup, under its name and port.
func (n *PostgresNode) Rebuild(ctx context.Context, primary *PostgresNode) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := n.Kill(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(n.dataDir()); err != nil {
		return n.failed("rebuilding", err)
	}
	if err := n.restore(ctx, primary); err != nil {
		return n.failed("rebuilding", err)
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	return waitCaughtUp(ctx, primary, n)
}

// restore fills the node's data folder, which does not exist, from a running primary.
func (n *PostgresNode) restore(ctx context.Context, primary *PostgresNode) error {
	start, stop := "SELECT pg_backup_start('dbtest', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if n.cluster.version < 15 {
		start, stop = "SELECT pg_start_backup('dbtest', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	var label string
	// A backup belongs to the session that began it.
	err := primary.withConn(ctx, controlDatabase, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, start); err != nil {
			return fmt.Errorf("beginning a backup of %s: %w", primary.name, err)
		}
		copied := n.cluster.folder.copyTree(primary.dataDir(), n.dataDir(), notInBackup)
		if err := conn.QueryRow(ctx, stop).Scan(&label); err != nil {
			return fmt.Errorf("ending a backup of %s: %w", primary.name, err)
		}
		return copied
	})
	if err != nil {
		return err
	}
	if err := n.writeFile("backup_label", label); err != nil {
		return err
	}
	// What ALTER SYSTEM has set there was meant for that node.
	if err := n.writeFile("postgresql.auto.conf", ""); err != nil {
		return err
	}
	return n.configure(primary)
}

// notInBackup names what belongs to the running server only. The log comes by streaming.
func notInBackup(path string) bool {
	switch path {
	case "postmaster.pid", "postmaster.opts", "backup_label", "standby.signal", "pg_replslot", "pg_dynshmem", "pg_notify",
		"pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans", filepath.Join("pg_wal", "archive_status"):
		return true
	}
	return filepath.Dir(path) == "pg_wal" && filepath.Base(path) != "archive_status"
}

// waitCaughtUp waits until the standbys have replayed what the primary has written now.
func waitCaughtUp(ctx context.Context, primary *PostgresNode, standbys ...*PostgresNode) error {
	if len(standbys) == 0 {
		return nil
	}
	const position = `SELECT pg_current_wal_insert_lsn() - '0/0',
		current_setting('wal_block_size'), (SELECT setting FROM pg_settings WHERE name = 'wal_segment_size')`
	rows, err := primary.query(ctx, controlDatabase, position)
	if err != nil {
		return err
	}
	target, err := lastRecordEnd(rows[0])
	if err != nil {
		return primary.failed("reading the position of", err)
	}
	for _, n := range standbys {
		var last string
		err := poll(ctx, func() (bool, error) {
			rows, err := n.query(ctx, controlDatabase, fmt.Sprintf(`SELECT pg_last_wal_replay_lsn() >= '0/0'::pg_lsn + %d,
				coalesce(pg_last_wal_replay_lsn()::text, 'nothing'), pg_get_wal_replay_pause_state()`, target))
			if err != nil {
				return false, err
			}
			last = fmt.Sprintf("it has replayed %s of %X/%X (replay %s)", rows[0][1], target>>32, uint32(target), rows[0][2])
			return rows[0][0] == "t", nil
		})
		if err != nil {
			return n.failed("waiting for", fmt.Errorf("%w: %s", err, last))
		}
	}
	return nil
}

// lastRecordEnd returns where the last record of the log ends. The insert position is where the next one will begin:
// at the start of a page that is behind the page's header, and no standby reports that before there is a record.
func lastRecordEnd(row []string) (uint64, error) {
	var numbers [3]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(row[i], 10, 64); err != nil {
			return 0, err
		}
	}
	insert, page, segment := numbers[0], numbers[1], numbers[2]
	const shortHeader, longHeader = 24, 40
	switch {
	case insert%segment <= longHeader:
		return insert - insert%segment, nil
	case insert%page <= shortHeader:
		return insert - insert%page, nil
	}
	return insert, nil
}
