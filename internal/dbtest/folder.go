package dbtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	folderPrefix = "readroute-db-"
	lockName     = "owner.lock"
	// maxFolderPath keeps the socket path "folder/.s.PGSQL.12345" within what a unix socket address can hold.
	maxFolderPath = 75
)

// watchdogScript, called with a folder as $0, waits for the end of its input, which comes when the owner closes the
// pipe or is gone for whatever reason; then it stops the servers that still run there and removes the folder. The kernel
// tells servers of the owner's death, too, but a frozen one does not hear it, and the folder would stay.
const watchdogScript = `
read -r _
owned() {
	{ tr '\0' ' ' <"/proc/$1/cmdline" || ps -p "$1" -o args=; } 2>/dev/null | grep -qF -- "$0/"
}
pids=
for f in "$0"/*/postmaster.pid; do
	[ -r "$f" ] && read -r pid <"$f" && owned "$pid" || continue
	pids="$pids $pid"
	kill -QUIT "$pid"
	for child in $(grep -ls "^PPid:[[:space:]]*$pid\$" /proc/[0-9]*/status); do
		child=${child%/status}
		kill -CONT "${child#/proc/}"
	done
	kill -CONT "$pid"
done
for f in "$0"/*.pid; do
	[ -r "$f" ] && read -r pid <"$f" && owned "$pid" || continue
	pids="$pids $pid"
	kill -KILL "$pid"
done
tries=0
for pid in $pids; do
	while owned "$pid" && [ $tries -lt 200 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
	owned "$pid" && kill -KILL "$pid"
done
rm -rf "$0" || { sleep 0.5; rm -rf "$0"; }
`

// folder is the place of one cluster's data, logs and sockets, owned by the user that the servers run as.
type folder struct {
	path     string
	owner    *serverUser
	lock     *os.File // locked as long as the owner lives: how others know that the folder is in use
	watchdog *exec.Cmd
	pipe     io.Closer
}

// newFolder makes a folder that the server's user can enter, in memory if there is room, and sweeps what dead owners
// have left there.
func newFolder(owner *serverUser, space uint64) (*folder, error) {
	var problems []error
	for _, base := range []string{"/dev/shm", os.TempDir(), "/var/tmp"} {
		if err := usableBase(base, owner, space); err != nil {
			problems = append(problems, err)
			continue
		}
		sweep(base, owner)
		f, err := makeFolder(base, owner)
		if err == nil {
			return f, nil
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("no place for the data folder: %w", errors.Join(problems...))
}

func usableBase(base string, owner *serverUser, space uint64) error {
	if len(base) > maxFolderPath-len(folderPrefix)-12 {
		return fmt.Errorf("%s: the path is too long for a socket in it", base)
	}
	if free := freeSpace(base); free < space {
		return fmt.Errorf("%s: %d MB free, %d MB needed", base, free>>20, space>>20)
	}
	if owner == nil {
		return nil
	}
	for dir := filepath.Clean(base); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() || info.Mode()&0o001 == 0 {
			return fmt.Errorf("%s: the user that servers run as cannot enter it", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func makeFolder(base string, owner *serverUser) (_ *folder, err error) {
	path, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path, owner: owner}
	defer func() {
		if err != nil {
			if f.lock != nil {
				f.lock.Close()
			}
			os.RemoveAll(path)
		}
	}()
	// The file gets its name once it is locked: a sweep must never see it unlocked.
	lock := filepath.Join(path, lockName)
	if f.lock, err = os.OpenFile(lock+".new", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = lockFile(f.lock); err != nil {
		return nil, fmt.Errorf("locking %s: %w", f.lock.Name(), err)
	}
	if err = os.Rename(lock+".new", lock); err != nil {
		return nil, err
	}
	if err = owner.chown(path); err != nil {
		return nil, err
	}
	if f.watchdog, f.pipe, err = startWatchdog(path); err != nil {
		return nil, err
	}
	return f, nil
}

// startWatchdog runs the script on a folder. Closing the pipe makes it act.
func startWatchdog(path string) (*exec.Cmd, io.Closer, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, path)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.SysProcAttr = watchdogAttr()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return cmd, pipe, nil
}

// remove removes the folder and stops what may still run there.
func (f *folder) remove() error {
	f.pipe.Close()
	_ = f.watchdog.Wait() // whether it did its work is seen below
	f.lock.Close()
	if _, err := os.Lstat(f.path); err == nil {
		return os.RemoveAll(f.path)
	}
	return nil
}

// sweep removes the folders in base whose owner is dead. What it cannot remove it leaves.
func sweep(base string, owner *serverUser) {
	paths, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*")) // the only error is a malformed pattern
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !owner.owns(info) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
		if err != nil {
			continue // not ours, or half made: its owner is about to lock it
		}
		if lockFile(lock) == nil {
			if cmd, pipe, err := startWatchdog(path); err == nil {
				pipe.Close()
				_ = cmd.Wait()
			}
		}
		lock.Close()
	}
}

// writeFile writes a file that belongs to the server's user.
func (f *folder) writeFile(path string, data string) error {
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		return err
	}
	return f.owner.chown(path)
}

// copyTree copies a data folder. A file that vanishes meanwhile is left out, as is everything skip says no to (its
// argument is the path relative to from; a skipped folder is still made, empty).
func (f *folder) copyTree(from, to string, skip func(path string) bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return ignoreVanished(err)
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			if err := os.Mkdir(target, 0o700); err != nil {
				return err
			}
			if err := f.owner.chown(target); err != nil {
				return err
			}
			if skip(relative) {
				return fs.SkipDir
			}
			return nil
		case skip(relative) || !entry.Type().IsRegular():
			return nil
		}
		if err := copyFile(path, target); err != nil {
			return ignoreVanished(err)
		}
		return f.owner.chown(target)
	})
}

func ignoreVanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}

// lastLines returns the end of a log file, for an error message.
func lastLines(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
