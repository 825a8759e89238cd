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

var (
	ParseMySQLVersion = parseMySQLVersion
	CompareVersions   = compareVersions
)

// MySQLTemplates are the folders of this process's templates.
func MySQLTemplates() []string {
	mysqlTemplates.Lock()
	defer mysqlTemplates.Unlock()
	var paths []string
	for _, folder := range mysqlTemplates.folders {
		paths = append(paths, folder.path)
	}
	return paths
}

// Folder is where the cluster keeps everything but the template.
func (c *MySQLCluster) Folder() string { return c.folder.path }

// Pid is the server's process, 0 when there is none.
func (n *MySQLNode) Pid() int {
	if p := n.process.Load(); p.running() {
		return p.pid
	}
	return 0
}
