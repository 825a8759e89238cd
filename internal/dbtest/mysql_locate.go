package dbtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of the environment variables that override where servers are looked for. Each holds the path of the server
// program, or of the folder that usr/sbin/mysqld (or mariadbd) is in.
const (
	MySQLEnv   = "READROUTE_MYSQL"
	MariaDBEnv = "READROUTE_MARIADB"
)

// MySQLFolder is where make deps unpacks a MySQL that cannot be installed beside MariaDB.
const MySQLFolder = "/var/cache/readroute/mysql"

// FindMySQL returns the server program of MySQL and its version: that of READROUTE_MYSQL when it is set, else the first
// in the places where packages put it. When there is none, or none that is new enough, the error matches ErrNoServer.
func FindMySQL() (program, version string, err error) {
	return findMySQLServer(mysqlServer, MySQLEnv, "mysqld", []string{
		filepath.Join(MySQLFolder, "usr/sbin/mysqld"),
		"/usr/sbin/mysqld", "/usr/libexec/mysqld", "/usr/local/mysql/bin/mysqld",
		"/opt/homebrew/opt/mysql/bin/mysqld", "/usr/local/opt/mysql/bin/mysqld",
	})
}

// FindMariaDB does for MariaDB what FindMySQL does for MySQL; its variable is READROUTE_MARIADB.
func FindMariaDB() (program, version string, err error) {
	return findMySQLServer(mariadbServer, MariaDBEnv, "mariadbd", []string{
		"/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/usr/bin/mariadbd",
		"/opt/homebrew/opt/mariadb/bin/mariadbd", "/usr/local/opt/mariadb/bin/mariadbd",
	})
}

func findMySQLServer(f *mysqlFlavor, env, name string, places []string) (program, version string, err error) {
	if path := os.Getenv(env); path != "" {
		program := path
		for _, inside := range []string{"usr/sbin", "sbin", "bin"} {
			if inside := filepath.Join(path, inside, name); isFile(inside) {
				program = inside
				break
			}
		}
		version, err := f.programVersion(program)
		if err != nil {
			return "", "", fmt.Errorf("%w: %s=%s: %w", ErrNoServer, env, path, err)
		}
		return program, version, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			places = append(places, path)
		}
	}
	problem := error(nil)
	for _, program := range places {
		if !isFile(program) {
			continue
		}
		version, err := f.programVersion(program)
		if err == nil {
			return program, version, nil
		}
		problem = errors.Join(problem, fmt.Errorf("%s: %w", program, err))
	}
	if problem != nil {
		return "", "", fmt.Errorf("%w: no %s %s or newer: %s", ErrNoServer, f.name, f.oldest, strings.ReplaceAll(problem.Error(), "\n", "; "))
	}
	return "", "", fmt.Errorf("%w: %s %s or newer is not installed: make deps, or set %s", ErrNoServer, f.name, f.oldest, env)
}

// parseMySQLVersion reads a line such as "mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))" or "mariadbd  Ver
// 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)".
func parseMySQLVersion(line string) (flavor, version string, err error) {
	_, rest, ok := strings.Cut(line, " Ver ")
	if !ok {
		return "", "", fmt.Errorf("not a version of MySQL or MariaDB: %q", line)
	}
	full, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	version = full
	if end := strings.IndexFunc(full, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		version = full[:end]
	}
	if version == "" {
		return "", "", fmt.Errorf("not a version of MySQL or MariaDB: %q", line)
	}
	if strings.Contains(full, "MariaDB") {
		return "MariaDB", version, nil
	}
	return "MySQL", version, nil
}

// compareVersions compares versions of numbers with dots.
func compareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		m, _ := strconv.Atoi(x) // a part that is missing counts as 0
		n, _ := strconv.Atoi(y)
		if m != n {
			return m - n
		}
	}
	return 0
}
