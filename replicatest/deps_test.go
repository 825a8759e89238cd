package replicatest_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgramsDoNotLinkTesting: a demo can use every package of this module.
func TestProgramsDoNotLinkTesting(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "./postgres", "./mysql", "./mariadb").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, "github.com/readroute/readroute/replicatest/postgres")
	require.NotContains(t, deps, "testing")
	for _, dep := range deps {
		require.NotContains(t, dep, "stretchr/testify")
	}
}
