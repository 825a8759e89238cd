//go:build unix

package postgres

import (
	"errors"
	"net"
	"syscall"
)

// hungUp reports that the server has closed a connection on which there is nothing left to read. It neither reads nor
// sends anything, and waits for nobody: after a slow write pgx leaves a goroutine in Read on an idle connection, and
// RawConn.Read would wait for that one, for ever.
func hungUp(conn net.Conn) bool {
	sc, ok := socket(conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte // the runtime has made the socket non-blocking
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		gone = err == nil && n == 0 || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return err == nil && gone
}
