//go:build unix && !linux

package dbtest

import (
	"math"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// serverAttr makes a server the leader of its own process group, so that a Ctrl-C meant for the owner does not reach
// it first. The watchdog alone stops it when the owner dies.
func serverAttr(owner *serverUser) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner.credential()}
}

func freeSpace(string) uint64 { return math.MaxUint64 }

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var children []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(fields[0]); err == nil {
				children = append(children, child)
			}
		}
	}
	return children, nil
}

func isStopped(int) bool { return true }

func isDead(pid int) bool { return syscall.Kill(pid, 0) != nil }
