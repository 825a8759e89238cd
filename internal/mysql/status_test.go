package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

func TestParseStatus(t *testing.T) {
	now := []string{"Replica_IO_Running", "Replica_SQL_Running", "Last_IO_Errno", "Last_SQL_Errno", "Channel_Name"}
	old := []string{"Slave_IO_Running", "Slave_SQL_Running", "Last_IO_Errno", "Last_SQL_Errno"}
	for _, c := range []struct {
		name            string
		columns         []string
		rows            [][]string
		active, feeding bool
	}{
		{"none", now, nil, false, false},
		{"one", now, [][]string{{"Yes", "Yes", "0", "0", ""}}, true, true},
		{"one, by the old names", old, [][]string{{"Yes", "Yes", "0", "0"}}, true, true},
		{"the source does not answer", now, [][]string{{"Connecting", "Yes", "2003", "0", ""}}, true, false},
		{"it is about to connect", old, [][]string{{"Preparing", "Yes", "0", "0"}}, true, false},
		{"the applier has failed", now, [][]string{{"Yes", "No", "0", "1062", ""}}, true, false},
		{"an error although both run", now, [][]string{{"Yes", "Yes", "0", "1205", ""}}, true, false},
		{"what is left of a configuration", now, [][]string{{"No", "No", "0", "0", ""}}, false, false},
		{"two", now, [][]string{{"Yes", "Yes", "0", "0", "a"}, {"Yes", "Yes", "0", "0", "b"}}, true, true},
		{"one of two stands still", now, [][]string{{"Yes", "Yes", "0", "0", "a"}, {"Yes", "No", "0", "0", "b"}}, true, false},
		{"a group's own", now, [][]string{{"No", "Yes", "0", "0", "group_replication_applier"}}, false, false},
	} {
		active, feeding, err := mysql.StatusOf(c.columns, c.rows...)
		require.NoError(t, err, c.name)
		require.Equal(t, c.active, active, c.name)
		require.Equal(t, c.feeding, feeding, c.name)
	}
	_, _, err := mysql.StatusOf([]string{"Something"}, []string{"else"})
	require.Error(t, err)
}

// An applier that has failed is no source, and tells nobody that all is well.
func TestAskBrokenApplier(t *testing.T) {
	t.Parallel()
	ownOnBoth(t, dbtest.MySQLOptions{Replicas: 1}, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		exec(t, c.Primary(), "CREATE TABLE app.t (id INT PRIMARY KEY)")
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		writable := "SET GLOBAL read_only = OFF"
		exec(t, c.Replica(0), writable, "SET sql_log_bin = 0; INSERT INTO app.t VALUES (1); SET sql_log_bin = 1")
		exec(t, c.Primary(), "INSERT INTO app.t VALUES (1)")
		l := link(t, c.Replica(0).WatchDSN())
		eventually(t, "the applier fails", func() bool {
			s, err := e.Ask(testContext(t), l)
			require.NoError(t, err)
			require.Equal(t, core.RoleReplica, s.Role, "writable as it is")
			return !s.HasSource
		})
	})
}

