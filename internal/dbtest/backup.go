package dbtest

import (
	"context"
	"errors"
	"os"
)

// stored is a node with data that can be kept.
type stored interface {
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	dataDir() string
	failed(operation string, err error) error
}

// Backup keeps a copy of the node's data as it is now, in place of an earlier one. The node runs, and stands still meanwhile: the copy is
// what a crash would leave.
func (n *PostgresNode) Backup(ctx context.Context) error { return backup(ctx, n, n.cluster.folder) }

// Restore makes the node what it was at Backup, under its name and port, and starts it. It replicates from whom it did then, until Follow
// says otherwise.
func (n *PostgresNode) Restore(ctx context.Context) error { return restore(ctx, n, n.cluster.folder) }

// Backup is as that of a PostgresNode.
func (n *MySQLNode) Backup(ctx context.Context) error { return backup(ctx, n, n.cluster.folder) }

// Restore is as that of a PostgresNode. The server keeps its identity, and its GTIDs go back.
func (n *MySQLNode) Restore(ctx context.Context) error { return restore(ctx, n, n.cluster.folder) }

func backupDir(n stored) string { return n.dataDir() + ".backup" }

// notInStored names what belongs to the running process only.
func notInStored(path string) bool { return path == "postmaster.pid" || path == "server.pid" }

func backup(ctx context.Context, n stored, f *folder) error {
	if err := os.RemoveAll(backupDir(n)); err != nil {
		return n.failed("backing up", err)
	}
	if err := n.Freeze(ctx); err != nil {
		return err
	}
	err := f.copyTree(n.dataDir(), backupDir(n), notInStored)
	if err := errors.Join(err, n.Thaw(ctx)); err != nil {
		return n.failed("backing up", err)
	}
	return nil
}

func restore(ctx context.Context, n stored, f *folder) error {
	if _, err := os.Stat(backupDir(n)); err != nil {
		return n.failed("restoring", err)
	}
	if err := n.Kill(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(n.dataDir()); err != nil {
		return n.failed("restoring", err)
	}
	if err := f.copyTree(backupDir(n), n.dataDir(), notInStored); err != nil {
		return n.failed("restoring", err)
	}
	return n.Start(ctx)
}
