package dbtest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// alive reports whether the process exists and is no zombie.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

// However the owner of a cluster ends, no server and no folder of it stays.
func TestNothingStays(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"panic", "killed", "frozen and killed", "frozen and killed unheard"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			owner := exec.Command(os.Args[0])
			owner.Env = append(os.Environ(), ownerEnv+"="+end)
			stdin, err := owner.StdinPipe()
			require.NoError(t, err)
			stdout, err := owner.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, owner.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err, line)
			var folder string
			var pids [2]int
			_, err = fmt.Sscan(line, &folder, &pids[0], &pids[1])
			require.NoError(t, err, line)
			var servers []int
			for _, pid := range pids {
				require.True(t, alive(pid))
				children, err := dbtest.ChildrenOf(pid)
				require.NoError(t, err)
				require.NotEmpty(t, children)
				servers = append(append(servers, pid), children...)
			}

			if strings.Contains(end, "killed") {
				require.NoError(t, owner.Process.Kill())
			} else {
				_, err = io.WriteString(stdin, "\n")
				require.NoError(t, err)
			}
			_ = owner.Wait()
			eventually(t, func() bool {
				for _, pid := range servers {
					if alive(pid) {
						return false
					}
				}
				_, err := os.Lstat(folder)
				return os.IsNotExist(err)
			}, "servers and folder are gone")
		})
	}
}

// A folder whose owner and watchdog are both gone, as after a power cut, goes with the next start; one in use stays.
func TestStaleFolderIsSwept(t *testing.T) {
	c := sharedCluster(t)
	stale := filepath.Join(filepath.Dir(c.Folder()), "readroute-db-stale")
	require.NoError(t, os.MkdirAll(filepath.Join(stale, "a"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(stale, "owner.lock"), nil, 0o600))
	info, err := os.Stat(c.Folder())
	require.NoError(t, err)
	require.NoError(t, dbtest.ChownLike(stale, info))

	other, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{})
	require.NoError(t, err)
	defer other.Close()
	require.NoDirExists(t, stale)
	require.DirExists(t, c.Folder())
	require.Equal(t, "1", query(t, c.Primary(), "SELECT 1"))
}

func TestPlaceForTheFolder(t *testing.T) {
	user, err := dbtest.FindUser()
	require.NoError(t, err)
	require.NoError(t, dbtest.UsableBase("/", user, 1))
	require.ErrorContains(t, dbtest.UsableBase("/", user, 1<<62), "MB needed")
	require.ErrorContains(t, dbtest.UsableBase("/"+strings.Repeat("x", 60), user, 1), "too long for a socket")
	if user == nil {
		return // whoever is not root runs servers as itself, and sees by trying
	}
	closed, err := os.MkdirTemp("/var/tmp", "readroute-") // open only to its owner, root
	require.NoError(t, err)
	defer os.RemoveAll(closed)
	require.ErrorContains(t, dbtest.UsableBase(closed, user, 1), "cannot enter it")
	require.NoError(t, os.Mkdir(filepath.Join(closed, "in"), 0o755))
	require.ErrorContains(t, dbtest.UsableBase(filepath.Join(closed, "in"), user, 1), "cannot enter it")
}
