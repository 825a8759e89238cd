package dbtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// StartMariaDB starts a cluster of MariaDB and waits until every replica has what the primary has, which is the database
// AppDatabase. Replication is by GTID from gtid_slave_pos, in strict mode, with log_slave_updates; replicas have
// read_only on. The caller closes the cluster; should the process end first, however it ends, the servers stop and their
// folder is removed all the same.
//
// The error matches ErrNoServer when no MariaDB is installed.
func StartMariaDB(ctx context.Context, options MySQLOptions) (*MySQLCluster, error) {
	return startMySQLCluster(ctx, mariadbServer, options)
}

var mariadbServer = &mysqlFlavor{
	name:   "MariaDB",
	oldest: "10.6",
	initialize: func(program, dataDir, tmpDir, sqlFile string) (string, []string) {
		args := []string{
			"--no-defaults", "--datadir=" + dataDir, "--tmpdir=" + tmpDir, "--extra-file=" + sqlFile,
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
			"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-use-native-aio=OFF",
		}
		if base := filepath.Dir(filepath.Dir(program)); base != "/usr" {
			args = append(args, "--basedir="+base)
		}
		return installProgram(program), args
	},
	prelude: "FLUSH PRIVILEGES", // or it knows of no users yet
	users: append([]string{
		"GRANT SLAVE MONITOR, BINLOG MONITOR ON *.* TO " + userAt(WatchUser),
	}, mysqlUsers...),
	args: append([]string{
		"--innodb-log-file-size=8M", "--aria-pagecache-buffer-size=8M", "--innodb-fast-shutdown=1",
		"--gtid-strict-mode=ON", "--log-slave-updates=ON", "--slave-net-timeout=10",
	}, bothServerArgs...),

	start: "START SLAVE", stop: "STOP SLAVE",
	startReceiver: "START SLAVE IO_THREAD", stopReceiver: "STOP SLAVE IO_THREAD",
	startApplier: "START SLAVE SQL_THREAD", stopApplier: "STOP SLAVE SQL_THREAD",
	forget: "RESET SLAVE ALL",
	source: func(port int) string {
		return fmt.Sprintf(`CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='%s', MASTER_USE_GTID=slave_pos,
			MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1`, port, replicationUser)
	},
	delay: func(seconds int) []string {
		return []string{"STOP SLAVE", fmt.Sprintf("CHANGE MASTER TO MASTER_DELAY=%d", seconds), "START SLAVE"}
	},
	status:         "SHOW SLAVE STATUS",
	applierRunning: "Slave_SQL_Running",
	readOnly:       "SET GLOBAL read_only=ON", writable: "SET GLOBAL read_only=OFF",
	readOnlyArg: "--read-only=ON",

	position: "SELECT @@GLOBAL.gtid_current_pos",
	received: func(_ context.Context, _ *MySQLNode, status map[string]string) (string, error) {
		return status["Gtid_IO_Pos"], nil
	},
	reached: func(position string) string {
		return "SELECT MASTER_GTID_WAIT(" + quote(position) + ", 0) = 0"
	},
	adopt: "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos",
}

func init() { mariadbServer.find = FindMariaDB } // FindMariaDB refers to mariadbServer

// installProgram is the script that makes MariaDB's data folders.
func installProgram(server string) string {
	base := filepath.Dir(filepath.Dir(server))
	for _, name := range []string{"bin/mariadb-install-db", "scripts/mariadb-install-db", "bin/mysql_install_db"} {
		if path := filepath.Join(base, name); isFile(path) {
			return path
		}
	}
	return filepath.Join(base, "bin", "mariadb-install-db") // the error will name it
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
