package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// TestCoversFirstOfANewPrimary: what a primary has written first, after a failover, is on its way to a replica that has nothing of
// that server yet. Of a server that the primary has nothing of either, nothing can be said.
func TestCoversFirstOfANewPrimary(t *testing.T) {
	const old, next, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "246e88bd-0288-11e8-9cee-230cd2fc765b", "ffffffff-71ca-11e1-9e33-c80aa9429562"
	gtids := func(text string) core.Position {
		set, err := core.ParseGTIDSet(text)
		require.NoError(t, err)
		return core.MySQLPosition(set, 0)
	}
	domains := func(text string) core.Position {
		list, err := core.ParseMariaDBGTID(text)
		require.NoError(t, err)
		return core.MariaDBPosition(list, 0)
	}
	for _, c := range []struct {
		name                  string
		primary, need, replay core.Position
		history               string
		want                  core.Coverage
	}{
		{"MySQL", gtids(old + ":1-9," + next + ":1"), gtids(next + ":1"), gtids(old + ":1-9"), "", core.NotCovered},
		{"MySQL, with what was before", gtids(old + ":1-9," + next + ":1"), gtids(old + ":1-9," + next + ":1"), gtids(old + ":1-8"), "", core.NotCovered},
		{"MySQL, and it has come", gtids(old + ":1-9," + next + ":1"), gtids(next + ":1"), gtids(old + ":1-9," + next + ":1"), "", core.Covered},
		{"MySQL, of a server that nobody knows", gtids(old + ":1-9"), gtids(other + ":1"), gtids(old + ":1-9"), "", core.Incomparable},
		{"MySQL, a replica without a position", gtids(old + ":1-9"), gtids(old + ":1-9"), core.Position{}, "", core.Incomparable},
		{"MySQL, a replica of another kind", gtids(old + ":1-9"), gtids(old + ":1-9"), domains("0-1-5"), "", core.Incomparable},
		{"MariaDB, a domain that is new", domains("0-1-9,5-1-1"), domains("5-1-1"), domains("0-1-9"), "0-1-9,5-1-1", core.NotCovered},
		{"MariaDB, a domain that nobody knows", domains("0-1-9"), domains("5-1-1"), domains("0-1-9"), "0-1-9", core.Incomparable},
		{"MariaDB, a domain that is new, and a replica on a line of its own", domains("0-1-9,5-1-1"), domains("5-1-1"), domains("0-3-10"), "0-1-9,5-1-1", core.Incomparable},
		{"MariaDB, a line that the primary is not on", domains("0-1-9,0-2-10"), domains("0-1-9"), domains("0-3-12"), "0-1-9,0-2-10", core.Incomparable},
		{"MariaDB, a write that was lost", domains("0-2-10"), domains("0-1-9"), domains("0-2-10"), "0-1-8,0-2-10", core.Incomparable},
	} {
		t.Run(c.name, func(t *testing.T) {
			history, err := core.ParseMariaDBGTID(c.history)
			require.NoError(t, err)
			s := core.Snapshot{Nodes: []core.NodeView{{Role: core.RolePrimary, Sample: core.Sample{Role: core.RolePrimary, Position: c.primary, History: history}}}}
			require.Equal(t, c.want, s.Covers(c.replay, []core.Position{c.need}, time.Time{}))
		})
	}
}
