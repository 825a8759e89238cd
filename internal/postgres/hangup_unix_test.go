//go:build unix

package postgres

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pgx reads in the background when a write has been slow, and goes on reading when the connection is idle again.
func TestHungUpDoesNotWaitForAReader(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	server, err := l.Accept()
	require.NoError(t, err)

	reading := make(chan error)
	go func() {
		var b [1]byte
		_, err := conn.Read(b[:]) // takes the first byte, which says that it is there
		reading <- err
		_, err = conn.Read(b[:])
		reading <- err
	}()
	_, err = server.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, <-reading)

	// Whether or not the reader is in Read by now, no look at the socket may take long.
	for range 1000 {
		looked := make(chan bool, 1)
		go func() { looked <- hungUp(conn) }()
		select {
		case gone := <-looked:
			require.False(t, gone)
		case <-time.After(10 * time.Second):
			require.Fail(t, "hungUp waits for a reader")
		}
	}
	require.NoError(t, server.Close())
	require.Error(t, <-reading)
	require.True(t, hungUp(conn))
}

// Nothing is sent to, or read from, a peer that may be silent: the socket under TLS is looked at and closed.
func TestSocketUnderTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	secure := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13})
	require.Same(t, conn, socket(secure))
	require.Same(t, conn, socket(conn))
	require.False(t, hungUp(secure))
	require.NoError(t, server.Close())
	require.Eventually(t, func() bool { return hungUp(secure) }, 10*time.Second, time.Millisecond)
	require.NoError(t, socket(secure).Close())
}

// TestHungUpKnowsLastWords: an error is all that a server says to an idle connection before it closes it. Whatever else it says it
// says to one that lives.
func TestHungUpKnowsLastWords(t *testing.T) {
	for said, want := range map[string]bool{"E\x00\x00\x00\x08FATA": true, "S\x00\x00\x00\x08para": false, "N\x00": false, "A": false} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		server, err := l.Accept()
		require.NoError(t, err)
		require.False(t, hungUp(conn))
		_, err = server.Write([]byte(said))
		require.NoError(t, err)
		if want {
			require.Eventually(t, func() bool { return hungUp(conn) }, 10*time.Second, time.Millisecond)
		} else {
			require.Never(t, func() bool { return hungUp(conn) }, 50*time.Millisecond, time.Millisecond, said)
		}
		require.NoError(t, server.Close())
		require.NoError(t, conn.Close())
		require.NoError(t, l.Close())
	}
}
