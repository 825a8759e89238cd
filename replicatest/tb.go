package replicatest

import (
	"context"
	"time"

	"github.com/readroute/readroute"
)

// TB is what a test gives: a *testing.T, *testing.B or *testing.F is one.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// NewT is [New] for a test: it fails the test on an error, and the cluster is closed when the test is over.
func NewT(t TB, options Options) *Cluster {
	t.Helper()
	c, err := New(options)
	return ClosedBy(t, c, err)
}

// ClosedBy closes a cluster with a test, which it fails when there is an error instead.
func ClosedBy(t TB, c *Cluster, err error) *Cluster {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close the cluster: %v", err)
		}
	})
	return c
}

// openTimeout is how long OpenT waits for a pool to be ready.
const openTimeout = 30 * time.Second

// OpenT is [Cluster.Open] for a test: it fails the test on an error. The pool is closed with the cluster.
func (c *Cluster) OpenT(t TB, edit ...func(config *readroute.Config)) *readroute.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	db, err := c.Open(ctx, edit...)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	return db
}
