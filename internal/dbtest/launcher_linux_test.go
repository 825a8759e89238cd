package dbtest_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// The kernel's parent-death signal is tied to the thread that forked. A server that is started on a thread which then
// ends, as that of a goroutine that ends while it is locked to its thread, must live on.
func TestServersOutliveTheThreadThatStartedThem(t *testing.T) {
	t.Parallel()
	c, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{})
	require.NoError(t, err)
	defer c.Close()
	n := c.Primary()
	require.NoError(t, n.StopFast(t.Context()))

	type result struct {
		tid int
		err error
	}
	started := make(chan result)
	var start func()
	start = func() {
		runtime.LockOSThread()
		if syscall.Gettid() == os.Getpid() {
			go start() // the main thread never ends: hold it, and try on another
			<-t.Context().Done()
			return
		}
		started <- result{syscall.Gettid(), n.Start(t.Context())}
	}
	go start()
	r := <-started
	require.NoError(t, r.err)
	eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", r.tid))
		return os.IsNotExist(err)
	}, "the thread has ended")
	require.Equal(t, "1", query(t, n, "SELECT 1"))
}
