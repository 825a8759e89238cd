package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// PauseReplay stops the replica's applier; receiving goes on.
func (n *MySQLNode) PauseReplay(ctx context.Context) error {
	return n.control(ctx, n.cluster.flavor.stopApplier)
}

// ResumeReplay lets the replica's applier go on.
func (n *MySQLNode) ResumeReplay(ctx context.Context) error {
	return n.control(ctx, n.cluster.flavor.startApplier)
}

// StopReceiver stops the thread that fetches from the source; what has been received is still applied.
func (n *MySQLNode) StopReceiver(ctx context.Context) error {
	return n.control(ctx, n.cluster.flavor.stopReceiver)
}

// StartReceiver ends StopReceiver. It does not wait for the connection.
func (n *MySQLNode) StartReceiver(ctx context.Context) error {
	return n.control(ctx, n.cluster.flavor.startReceiver)
}

// SetApplyDelay makes the replica apply each transaction only when it is d old; 0 ends that, also for the transaction
// that waits at the moment. The servers count in seconds, and so d is rounded up to seconds. Replication runs
// afterwards, even if it was paused before.
func (n *MySQLNode) SetApplyDelay(ctx context.Context, d time.Duration) error {
	seconds := int((d + time.Second - 1) / time.Second)
	return n.control(ctx, n.cluster.flavor.delay(seconds)...)
}

// Position is what the node has applied and written: MySQL's gtid_executed, MariaDB's gtid_current_pos.
func (n *MySQLNode) Position(ctx context.Context) (string, error) {
	return n.value(ctx, "", n.cluster.flavor.position)
}

// WaitFor waits until the node has all of a position.
func (n *MySQLNode) WaitFor(ctx context.Context, position string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if position == "" {
		return nil
	}
	flavor, last := n.cluster.flavor, ""
	err := poll(ctx, func() (bool, error) {
		row, err := n.row(ctx, "", flavor.reached(position)+" AS reached, ("+flavor.position+") AS position")
		if err != nil {
			return false, err
		}
		last = row[1].value
		return row[0].value == "1", nil
	})
	if err != nil {
		return n.failed("waiting for", fmt.Errorf("%w: it has applied %q of %q", err, last, position))
	}
	return nil
}

// ReplicaStatus returns the columns of the replica's status by name, as the server of either flavor names them; nothing
// when the node has no source.
func (n *MySQLNode) ReplicaStatus(ctx context.Context) (map[string]string, error) {
	row, err := n.row(ctx, "", n.cluster.flavor.status)
	if errors.Is(err, sql.ErrNoRows) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, n.failed("querying", err)
	}
	status := make(map[string]string, len(row))
	for _, c := range row {
		status[c.name] = c.value
	}
	return status, nil
}

