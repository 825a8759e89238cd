package mysql

import (
	"context"
	"database/sql/driver"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sockets has the socket of every open connection of a [Connector], by driver.Conn. The driver lets nobody have it, and
// a connection in a wrapper of ours would no longer be the driver's own to those who look for it (sql.Conn.Raw). An entry
// goes when its socket is closed, which the driver does with each connection that it gives up.
var sockets sync.Map

func socketOf(conn driver.Conn) *socket {
	s, _ := sockets.Load(conn)
	if s, ok := s.(*socket); ok {
		return s
	}
	return nil
}

// socket is what a [Connector] has dialled.
type socket struct {
	net.Conn

	mu   sync.Mutex
	shut atomic.Bool // changed under mu
	of   driver.Conn // guarded by mu; nil until the connection is open
}

// Close closes the socket once. The driver closes what has been closed under it, and would complain of the second time.
func (s *socket) Close() error {
	s.mu.Lock()
	shut, of := s.shut.Swap(true), s.of
	s.mu.Unlock()
	if shut {
		return nil
	}
	if of != nil {
		sockets.Delete(of)
	}
	return s.Conn.Close()
}

func (s *socket) closed() bool { return s.shut.Load() }

// belongs makes the socket known as conn's, unless it is closed.
func (s *socket) belongs(conn driver.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shut.Load() {
		s.of = conn
		sockets.Store(conn, s)
	}
}

// rawSocket is a socket that the driver may look at as well, to see whether it is alive.
type rawSocket struct{ *socket }

// SyscallConn implements syscall.Conn.
func (s rawSocket) SyscallConn() (syscall.RawConn, error) { return s.Conn.(syscall.Conn).SyscallConn() }

// tcpSocket is a rawSocket as most are: what is read and written goes to the connection with one call less.
type tcpSocket struct {
	*net.TCPConn
	socket *socket
}

// Close closes the socket.
func (s *tcpSocket) Close() error { return s.socket.Close() }

// dialling is where a dial leaves its socket, in the context of the connection that it is for.
type dialling struct{ socket *socket }

type diallingKey struct{}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// remember makes a dial function that leaves what it has dialled in its context.
func remember(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		d, ok := ctx.Value(diallingKey{}).(*dialling)
		if err != nil || !ok {
			return conn, err
		}
		d.socket = &socket{Conn: conn}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetKeepAlive(true) // as the driver does where it sees a TCP connection; it goes without as well
			return &tcpSocket{tcp, d.socket}, nil
		}
		if _, ok := conn.(syscall.Conn); ok {
			return rawSocket{d.socket}, nil
		}
		return d.socket, nil
	}
}

// dial is how the driver dials the networks that are Go's own.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, network, addr)
}
