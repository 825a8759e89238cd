//go:build unix

package mysql

import (
	"errors"
	"net"
	"syscall"
)

// errPacket is the first byte of a packet with an error.
const errPacket = 0xff

// hungUp reports that the server has closed a connection on which there is nothing left to read, or only its last words:
// the one thing that a server sends without being asked is the error after which it closes (4031 when the session was
// idle for too long, 1053, 1927). It neither reads nor sends anything, and waits for nobody. Under TLS the last words
// cannot be told from others.
func hungUp(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var head [5]byte // the runtime has made the socket non-blocking
		n, _, err := syscall.Recvfrom(int(fd), head[:], syscall.MSG_PEEK)
		gone = err == nil && (n == 0 || lastWords(head[:n])) ||
			err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return err == nil && gone
}

// lastWords recognizes a packet with an error: three bytes of length, low byte first, a number, and what is in it. A record
// of TLS has the minor version, which is not 0, where such a short packet's length has its high byte.
func lastWords(head []byte) bool { return len(head) == 5 && head[2] == 0 && head[4] == errPacket }