// StopFast stops the server in order. A replica goes on from where it was at the next Start; it fetches then, too, what it
// has not fetched of a primary that stops. On MySQL, whoever connects in the last moment is refused with error 3032.
func (n *MySQLNode) StopFast(ctx context.Context) error {
	p := n.process.Load()
	if !p.running() {
		return nil
	}
	if n.frozen.Load() {
		return n.failed("stopping", errors.New("it is frozen: Thaw or Kill it"))
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if first := n.cluster.flavor.beforeStop; first != "" {
		_ = n.control(ctx, first) // whatever goes wrong here, the server stops all the same
	}
	n.dropIdle()
	if err := p.stop(ctx, syscall.SIGTERM); err != nil {
		return n.failed("stopping", err)
	}
	return nil
}

// Kill ends the server with SIGKILL, frozen or not, and waits until it is gone. What was committed stays. A server that
// does not run stays so.
func (n *MySQLNode) Kill(ctx context.Context) error {
	p := n.process.Load()
	if !p.running() {
		return nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	n.dropIdle()
	if err := p.stop(ctx, signalKill); err != nil {
		return n.failed("killing", err)
	}
	n.frozen.Store(false)
	return nil
}

// Freeze stops the server where it is (SIGSTOP). The kernel goes on accepting connections for it, and nothing answers.
// Close and Kill work on a frozen server, a stop is refused, all else waits for Thaw.
func (n *MySQLNode) Freeze(ctx context.Context) error {
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
func (n *MySQLNode) Thaw(context.Context) error {
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

// Promote makes the replica a primary that may be written to. It applies what it has received first, unless its applier
// is paused: then that is lost. Nothing else changes: the old primary, if it runs, goes on writing, and the other
// replicas follow it until Follow says otherwise.
func (n *MySQLNode) Promote(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	flavor := n.cluster.flavor
	if n.source.Load() == nil {
		return n.failed("promoting", errors.New("it replicates from nobody"))
	}
	if err := n.control(ctx, flavor.stopReceiver); err != nil {
		return err
	}
	status, err := n.ReplicaStatus(ctx)
	if err != nil {
		return err
	}
	if status[flavor.applierRunning] == "Yes" {
		received, err := flavor.received(ctx, n, status)
		if err != nil {
			return err
		}
		if err := n.WaitFor(ctx, received); err != nil {
			return err
		}
	}
	if err := n.control(ctx, flavor.stop, flavor.forget, flavor.writable); err != nil {
		return err
	}
	n.source.Store(nil)
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.cluster.primary = n
	return nil
}

// Follow makes the node replicate from primary, read-only. A node that does not run, such as an old primary, is started.
// Follow does not wait for replication. What the node has written and primary has not stays there: MySQL replicates all
// the same as long as the rows allow it, MariaDB's receiver stops with an error. Rebuild makes such a node anew.
func (n *MySQLNode) Follow(ctx context.Context, primary *MySQLNode) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	flavor := n.cluster.flavor
	before := n.source.Swap(primary)
	if !n.IsRunning() {
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	if before == nil && flavor.adopt != "" {
		if err := n.control(ctx, flavor.adopt); err != nil {
			return err
		}
	}
	return n.replicateFrom(ctx, primary)
}

// replicateFrom begins replication; the node is read-only from then on.
func (n *MySQLNode) replicateFrom(ctx context.Context, primary *MySQLNode) error {
	flavor := n.cluster.flavor
	return n.control(ctx, flavor.stop, flavor.source(primary.port), flavor.start, flavor.readOnly)
}

// Rebuild throws the node's data away and makes it a replica of primary from a copy of that, under its name and port. The
// primary stands still while it is copied.
func (n *MySQLNode) Rebuild(ctx context.Context, primary *MySQLNode) error {
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
	return nil
}

// restore fills the node's data folder, which does not exist, from a running primary, and starts the node as a replica.
// The files of a frozen server are what a crash would leave; the copy recovers from that when it starts.
func (n *MySQLNode) restore(ctx context.Context, primary *MySQLNode) error {
	target, err := primary.Position(ctx)
	if err != nil {
		return err
	}
	if err := primary.Freeze(ctx); err != nil {
		return err
	}
	err = n.cluster.folder.copyTree(primary.dataDir(), n.dataDir(), notInMySQLCopy)
	if err := errors.Join(err, primary.Thaw(ctx)); err != nil {
		return fmt.Errorf("copying %s: %w", primary.name, err)
	}
	n.source.Store(primary)
	if err := n.Start(ctx); err != nil {
		return err
	}
	if flavor := n.cluster.flavor; flavor.adopt != "" {
		if err := n.control(ctx, flavor.stop, flavor.adopt); err != nil { // the copy of a replica replicates
			return err
		}
	}
	if err := n.replicateFrom(ctx, primary); err != nil {
		return err
	}
	return n.WaitFor(ctx, target)
}

// notInMySQLCopy names what belongs to the one server only.
func notInMySQLCopy(path string) bool {
	switch path {
	case "auto.cnf", "server.pid":
		return true
	}
	ok, _ := filepath.Match("relay*", path) // the only error is a malformed pattern
	return ok
}
