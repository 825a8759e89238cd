//go:build unix

package dbtest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

const (
	signalFast      = syscall.SIGINT  // PostgreSQL: end all sessions, checkpoint, exit
	signalImmediate = syscall.SIGQUIT // PostgreSQL: exit without a checkpoint, recover at the next start
	signalKill      = syscall.SIGKILL
	signalFreeze    = syscall.SIGSTOP
	signalThaw      = syscall.SIGCONT
)

// parentDeathSignal is what the kernel sends a server whose owner has died, where it can.
var parentDeathSignal = signalImmediate

// serverUser is the user that servers run as. Nil stands for the process's own.
type serverUser struct{ uid, gid uint32 }

// findServerUser returns whom servers run as: database servers refuse to run as root.
func findServerUser() (*serverUser, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &serverUser{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root, and there is neither a user postgres nor a user nobody to run servers as")
}

func (u *serverUser) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.uid, Gid: u.gid}
}

// chown gives a file to the server's user.
func (u *serverUser) chown(path string) error {
	if u == nil {
		return nil
	}
	return os.Lchown(path, int(u.uid), int(u.gid))
}

// owns reports whether a file belongs to the server's user.
func (u *serverUser) owns(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if u == nil {
		return int(stat.Uid) == os.Getuid()
	}
	return stat.Uid == u.uid
}

func watchdogAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// lockFile takes the file's lock, which lasts until the file is closed or the process has ended.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func signalProcess(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
