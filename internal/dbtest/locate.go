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
	"time"
)

// ErrNoServer is matched by the error of a start that found no usable server on this machine. The error's text says in
// one line what to install.
var ErrNoServer = errors.New("dbtest: no database server")

// PostgresBinEnv names the environment variable that overrides where FindPostgres looks.
const PostgresBinEnv = "READROUTE_PGBIN"

// minPostgres is the oldest release that the statements of this package work on (pg_get_wal_replay_pause_state).
const minPostgres = 14

// FindPostgres returns the folder of the PostgreSQL programs to use and their major version: READROUTE_PGBIN when it
// is set, else the newest of the places where packages put them, else the folder of the postgres that is on PATH. When
// there is none, or none that is new enough, the error matches ErrNoServer.
func FindPostgres() (binDir string, version int, err error) {
	if dir := os.Getenv(PostgresBinEnv); dir != "" {
		version, err := postgresVersion(dir)
		if err != nil {
			return "", 0, fmt.Errorf("%w: %s=%s: %w", ErrNoServer, PostgresBinEnv, dir, err)
		}
		return dir, version, nil
	}
	for _, dir := range postgresFolders() {
		if v, err := postgresVersion(dir); err == nil && v > version {
			binDir, version = dir, v
		}
	}
	if binDir == "" {
		return "", 0, fmt.Errorf("%w: PostgreSQL %d or newer is not installed: %s", ErrNoServer, minPostgres, installHint())
	}
	return binDir, version, nil
}

func postgresFolders() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // Red Hat and its kin, from postgresql.org
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the only error is a malformed pattern
		dirs = append(dirs, found...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// postgresVersion returns the major version of the server in dir, and an error unless all that a cluster needs is there.
func postgresVersion(dir string) (int, error) {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return 0, errors.New("no initdb there")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("asking postgres for its version: %w", err)
	}
	version, err := parseVersion(string(out))
	if err != nil {
		return 0, err
	}
	if version < minPostgres {
		return 0, fmt.Errorf("PostgreSQL %d is too old, %d or newer is needed", version, minPostgres)
	}
	return version, nil
}

// parseVersion reads the major version out of a line such as "postgres (PostgreSQL) 19rc1 (Debian 19~rc1-1)".
func parseVersion(line string) (int, error) {
	_, rest, ok := strings.Cut(line, "(PostgreSQL) ")
	if !ok {
		return 0, fmt.Errorf("not a PostgreSQL version: %q", line)
	}
	digits := rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = rest[:end]
	}
	version, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("not a PostgreSQL version: %q", line)
	}
	return version, nil
}

func installHint() string {
	if _, err := os.Stat("/etc/debian_version"); err == nil {
		return "apt-get install postgresql"
	}
	return "install it and put its bin folder on PATH or into " + PostgresBinEnv
}
