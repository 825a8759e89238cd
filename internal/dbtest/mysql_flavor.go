package dbtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// mysqlFlavor is what MySQL and MariaDB do differently.
type mysqlFlavor struct {
	name   string
	find   func() (program, version string, err error)
	oldest string // the oldest version that the statements below work on

	// initialize is the program that makes a data folder, with the users that sqlFile creates.
	initialize func(program, dataDir, tmpDir, sqlFile string) (name string, args []string)
	prelude    string   // a statement before those that create users, if not empty
	users      []string // statements, each a line
	args       []string // settings of every node

	start, stop                 string // replication, all of it
	startReceiver, stopReceiver string
	startApplier, stopApplier   string
	forget                      string // the source
	source                      func(port int) string
	delay                       func(seconds int) []string
	status                      string
	applierRunning              string // a column of status
	beforeStop                  string // a statement, if not empty
	readOnly, writable          string
	readOnlyArg                 string

	position string                       // a query: what the node has applied or written
	reached  func(position string) string // a query that gives 1 when the node has it
	adopt    string                       // a statement for a node that has written and becomes a replica
	// received returns what a replica has fetched from its source.
	received func(ctx context.Context, n *MySQLNode, status map[string]string) (string, error)
}

var mysqlServer = &mysqlFlavor{
	name:   "MySQL",
	oldest: "8.0.26",
	initialize: func(program, dataDir, tmpDir, sqlFile string) (string, []string) {
		args := append(mysqlBaseArgs(program), "--initialize-insecure", "--init-file="+sqlFile, "--datadir="+dataDir, "--tmpdir="+tmpDir)
		return program, append(args, mysqlServerArgs...)
	},
	users: append([]string{
		"GRANT REPLICATION CLIENT ON *.* TO " + userAt(WatchUser),
	}, mysqlUsers...),
	args: append([]string{
		"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-replica-updates=ON", "--replica-net-timeout=10",
	}, mysqlServerArgs...),

	start: "START REPLICA", stop: "STOP REPLICA",
	startReceiver: "START REPLICA IO_THREAD", stopReceiver: "STOP REPLICA IO_THREAD",
	startApplier: "START REPLICA SQL_THREAD", stopApplier: "STOP REPLICA SQL_THREAD",
	forget: "RESET REPLICA ALL",
	source: func(port int) string {
		return fmt.Sprintf(`CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='%s', SOURCE_AUTO_POSITION=1,
			SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, SOURCE_HEARTBEAT_PERIOD=1, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1`, port, replicationUser)
	},
	delay: func(seconds int) []string {
		return []string{
			"STOP REPLICA SQL_THREAD",
			fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_DELAY=%d", seconds),
			"START REPLICA SQL_THREAD",
		}
	},
	// It ends the sessions that replicas fetch through, which the server waits 10 s for.
	beforeStop:     "SET GLOBAL offline_mode=ON",
	status:         "SHOW REPLICA STATUS",
	applierRunning: "Replica_SQL_Running",
	readOnly:       "SET GLOBAL super_read_only=ON", writable: "SET GLOBAL read_only=OFF", // which turns super_read_only off, too
	readOnlyArg: "--super-read-only=ON",

	position: "SELECT @@GLOBAL.gtid_executed",
	received: func(ctx context.Context, n *MySQLNode, _ map[string]string) (string, error) {
		return n.value(ctx, "", "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status")
	},
	reached: func(position string) string {
		return "SELECT GTID_SUBSET(" + quote(position) + ", @@GLOBAL.gtid_executed)"
	},
}

func init() { mysqlServer.find = FindMySQL } // FindMySQL refers to mysqlServer

func userAt(name string) string { return name + "@'127.0.0.1'" }

// mysqlUsers are the statements that both flavors know.
var mysqlUsers = []string{
	"GRANT REPLICATION SLAVE ON *.* TO " + userAt(replicationUser),
	"GRANT ALL ON " + AppDatabase + ".* TO " + userAt(AppUser),
	"GRANT ALL ON *.* TO " + userAt(AdminUser) + " WITH GRANT OPTION",
}

// userStatements are those that create the users and give them their rights.
func (f *mysqlFlavor) userStatements() []string {
	var statements []string
	if f.prelude != "" {
		statements = append(statements, f.prelude)
	}
	for _, name := range []string{AdminUser, AppUser, WatchUser, replicationUser} {
		statements = append(statements, "CREATE USER IF NOT EXISTS "+userAt(name))
	}
	return append(statements, f.users...)
}

// mysqlServerArgs make a MySQL of a version that this package can start small and quick.
var mysqlServerArgs = append([]string{
	"--innodb-redo-log-capacity=16M", "--innodb-log-buffer-size=4M", "--mysqlx=OFF", "--secure-file-priv=",
	"--auto-generate-certs=OFF", "--caching-sha2-password-auto-generate-rsa-keys=OFF", "--table-open-cache=200",
}, bothServerArgs...)

// bothServerArgs are for MySQL and MariaDB. What is committed survives the death of a server (it is with the kernel), but
// not that of the machine, which is no case here.
var bothServerArgs = []string{
	"--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--innodb-doublewrite=ON", // a kill can tear a page in two
	"--innodb-use-native-aio=OFF", "--key-buffer-size=1M", "--max-connections=200", "--skip-name-resolve",
	"--log-bin=bin", "--relay-log=relay", "--relay-log-recovery=ON", "--binlog-format=ROW",
}

// mysqlBaseArgs tell a server that was unpacked, not installed, where its own files are.
func mysqlBaseArgs(program string) []string {
	args := []string{"--no-defaults"}
	base := filepath.Dir(filepath.Dir(program))
	if base == "/usr" {
		return args
	}
	args = append(args, "--basedir="+base)
	if share := filepath.Join(base, "share", "mysql"); isDir(share) {
		args = append(args, "--lc-messages-dir="+share, "--character-sets-dir="+filepath.Join(share, "charsets"))
	}
	if plugins := filepath.Join(base, "lib", "mysql", "plugin"); isDir(plugins) {
		args = append(args, "--plugin-dir="+plugins)
	}
	return args
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// programVersion returns the version of a server program, and an error unless it is one of this flavor and new enough.
func (f *mysqlFlavor) programVersion(program string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--no-defaults", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking it for its version: %w", err)
	}
	name, version, err := parseMySQLVersion(string(out))
	switch {
	case err != nil:
		return "", err
	case name != f.name:
		return "", fmt.Errorf("it is %s, not %s", name, f.name)
	case compareVersions(version, f.oldest) < 0:
		return "", fmt.Errorf("%s %s is too old, %s or newer is needed", f.name, version, f.oldest)
	}
	return version, nil
}

// serverArgs are the arguments of a node.
func (n *MySQLNode) serverArgs() []string {
	c := n.cluster
	args := append(mysqlBaseArgs(c.options.Program), c.flavor.args...)
	args = append(args,
		"--datadir="+n.dataDir(), "--tmpdir="+filepath.Join(c.folder.path, mysqlTmp), "--socket="+n.dataDir()+".sock",
		"--pid-file="+filepath.Join(n.dataDir(), "server.pid"), "--bind-address=127.0.0.1",
		"--port="+strconv.Itoa(n.port), "--server-id="+strconv.Itoa(n.serverID), "--report-host="+n.name,
	)
	if n.source.Load() != nil {
		args = append(args, c.flavor.readOnlyArg)
	}
	for name, value := range c.options.Settings {
		args = append(args, "--"+name+"="+value)
	}
	return args
}
