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

// The kernel's parent-death signal is tied to the thread that forked. A cluster that is started on a thread which then
// ends, as that of a goroutine that ends while it is locked to its thread, must live on.
func TestServersOutliveTheThreadThatStartedThem(t *testing.T) {
	type result struct {
		c   *dbtest.PostgresCluster
		err error
		tid int
	}
	started := make(chan result)
	go func() {
		runtime.LockOSThread()
		c, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{})
		started <- result{c, err, syscall.Gettid()}
	}()
	r := <-started
	require.NoError(t, r.err)
	defer r.c.Close()
	if r.tid != os.Getpid() {
		eventually(t, func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", r.tid))
			return os.IsNotExist(err)
		}, "the thread has ended")
	}
	require.Equal(t, "1", query(t, r.c.Primary(), "SELECT 1"))
}
