//go:build unix

package postgres

import (
	"errors"
	"net"
	"syscall"
)

// errorResponse is the first byte of the one kind of error that a server sends to an idle connection: FATAL, after which
// it closes (PostgreSQL documentation, Frontend/Backend Protocol, "Asynchronous Operations" and "Termination").
const errorResponse = 'E'

// hungUp reports that the server has closed a connection on which there is nothing left to read, or only its last words.
// It neither reads nor sends anything, and waits for nobody: after a slow write pgx leaves a goroutine in Read on an idle
// connection, and RawConn.Read would wait for that one, for ever. Under TLS the last words cannot be told from others.
func hungUp(conn net.Conn) bool {
	under := socket(conn)
	sc, ok := under.(syscall.Conn)
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
		gone = err == nil && (n == 0 || under == conn && one[0] == errorResponse) ||
			err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return err == nil && gone
}
