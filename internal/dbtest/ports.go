package dbtest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// pickPort returns a port of 127.0.0.1 that is free now. It stays below the range from which systems take the local
// port of an outgoing connection: a server that stops and comes back finds its port free, and a client that dials the
// port of a stopped server cannot be connected to itself.
var pickPort = func() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", localAddr(port))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, errors.New("dbtest: no free port between 20000 and 32000")
}

func localAddr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