func TestParseProbeRefuses(t *testing.T) {
	my := []string{uuidA, "5", "0", "1", "ON", uuidA + ":7#12#14:9#15", uuidB + ":1-5", "1700000000", "wsrep_on=OFF,wsrep_provider=none"}
	maria := []string{"h:3306:1", "5", "0", "1", "0", "0-1-5", "0-1-4", "0-1-5", "0-1-6", "1", "1700000000", "wsrep_on=ON,wsrep_provider=none"}
	s, err := mysql.Engine{}.ParseProbe(my)
	require.NoError(t, err)
	require.Equal(t, uuidB+":1-5", s.Position.String())
	require.True(t, s.Own.IsZero(), "it has written nothing itself")
	saw := s.Saw()
	require.Equal(t, core.Covered, core.MySQLPosition(mustParse(t, uuidA+":7:9,"+uuidB+":1-5"), 0).CoveredBy(saw), "a read may see what is being committed")
	s, err = mysql.Engine{MariaDB: true}.ParseProbe(maria)
	require.NoError(t, err)
	require.Equal(t, "0-1-6", s.Position.String())
	require.Equal(t, "0-1-6", s.Own.String())
	with := func(row []string, i int, value string) []string {
		row = append([]string(nil), row...)
		row[i] = value
		return row
	}
	s, err = mysql.Engine{MariaDB: true}.ParseProbe(with(maria, 2, "NO_LOCK"))
	require.NoError(t, err)
	require.Equal(t, core.RoleReplica, s.Role)
	require.Equal(t, "0-1-4", s.Position.String())
	require.Equal(t, "0-1-6", s.Saw().String(), "a read may see what is in the log")
	s, err = mysql.Engine{MariaDB: true}.ParseProbe(with(with(maria, 2, "1"), 9, "OFF"))
	require.NoError(t, err)
	require.True(t, s.Saw().IsZero(), "what it has replayed is not in its log")
	for name, c := range map[string]struct {
		e    mysql.Engine
		row  []string
		want string
	}{
		"no answer":        {mysql.Engine{}, nil, "0 columns instead of 9"},
		"the other's":      {mysql.Engine{MariaDB: true}, my, "9 columns instead of 12"},
		"no name":          {mysql.Engine{}, with(my, 0, ""), "who it is"},
		"no set":           {mysql.Engine{}, with(my, 6, "x"), "GTID"},
		"no start":         {mysql.Engine{}, with(my, 7, ""), "when it was started"},
		"start":            {mysql.Engine{}, with(my, 7, "x"), "when the server was started"},
		"no domain":        {mysql.Engine{MariaDB: true}, with(maria, 4, "x"), "invalid syntax"},
		"no position":      {mysql.Engine{MariaDB: true}, with(maria, 5, "x"), "GTID"},
		"Galera":           {mysql.Engine{MariaDB: true}, with(maria, 11, "wsrep_on=ON,wsrep_provider=/usr/lib/galera/libgalera_smm.so"), "Galera"},
		"Galera, of MySQL": {mysql.Engine{}, with(my, 8, "wsrep_on=ON,wsrep_provider=/usr/lib/galera4/libgalera_smm.so"), "Galera"},
	} {
		_, err := c.e.ParseProbe(c.row)
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "\n", name)
	}
	// A set that has grown for years is longer than any that is read of a caller.
	var long strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&long, "%d:", 2*i+1)
	}
	set := uuidB + ":" + strings.TrimSuffix(long.String(), ":")
	require.Greater(t, len(set), core.MaxGTIDText-100_000)
	set += "," + uuidA + strings.Repeat(":1", 100_000)
	require.Greater(t, len(set), core.MaxGTIDText)
	s, err = mysql.Engine{}.ParseProbe(with(my, 6, set))
	require.NoError(t, err)
	require.Equal(t, core.LSN(40_001), s.Position.LSN)
	long.Reset()
	for i := range 30_000 {
		fmt.Fprintf(&long, "%d-1-%d,", i, i+1)
	}
	require.Greater(t, long.Len(), core.MaxGTIDText)
	s, err = mysql.Engine{MariaDB: true}.ParseProbe(with(with(maria, 5, strings.TrimSuffix(long.String(), ",")), 7, strings.TrimSuffix(long.String(), ",")))
	require.NoError(t, err)
	last, _ := s.History.Find(29_999, 1)
	require.EqualValues(t, 30_000, last)
	_, err = mysql.Engine{MariaDB: true}.ParseProbe(with(maria, 11, "wsrep_on=ON,wsrep_provider=/x.so"))
	require.ErrorIs(t, err, mysql.ErrUnsupported)
}

func TestTransactions(t *testing.T) {
	for text, want := range map[string]uint64{
		"": 0, uuidA + ":1": 1, uuidA + ":1-5:7:10-12": 9, uuidA + ":1-5:tag:1-3:7," + uuidB + ":1-2": 11, uuidA + ":_1:1-2": 2,
	} {
		set, err := core.ParseGTIDSet(text)
		require.NoError(t, err)
		require.Equal(t, want, mysql.Transactions(set), text)
	}
}

func mustParse(t *testing.T, text string) core.GTIDSet {
	t.Helper()
	set, err := core.ParseGTIDSet(text)
	require.NoError(t, err)
	return set
}
