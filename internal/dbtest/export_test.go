package dbtest

import (
	"os"
	"syscall"
)

// SetPickPort replaces how ports are chosen and returns a function that undoes it.
func SetPickPort(pick func() (int, error)) (restore func()) {
	old := pickPort
	pickPort = pick
	return func() { pickPort = old }
}

// PickPort chooses a free port.
func PickPort() (int, error) { return pickPort() }

var (
	ParseVersion  = parseVersion
	LastRecordEnd = lastRecordEnd
	ChildrenOf    = childrenOf
	UsableBase    = usableBase
	FindUser      = findServerUser
)

// Folder is where the cluster keeps everything.
func (c *PostgresCluster) Folder() string { return c.folder.path }

// Pid is the server's process, 0 when there is none.
func (n *PostgresNode) Pid() int {
	if p := n.process.Load(); p.running() {
		return p.pid
	}
	return 0
}

// ChownLike gives a file the owner that info has.
func ChownLike(path string, info os.FileInfo) error {
	stat := info.Sys().(*syscall.Stat_t)
	return os.Chown(path, int(stat.Uid), int(stat.Gid))
}

// WithoutParentDeathSignal makes servers hear of their owner's death from the watchdog only.
func WithoutParentDeathSignal() { parentDeathSignal = 0 }
