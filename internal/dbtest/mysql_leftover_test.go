package dbtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// ownMySQLCluster does for MySQL and MariaDB what ownCluster does for PostgreSQL.
func ownMySQLCluster(flavor, end string) {
	ctx := context.Background()
	start := dbtest.StartMySQL
	if flavor == "MariaDB" {
		start = dbtest.StartMariaDB
	}
	c, err := start(ctx, dbtest.MySQLOptions{Replicas: 1})
	if err == nil && strings.HasPrefix(end, "frozen") {
		err = errors.Join(c.Primary().Freeze(ctx), c.Replica(0).Freeze(ctx))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Folder(), dbtest.MySQLTemplates()[0], c.Primary().Pid(), c.Replica(0).Pid())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the test says when, or kills this process
	if end == "panic" {
		panic("on purpose")
	}
}

// However the owner of a cluster ends, no server, no folder and no template of it stays.
func TestNothingOfMySQLStays(t *testing.T) {
	t.Parallel()
	for _, flavor := range []string{"MariaDB", "MySQL"} {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			if _, _, err := dbtest.FindMySQL(); err != nil && flavor == "MySQL" {
				t.Skipf("MySQL NOT TESTED: %v", err)
			}
			ends := []string{"panic", "killed", "frozen and killed", "frozen and killed unheard", "exit"}
			if flavor == "MySQL" {
				ends = []string{"killed", "frozen and killed unheard"} // it starts slowly, and its end is nothing of its own
			}
			for _, end := range ends {
				nothingOfMySQLStays(t, flavor, end)
			}
		})
	}
}

func nothingOfMySQLStays(t *testing.T, flavor, end string) {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+flavor+": "+end)
	stdin, err := owner.StdinPipe()
	require.NoError(t, err)
	stdout, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, line)
	var folder, template string
	var pids [2]int
	_, err = fmt.Sscan(line, &folder, &template, &pids[0], &pids[1])
	require.NoError(t, err, line)
	for _, path := range []string{folder, template} {
		require.DirExists(t, path)
	}
	for _, pid := range pids {
		require.True(t, alive(pid))
	}

	if strings.Contains(end, "killed") {
		require.NoError(t, owner.Process.Kill())
	} else {
		_, err = io.WriteString(stdin, "\n")
		require.NoError(t, err)
	}
	_ = owner.Wait()
	eventually(t, func() bool {
		for _, path := range []string{folder, template} {
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				return false
			}
		}
		return !alive(pids[0]) && !alive(pids[1])
	}, flavor+" "+end+": servers and folders are gone")
}
