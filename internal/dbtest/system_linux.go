package dbtest

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"syscall"
)

// serverAttr makes a server the leader of its own process group, so that a Ctrl-C meant for the owner does not reach
// it first, and has the kernel stop it when the owner dies. Pdeathsig is tied to the thread that forked: see launcher.
func serverAttr(owner *serverUser) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: parentDeathSignal, Credential: owner.credential()}
}

func freeSpace(dir string) uint64 {
	var fs syscall.Statfs_t
	if syscall.Statfs(dir, &fs) != nil || fs.Bsize <= 0 {
		return math.MaxUint64 // unknown: do not refuse the folder for it
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// childrenOf returns the processes whose parent is pid. Backends put themselves into sessions of their own, so neither
// the process group nor the session finds them.
func childrenOf(pid int) ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var children []int
	for _, name := range names {
		child, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if _, parent := processStat(child); parent == pid {
			children = append(children, child)
		}
	}
	return children, nil
}

// isStopped reports whether the process no longer runs: stopped by a signal, dead, or gone.
func isStopped(pid int) bool {
	state, _ := processStat(pid)
	return state == 'T' || state == 't' || state == 'Z' || state == 'X' || state == 0
}

// processStat returns the state letter and the parent of a process, zeros when there is none.
func processStat(pid int) (state byte, parent int) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	// The command name, in parentheses, may itself hold blanks and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent
}

// isDead reports whether nothing of the process is left that could hold a file or memory.
func isDead(pid int) bool {
	state, _ := processStat(pid)
	return state == 'Z' || state == 'X' || state == 0
}
